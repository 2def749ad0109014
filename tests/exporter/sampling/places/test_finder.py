"""Jobs below parents that nobody has thought of; the groups are made up after what batch systems write."""

import pytest

from jobfeatures.batch.oar import site as oar_site
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import Kind, UnitKey
from jobfeatures_exporter.sampling.places import finder as finder_module
from tests.configured import changed
from tests.exporter.sampling.places.staging import HEX, SLURMD, jobs_of, running

SCOPE = "/site.slice/site-batch.slice/site-batch-fast.slice/n1_slurmstepd.scope"
POD = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0.slice/cri-containerd-{HEX}.scope"
PODS = "/kubepods.slice/*/*/cri-containerd-*.scope"
NAME = f"cri-{HEX[:12]}"


@pytest.fixture
def slurm(host):
    """Slurm with CgroupSlice in the third of three slices, and a job there."""
    host.process(500, "slurmd", SLURMD)
    host.process(501, "slurmstepd", f"0::{SCOPE}/system\n")
    host.job(f"{SCOPE}/job_7", 700, user_usec=3_000_000)
    return host


def test_a_job_of_slurm_below_unknown_slices_is_read_without_a_setting(slurm, make):
    finder = slurm.finder()
    assert finder.places().refused == {}
    job = jobs_of(make(jobs=lambda: running("slurm", "7"), places=finder.places).sample())["7"]
    assert (job.user_cpu_secs, job.processes, job.cgroup, job.node) == (3.0, 1, f"{SCOPE}/job_7", "n1")


def test_a_look_says_whether_other_places_or_other_shapes_count_now(slurm):
    finder = slurm.finder()
    assert finder.search() == (False, False)
    (slurm.node.cgroup / SCOPE[1:].split("/", maxsplit=1)[0]).rename(slurm.node.cgroup / "gone")
    assert finder.search() == (True, False)
    finder.reconfigure(changed(slurm.settings, batch_cgroup_parents=(PODS,)), lambda: slurm.systems)
    assert finder.search() == (False, True)


def test_the_same_groups_made_by_hand_without_a_daemon_are_no_job_counted_and_named_once(host, make, caplog):
    host.job(f"{SCOPE}/job_7", 700, user_usec=3_000_000)
    finder = host.finder()
    finder.search()
    snapshot = make(jobs=lambda: running("slurm", "7"), places=finder.places).sample()
    assert jobs_of(snapshot) == {}
    assert snapshot.unreadable == {"job_places_refused": 1}
    assert (
        caplog.text.count("no daemon of slurm runs on this host; if they are jobs, set batch.cgroup_parents")
        == 1
    )
    assert SCOPE.rpartition("/")[0] in caplog.text


def test_of_thousands_that_are_refused_some_are_named_and_all_counted(host, caplog, monkeypatch):
    monkeypatch.setattr(finder_module, "MAX_NAMED", 2)
    finder = host.finder()
    for number in range(5):
        host.job(f"/site.slice/site-a{number}.slice/slurmstepd.scope/job_7", 700)
    finder.search()
    finder.search()
    assert finder.places().refusals == 5
    assert len(caplog.records) == 2


def test_before_the_batch_system_says_that_it_runs_here_it_is_no_job_but_is_asked_about(slurm, make):
    jobs = {}
    sampler = make(jobs=lambda: jobs, places=slurm.finder().places)
    snapshot = sampler.sample()
    assert jobs_of(snapshot) == {}
    assert {key.job_id for key in snapshot.unconfirmed} == {"7"}
    jobs.update(running("slurm", "7"))
    snapshot = sampler.sample()
    assert jobs_of(snapshot).keys() == {"7"}
    assert snapshot.unconfirmed == set()


def test_containers_are_followed_only_where_they_are_named(host):
    others = host.finder()
    named = host.finder(PODS)
    above, pod = POD.rpartition("/")[0], POD
    assert [others.skips(path) for path in (above, pod, f"{pod}/system.slice")] == [True] * 3
    assert [named.skips(path) for path in (above, pod, f"{pod}/system.slice")] == [False] * 3
    assert named.skips(f"{above}/crio-{HEX}.scope")
    assert named.skips("/user.slice")
    assert not others.skips(SCOPE)


def test_what_stands_in_a_container_without_a_name_is_told_though_it_is_not_followed(host, caplog):
    host.job(f"{POD}/system.slice/slurmstepd.scope/job_7", 700)
    finder = host.finder(candidates=())
    assert finder.places().refused == {f"{POD}/system.slice": "it is in a container"}
    assert caplog.text.count("it is in a container; if they are jobs, set batch.cgroup_parents") == 1


def test_a_sluid_below_unknown_slices_is_the_job_that_the_batch_system_says(slurm, make):
    slurm.job(f"{SCOPE}/s5K1KKYAYG5D00", 800)
    jobs = {**running("slurm", "7"), **running("slurm", "8", sluid="s5K1KKYAYG5D00")}
    found = jobs_of(make(jobs=lambda: jobs, places=slurm.finder().places).sample())
    assert {job_id: job.processes for job_id, job in found.items()} == {"7": 1, "8": 1}


def test_a_place_stays_while_its_jobs_do_though_its_daemon_has_ended_and_goes_with_its_directory(slurm, make):
    finder = slurm.finder()
    for pid in (500, 501):
        slurm.node.process(pid, cgroup="0::/\n")
        (slurm.node.proc / f"{pid}/comm").write_text("sleep\n")
    finder.search()
    assert jobs_of(make(jobs=lambda: running("slurm", "7"), places=finder.places).sample()).keys() == {"7"}
    (slurm.node.cgroup / SCOPE[1:].split("/", maxsplit=1)[0]).rename(slurm.node.cgroup / "gone")
    finder.search()
    assert finder.places().parents == {}


def test_a_job_is_found_when_its_place_is(slurm, make):
    """Processes that were no job's are asked again."""
    finder = slurm.finder()
    now = [type(finder.places())()]
    sampler = make(jobs=lambda: running("slurm", "7"), places=lambda: now[0])
    for _ in range(5):
        assert jobs_of(sampler.sample()) == {}
    now[0] = finder.places()
    assert jobs_of(sampler.sample())["7"].processes == 1


# --- containers --------------------------------------------------------------------------


@pytest.mark.parametrize("below", ["/system.slice", "/a.slice/a-b.slice", ""])
def test_jobs_of_a_slurmd_in_a_pod_count_where_the_pod_is_named_and_only_there(host, make, below, caplog):
    """The pod's container has what is not the jobs': no second is in both."""
    group = f"{POD}{below}/n2_slurmstepd.scope/job_7"
    host.job(group, 700, user_usec=3_000_000)
    host.process(600, "slurmd", f"0::{POD}{below}/slurmd.service\n", namespace="4026532000")
    jobs = lambda: running("slurm", "7")  # noqa: E731
    finder = host.finder()
    assert jobs_of(make(jobs=jobs, places=finder.places).sample()) == {}
    assert "it is in a container" in caplog.text
    snapshot = make(jobs=jobs, places=host.finder(PODS).places).sample()
    assert jobs_of(snapshot)["7"].user_cpu_secs == 3.0
    assert {pid: snapshot.key_of(pid) for pid in (600, 700)} == {
        600: UnitKey(Kind.CONTAINER, NAME),
        700: JobKey("slurm", "7"),
    }
    assert jobs_of(make(jobs=jobs, places=host.finder("/docker/*").places).sample()) == {}


def test_a_named_container_may_have_a_root_of_its_own_but_nobody_else_s_groups_in_it_count(
    host, make, caplog
):
    scope = host.job(f"{POD}/system.slice/n2_slurmstepd.scope/job_7", 700).parents[1]
    scope.chmod(0o777)
    finder = host.finder(PODS)
    assert finder.places().parents == {}
    assert "is not of the owner of" in caplog.text


def test_two_pods_with_one_number_are_never_summed(host, make):
    other = POD.replace("pod0", "pod1")
    host.job(f"{POD}/system.slice/slurmstepd.scope/job_7", 700, user_usec=3_000_000)
    host.job(f"{other}/system.slice/slurmstepd.scope/job_7", 701, user_usec=5_000_000)
    sampler = make(jobs=lambda: running("slurm", "7"), places=host.finder(PODS).places)
    for _ in range(3):
        [job] = jobs_of(sampler.sample()).values()
        assert (job.user_cpu_secs, job.processes) in {(3.0, 1), (5.0, 1)}


# --- other batch systems -----------------------------------------------------------------


def by_proof(host, make, system, daemon, group, job_id, unit=""):
    """Return whether a group is its job's only beside a proven daemon of its batch system."""
    host.job(group, 700, user_usec=2_000_000)
    jobs = lambda: running(system, job_id)  # noqa: E731
    before = jobs_of(make(jobs=jobs, places=host.finder().places).sample())
    host.process(500, daemon, f"0::/system.slice/{unit or daemon}.service\n")
    after = jobs_of(make(jobs=jobs, places=host.finder().places).sample())
    return before == {} and after[job_id].user_cpu_secs == 2.0


@pytest.mark.parametrize(
    ("group", "job_id"),
    [
        ("/pbspro.service/jobid/123.srv", "123"),
        ("/site.slice/x.slice/pbspro.service/jobs/0.srv", "0"),
        ("/pbspro/123.srv", "123"),
        ("/pbspro.slice/pbspro-123.srv.slice", "123"),
        (r"/pbspro/123\x5b4\x5d.srv", "123[4]"),
    ],
)
def test_pbs_with_another_prefix_is_read_beside_its_mom(host, make, group, job_id):
    host.systems = ["pbs"]
    assert by_proof(host, make, "pbs", "pbs_mom", group, job_id)


@pytest.mark.parametrize(
    ("prefix", "group"),
    [
        ("pbspro", "/pbspro.service/jobid/123.srv"),
        ("pbspro", "/pbspro/123"),
        ("pbspro", "/pbspro.slice/pbspro-123.slice"),
        ("a.b", "/site.slice/a.b.service/jobs/123.srv"),
    ],
)
def test_pbs_counts_below_the_prefix_of_its_hook_s_configuration_without_proof(host, make, prefix, group):
    host.settings = changed(host.settings, pbs_home=str(host.programs))
    (host.programs / "mom_priv/hooks").mkdir(parents=True, exist_ok=True)
    (host.programs / "mom_priv/hooks/pbs_cgroups.CF").write_text(f'{{"cgroup_prefix": "{prefix}"}}')
    host.systems = ["pbs"]
    host.job(group, 700)
    assert jobs_of(make(places=host.finder().places).sample()).keys() == {"123"}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"cgroup_prefix": "../x"}', '{"cgroup_prefix": 1}', "[" * 10_000]
)
def test_a_hook_s_configuration_that_cannot_be_read_names_nothing(host, text):
    host.settings = changed(host.settings, pbs_home=str(host.programs))
    (host.programs / "mom_priv/hooks").mkdir(parents=True)
    (host.programs / "mom_priv/hooks/pbs_cgroups.CF").write_text(text)
    host.systems = ["pbs"]
    assert host.finder().places().parents == {}


def test_lsf_is_read_below_a_named_parent_or_its_daemon(host, make):
    group = "/lsf/cluster1/job.12.3456.1700000000"
    assert by_proof(host, make, "lsf", "sbatchd", f"/system.slice/lsf.service{group}", "12", unit="lsf")
    host.job(f"/site{group}", 701)
    assert "/site/lsf/cluster1" in host.finder("/site").places().parents


def test_torque_is_read_below_another_parent(host, make):
    assert by_proof(host, make, "torque", "pbs_mom", "/site/torque/5-3.srv", "5-3")


def test_what_is_named_below_what_is_proven_needs_no_word(host, make):
    host.job("/site/torque/5-3.srv", 700)
    host.systems = ["torque"]
    host.process(500, "pbs_mom", "0::/system.slice/pbs.service\n")
    finder = host.finder("/site/torque")
    assert finder.places().parents.keys() == {"/site", "/site/torque"}
    assert jobs_of(make(places=finder.places).sample()).keys() == {"5-3"}


@pytest.mark.parametrize("group", ["/site/torque/5-3.srv", "/site/jobs/5-3"])
def test_torque_is_read_below_a_named_parent(host, make, group):
    host.job(group, 700)
    host.systems = ["torque"]
    assert jobs_of(make(places=host.finder().places).sample()) == {}
    parent = group.rpartition("/")[0]
    assert jobs_of(make(places=host.finder(parent).places).sample()).keys() == {"5-3"}


@pytest.mark.parametrize("parents", [("/site", "/site/pbspro"), ("/site/pbspro", "/site")])
def test_of_two_names_for_one_parent_either_suffices(host, make, parents):
    host.job("/site/pbspro/5.srv", 700)
    host.systems = ["pbs"]
    assert jobs_of(make(places=host.finder(*parents).places).sample()).keys() == {"5"}


def test_oar_is_read_below_another_parent_beside_its_own_sshd(host, make):
    assert by_proof(host, make, "oar", "sshd", "/site/oar/alice_10", "10", unit="oar-node")


def test_another_sshd_is_no_proof_of_oar(host, make):
    host.job("/site/oar/alice_10", 700)
    host.process(500, "sshd", "0::/system.slice/ssh.service\n")
    assert jobs_of(make(jobs=lambda: running("oar", "10"), places=host.finder().places).sample()) == {}


@pytest.mark.parametrize(
    "group", ["/site/cpuset/alice_b_10", "/site.slice/site-u6001.slice/site-u6001-j10.slice"]
)
def test_oar_is_read_below_the_path_of_its_configuration(host, make, monkeypatch, group):
    path = "/site/cpuset" if "cpuset" in group else "/site"
    (host.programs / "oar.conf").write_text(f'# x\nCPUSET_PATH="{path}"\n')
    monkeypatch.setattr(oar_site, "CONFIGURATION", str(host.programs / "oar.conf"))
    host.job(group, 700)
    assert jobs_of(make(places=host.finder().places).sample()) == {}
    host.systems = ["oar"]
    assert jobs_of(make(places=host.finder().places).sample()).keys() == {"10"}


@pytest.fixture
def condor(host):
    """HTCondor with another BASE_CGROUP, whose starter runs a job in a slot; EXECUTE is ours."""
    execute = host.programs / "execute"
    scratch = execute / "dir_650"
    scratch.mkdir(parents=True)
    (scratch / ".job.ad").write_text('ClusterId = 9\nProcId = 0\nGlobalJobId = "s1#9.0#1"\n')
    (scratch / ".machine.ad").write_text('Name = "slot1_1@h"\n')
    host.settings = changed(host.settings, htcondor_execute_directory=str(execute))
    return host


BASE = "/site/batch"


def test_htcondor_is_read_below_the_base_that_condor_config_val_tells(condor, tmp_path):
    """Without the right to look at its daemons, say."""
    (tmp_path / "condor_config_val").write_text("#!/bin/sh\necho /site/batch\n")
    (tmp_path / "condor_config_val").chmod(0o755)
    command = str(tmp_path / "condor_status")
    condor.settings = changed(condor.settings, htcondor_condor_status=command)
    condor.systems = ["htcondor"]
    condor.job(f"{BASE}/condor_var_execute_slot1_1@h", 700)
    [parent] = condor.finder().places().parents.values()
    assert (parent.path, parent.is_proven) == (BASE, False)


def test_htcondor_with_another_base_is_read_below_its_daemon(condor, make):
    group = "/system.slice/condor.service/site/batch/condor_var_execute_slot1_1@h"
    condor.job(group, 700)
    condor.process(650, "condor_starter", "0::/system.slice/condor.service\n")
    finder = condor.finder()
    assert list(finder.places().parents) == ["/system.slice/condor.service/site/batch"]


def test_htcondor_s_daemons_may_run_as_the_owner_of_execute(condor, monkeypatch, make):
    parent = f"/system.slice/condor.service{BASE}"
    condor.job(f"{parent}/condor_var_execute_slot1_1@h", 700)
    condor.process(650, "condor_startd", "0::/system.slice/condor.service\n", uid=64)
    assert condor.finder().places().parents == {}
    monkeypatch.setattr("jobfeatures.batch.htcondor.scratch.find_owner", lambda path: 64)
    assert list(condor.finder().places().parents) == [parent]


@pytest.mark.parametrize("outer", ["/slurm/uid_6001/job_3", f"{SCOPE}/job_7/step_0/user/task_0"])
def test_a_glidein_within_a_batch_job_is_the_outer_job_s(slurm, make, outer):
    slot = f"{outer}/htcondor/condor_x_slot1_1@h"
    slurm.job(slot, 900)
    slurm.node.job_v2(outer.removeprefix("/"))
    slurm.process(901, "condor_startd", f"0::{outer}\n")
    finder = slurm.finder("/slurm", "/site.slice", "/slurm/uid_6001/job_3/htcondor")
    snapshot = make(jobs=lambda: running("slurm", "3", "7"), places=finder.places).sample()
    assert {key.batch_system for key in snapshot.jobs if isinstance(key, JobKey)} == {"slurm"}
    assert snapshot.key_of(900) == JobKey("slurm", "3" if "job_3" in outer else "7")


def test_what_has_a_mark_is_looked_for_anywhere_and_the_rest_at_named_parents(host):
    host.systems = ["torque"]
    finder = host.finder("/site/torque")
    assert ("[0-9]*",) in finder.shapes_at("/site/torque")
    assert ("[0-9]*",) not in finder.shapes_at("/site/x")
    assert ("*slurmstepd.scope", "[js]*") in finder.shapes_at("/site/x")
