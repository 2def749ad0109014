"""Runs the command `jobfeatures-exporter`, as `python -m jobfeatures_exporter`."""

import sys

from jobfeatures_exporter.cli import main

sys.exit(main())
