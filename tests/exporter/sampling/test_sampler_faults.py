"""Whatever files hold, and however many jobs come and go: nobody else pays, and nothing is left behind."""

import errno
import gc
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.model.snapshot import FigureSource, GroupKey, Kind, UnitKey
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from tests.exporter.sampling.jobs import EPOCH, V2, slurm, v1


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_cpu_time_that_cannot_be_read_is_none_for_a_while(node, make, fail_opening, number):
    path = node.job_v2("job_4", user_usec=2_000_000)
    fail_opening("/cpu.stat", number)
    sampler = make()
    snapshot = sampler.sample()
    assert snapshot.jobs[slurm("4")].user_cpu_secs is None
    assert snapshot.jobs[slurm("4")].accounting is FigureSource.CGROUP
    assert snapshot.unreadable == {f"job_cpu_stat_{errno.errorcode[number].lower()}": 1}
    fail_opening("/cpu.stat", None)
    assert sampler.sample().jobs[slurm("4")].user_cpu_secs == 2.0
    (path / "cpu.stat").write_text("user_usec 1000000\nsystem_usec 0\n")
    assert sampler.sample().jobs[slurm("4")].user_cpu_secs == 2.0


def test_memory_of_a_sleeping_service_that_could_not_be_read_is_read_at_the_next_sample(node, make):
    status = node.process(10, cgroup="0::/system.slice/one.service\n", rss_kib=4) / "status"
    text = status.read_text()
    status.write_text("Name:\tx\n")
    sampler, key = make(), UnitKey(Kind.SERVICE, "one.service")
    assert sampler.sample().jobs[key].memory.anon is None
    status.write_text(text)
    assert sampler.sample().jobs[key].memory.anon == 4096


def test_a_process_list_that_cannot_be_read_ends_nothing(node, make, monkeypatch):
    node.process(10, user=100)
    sampler = make()
    before = sampler.sample()
    real = os.listdir

    def fake(path="."):
        if str(path) == str(node.proc):
            raise OSError(errno.EMFILE, "x")
        return real(path)

    monkeypatch.setattr(os, "listdir", fake)
    after = sampler.sample()
    assert after.jobs == before.jobs
    assert after.unreadable == {"process_list_emfile": 1}


def test_an_empty_node_has_an_empty_snapshot(tmp_path, clock):
    sampler = Sampler(SamplerSettings(procfs=str(tmp_path), cgroup=str(tmp_path / "none")), clock)
    snapshot = sampler.sample()
    assert (snapshot.jobs, snapshot.processes, snapshot.unreadable) == ({}, {}, {})
    assert snapshot.node.cpu is None
    sampler.close()


def test_closing_gives_all_descriptors_back(node, make, open_descriptors):
    node.job_v1("slurm/uid_1/job_2")
    node.process(10, cgroup=v1("/slurm/uid_1/job_2/step_0"))
    before = open_descriptors()
    sampler = make()
    sampler.sample()
    assert open_descriptors() == before + 8
    sampler.close()
    assert open_descriptors() == before


def size_of(root: object) -> int:
    """Return how many objects hang on this one, modules and classes aside."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type) or type(each).__name__ in {"module", "function"}:
            continue
        seen.add(id(each))
        todo.extend(gc.get_referents(each))
    return len(seen)


def test_thousands_of_ended_jobs_leave_nothing_behind(node, make, open_descriptors):
    """100 jobs at a time, 99 by number and one by SLUID, which are renamed to be the next 100."""
    names = [f"job_{number + 1}" for number in range(99)] + [f"s{0:013d}"]
    for name in names:
        node.job_v2(name)
    scope = node.cgroup / "system.slice/slurmstepd.scope"
    listed = JobKey("gridengine", "0")
    jobs = {listed: Job(key=listed, processes=frozenset({12}))}
    sampler = make(lambda: jobs)
    seen, sizes, descriptors = set(), [], []
    for look in range(21):
        node.process(10, start=look, cgroup=f"{V2}/{names[0]}/step_0/user\n")
        node.process(
            11,
            start=look,
            cgroup=f"{V2}/{names[99]}/step_0/user\n",
            environ=b"SLURM_JOB_ID=%d" % (10**6 + look),
        )
        node.process(12, start=look, ppid=10, pgid=1000 + look, user=look, children_user=look)
        seen |= sampler.sample().jobs.keys()
        if look in {10, 20}:
            gc.collect()
            sizes.append(size_of(sampler))
            descriptors.append(open_descriptors())
        following = [f"job_{(look + 1) * 100 + number + 1}" for number in range(99)] + [f"s{look + 1:013d}"]
        for old, new in zip(names, following, strict=True):
            (scope / old).rename(scope / new)
        names = following
        jobs = {
            listed: jobs[listed],
            JobKey("gridengine", str(look)): Job(key=listed, sessions=frozenset({look})),
        }
    assert sum(isinstance(key, JobKey) for key in seen) >= 2_000
    assert sizes[1] == pytest.approx(sizes[0], abs=50)
    assert descriptors[1] == descriptors[0]


@given(
    files=st.dictionaries(
        st.sampled_from(["stat", "status", "cgroup", "cmdline", "environ"]), st.binary(max_size=80)
    )
)
def test_any_bytes_in_any_file_cost_nobody_else(node, make, files):
    node.process(10)
    path = node.process(11)
    for name, data in files.items():
        (path / name).write_bytes(data)
    sampler = make()
    for _ in range(2):
        assert sampler.sample().jobs[GroupKey(10, EPOCH)].processes == 1
    sampler.close()


COUNTERS = st.integers(0, 2**64 - 1)


FILES = {
    "memory.events": st.builds("max {}\noom_kill {}\n".format, COUNTERS, COUNTERS),
    "io.stat": st.builds("8:{} rbytes={} wbytes=1 rios=1 wios=1\n".format, st.integers(0, 2), COUNTERS),
    "cpu.pressure": st.builds("some avg10=0.00 avg60=0.00 avg300=0.00 total={}\n".format, COUNTERS),
    "cpu.stat": st.builds("user_usec {}\nsystem_usec {}\n".format, st.integers(0, 10**12), st.integers(0, 9)),
}


@given(
    looks=st.lists(
        st.fixed_dictionaries(
            {name: st.none() | st.binary(max_size=9) | texts for name, texts in FILES.items()}
        ),
        max_size=8,
    )
)
def test_counters_that_vanish_begin_anew_or_turn_to_garbage_never_fall_and_are_never_a_false_zero(
    node, make, looks, monkeypatch
):
    # A kept descriptor of a plain file outlives it; one of the kernel's does not.
    monkeypatch.setattr(DescriptorBudget, "take", lambda *_: False)
    group = node.job_v2("job_4")
    sampler = make()
    told: dict[object, float] = {}
    without_pressure = 0
    for look in looks:
        for name, content in look.items():
            path = group / name
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        job = sampler.sample().jobs[slurm("4")]
        now = {
            "kills": job.oom_kills,
            "hits": job.memory_limit_hits,
            "read": job.block_io and job.block_io.read_bytes,
            "user": job.user_cpu_secs,
            "pressure": job.pressure_secs.get(("cpu", "some")),
        }
        known = {name: value for name, value in now.items() if value is not None}
        assert all(value >= told.get(name, 0) for name, value in known.items())
        told.update(known)
        if look["memory.events"] is None:
            assert job.oom_kills is None
        without_pressure = without_pressure + 1 if look["cpu.pressure"] is None else 0
        if without_pressure >= 4:  # by then each file has had its turn
            assert job.pressure_secs == {}
    sampler.close()
