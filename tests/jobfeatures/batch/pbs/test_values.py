"""Job ids, durations, sizes and hosts as PBS and Torque write them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.pbs.values import (
    Share,
    array_fields,
    compute_shares,
    job_id_of,
    parse_duration,
    parse_exec_host,
    parse_exec_vnode,
    parse_job_id,
    parse_size,
    share_of,
    split_resources,
)
from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.layout.hierarchies import match_path


@pytest.mark.parametrize(
    ("text", "job_id", "array"),
    [
        ("123", "123", (None, None)),
        ("123.head", "123", (None, None)),
        ("0.head", "0", (None, None)),  # the first of each fresh server
        ("123[4].head.example.org", "123[4]", ("123", "4")),
        ("123[].head", "123[]", ("123", None)),
        ("123-4.head", "123-4", ("123", "4")),
    ],
)
def test_a_job_id_is_without_its_server(text: str, job_id: str, array: tuple[str | None, str | None]) -> None:
    assert parse_job_id(text) == job_id
    found = array_fields(job_id)
    assert (found.get("array_job_id"), found.get("array_task_id")) == array


@pytest.mark.parametrize(
    "text", ["", "00", "01", "x", "1 2", "123.", "123[x].s", "1\n2", "9" * 13, "123.a b"]
)
def test_other_texts_are_no_job_ids(text: str) -> None:
    with pytest.raises(ParseError):
        parse_job_id(text)


@pytest.mark.parametrize(
    ("path", "batch_system", "job_variable"),
    [
        ("/pbs_jobs.service/jobid/123.head", "pbs", "123.head"),
        ("/pbs_jobs.service/jobs/123[4].head", "pbs", "123[4].head"),
        ("/pbs_jobs.service/jobs/123\\x5b4\\x5d.head", "pbs", "123[4].head"),
        ("/torque/123.batch.example.org", "torque", "123.batch.example.org"),
        ("/torque/123[4].batch.example.org/0", "torque", "123[4].batch.example.org"),
        ("/torque/123-4.batch.example.org", "torque", "123-4.batch.example.org"),
    ],
)
def test_an_id_is_what_the_control_group_gives(path: str, batch_system: str, job_variable: str) -> None:
    found = match_path(path)
    assert found is not None
    assert (found.batch_system, found.job_id) == (batch_system, job_id_of({"PBS_JOBID": job_variable}))


def test_an_array_as_a_whole_runs_nowhere() -> None:
    with pytest.raises(ParseError, match="array"):
        job_id_of({"PBS_JOBID": "123[].head"})
    with pytest.raises(ParseError, match="PBS_JOBID"):
        job_id_of({})


@pytest.mark.parametrize(
    ("text", "secs"),
    [
        ("0", 0),
        ("3600", 3600),
        ("30:00", 1800),
        ("03:00:00", 10800),
        ("729:39:16", 2626756),
        ("4:03:00:00", 356400),
        ("00:00:01.5", 1),
    ],
)
def test_durations(text: str, secs: int) -> None:
    assert parse_duration(text) == secs


@pytest.mark.parametrize("text", ["", "-1", "1:", ":1", "1:2:3:4:5", "1d", "1 ", "１"])
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(ParseError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1024", 1024),
        ("5b", 5),
        ("5w", 40),
        ("16gb", 2**34),
        ("16GB", 2**34),
        ("16g", 2**34),
        ("512kw", 512 * 1024 * 8),
        ("2mw", 2 * 2**20 * 8),
        ("1tb", 2**40),
        ("0kb", 0),
    ],
)
def test_sizes_are_powers_of_1024_and_words_eight_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "gb", "1.5gb", "-1kb", "1 gb", "1kib", "1eb"])
def test_other_texts_are_no_sizes(text: str) -> None:
    with pytest.raises(ParseError):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1/0*4+n2/1*2", (("n1", 4), ("n2", 2))),
        ("n1/0", (("n1", 1),)),
        ("n1/0*0", (("n1", 0),)),
        ("n1/0-3", (("n1", 4),)),
        ("n1.example.org/0-1,5", (("n1.example.org", 3),)),
        ("n1/1+n1/0", (("n1", 1), ("n1", 1))),
        ("n1:15002/0*2", (("n1", 2),)),
    ],
)
def test_execution_hosts(text: str, hosts: tuple[tuple[str, int], ...]) -> None:
    assert parse_exec_host(text) == hosts


@pytest.mark.parametrize(
    "text", ["", "n1", "n1/", "n1/x", "n1/3-1", "n1/0+", "n1/0*", "a b/0", "n1/0-999999999", "n1/0--1"]
)
def test_other_texts_are_no_execution_hosts(text: str) -> None:
    with pytest.raises(ParseError):
        parse_exec_host(text)


def test_vnodes_are_taken_together_by_host() -> None:
    shares = compute_shares(
        "n1/0*4+n2/0*3", "(n1[0]:ncpus=2:mem=1gb+n1[1]:ncpus=2:mem=1gb)+(n2:ncpus=3:ngpus=1)"
    )
    assert shares == {"n1": Share(4, 2 * 2**30, None), "n2": Share(3, None, 1)}


def test_a_chunk_is_its_hosts_whatever_its_vnodes_are_called() -> None:
    assert compute_shares("n1/0*2", "(board7:ncpus=2:mem=4gb)") == {"n1": Share(2, 2**32, None)}


def test_without_vnodes_the_hosts_tell() -> None:
    assert compute_shares("n1/1+n1/0+n2/3", None) == {"n1": Share(2), "n2": Share(1)}
    assert compute_shares(None, "(n1[0]:ncpus=2)") == {"n1": Share(2)}
    assert compute_shares(None, None) == {}


@pytest.mark.parametrize(
    "text", ["", "n1:ncpus=1", "(n1:ncpus=1)(n2:ncpus=1)", "(n1:ncpus)", "(n1:ncpus=x)", "()"]
)
def test_other_texts_are_no_vnodes(text: str) -> None:
    with pytest.raises(ParseError):
        parse_exec_vnode(text)


def test_a_share_is_found_by_the_short_name_and_never_guessed() -> None:
    shares = {"n1.example.org": Share(2), "n2.example.org": Share(4)}
    assert share_of(shares, "n2") == Share(4)
    assert share_of(shares, "n2.example.org") == Share(4)
    assert share_of(shares, "n2.other.org") == Share()
    assert share_of(shares, None) == Share()
    assert share_of({"n1": Share(2)}, None) == Share(2)
    assert share_of({"n1.a": Share(2), "n1.b": Share(2)}, "n1") == Share()


def test_requested_limits_of_a_prologue() -> None:
    text = "nodes=1:ppn=4,walltime=01:00:00,junk,mem=8gb"
    assert dict(split_resources(text)) == {"nodes": "1:ppn=4", "walltime": "01:00:00", "mem": "8gb"}


@given(st.text(alphabet="n1/0*4+-,:()=[]gbmempcus. \n\x00x٣"))
def test_any_text_is_understood_or_refused(text: str) -> None:
    for parse in (parse_job_id, parse_duration, parse_size, parse_exec_host, parse_exec_vnode):
        with contextlib.suppress(ParseError):
            parse(text)


@given(st.lists(st.tuples(st.sampled_from(["n1", "n2", "n3.x"]), st.integers(1, 64)), min_size=1, max_size=8))
def test_both_forms_of_hosts_come_to_the_same(parts: list[tuple[str, int]]) -> None:
    pbs = "+".join(f"{host}/0*{cpus}" for host, cpus in parts)
    torque = "+".join(f"{host}/0-{cpus - 1}" for host, cpus in parts)
    slots = "+".join(f"{host}/{slot}" for host, cpus in parts for slot in range(cpus))
    vnodes = "+".join(f"({host}:ncpus={cpus})" for host, cpus in parts)
    expected = compute_shares(pbs, None)
    assert compute_shares(torque, None) == compute_shares(slots, None) == expected
    assert compute_shares(pbs, vnodes) == expected
