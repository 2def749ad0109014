"""Whatever a snapshot holds, its document is valid; real and captured nodes too."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jobfeatures.formats.sonar import CURRENT, SEED
from jobfeatures.formats.sonar.envelopes import Origin
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures.records.model import JobKey
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.ingest.contents import ErrorRecord
from jobfeatures_exporter.ingest.parse import parse_envelope
from jobfeatures_exporter.model.snapshot import (
    CpuSecs,
    DiskSample,
    GpuCard,
    GpuProcess,
    GpuSample,
    Kind,
    NodeSample,
    ProcessDetail,
    ProcessIo,
    ProcessSample,
    Snapshot,
    UnitKey,
)
from jobfeatures_exporter.sampling import PathsSettings
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from jobfeatures_exporter.sonar.config import SonarSettings
from jobfeatures_exporter.sonar.node import NodeDocuments
from jobfeatures_exporter.sonar.sample import SampleInput, attributes_of, identify, sample_envelope

GOLDEN = Path(__file__).parents[2] / "fixtures/golden"
FIXTURES = Path(__file__).parents[2] / "fixtures"

COUNT = st.integers(0, 2**63 - 1)
SMALL = st.integers(0, 2**22)
NAMES = st.text(max_size=20) | st.binary(max_size=20).map(
    lambda each: each.decode("utf-8", "surrogateescape")
)
SHARE = st.none() | st.floats(0, 120)


def optional(strategy):
    return st.none() | strategy


PROCESSES = st.lists(
    st.builds(
        ProcessSample,
        pid=st.integers(1, 50), ppid=st.integers(0, 50), pgid=st.integers(0, 50), session=SMALL,
        start_ticks=COUNT, command=NAMES, state=st.sampled_from("RSDZX?"), user_ticks=COUNT,
        system_ticks=COUNT, children_user_ticks=COUNT, children_system_ticks=COUNT, threads=SMALL,
        resident_bytes=COUNT, virtual_bytes=COUNT,
    ),
    max_size=8,
).map(lambda found: {each.pid: each for each in found})  # fmt: skip
KEYS = st.dictionaries(
    st.integers(1, 50),
    st.builds(JobKey, st.sampled_from(["slurm", "pbs", "htcondor"]), NAMES | SMALL.map(str))
    | st.builds(UnitKey, st.sampled_from([Kind.CONTAINER, Kind.SERVICE]), NAMES)
    | st.integers(0, 50),
)
IO = st.builds(
    ProcessIo, read_bytes=COUNT, written_bytes=COUNT, data_read_bytes=COUNT, data_written_bytes=COUNT,
    data_cancelled_bytes=COUNT,
)  # fmt: skip
DETAILS = st.dictionaries(
    st.integers(1, 50),
    st.builds(
        ProcessDetail, uid=optional(st.integers(0, 2**32 - 1)), anon_bytes=optional(COUNT),
        data_bytes=optional(COUNT), io=optional(IO),
    ),
)  # fmt: skip
CPU = st.builds(CpuSecs, *[st.floats(0, 1e12)] * 8)
NODES = st.builds(
    NodeSample,
    boot_time_secs=optional(st.integers(0, 4_000_000_000)),
    cores=st.dictionaries(st.integers(0, 20), CPU, max_size=3),
    memory_bytes=st.dictionaries(st.sampled_from(["MemTotal", "MemAvailable"]), COUNT),
    load1=optional(st.floats(0, 1e6)),
    runnable_entities=optional(SMALL),
    disks=st.dictionaries(
        NAMES.filter(bool),
        st.builds(DiskSample, major=SMALL, minor=SMALL, stats=st.tuples(COUNT)),
        max_size=2,
    ),
)
GPUS = st.lists(
    st.builds(
        GpuSample,
        card=st.builds(GpuCard, uuid=NAMES.filter(bool), index=optional(SMALL), model=NAMES),
        taken_at_secs=st.just(0.0), failing=SMALL, fan_percent=optional(st.floats(0, 200)), compute_mode=NAMES,
        performance_state=optional(SMALL), memory_used_bytes=optional(st.integers(0, 2**50)), ce_util_percent=SHARE,
        temperature_celsius=optional(st.floats(-80, 150)),
        processes=st.lists(
            st.builds(GpuProcess, pid=st.integers(1, 50), memory_bytes=optional(st.integers(0, 2**50)), ce_util_percent=SHARE),
            max_size=2,
        ).map(tuple),
    ),
    max_size=2,
).map(tuple)  # fmt: skip
SNAPSHOTS = st.builds(
    Snapshot,
    taken_at_secs=st.floats(0, 4e9),
    duration_secs=st.just(0.0),
    node=optional(NODES),
    jobs=st.just({}),
    processes=PROCESSES,
    keys=KEYS,
    epoch=optional(st.integers(1, 2**31)),
    gpus=GPUS,
)
OPTIONS = st.builds(
    SonarSettings,
    rollup=st.booleans(),
    exclude_system_jobs=st.booleans(),
    batch_only=st.booleans(),
    min_cpu_time_secs=st.sampled_from([0.0, 1.0]),
)


@given(
    SNAPSHOTS,
    optional(SNAPSHOTS),
    DETAILS,
    OPTIONS,
    st.sampled_from([CURRENT, SEED]),
    optional(st.floats(-1, 1e5)),
)
def test_any_snapshot_becomes_a_valid_document(snapshot, previous, details, options, profile, elapsed):
    origin = Origin(cluster="c.example.org", node="n1", profile=profile, attributes=attributes_of(options))
    look = SampleInput(
        snapshot=snapshot, now_secs=snapshot.taken_at_secs + 1, previous=previous,
        elapsed_secs=elapsed, details=details, users={0: "root", 6001: "a\udcff"},
    )  # fmt: skip
    document = sample_envelope(origin, look, options, now_secs=1.8e9)
    document = json.loads(json.dumps(document, allow_nan=False))
    assert [str(fault) for fault in validate_envelope(document, profile=profile, strict=True)] == []


@given(SNAPSHOTS, DETAILS, OPTIONS, st.sampled_from([CURRENT, SEED]))
def test_a_reader_of_the_format_finds_what_was_written(snapshot, details, options, profile):
    origin = Origin(cluster="c.example.org", node="n1", profile=profile)
    look = SampleInput(snapshot=snapshot, now_secs=1.8e9, details=details)
    document = sample_envelope(origin, look, options, now_secs=1.8e9)
    record = parse_envelope(json.loads(json.dumps(document)))
    assume(not isinstance(record, ErrorRecord))
    assert record.rejected == ()
    assert record.time_secs == int(snapshot.taken_at_secs)
    told = [process for job in record.jobs for process in job.processes]
    ids = identify(snapshot)
    assert sum(each.count for each in told) <= len(snapshot.processes)
    if options == SonarSettings(rollup=options.rollup, exclude_system_jobs=False):
        alive = [
            each
            for pid, each in snapshot.processes.items()
            if pid in ids and pid in details and each.state != "X"
        ]
        assert sum(each.count for each in told) == len(alive)
        if profile == CURRENT and told and any(each.threads for each in told):
            assert sum(each.threads for each in told) == sum(max(1, each.threads) for each in alive)
    assert [gpu.performance_state for gpu in record.gpus] == [gpu.performance_state for gpu in snapshot.gpus]


def documents(clock, procfs, cgroup, origin, look=None):
    sampler = Sampler(SamplerSettings(procfs=procfs, cgroup=cgroup), clock)
    config = SonarSettings(exclude_system_jobs=False, topology=())
    return sampler, NodeDocuments(
        config, PathsSettings(procfs=procfs), origin, clock, look or sampler.sample, Unreadable()
    )


def test_a_captured_node_makes_the_golden_document(clock, origin, tmp_path, monkeypatch):
    """The node's figures were captured; files of processes belong to whoever runs the test: one name for all."""
    shutil.copytree(FIXTURES / "proc", tmp_path / "proc")
    monkeypatch.setattr(
        "jobfeatures.system.lookups.pwd.getpwuid", lambda _uid: type("_", (), {"pw_name": "alice"})
    )
    origin = replace(origin, attributes={"exporter_version": "0"})
    sampler, made = documents(clock, str(tmp_path / "proc"), str(FIXTURES / "cgroup-v1"), origin)
    [document] = made.sample()
    sampler.close()
    text = json.dumps(document, indent=1) + "\n"
    path = GOLDEN / "sonar-sample-captured.json"
    if os.environ.get("JOBFEATURES_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()
    assert [job["job"] for job in document["data"]["attributes"]["jobs"] if "epoch" not in job] == [10]


@pytest.mark.parametrize("profile", [CURRENT, SEED])
def test_this_machine_makes_valid_documents(profile):
    origin = Origin(cluster="c.example.org", node="n1", profile=profile)
    sampler, made = documents(SystemClock(), "/proc", "/sys/fs/cgroup", origin)
    made.prime()
    for document in (*made.sample(), *made.sysinfo()):
        assert [str(each) for each in validate_envelope(document, profile=profile, strict=True)] == []
    [document] = made.sample()
    sampler.close()
    own = [each for job in document["data"]["attributes"]["jobs"] for each in job["processes"]]
    assert os.getpid() in {each.get("pid") for each in own}


def test_the_configuration_waits_for_drivers_that_start(clock, origin, snapshot, monkeypatch):
    monkeypatch.setattr("jobfeatures_exporter.sonar.node._LOOK_SECS", 0.0)
    starting = replace(snapshot, gpus=(), gpu_drivers={"nvidia": False})
    looks = [starting, starting, replace(snapshot, gpu_drivers={"nvidia": True})]
    sampler, made = documents(clock, "/proc", "/sys/fs/cgroup", origin, look=lambda: looks.pop(0))
    [document] = made.sysinfo()
    sampler.close()
    assert [card["uuid"] for card in document["data"]["attributes"]["cards"]] == ["GPU-1"]


def test_a_driver_that_never_answers_delays_the_configuration_only_so_long(
    clock, origin, snapshot, monkeypatch
):
    monkeypatch.setattr("jobfeatures_exporter.sonar.node._LOOK_SECS", 0.0)
    starting = replace(snapshot, gpus=(), gpu_drivers={"nvidia": False})

    def look():
        clock.advance(4)
        return starting

    sampler, made = documents(clock, "/proc", "/sys/fs/cgroup", origin, look=look)
    [document] = made.sysinfo()
    sampler.close()
    assert "cards" not in document["data"]["attributes"]


def test_a_look_that_could_not_be_taken_is_an_error_envelope(clock, origin):
    sampler, made = documents(clock, "/proc", "/sys/fs/cgroup", origin, look=lambda: None)
    made.prime()
    [document] = made.sample()
    sampler.close()
    assert document.keys() == {"meta", "errors"}


def test_the_same_look_twice_tells_no_utilisation(origin):
    looks = []
    sampler, made = documents(SystemClock(), "/proc", "/sys/fs/cgroup", origin, look=lambda: looks[0])
    looks.append(sampler.sample())
    made.prime()
    [document] = made.sample()
    sampler.close()
    found = [each for job in document["data"]["attributes"]["jobs"] for each in job["processes"]]
    assert found
    assert all("cpu_util" not in each for each in found)
