"""The commands of `jobfeatures-exporter`, one file each; `jobfeatures_exporter.cli` has the table."""
