"""`jobfeatures-exporter cluster`."""

from __future__ import annotations

from functools import partial

from jobfeatures.clock import SystemClock
from jobfeatures.formats.sonar.envelopes import Document, Origin
from jobfeatures_exporter.commands.envelope import add_envelope_arguments, print_envelope
from jobfeatures_exporter.config import ExporterConfig


def _cluster(config: ExporterConfig, origin: Origin) -> Document:
    from jobfeatures_exporter.controller import make_cluster_sources
    from jobfeatures_exporter.sonar.cluster import cluster_document

    source = make_cluster_sources(config, SystemClock())[0]
    return cluster_document(origin, source.poll_cluster())


add_arguments = add_envelope_arguments
run = partial(print_envelope, make=_cluster)  # print partitions and the states of nodes
