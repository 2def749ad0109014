import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.processes import UnnumberedGroups
from jobfeatures.batch.slurm.groupnames import SluidResolver, parse_job_variable, parse_slurmstepd_title
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.processes.scan import parse_process_stat
from tests.configured import settings_for

S, T = "s5K1KKYAYG5D00", "s5K1KKYAYG5D01"


@pytest.fixture
def owners(monkeypatch):
    """Return the owners of /proc/PID by pid, which os.stat is made to answer; 6001 for all others."""
    real, found = os.stat, {}

    def fake(path, *rest, **more):
        pid = str(path).rpartition("/")[2]
        if pid.isdigit():
            return os.stat_result([0, 0, 0, 0, found.get(int(pid), 6001), *[0] * 5])
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "stat", fake)
    return found


@pytest.fixture
def start(node, owners):
    """Return a function that starts a process and gives its sample."""

    def start(pid: int, *, owner: int = 6001, real_uid: int | None = None, **more):
        owners[pid] = owner
        path = node.process(pid, uid=owner if real_uid is None else real_uid, **more)
        return parse_process_stat((path / "stat").read_bytes())

    return start


@pytest.fixture
def resolver(node):
    return SluidResolver(settings_for("slurm", path_procfs=str(node.proc)), Unreadable())


def groups(members, taken=()):
    return UnnumberedGroups(members, taken=taken)


@pytest.mark.parametrize(
    ("cmdline", "job_id"),
    [
        (b"slurmstepd: [3385.0]\0", "3385"),
        (b"slurmstepd: [10.extern]", "10"),
        (b"slurmstepd: [10.batch]\0\0\0", "10"),
        (b"slurmstepd: [10.0+1]", "10"),
        (b"slurmstepd: [10+1.0]", None),  # the 2nd component of a heterogeneous job has a number of its own
        (b"slurmstepd infinity\0", None),
        (b"slurmstepd: [0.0]", None),
        (b"x slurmstepd: [10.0]", None),
        (b"", None),
    ],
)
def test_a_title_names_its_job(cmdline, job_id):
    assert parse_slurmstepd_title(cmdline) == job_id


@pytest.mark.parametrize(
    ("environ", "job_id"),
    [
        (b"A=1\0SLURM_JOB_ID=12\0B=2\0", "12"),
        (b"SLURM_JOB_ID=12", "12"),
        (b"XSLURM_JOB_ID=12\0", None),
        (b"SLURM_JOB_ID=12x\0", None),
        (b"SLURM_JOB_ID=-1\0", None),
        (b"SLURM_JOB_ID=\0", None),
        (b"A=\nSLURM_JOB_ID=12\0", None),
    ],
)
def test_an_environment_names_its_job(environ, job_id):
    assert parse_job_variable(environ) == job_id


@given(st.binary())
def test_any_bytes_name_a_number_or_nothing(data):
    for parse in (parse_slurmstepd_title, parse_job_variable):
        assert (parse(data) or "1").isdigit()


def test_the_title_of_roots_daemon_counts(start, resolver):
    processes = [
        start(10, environ=b"SLURM_JOB_ID=666\0"),
        start(11, owner=0, cmdline=b"slurmstepd: [3385.0]\0"),
    ]
    assert resolver.update(groups({S: processes})) == {S: "3385"}


def test_a_title_of_a_users_own_does_not_count(start, resolver):
    assert resolver.update(groups({S: [start(10, cmdline=b"slurmstepd: [99.0]\0")]})) == {}


def test_a_set_user_id_program_with_a_false_title_does_not_count(start, resolver):
    program = start(10, owner=0, real_uid=6001, cmdline=b"slurmstepd: [99.0]\0")
    assert resolver.update(groups({S: [program]})) == {}


def test_without_a_daemon_the_environment_counts_until_one_is_seen(start, resolver):
    user = start(10, environ=b"SLURM_JOB_ID=12\0")
    assert resolver.update(groups({S: [user]})) == {S: "12"}
    daemon = start(11, owner=0, cmdline=b"slurmstepd: [13.0]\0")
    assert [dict(resolver.update(groups({S: [user, daemon]})))[S] for _ in range(4)][-1] == "13"


def test_nobody_takes_the_number_of_another_job(start, resolver):
    daemon = start(10, owner=0, cmdline=b"slurmstepd: [12.0]\0")
    liar, other_liar = start(11, environ=b"SLURM_JOB_ID=12\0"), start(12, environ=b"SLURM_JOB_ID=50\0")
    assert resolver.update(groups({T: [liar], S: [daemon]}, {"50"})) == {S: "12"}
    assert resolver.update(groups({T: [liar], S: [daemon], "sX": [other_liar]}, {"50"})) == {S: "12"}


def test_what_is_not_found_is_asked_at_growing_gaps(start, resolver, monkeypatch):
    process = start(10, owner=0)
    asked = []
    monkeypatch.setattr(resolver, "_titled", asked.append)
    for _ in range(64):
        resolver.update(groups({S: [process]}))
    assert len(asked) == 7


def test_an_ended_job_is_forgotten(start, resolver):
    resolver.update(groups({S: [start(10, environ=b"SLURM_JOB_ID=12\0")]}))
    assert resolver.update(groups({S: []})) == {S: "12"}
    assert resolver.update(groups({})) == {}
    assert resolver.update(groups({S: []})) == {}


def test_what_cannot_be_read_is_counted_and_what_vanished_is_not(node, start, fail_opening):
    unreadable = Unreadable()
    process = start(10, owner=0, environ=b"SLURM_JOB_ID=12\0")
    fail_opening("/cmdline", errno.ESRCH)
    fail_opening("/environ", errno.EACCES)
    assert (
        SluidResolver(settings_for("slurm", path_procfs=str(node.proc)), unreadable).update(
            groups({S: [process]})
        )
        == {}
    )
    assert unreadable.counts == {"process_environ_eacces": 1}
