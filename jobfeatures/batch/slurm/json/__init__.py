"""Parsers of Slurm's JSON, which its commands print and slurmrestd answers, and the sources that use it."""
