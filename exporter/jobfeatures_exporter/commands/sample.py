"""`jobfeatures-exporter sample`."""

from __future__ import annotations

import time
from functools import partial

from jobfeatures.formats.sonar.envelopes import Document, Origin
from jobfeatures_exporter.commands.envelope import add_envelope_arguments, print_envelope
from jobfeatures_exporter.config import ExporterConfig

BETWEEN_LOOKS_SECS = 0.1  # as Sonar waits, for what processes use now


def _sample(config: ExporterConfig, origin: Origin) -> Document:
    from jobfeatures_exporter.sonar.oneshot import node_documents

    with node_documents(config, origin) as documents:
        documents.prime()
        time.sleep(BETWEEN_LOOKS_SECS)
        return documents.sample()[0]


add_arguments = add_envelope_arguments
run = partial(print_envelope, make=_sample)  # print the state of the node and its processes
