"""Reads logs that ``sacct -P`` or ``sacct -p`` of Slurm wrote, with a header and any columns. Pure."""
