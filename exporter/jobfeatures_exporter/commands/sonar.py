"""`jobfeatures-exporter sonar`: prints one document in Sonar's format."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from jobfeatures.errors import JobfeaturesError, SourceError
from jobfeatures.formats.sonar.envelopes import Document, Origin, error_envelope
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures.records.model import Job, JobKey
from jobfeatures.settings.usage import complain
from jobfeatures.system.clock import SystemClock
from jobfeatures.system.logs import configure_logging
from jobfeatures_exporter.commands.common import add_settings, config_of
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.privacy.hiding import make_privacy
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.layout.hierarchies import ORDINARY, Places
from jobfeatures_exporter.sonar.node import NodeDocuments, make_origin

log = logging.getLogger(__name__)

BETWEEN_SAMPLES_SECS = 0.1  # as in Sonar, to measure the processes' current usage
GPU_WAIT_SECS = 5.0  # for a first answer of the drivers
GPU_SAMPLE_SECS = 0.05

UNUSED = {"sample": ("spool.directory",), "sysinfo": ("batch.sources", "spool.directory")}

ACTIONS = {
    "sample": "print the state of the node and its processes",
    "sysinfo": "print the node's configuration",
    "jobs": "print the cluster's jobs, from the batch system",
    "cluster": "print the cluster's partitions and states of nodes, from the batch system",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a subcommand for each document, with all settings; --cluster is short for --sonar.cluster."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, meaning in ACTIONS.items():
        description = meaning[0].upper() + meaning[1:] + "."
        made = actions.add_parser(name, help=meaning, description=description, allow_abbrev=False)
        made.add_argument("--cluster", metavar="NAME", help="the cluster's name in the document")
        add_settings(made)


def run(arguments: argparse.Namespace) -> int:
    """Print the document of the subcommand and nothing else. Exit status 1 if it reports errors.

    A failure is printed as a document too, so that a reader always gets one. Raises ConfigurationError before
    anything is done.
    """
    changes = {} if arguments.cluster is None else {"sonar.cluster": arguments.cluster}
    config = config_of(arguments, changes)
    for name in UNUSED.get(arguments.action, ()):
        if getattr(arguments, name, None):
            complain(
                f"--{name} is not used: {arguments.action} finds jobs by their control groups alone; the "
                "daemon's documents (sonar.cluster) have the others, too",
                "jobfeatures-exporter",
            )
    configure_logging(config.log.level, config.log.format)
    origin = make_origin(config.sonar, config.shared.node.name)
    privacy = make_privacy(config.privacy)
    try:
        document = privacy.document(_MAKERS[arguments.action](config, origin))
    except (JobfeaturesError, OSError) as error:
        document = error_envelope(origin, str(error), SystemClock().now_secs())
    faults = validate_envelope(document, profile=origin.profile, strict=True)
    if faults:
        for fault in faults:
            complain(f"the document violates Sonar's format: {fault}", "jobfeatures-exporter")
        return 1
    print(json.dumps(document))
    return 1 if "errors" in document else 0


@contextlib.contextmanager
def _node_documents(
    config: ExporterConfig,
    origin: Origin,
    places: Callable[[], Places] = lambda: ORDINARY,
    jobs: Callable[[], Mapping[JobKey, Job]] = dict,
) -> Iterator[NodeDocuments]:
    """Yield a maker of documents; `places` returns where jobs' groups are, `jobs` the confirmed jobs."""
    from jobfeatures_exporter.sampling.gpu import Paths
    from jobfeatures_exporter.sampling.gpu.monitor import GpuMonitor
    from jobfeatures_exporter.sampling.sampler import Sampler

    clock = SystemClock()
    paths = Paths(procfs=config.path.procfs, sysfs=config.path.sysfs)
    gpus = GpuMonitor(config.gpu.drivers, clock, interval_secs=GPU_WAIT_SECS, paths=paths)
    settings = replace(config.of_sampler(), sysfs=config.path.sysfs)
    sampler = Sampler(settings, clock, jobs=jobs, gpus=gpus, places=places)
    gpus.start()
    try:
        deadline_secs = clock.monotonic_secs() + GPU_WAIT_SECS
        while not all(reader.is_up for reader in gpus.readers) and clock.monotonic_secs() < deadline_secs:
            time.sleep(GPU_SAMPLE_SECS)
        yield NodeDocuments(config.sonar, config.path, origin, clock, sampler.sample, Unreadable())
    finally:
        gpus.stop()
        sampler.close()


def _sample(config: ExporterConfig, origin: Origin) -> Document:
    """Return the document on the node and its processes, with those jobs that the batch system confirms."""
    from jobfeatures_exporter.node.samplingloop import find_places
    from jobfeatures_exporter.node.sources import confirm_jobs

    clock, jobs = SystemClock(), dict[JobKey, Job]()
    with _node_documents(config, origin, find_places(config, clock), lambda: jobs) as documents:
        if unconfirmed := documents.prime():
            jobs.update(confirm_jobs(config, clock, unconfirmed))
        time.sleep(BETWEEN_SAMPLES_SECS)
        return documents.sample()[0]


def _sysinfo(config: ExporterConfig, origin: Origin) -> Document:
    """Return the document on the node's hardware and system; no batch system is queried."""
    with _node_documents(config, origin) as documents:
        return documents.sysinfo()[0]


def _jobs(config: ExporterConfig, origin: Origin) -> Document:
    """Return the document on the jobs and steps of the time that the setting controller.history names."""
    from jobfeatures_exporter.controller.daemon import make_cluster_sources
    from jobfeatures_exporter.sonar.clusterdocuments import JobsDocuments

    clock = SystemClock()
    source = make_cluster_sources(config, clock)[0]
    queue = None
    try:
        queue = source.poll_queue()
    except SourceError as error:  # accounting may answer even if the controller does not
        log.warning("the queue cannot be read, so jobs are taken from accounting alone: %s", error)
    return JobsDocuments(
        origin, source, clock, history_secs=config.cluster.history_secs, queue=lambda: queue
    ).make_one()


def _cluster(config: ExporterConfig, origin: Origin) -> Document:
    """Return the document on the cluster's partitions and the states of its nodes."""
    from jobfeatures_exporter.controller.daemon import make_cluster_sources
    from jobfeatures_exporter.sonar.clusterdocuments import cluster_document

    source = make_cluster_sources(config, SystemClock())[0]
    return cluster_document(origin, source.poll_cluster())


_MAKERS = {"sample": _sample, "sysinfo": _sysinfo, "jobs": _jobs, "cluster": _cluster}
