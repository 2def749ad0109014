"""Parses other agents' documents (envelopes) in Sonar's format into records. Pure.

A bad element of an array of objects (a job, a process, a GPU) is left out and kept as `Rejected`; any other
fault rejects the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sonar.fields import TAGS
from jobfeatures.formats.sonar.parsejobs import parse_cluster_record, parse_slurm_job
from jobfeatures.formats.sonar.reader import KIB, SONAR, Json, Reader, read_envelope, secs_of, short
from jobfeatures_exporter.ingest.contents import (
    ErrorRecord,
    JobsRecord,
    ProcessGpuRecord,
    ProcessRecord,
    ReceivedJob,
    Record,
    SampleRecord,
    SysinfoRecord,
)
from jobfeatures_exporter.model.hardware import SysinfoSample
from jobfeatures_exporter.model.snapshot import (
    DiskSample,
    GpuCard,
    GpuProcess,
    GpuSample,
    NodeSample,
)
from jobfeatures_exporter.sampling.gpu.bounds import Count, bounded, bounded_process
from jobfeatures_exporter.sampling.host.disks import find_counted_twice

MAX_CORES: Final = 16_384
MAX_CARDS: Final = 1024
MAX_DISKS: Final = 4096
MAX_JOBS: Final = 100_000

_IO: Final = ("data_read", "data_written", "data_cancelled")
_LOADS: Final = ("load1", "load5", "load15", "existing_entities")
# Members named like our own fields.
_TEXTS: Final = ("os_name", "os_release", "architecture", "cpu_model")
_NUMBERS: Final = ("sockets", "cores_per_socket", "threads_per_core")
_CARD_TEXTS: Final = ("uuid", "address", "manufacturer", "model", "architecture", "driver", "firmware")
_MADE = re.compile(r"(?:dm-|md|loop|ram|zram|sr|nbd|zd)[0-9]")  # virtual, optical and network devices


def parse_envelope(document: object, minutes_from: str | None = None) -> Record:
    """Return a document (envelope), of any kind and version that agents send, as a record.

    Time limits are taken for seconds; for minutes if the document's producer is `minutes_from`, or this
    project in the older form of its documents. Raises ParseError naming the path of the first fault that
    rejects the document as a whole.
    """
    envelope, reader = read_envelope(document, minutes_from=minutes_from)
    data = envelope.get("data")
    if data is None:
        return _errors(envelope, reader)
    return _PARSERS[TAGS[data["type"]]](data["attributes"], reader)


def _errors(document: Json, reader: Reader) -> ErrorRecord:
    first: Json = next((each for each, _ in reader.items(document, "errors", "")), {})
    return ErrorRecord(cluster=first.get("cluster") or "", rejected=reader.rejected)


def _sample(attributes: Json, reader: Reader) -> SampleRecord:
    path = "data.attributes"
    system: Json = attributes.get("system") or {}
    cores = system.get("cpus") or []
    if len(cores) > MAX_CORES:
        raise ParseError(f"more than {MAX_CORES} cores", field=f"{path}.system.cpus")
    has_loads = any(name in system for name in _LOADS)
    for name, most in (("gpus", MAX_CARDS), ("disks", MAX_DISKS)):
        if len(system.get(name) or ()) > most:
            raise ParseError(f"has more than {most} {name}", field=f"{path}.system.{name}")
    jobs = list(reader.items(attributes, "jobs", path))
    if len(jobs) > MAX_JOBS:
        raise ParseError(f"more than {MAX_JOBS} jobs", field=f"{path}.jobs")
    processes = [
        process for job, _ in jobs for process in job.get("processes") or [] if isinstance(process, dict)
    ]
    sent = frozenset(name for process in processes for name in ("num_threads", *_IO) if name in process)
    if "existing_entities" in system or "boot" in system:  # agents that send these count threads as well
        sent |= {"num_threads"}
    refused: list[Rejected] = []

    def refuse(name: str) -> None:
        refused.append(Rejected("sonar", "more than a GPU can have", field=path, text=name))

    gpus = [_gpu(gpu, reader.producer) for gpu, _ in reader.items(system, "gpus", f"{path}.system")]
    return SampleRecord(
        cluster=attributes["cluster"],
        node=attributes["node"],
        time_secs=secs_of(attributes, "time"),
        core_secs=tuple(cores),
        used_memory_bytes=_kib(system, "used_memory"),
        system=NodeSample(
            boot_time_secs=secs_of(system, "boot"),
            load1=system.get("load1", 0.0) if has_loads else None,
            load5=system.get("load5", 0.0) if has_loads else None,
            load15=system.get("load15", 0.0) if has_loads else None,
            runnable_entities=system.get("runnable_entities", 0) if has_loads else None,
            existing_entities=system.get("existing_entities"),
            disks=_disks([disk for disk, _ in reader.items(system, "disks", f"{path}.system")]),
        ),
        gpus=tuple(bounded(gpu, refuse) for gpu in gpus),
        jobs=tuple(_job(job, place, sent, reader, refuse) for job, place in jobs),
        errors=tuple(short(each["detail"]) for each, _ in reader.items(attributes, "errors", path))[:100],
        rejected=(*reader.rejected, *refused),
    )


def _disks(found: Collection[Json]) -> dict[str, DiskSample]:
    names = {short(disk["name"]) for disk in found}
    disks = {
        (name := short(disk["name"])): DiskSample(
            disk.get("major") or 0,
            disk.get("minor") or 0,
            tuple(disk.get("stats") or ()),
            is_whole_disk(name, names),
        )
        for disk in found
    }
    return {**disks, **{name: disks[name]._replace(whole=False) for name in find_counted_twice(disks)}}


def is_whole_disk(name: str, names: Collection[str]) -> bool | None:
    """Return True for the name of a whole disk, False for a virtual or optical device, None for a partition.

    `names` are all block devices of the node: sda1 is a partition if there is sda.
    """
    if _MADE.match(name):
        return False
    stem = name.rstrip("0123456789")
    return None if stem != name and (stem in names or stem.removesuffix("p") in names) else True


def _job(job: Json, path: str, sent: frozenset[str], reader: Reader, refuse: Count) -> ReceivedJob:
    return ReceivedJob(
        job=job.get("job") or 0,
        epoch=job.get("epoch") or 0,
        user=short(job.get("user") or ""),
        processes=tuple(
            _process(each, place, sent, reader, refuse)
            for each, place in reader.items(job, "processes", path)
        ),
    )


def _process(process: Json, path: str, sent: frozenset[str], reader: Reader, refuse: Count) -> ProcessRecord:
    count = 1 + (process.get("rolledup") or 0)
    has_io = bool(sent & set(_IO))
    read, written, cancelled = ((process.get(name) or 0) * KIB if has_io else None for name in _IO)
    return ProcessRecord(
        pid=process.get("pid") or 0,
        ppid=process.get("ppid") or 0,
        command=short(process.get("cmd") or ""),
        count=count,
        cpu_secs=process.get("cpu_time") or 0,
        resident_bytes=(process.get("resident_memory") or 0) * KIB,
        # `num_threads` leaves out the main thread of each process.
        threads=(process.get("num_threads") or 0) + count if "num_threads" in sent else None,
        data_read_bytes=read,
        data_written_bytes=written,
        data_cancelled_bytes=cancelled,
        gpus=tuple(_process_gpu(gpu, refuse) for gpu, _ in reader.items(process, "gpus", path)),
    )


def _process_gpu(gpu: Json, refuse: Count) -> ProcessGpuRecord:
    sent = GpuProcess(0, (gpu.get("gpu_memory") or 0) * KIB, float(gpu.get("gpu_util") or 0))
    _, memory_bytes, util_percent = bounded_process(sent, refuse)
    return ProcessGpuRecord(uuid=short(gpu["uuid"]), util_percent=util_percent, memory_bytes=memory_bytes)


def _gpu(gpu: Json, producer: str) -> GpuSample:
    failing = gpu.get("failing") or 0
    zero = None if failing else 0  # a failing card has not reported that it is idle
    memory = gpu.get("memory", zero)
    state = gpu.get("performance_state") or 0
    added = 1 if producer == SONAR else 2  # the specification says 2, Sonar itself adds 1
    return GpuSample(
        card=GpuCard(uuid=short(gpu["uuid"]), index=gpu.get("index") or 0),
        taken_at_secs=0.0,
        failing=failing,
        fan_percent=gpu.get("fan"),
        compute_mode=short(gpu.get("compute_mode") or ""),
        performance_state=state - added if state >= added else None,
        memory_used_bytes=None if memory is None else memory * KIB,
        ce_util_percent=gpu.get("ce_util", zero),
        temperature_celsius=gpu.get("temperature"),
        power_watts=gpu.get("power"),
        power_limit_watts=gpu.get("power_limit"),
        ce_clock_mhz=gpu.get("ce_clock"),
        memory_clock_mhz=gpu.get("memory_clock"),
    )


def _sysinfo(attributes: Json, reader: Reader) -> SysinfoRecord:
    time_secs = secs_of(attributes, "time")
    known: dict[str, Any] = {name: short(attributes.get(name) or "") for name in _TEXTS}
    known |= {name: attributes.get(name) or None for name in _NUMBERS}
    return SysinfoRecord(
        cluster=attributes["cluster"],
        node=attributes["node"],
        time_secs=time_secs,
        sample=SysinfoSample(
            taken_at_secs=time_secs or 0,
            **known,
            memory_bytes=_kib(attributes, "memory"),
            cards=tuple(_card(card) for card, _ in reader.items(attributes, "cards", "data.attributes")),
        ),
        rejected=reader.rejected,
    )


def _card(card: Json) -> GpuCard:
    known: dict[str, Any] = {name: short(card.get(name) or "") for name in _CARD_TEXTS}
    return GpuCard(
        **known,
        index=card.get("index") or 0,
        memory_bytes=_kib(card, "memory"),
        power_limit_watts=card.get("power_limit") or None,
        max_power_limit_watts=card.get("max_power_limit") or None,
        min_power_limit_watts=card.get("min_power_limit") or None,
        max_ce_clock_mhz=card.get("max_ce_clock") or None,
        max_memory_clock_mhz=card.get("max_memory_clock") or None,
    )


def _jobs(attributes: Json, reader: Reader) -> JobsRecord:
    return JobsRecord(
        cluster=attributes["cluster"],
        time_secs=secs_of(attributes, "time"),
        jobs=tuple(
            parse_slurm_job(job, reader)
            for job, _ in reader.items(attributes, "slurm_jobs", "data.attributes")
        ),
        rejected=reader.rejected,
    )


def _kib(record: Mapping[str, Any], name: str) -> int | None:
    """Return a member given in KiB as bytes; None if it is missing or 0, as it cannot be 0."""
    return (record.get(name) or 0) * KIB or None


_PARSERS: Final[dict[str, Callable[[Json, Reader], Record]]] = {
    "SampleAttributes": _sample,
    "SysinfoAttributes": _sysinfo,
    "JobsAttributes": _jobs,
    "ClusterAttributes": parse_cluster_record,
}
