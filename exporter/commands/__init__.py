"""The commands of `jobfeatures-exporter`, one file each; `exporter.cli` has the table."""
