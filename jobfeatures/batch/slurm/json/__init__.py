"""Parsers of the JSON that Slurm's commands print and slurmrestd sends, and the sources that use it."""
