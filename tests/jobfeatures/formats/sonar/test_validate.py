"""What is a breach of the format, and which breaches readers have to take."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.formats.sonar import CURRENT, SEED
from jobfeatures.formats.sonar.documents import iterate_documents
from jobfeatures.formats.sonar.fields import PROFILES, TAGS, TYPES, FieldType
from jobfeatures.formats.sonar.validate import MAX_FAULTS, validate_envelope
from jobfeatures_exporter.ingest.parse import parse_envelope

FOLDER = os.environ.get("JOBFEATURES_DATA")  # with files that other agents wrote


def put(document, path, value):
    """Set, or with `...` remove, what a path such as data.attributes.jobs[0].user names."""
    *steps, last = [int(each) if each.isdigit() else each for each in re.findall(r"[^.\[\]]+", path)]
    for step in steps:
        document = document[step]
    if value is ...:
        del document[last]
    else:
        document[last] = value


def faults(document, *, strict, profile=None):
    return [(each.path, each.reason) for each in validate_envelope(document, strict=strict, profile=profile)]


def test_what_keeps_to_the_format_has_no_fault(envelope, errors):
    for document in (envelope, errors):
        for profile in (None, CURRENT):
            assert faults(document, strict=True, profile=profile) == []
        assert faults(document, strict=False) == []


A = "data.attributes"
STRICT_ONLY = [  # kind of envelope, path, value, reason
    ("sample", "meta", ..., "is missing"),
    ("sample", "meta.version", "0.6.9", "is below 0.7, which means an older format"),
    ("sample", "meta.version", "next", "is not a semantic version"),
    ("sample", "meta.attrs", [{"key": "a"}, {"key": "a"}], "have a key twice"),
    ("sample", "extra", 1, "is not a field of an envelope"),
    ("sample", "data.id", 1, "is not a field of data"),
    ("sample", f"{A}.extra", 1, "is not a field of SampleAttributes"),
    ("sample", f"{A}.time", "", "is not yyyy-mm-ddThh:mm:ss with a zone"),
    ("sample", f"{A}.time", ..., "is missing"),
    ("sample", f"{A}.time", "2027-01-15T08:00:00.5Z", "has parts of a second"),
    ("sample", f"{A}.node", "c1_7", "is not a host name"),
    ("sample", f"{A}.system", None, "is missing"),
    ("sample", f"{A}.jobs[0].user", "", "is empty"),
    ("sample", f"{A}.jobs[0].job", 2**32, "is above 4294967295"),
    ("sample", f"{A}.jobs[1].processes[0].pid", 7, "is not zero although processes are rolled up"),
    ("sample", f"{A}.system.gpus[0].ce_util", 101, "is above 100"),
    ("sysinfo", f"{A}.sockets", 0, "is zero"),
    ("sysinfo", f"{A}.architecture", ..., "is missing"),
    ("job", "data.type", "slurm_jobs", "is not one of cluster, job, jobs, sample, sysinfo"),
    ("job", f"{A}.slurm_jobs[0].job_state", "CANCELLED by 1234", "is not a state of a job"),
    ("job", f"{A}.slurm_jobs[0].nodes[0]", "None assigned", "is not a node range"),
    ("job", f"{A}.slurm_jobs[0].start_time", "", "is not yyyy-mm-ddThh:mm:ss with a zone"),
    ("job", f"{A}.slurm_jobs[0].array_job_id", 0, "is zero"),
    ("cluster", f"{A}.nodes[0].states", ["idle"], "are not in capitals"),
]


def test_a_node_that_failed_is_none_of_the_texts_eight_states(jobs):
    put(jobs, "data.type", "jobs")
    put(jobs, f"{A}.slurm_jobs[0].job_state", "NODE_FAIL")
    fault = (f"{A}.slurm_jobs[0].job_state", "is not a state of a job")
    assert fault in faults(jobs, strict=True, profile=SEED)
    assert fault not in faults(jobs, strict=True, profile=CURRENT)
    assert fault not in faults(jobs, strict=False, profile=SEED)


PIDS = [  # pid, rolledup, profile, fault
    (7, 0, None, None),
    (7, 3, None, "is not zero although processes are rolled up"),
    (7, 3, CURRENT, "is not zero although processes are rolled up"),
    (0, 3, SEED, None),
    (0, 3, CURRENT, None),  # before Sonar 0.18
    (2**22 + 1, 3, CURRENT, None),
    (2**22 + 1, 3, None, None),
    (2**22 + 1, 3, SEED, "is not zero although processes are rolled up"),
    (0, 0, CURRENT, None),  # as Sonar 0.19 sends what is left of a group
    (0, 0, SEED, "is zero although no processes are rolled up"),
]


@pytest.mark.parametrize(("pid", "rolledup", "profile", "fault"), PIDS)
def test_the_pid_of_what_is_rolled_up_is_as_the_profile_has_it(make, pid, rolledup, profile, fault):
    document = make("sample")
    put(document, f"{A}.jobs[0].processes[0].pid", pid)
    put(document, f"{A}.jobs[0].processes[0].rolledup", rolledup)
    path = f"{A}.jobs[0].processes[0].pid"
    found = [reason for where, reason in faults(document, strict=True, profile=profile) if where == path]
    assert found == ([fault] if fault else [])


@pytest.mark.skipif(FOLDER is None, reason="JOBFEATURES_DATA names no folder of public examples")
def test_what_a_real_agent_rolls_up_keeps_to_the_profile():
    text = (Path(FOLDER or "") / "sonar/rollup-0.19/sample.json").read_text()
    documents = [each.value for each in iterate_documents(text)]
    assert [validate_envelope(each, profile=CURRENT, strict=True) for each in documents] == [[]] * len(
        documents
    )


@pytest.mark.parametrize(("kind", "path", "value", "reason"), STRICT_ONLY)
def test_a_producer_is_told_what_a_reader_takes(kind, path, value, reason, request):
    document = request.getfixturevalue("jobs" if kind == "job" else kind)
    put(document, path, value)
    assert (path, reason) in faults(document, strict=True)
    assert faults(document, strict=False) == []
    parse_envelope(document)


ALWAYS = [
    ("sample", "data", ..., "envelope", "has neither data nor errors"),
    ("sample", "errors", [{"detail": "x"}], "envelope", "has both data and errors"),
    ("sample", "data.type", "samples", "data.type", None),
    ("sample", "data.type", ["sample"], "data.type", None),
    ("sample", "data.attributes", ..., "data.attributes", "is missing"),
    ("sample", f"{A}.cluster", "", f"{A}.cluster", "is empty"),
    ("sample", f"{A}.node", "a b", f"{A}.node", "is not a host name"),
    ("sample", f"{A}.time", "2027-02-30T08:00:00Z", f"{A}.time", "is no time of the calendar"),
    ("sample", f"{A}.time", "2027-02-03T08:00:00", f"{A}.time", "is not yyyy-mm-ddThh:mm:ss with a zone"),
    ("sample", f"{A}.system.cpus[1]", -1, f"{A}.system.cpus[1]", "is negative"),
    ("sample", f"{A}.system.cpus[1]", True, f"{A}.system.cpus[1]", "is not a whole number"),
    ("sample", f"{A}.system.cpus[1]", 1.0, f"{A}.system.cpus[1]", "is not a whole number"),
    ("sample", f"{A}.system.used_memory", 2**64, f"{A}.system.used_memory", f"is above {2**64 - 1}"),
    ("sample", f"{A}.system.load1", float("inf"), f"{A}.system.load1", "is not a finite number of 64 bits"),
    ("sample", f"{A}.system.load1", -0.1, f"{A}.system.load1", "is negative"),
    ("sample", f"{A}.jobs", {}, f"{A}.jobs", "is not an array"),
    ("sysinfo", f"{A}.distances[0]", 10, f"{A}.distances[0]", "is not an array"),
    ("sysinfo", f"{A}.cpu_model", "\udcff", f"{A}.cpu_model", "is not Unicode"),
    ("cluster", f"{A}.slurm", 1, f"{A}.slurm", "is not true or false"),
]


@pytest.mark.parametrize(("kind", "path", "value", "named", "reason"), ALWAYS)
@pytest.mark.parametrize("strict", [True, False])
def test_what_nobody_takes_rejects_the_envelope_and_is_named(
    kind, path, value, named, reason, strict, request
):
    document = request.getfixturevalue(kind)
    put(document, path, value)
    found = {(path or "envelope"): why for path, why in faults(document, strict=strict)}
    assert named in found
    assert reason is None or found[named] == reason
    with pytest.raises(ParseError, match=re.escape(named)):
        parse_envelope(document)


RECORDS = [
    ("sample", f"{A}.jobs[0].epoch", "0", f"{A}.jobs[0]"),
    ("sample", f"{A}.jobs[0].job", 0, f"{A}.jobs[0]"),
    ("sample", f"{A}.jobs[0].processes[0].cpu_time", -1, f"{A}.jobs[0].processes[0]"),
    ("sample", f"{A}.jobs[1].processes[0].rolledup", -1, f"{A}.jobs[1].processes[0]"),
    ("sample", f"{A}.jobs[0].processes[0].gpus[0].uuid", "", f"{A}.jobs[0].processes[0].gpus[0]"),
    ("sample", f"{A}.system.gpus[0].temperature", 2**63, f"{A}.system.gpus[0]"),
    ("sample", f"{A}.system.disks[0].stats[1]", "x", f"{A}.system.disks[0]"),
    ("jobs", f"{A}.slurm_jobs[0].job_id", 0, f"{A}.slurm_jobs[0]"),
    ("jobs", f"{A}.slurm_jobs[0].sacct.AveRSS", -1, f"{A}.slurm_jobs[0]"),
    ("cluster", f"{A}.nodes[1].names", [], f"{A}.nodes[1]"),
    ("cluster", f"{A}.partitions[0].nodes[0]", "c[2-1]", f"{A}.partitions[0]"),
]


@pytest.mark.parametrize(("kind", "path", "value", "record"), RECORDS)
def test_a_bad_element_is_left_out_and_the_rest_lives(kind, path, value, record, request):
    document = request.getfixturevalue(kind)
    put(document, path, value)
    assert [each.record_path for each in validate_envelope(document, strict=False)] == [record]
    assert [str(each) for each in parse_envelope(document).rejected] != []


RANGES = [
    ("c1", ""),
    ("c[1-3,5]-[2-4].fox", ""),
    ("c[01-10]", ""),
    ("", "is empty"),
    ("c[3-1]", "has a range that runs backwards"),
    ("c[1-3,2]", "has a number twice"),
    ("c[1", "is not a node range"),
    ("c1,c2", "is not a node range"),
    ("c[1-1000]-[1-1000]", "means more than 100000 nodes"),
    ("c[0-999999999]", "means more than 100000 nodes"),
    (5, "is not a string"),
]


@pytest.mark.parametrize(("text", "reason"), RANGES)
def test_node_ranges_are_well_formed(text, reason, cluster):
    put(cluster, f"{A}.partitions[0].nodes", [text])
    assert [why for _, why in faults(cluster, strict=True)] == ([reason] if reason else [])


def test_zero_is_left_out_everywhere_and_null_is_nothing(sample):
    put(sample, f"{A}.jobs[0]", {"job": 12})
    put(sample, f"{A}.system", {"cpus": None, "gpus": [{"uuid": "GPU-1"}]})
    put(sample, f"{A}.errors", None)
    assert faults(sample, strict=False) == []


def test_a_profile_has_its_own_fields(sample, jobs):
    assert (f"{A}.system.boot", "is not a field of SampleSystem in profile seed") in faults(
        sample, strict=True, profile=SEED
    )
    assert ("data.type", "is not one of cluster, jobs, sample, sysinfo") in faults(
        jobs, strict=True, profile=SEED
    )
    put(jobs, f"{A}.slurm_jobs[0].gres_detail", ["gpu:1"])
    assert faults(jobs, strict=True) == []
    assert faults(jobs, strict=True, profile=CURRENT) != []
    assert faults(jobs, strict=False, profile=CURRENT) == []


def test_faults_of_one_document_are_bounded(sample):
    put(sample, f"{A}.system.cpus", [-1] * 1000)
    assert len(validate_envelope(sample, strict=False)) == MAX_FAULTS + 1


def test_the_table_of_types_is_whole():
    assert {each.of for fields in TYPES.values() for each in fields if each.of} <= TYPES.keys()
    assert set(TAGS.values()) <= TYPES.keys()
    for name, fields in TYPES.items():
        assert len({each.name for each in fields}) == len(fields), name
        for each in fields:
            assert (each.type is FieldType.OBJECT) == bool(each.of), (name, each.name)
            assert set(each.profiles) <= set(PROFILES)


# --- arbitrary documents --------------------------------------------------------

KEYS = sorted(
    {each.name for fields in TYPES.values() for each in fields} | {"meta", "data", "errors", "type"}
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(
        [0, 1, -1, 2**63, 2**64, 10**400, "", "None assigned", "c[1-3]", "CANCELLED by 1", *TAGS]
    )
    | st.floats()
    | st.text(st.characters(), max_size=20)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=25,
)


def judged(document):
    """Judge in every way; what the tolerant judge takes becomes a record, and nothing else is raised."""
    for profile in (None, *PROFILES):
        validate_envelope(document, strict=True, profile=profile)
    found = validate_envelope(document, strict=False)
    try:
        parse_envelope(document)
    except ParseError:
        assert found


@given(JSON)
def test_no_document_raises(document):
    judged(document)


@given(st.sampled_from(sorted(TAGS)), JSON)
def test_no_attributes_raise(tag, attributes):
    judged({"data": {"type": tag, "attributes": attributes}})


def paths_of(value, path=""):
    if path:
        yield path.lstrip(".")
    if isinstance(value, dict):
        for key, each in value.items():
            yield from paths_of(each, f"{path}.{key}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from paths_of(each, f"{path}[{number}]")


@given(kind=st.sampled_from(["sample", "sysinfo", "job", "cluster"]), data=st.data())
def test_no_change_of_a_good_document_raises(make, kind, data):
    document = make(kind)
    path = data.draw(st.sampled_from(list(paths_of(document))))
    put(document, path, data.draw(st.just(...) | JSON))
    judged(document)


# --- what other agents wrote ------------------------------------------------------


@pytest.mark.skipif(FOLDER is None, reason="JOBFEATURES_DATA names no folder of public examples")
def test_every_envelope_that_others_wrote_is_taken():
    seen = 0
    for path in (Path(FOLDER or "") / "sonar").rglob("*.json"):
        for document in iterate_documents(path.read_text(errors="surrogateescape")):
            if isinstance(document.value, dict) and document.value.keys() & {"data", "errors"}:
                assert validate_envelope(document.value, strict=False) == [], path
                parse_envelope(document.value)
                seen += 1
    assert seen
