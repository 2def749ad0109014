"""Jobs of several clusters with one number on one host; the groups are made up after what batch systems write."""

import shutil

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.node.knowledge import populated_groups
from jobfeatures_exporter.sonar.sample import identify
from tests.exporter.sampling.places.staging import HEX, SLURMD, jobs_of, running

OTHER = "f" * 64
PODS = "/kubepods.slice/*/cri-containerd-*.scope"
SCOPE = "system.slice/slurmstepd.scope"


def group_in(container, number=4):
    return f"/kubepods.slice/kubepods-pod0.slice/cri-containerd-{container}.scope/{SCOPE}/job_{number}"


NAMES = {container: f"cri-{container[:12]}" for container in (HEX, OTHER)}


def seconds(snapshot):
    return {
        job_id: (job.user_cpu_secs, job.processes, job.place) for job_id, job in jobs_of(snapshot).items()
    }


def test_jobs_of_two_clusters_in_two_containers_with_one_number_stay_two(host, make):
    host.job(group_in(HEX), 10, user_usec=1_000_000)
    host.job(group_in(OTHER), 20, user_usec=5_000_000)
    sampler = make(jobs=lambda: running("slurm", "4"), places=host.finder(PODS).places)
    for _ in range(2):
        snapshot = sampler.sample()
        assert seconds(snapshot) == {
            "4": (1.0, 1, NAMES[HEX]),
            f"4@{NAMES[OTHER]}": (5.0, 1, NAMES[OTHER]),
        }
        assert snapshot.keys[20] == JobKey("slurm", f"4@{NAMES[OTHER]}")
        assert snapshot.unreadable == {}
    ids = identify(snapshot)
    assert ids[10] == (
        4,
        0,
        True,
    )  # in Sonar's documents the other has no number of a job, and is none of this one's
    assert (ids[20].job, ids[20].epoch) == (20, snapshot.epoch)
    assert populated_groups(snapshot).keys() == {JobKey("slurm", "4")}  # the batch system knows of no other


def test_jobs_of_two_daemons_in_one_container_stay_two(host, make):
    top = group_in(HEX).removesuffix(f"/{SCOPE}/job_4")
    for below, pid in (("system.slice", 10), ("a.slice", 20), ("a.slice/a-b.slice", 30)):
        host.job(f"{top}/{below}/slurmstepd.scope/job_4", pid, user_usec=pid * 1_000_000)
    name = NAMES[HEX]
    assert seconds(make(places=host.finder(PODS).places).sample()) == {
        "4": (10.0, 1, name),
        f"4@{name}/a.slice": (20.0, 1, f"{name}/a.slice"),
        f"4@{name}/a.slice/a-b.slice": (30.0, 1, f"{name}/a.slice/a-b.slice"),
    }


def test_the_host_s_own_job_keeps_its_number_and_begins_anew_where_another_had_it(host, make):
    host.job(group_in(HEX), 10, user_usec=9_000_000)
    sampler = make(places=host.finder(PODS).places)
    before = sampler.sample()
    assert seconds(before) == {"4": (9.0, 1, NAMES[HEX])}
    host.job(f"/{SCOPE}/job_4", 30, user_usec=2_000_000)
    after = sampler.sample()
    assert seconds(after) == {"4": (2.0, 1, ""), f"4@{NAMES[HEX]}": (9.0, 1, NAMES[HEX])}
    assert jobs_of(after)["4"].run > jobs_of(before)["4"].run


def test_the_job_that_had_the_number_keeps_it_when_another_comes(host, make):
    """Though the other's container comes first by name."""
    host.job(group_in(OTHER), 20, user_usec=5_000_000)
    (host.node.cgroup / group_in(HEX)[1:]).parent.mkdir(parents=True)
    sampler = make(places=host.finder(PODS).places)
    before = jobs_of(sampler.sample())["4"]
    host.job(group_in(HEX), 10, user_usec=1_000_000)
    for _ in range(2):
        after = sampler.sample()
        assert seconds(after) == {"4": (5.0, 1, NAMES[OTHER]), f"4@{NAMES[HEX]}": (1.0, 1, NAMES[HEX])}
        assert jobs_of(after)["4"].run == before.run


@pytest.mark.parametrize("order", [(HEX, OTHER), (OTHER, HEX)])
def test_after_a_restart_the_same_job_has_the_number_by_the_kernel_s_count_of_groups(host, make, order):
    """The older group has the lower inode, whatever its container is called."""
    made = {each: host.job(group_in(each), 10 * number) for number, each in enumerate(order, 1)}
    first, second = sorted(order, key=lambda each: made[each].stat().st_ino)
    for _ in range(2):
        found = jobs_of(make(places=host.finder(PODS).places).sample())
        assert {job_id: job.place for job_id, job in found.items()} == {
            "4": NAMES[first],
            f"4@{NAMES[second]}": NAMES[second],
        }


def test_a_job_that_was_told_apart_stays_so_when_the_other_has_ended(host, make):
    first = host.job(group_in(HEX), 10, user_usec=1_000_000)
    host.job(group_in(OTHER), 20, user_usec=5_000_000)
    sampler = make(places=host.finder(PODS).places)
    sampler.sample()
    shutil.rmtree(first)
    host.node.end(10)
    assert seconds(sampler.sample()) == {f"4@{NAMES[OTHER]}": (5.0, 1, NAMES[OTHER])}
    host.job(group_in(HEX), 11, user_usec=1_000)
    assert seconds(sampler.sample()).keys() == {"4", f"4@{NAMES[OTHER]}"}


def test_a_number_that_only_another_job_s_batch_system_confirms_does_not_count_and_is_named_once(
    host, make, caplog
):
    """The daemon on the host proves the place, but its job of this number is the one at the ordinary place."""
    host.process(500, "slurmd", SLURMD)
    host.job(f"/{SCOPE}/job_4", 10, user_usec=1_000_000)
    host.job("/a.slice/b.slice/slurmstepd.scope/job_4", 20, user_usec=5_000_000)
    sampler = make(jobs=lambda: running("slurm", "4"), places=host.finder().places)
    for _ in range(2):
        snapshot = sampler.sample()
        assert seconds(snapshot) == {"4": (1.0, 1, "")}
        assert snapshot.unreadable == {"job_number_taken": 1}
        assert snapshot.unconfirmed == set()
    assert (
        caplog.text.count(
            "a control group below /a.slice/b.slice is ignored: its job number, 4, is that of another job; "
        )
        == 1
    )


def test_of_two_slots_of_one_name_one_counts_and_the_other_is_named_once(host, make, caplog, clock):
    """Two startd that call their host alike: each job by itself, never both in one."""
    for container, pid in ((HEX, 10), (OTHER, 20)):
        top = group_in(container).removesuffix(f"/{SCOPE}/job_4")
        host.job(f"{top}/htcondor/condor_x_slot1_1@h", pid, user_usec=pid * 1_000_000)
    sampler = make(places=host.finder(PODS).places)
    for _ in range(3):
        snapshot = sampler.sample()
        clock.advance(20)
    [(found, *more)] = seconds(snapshot).values()
    assert (found, *more) in {(10.0, 1, NAMES[HEX]), (20.0, 1, NAMES[OTHER])}
    assert snapshot.unreadable == {"job_number_taken": 1}
    assert (
        caplog.text.count(
            "its slot, slot1_1@h, is also that of another job, whose control group lies elsewhere: "
        )
        == 1
    )
