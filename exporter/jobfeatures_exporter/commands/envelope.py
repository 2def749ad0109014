"""What the commands share that print one document in Sonar's format."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

from jobfeatures.clock import SystemClock
from jobfeatures.errors import JobfeaturesError
from jobfeatures.formats.sonar.envelopes import Document, Origin, error_envelope
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures.logs import configure_logging
from jobfeatures_exporter.commands.common import add_settings, config_of
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.privacy.key import make_privacy
from jobfeatures_exporter.sonar.node import make_origin


def add_envelope_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the cluster's name, short for ``--sonar.cluster``, and all settings."""
    parser.add_argument("--cluster", metavar="NAME", help="the cluster's name in the document")
    add_settings(parser)


def print_envelope(arguments: argparse.Namespace, make: Callable[[ExporterConfig, Origin], Document]) -> int:
    """Print the document that `make` returns, nothing else; 1 where it reports errors.

    What goes wrong becomes a document too, so that a reader always gets one.
    Raises ConfigurationError before anything is done.
    """
    changes = {} if arguments.cluster is None else {"sonar.cluster": arguments.cluster}
    config = config_of(arguments, changes)
    configure_logging(config.log_level, config.log_format)
    origin = make_origin(config)
    privacy = make_privacy(config)
    try:
        document = privacy.document(make(config, origin))
    except (JobfeaturesError, OSError) as error:
        document = error_envelope(origin, str(error), SystemClock().now_secs())
    faults = validate_envelope(document, profile=origin.profile, strict=True)
    if faults:
        for fault in faults:
            print(f"jobfeatures-exporter: own document breaks the format: {fault}", file=sys.stderr)
        return 1
    print(json.dumps(document))
    return 1 if "errors" in document else 0
