"""What is sent, read by a decoder that was written from the format's text: see `tests/sonardecoder.py`."""

import copy
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.formats.sonar import CURRENT, SEED
from jobfeatures.formats.sonar.envelopes import Origin, error_envelope
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures.formats.sonar.writejobs import job_fields, jobs_document
from jobfeatures.records.model import Cluster, ClusterNode, JobState, Partition
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.sonar.clusterdocuments import cluster_document
from jobfeatures_exporter.sonar.sample import SampleInput, attributes_of, sample_envelope
from jobfeatures_exporter.sonar.sysinfo import sysinfo_envelope
from tests.exporter.sonar.test_property import DETAILS, OPTIONS, SNAPSHOTS, documents, optional
from tests.exporter.sonar.test_queue_records import RECORD
from tests.sonardecoder import DecodeError, decode

GOLDEN = Path(__file__).parents[2] / "fixtures/golden"
DATA = os.environ.get("JOBFEATURES_DATA")
PROFILE = st.sampled_from([CURRENT, SEED])


def decoded(document, profile):
    """Return the tag that the decoder finds in a document as it goes over the wire, in version 0 of the format."""
    assert document["meta"].get("format", 0) == 0
    return decode(json.loads(json.dumps(document, allow_nan=False)), later=profile == CURRENT)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("sonar-s*.json")), ids=lambda path: path.stem)
def test_golden_documents(path):
    document = json.loads(path.read_text())
    assert decode(document, later="-seed" not in path.stem) == path.stem.split("-")[1]


@given(SNAPSHOTS, optional(SNAPSHOTS), DETAILS, OPTIONS, PROFILE, optional(st.floats(-1, 1e5)))
def test_samples_of_any_node(snapshot, previous, details, options, profile, elapsed):
    origin = Origin(cluster="c.example.org", node="n1", profile=profile, attributes=attributes_of(options))
    look = SampleInput(
        snapshot=snapshot, now_secs=snapshot.taken_at_secs + 1, previous=previous,
        elapsed_secs=elapsed, details=details, users={0: "root", 6001: "a\udcff"},
    )  # fmt: skip
    assert decoded(sample_envelope(origin, look, options, now_secs=1.8e9), profile) in {"sample", ""}


@pytest.mark.parametrize("profile", [CURRENT, SEED])
def test_what_this_machine_is_and_does(profile):
    sampler, made = documents(
        SystemClock(), "/proc", "/sys/fs/cgroup", Origin(cluster="c.example.org", node="n1", profile=profile)
    )
    made.prime()
    tags = {decoded(document, profile) for document in (*made.sample(), *made.sysinfo())}
    sampler.close()
    assert tags <= {"sample", "sysinfo", ""}
    assert "sample" in tags


@given(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("name", "user", "account", "partition"), optional(st.text(max_size=9))),
            **dict.fromkeys(
                ("priority", "wall_limit_secs", "used_memory_bytes"), optional(st.integers(0, 2**40))
            ),
            **dict.fromkeys(("submit_secs", "start_secs", "end_secs"), optional(st.integers(0, 2**33))),
            # Of a job in an unknown state no element is made: the writers count it.
            "state": st.sampled_from(sorted(set(JobState) - {JobState.UNKNOWN}, key=lambda each: each.value)),
            "step": optional(st.sampled_from(["0", "batch", "extern"])),
            "nodes": st.sampled_from([(), ("n1",), ("n1", "n2", "x")]),
            "job_id": st.integers(1, 2**32).map(str),
            "exit_status": optional(st.integers(0, 255)),
        },
    ),
    PROFILE,
)
def test_jobs_of_any_kind(values, profile):
    origin = Origin(cluster="c", node="n", profile=profile)
    record = replace(RECORD, array_job_id=None, array_task_id=None, **values)
    assert decoded(jobs_document(origin, [job_fields(origin, record)], 0), profile) == "jobs"


NAMES = st.sampled_from(["c1", "c2", "c3", "c10", "login-1", "gpu07.fox"])


@given(
    st.lists(
        st.builds(
            ClusterNode,
            name=NAMES,
            states=st.lists(st.sampled_from(["IDLE", "drain"]), max_size=2).map(tuple),
        )
    ),
    st.lists(
        st.builds(
            Partition, name=st.text(min_size=1, max_size=9), nodes=st.lists(NAMES, unique=True).map(tuple)
        )
    ),
    PROFILE,
)
def test_clusters(nodes, partitions, profile):
    origin = Origin(cluster="c", node="n", profile=profile)
    unique = tuple({each.name: each for each in nodes}.values())
    cluster = Cluster(source="slurm", taken_at_secs=0, partitions=tuple(partitions), nodes=unique)
    assert decoded(cluster_document(origin, cluster), profile) == "cluster"


@given(st.text(), PROFILE)
def test_errors(detail, profile):
    origin = Origin(cluster="c", node="n", profile=profile)
    assert decoded(error_envelope(origin, detail, 1.8e9), profile) == ""


def test_a_configuration(origin, context):
    assert decoded(sysinfo_envelope(replace(origin, profile=SEED), context.sysinfo), SEED) == "sysinfo"


def changes(document):
    """Yield documents of which one value has another type, or one field has another name, and where."""
    places = []

    def walk(value, path):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            places.append((*path, key))
            if isinstance(each, dict | list):
                walk(each, (*path, key))

    walk(document, ())
    for *path, last in places:
        for way in ("type", "name"):
            other = copy.deepcopy(document)
            inside = other
            for key in path:
                inside = inside[key]
            if way == "type":
                inside[last] = {"a": 1.5} if not isinstance(inside[last], dict) else "text"
            elif isinstance(inside, dict):
                inside["no_such_field"] = inside.pop(last)
            else:
                continue
            yield (*path, last, way), other


@pytest.mark.parametrize("name", ["sonar-sample-seed", "sonar-sysinfo-seed"])
def test_both_opinions_refuse_what_is_wrong(name):
    document = json.loads((GOLDEN / f"{name}.json").read_text())
    for where, wrong in changes(document):
        assert validate_envelope(wrong, profile=SEED, strict=True), where
        with pytest.raises(DecodeError):
            decode(wrong)


def stream(text):
    """Yield the documents of a text, one behind the other."""
    decoder, place = json.JSONDecoder(), 0
    while text[place:].strip():
        place += len(text[place:]) - len(text[place:].lstrip())
        document, place = decoder.raw_decode(text, place)
        yield from document if isinstance(document, list) else [document]


@pytest.mark.skipif(DATA is None, reason="JOBFEATURES_DATA names no folder of public logs")
def test_documents_of_other_agents_are_refused_by_both_opinions_or_by_none():
    judged = []
    for path in sorted(Path(DATA or "", "sonar").rglob("*.json")):
        text = path.read_text()
        for document in stream(text) if '"meta"' in text else ():
            ours = min(
                (validate_envelope(document, profile=each, strict=True) for each in (CURRENT, SEED)), key=len
            )
            try:
                theirs = decode(document, later=True) and None
            except DecodeError as error:
                theirs = str(error)
            judged.append((path.name, [str(each) for each in ours], theirs))
    assert [each for each in judged if bool(each[1]) != bool(each[2])] == []
    assert len(judged) > 20
