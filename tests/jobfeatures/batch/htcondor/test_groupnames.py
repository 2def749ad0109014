"""HTCondor's slots, on made-up nodes. Shapes are those of its manual."""

import errno
import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.htcondor.fields import is_ad_of_slot, parse_job_id
from jobfeatures.batch.htcondor.groupnames import SlotResolver
from jobfeatures.batch.htcondor.source import CondorSource
from jobfeatures.batch.processes import UnnumberedGroups
from jobfeatures.errors import ParseError
from jobfeatures.formats.classad.ad import ClassAd
from jobfeatures.formats.classad.longform import parse_ad
from jobfeatures.records.model import JobKey
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.layout.hierarchies import match_path
from jobfeatures_exporter.sampling.processes.scan import ProcessScanner
from tests.configured import settings_for

SLOT = "slot1_1@h"
GROUP = f"/system.slice/condor.service/htcondor/condor_x_{SLOT}"


@pytest.fixture
def unreadable():
    return Unreadable()


@pytest.fixture
def execute(tmp_path):
    path = tmp_path / "execute"
    path.mkdir()
    path.chmod(0o755)
    return path


@pytest.fixture
def start(node, execute):
    """Return a function that starts a job in a slot: starter, scratch directory, one process."""

    def start(starter=500, pid=501, slot=SLOT, cluster=12, proc=0, start=100):
        node.process(starter, name=b"condor_starter", start=start)
        node.process(pid, ppid=starter, start=start + 1)
        scratch = execute / f"dir_{starter}"
        scratch.mkdir(exist_ok=True)
        (scratch / ".job.ad").write_text(f"ClusterId = {cluster}\nProcId = {proc}\n")
        (scratch / ".machine.ad").write_text(f'Name = "{slot}"\n')
        return scratch

    return start


@pytest.fixture
def ask(node, execute, unreadable):
    """Return a function that takes one look: pids by slot."""
    config = settings_for("htcondor", htcondor_execute_directory=str(execute), path_procfs=str(node.proc))
    resolver = SlotResolver(config, unreadable)
    scanner = ProcessScanner(str(node.proc))

    def ask(batch=None, looks=1, **slots):
        by_slot = {name.replace("_at_", "@"): pids for name, pids in slots.items()}
        for _ in range(looks):
            processes = scanner.scan()
            members = {
                name: [processes[pid] for pid in pids if pid in processes] for name, pids in by_slot.items()
            }
            numbers = resolver.update(
                UnnumberedGroups(members=members, processes=processes, in_groups=batch or ())
            )
        return numbers

    yield ask
    scanner.close()


def test_a_slot_is_resolved_by_the_ad_of_its_starter(start, ask, unreadable):
    start()
    assert ask(slot1_1_at_h=[501]) == {SLOT: "12.0"}
    assert unreadable.counts == {}


def test_a_process_further_down_leads_to_the_starter_too(node, start, ask):
    start()
    node.process(502, ppid=501)
    node.process(503, ppid=1)  # its parents have ended
    assert ask(slot1_1_at_h=[502, 503]) == {SLOT: "12.0"}


def test_a_slot_without_processes_or_starter_is_not_resolved(node, start, ask):
    node.process(501, ppid=1)
    assert ask(slot1_1_at_h=[501]) == {}
    assert ask(slot1_1_at_h=[]) == {}


def test_the_next_job_in_a_slot_has_its_own_starter(node, start, ask, execute):
    start()
    assert ask(slot1_1_at_h=[501]) == {SLOT: "12.0"}
    node.end(500)
    node.end(501)
    shutil.rmtree(execute / "dir_500")
    assert ask(slot1_1_at_h=[]) == {SLOT: "12.0"}  # the last known, until another is seen
    start(600, 601, cluster=13)
    assert ask(slot1_1_at_h=[601]) == {SLOT: "13.0"}
    assert ask() == {}


def test_an_empty_slot_keeps_no_job_that_runs_in_another_by_now(node, start, ask):
    start()
    assert ask(slot1_1_at_h=[501]) == {SLOT: "12.0"}
    node.end(500)
    node.end(501)
    start(starter=600, pid=601, slot="slot1_2@h")
    assert ask(slot1_1_at_h=[], slot1_2_at_h=[601]) == {"slot1_2@h": "12.0"}


def test_an_answer_is_kept_while_its_starter_lives(start, ask):
    scratch = start()
    ask(slot1_1_at_h=[501])
    (scratch / ".job.ad").write_text("ClusterId = 99\nProcId = 0\n")
    assert ask(slot1_1_at_h=[501], looks=100) == {SLOT: "12.0"}


def test_an_ad_that_comes_late_is_waited_for(start, ask):
    scratch = start()
    (scratch / ".job.ad").rename(scratch / "x")
    assert ask(slot1_1_at_h=[501], looks=2) == {}
    (scratch / "x").rename(scratch / ".job.ad")
    assert ask(slot1_1_at_h=[501], looks=4) == {SLOT: "12.0"}


@pytest.mark.parametrize("name", [b"bash", b"condor_starte"])
def test_only_a_starter_is_a_starter(node, start, ask, name):
    start()
    node.process(500, name=name)
    assert ask(slot1_1_at_h=[501]) == {}


def test_a_process_of_a_job_is_no_starter_whatever_it_is_called(node, start, ask):
    """A job that forks until one of its processes has the number of a directory that was left behind."""
    start()
    node.process(700, name=b"condor_starter", ppid=500)
    start(700, 701, cluster=99)
    node.process(700, name=b"condor_starter", ppid=500)
    batch = {pid: match_path(GROUP) for pid in (700, 701)}
    assert ask(batch=batch, slot1_1_at_h=[701]) == {SLOT: "12.0"}


def test_the_ad_of_another_slot_is_refused_and_counted(start, ask, unreadable):
    start(slot="slot1_2@h")
    assert ask(slot1_1_at_h=[501]) == {}
    assert unreadable.counts == {"htcondor_ad_garbage": 1}


def test_a_directory_where_anybody_may_write_proves_nothing(start, ask, execute, unreadable):
    start()
    execute.chmod(0o777)
    assert ask(slot1_1_at_h=[501]) == {}
    assert unreadable.counts == {"htcondor_execute_eperm": 1}


@pytest.mark.parametrize("name", [".job.ad", ".machine.ad"])
def test_links_and_pipes_in_place_of_an_ad_are_refused(start, ask, unreadable, name):
    scratch = start()
    (scratch / name).rename(scratch / "real")
    (scratch / name).symlink_to("real")
    assert ask(slot1_1_at_h=[501]) == {}
    (scratch / name).unlink()
    os.mkfifo(scratch / name)
    assert ask(slot1_1_at_h=[501]) == {}
    assert unreadable.counts == {"htcondor_ad_eperm": 2}


def test_a_number_that_a_user_claims_is_not_taken_from_the_job_that_has_it(start, ask, monkeypatch):
    start(500, 501, SLOT, cluster=12)
    start(600, 601, "slot1_2@h", cluster=12)
    users_own = os.fspath(start(700, 701, "slot1_3@h", cluster=77))
    real = os.lstat

    def lstat(path, **more):
        found = real(path, **more)
        if "dir_600" in str(path) or str(path).startswith(users_own):
            return os.stat_result([*found[:4], found.st_uid + 4711, *found[5:10]])
        return found

    monkeypatch.setattr(os, "lstat", lstat)
    for _ in range(2):
        numbers = ask(slot1_2_at_h=[601], slot1_1_at_h=[501], slot1_3_at_h=[701])
        assert numbers == {SLOT: "12.0", "slot1_3@h": "77.0"}


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_what_cannot_be_read_is_counted(start, ask, fail_opening, unreadable, number):
    start()
    fail_opening("/.job.ad", number)
    assert ask(slot1_1_at_h=[501]) == {}
    assert unreadable.counts == {f"htcondor_ad_{errno.errorcode[number].lower()}": 1}


@pytest.mark.parametrize(
    ("text", "job_id"),
    [
        ("ClusterId = 12\nProcId = 3\n", "12.3"),
        ("clusterid = 12\nPROCID = 0\n", "12.0"),
        ("ClusterId = 12\n", None),
        ("ProcId = 12\n", None),
        ("ClusterId = 0\nProcId = 1\n", None),
        ("ClusterId = 1\nProcId = -1\n", None),
        ('ClusterId = "12"\nProcId = 3\n', None),
        ("ClusterId = true\nProcId = 3\n", None),
        ("ClusterId = 10 + 2\nProcId = 3\n", None),
    ],
)
def test_the_job_id_is_cluster_and_process(text, job_id):
    assert parse_job_id(parse_ad(text)) == job_id


@pytest.mark.parametrize(
    ("name", "slot", "expected"),
    [
        ("slot1@h", "slot1@h", True),
        ("slot1@h", "slot1", True),
        ("slot1@h", "slot2", False),
        ("slot1@a", "slot1@b", False),
        ("slot11@h", "slot1", False),
    ],
)
def test_a_machine_ad_belongs_to_the_slot_that_it_names(name, slot, expected):
    assert is_ad_of_slot(ClassAd({"name": name}), slot) is expected
    assert is_ad_of_slot(ClassAd(), slot)


@given(st.text(alphabet='ClusterIdProcNam ="\\\n0123456789-', max_size=80))
def test_any_ad_gives_a_job_id_or_none(text):
    try:
        ad = parse_ad(text)
    except ParseError:
        return
    job_id = parse_job_id(ad)
    assert job_id is None or job_id.replace(".", "", 1).isdigit()


def test_a_slot_s_job_is_the_one_that_the_batch_source_tells_of(node, start, ask, execute):
    for scratch in (start(500, 501, SLOT, cluster=12), start(600, 601, "slot1_2@h", cluster=12, proc=3)):
        if os.geteuid() == 0:  # as a starter does, once the ads are there
            os.chown(scratch, 6001, 6001)
    found = ask(slot1_1_at_h=[501], slot1_2_at_h=[601])
    config = settings_for(
        "htcondor",
        htcondor_execute_directory=str(execute),
        htcondor_condor_status="true",
        path_procfs=str(node.proc),
    )
    told = CondorSource(config, SystemClock(), "h").poll_jobs(()).jobs
    assert {JobKey("htcondor", number) for number in found.values()} == set(told)
    assert told[JobKey("htcondor", found["slot1_2@h"])].processes == {600}  # its starter


# --- other folders, several slots ---------------------------------------------------------------


def test_a_slot_whose_starter_works_below_another_execute_has_the_job_there(
    node, start, ask, execute, unreadable
):
    scratch = start()
    other = execute.parent / "execute2"
    other.mkdir()
    other.chmod(0o755)
    scratch.rename(other / scratch.name)
    (node.proc / "500/cwd").symlink_to(other / scratch.name)
    (node.proc / "500/status").write_text("Name:\tcondor_starter\nUid:\t0\t101\t0\t101\n")
    assert ask(slot1_1_at_h=[501]) == {SLOT: "12.0"}
    assert unreadable.counts == {}


@pytest.mark.parametrize("uid", [6001, os.getuid() or 6001])
def test_where_a_user_s_process_works_decides_nothing(node, start, ask, execute, uid):
    scratch = start()
    other = execute.parent / "execute2"
    other.mkdir()
    scratch.rename(other / scratch.name)
    (node.proc / "500/cwd").symlink_to(other / scratch.name)
    (node.proc / "500/status").write_text(f"Name:\tcondor_starter\nUid:\t{uid}\t0\t0\t0\n")
    assert ask(slot1_1_at_h=[501]) == {}


@pytest.mark.parametrize(("universes", "found"), [((11, 11), 2), ((11, 5), 1), ((5, 5), 1)])
def test_slots_of_a_parallel_job_are_all_its_own(start, ask, universes, found):
    for number, universe in enumerate(universes):
        ad = start(500 + 10 * number, 501 + 10 * number, f"slot1_{number + 1}@h") / ".job.ad"
        ad.write_text(f"{ad.read_text()}JobUniverse = {universe}\n")
        if os.geteuid() == 0:
            os.chown(ad.parent, 6001, 6001)
    numbers = ask(slot1_1_at_h=[501], slot1_2_at_h=[511])
    assert set(numbers.values()) == {"12.0"}
    assert len(numbers) == found


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: directories are given away")
def test_a_user_cannot_join_another_s_parallel_job(start, ask):
    for number, uid in enumerate((6001, 6002)):
        ad = start(500 + 10 * number, 501 + 10 * number, f"slot1_{number + 1}@h") / ".job.ad"
        ad.write_text(f"{ad.read_text()}JobUniverse = 11\n")
        os.chown(ad.parent, uid, uid)
    assert list(ask(slot1_1_at_h=[501], slot1_2_at_h=[511]).values()) == ["12.0"]
