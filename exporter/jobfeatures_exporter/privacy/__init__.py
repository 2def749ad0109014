"""Hides personal data: names are withheld or hashed here and nowhere else."""
