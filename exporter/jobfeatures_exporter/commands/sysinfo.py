"""`jobfeatures-exporter sysinfo`."""

from __future__ import annotations

import argparse

from jobfeatures.formats.sonar.envelopes import Document, Origin
from jobfeatures_exporter.commands.envelope import add_envelope_arguments, print_envelope
from jobfeatures_exporter.config import ExporterConfig

add_arguments = add_envelope_arguments


def run(arguments: argparse.Namespace) -> int:
    """Print how the node is made."""
    return print_envelope(arguments, _sysinfo)


def _sysinfo(config: ExporterConfig, origin: Origin) -> Document:
    del origin
    from jobfeatures_exporter.sonar.oneshot import node_documents

    with node_documents(config) as documents:
        return documents.sysinfo()[0]
