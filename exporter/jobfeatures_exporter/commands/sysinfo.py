"""`jobfeatures-exporter sysinfo`."""

from __future__ import annotations

from functools import partial

from jobfeatures.formats.sonar.envelopes import Document, Origin
from jobfeatures_exporter.commands.envelope import add_envelope_arguments, print_envelope
from jobfeatures_exporter.config import ExporterConfig


def _sysinfo(config: ExporterConfig, origin: Origin) -> Document:
    from jobfeatures_exporter.sonar.oneshot import node_documents

    with node_documents(config, origin) as documents:
        return documents.sysinfo()[0]


add_arguments = add_envelope_arguments
run = partial(print_envelope, make=_sysinfo)  # print how the node is made
