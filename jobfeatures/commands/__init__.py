"""The commands of `jobfeatures`, one file each; `jobfeatures.cli` has the table."""
