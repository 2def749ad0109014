"""Slurm's JSON, as its commands print it and slurmrestd answers."""
