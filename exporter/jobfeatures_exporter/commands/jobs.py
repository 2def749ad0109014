"""`jobfeatures-exporter jobs`."""

from __future__ import annotations

import logging
from functools import partial

from jobfeatures.clock import SystemClock
from jobfeatures.errors import SourceError
from jobfeatures.formats.sonar.envelopes import Document, Origin
from jobfeatures_exporter.commands.envelope import add_envelope_arguments, print_envelope
from jobfeatures_exporter.config import ExporterConfig

log = logging.getLogger(__name__)


def _jobs(config: ExporterConfig, origin: Origin) -> Document:
    from jobfeatures_exporter.controller import make_cluster_sources
    from jobfeatures_exporter.sonar.clusterdocuments import JobsDocuments

    clock = SystemClock()
    source = make_cluster_sources(config, clock)[0]
    queue = None
    try:
        queue = source.poll_queue()
    except SourceError as error:  # accounting may answer although the controller does not
        log.warning("no queue, jobs are taken from accounting alone: %s", error)
    return JobsDocuments(
        origin, source, clock, history_secs=config.controller_history_secs, queue=lambda: queue
    ).make_one()


add_arguments = add_envelope_arguments
run = partial(print_envelope, make=_jobs)  # those of `controller.history`, with their steps
