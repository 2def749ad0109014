"""What Slurm and HTCondor say of a node's jobs, beside what is seen of them. Answers and files are constructed."""

import time
from dataclasses import replace

import pytest

from jobfeatures.errors import SourceError
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures_exporter.model.missing import DaemonGroups
from jobfeatures_exporter.model.snapshot import FigureSource, JobSample
from jobfeatures_exporter.sampling.layout.hierarchies import ORDINARY, Places
from jobfeatures_exporter.startup import sitesays
from jobfeatures_exporter.startup.findings import Mark
from jobfeatures_exporter.startup.sitesays import (
    hidden_features,
    jobs_without_group,
    listed_jobs,
    refused_places,
    unseen_processes,
)
from jobfeatures_exporter.state.daemongroups import LOST
from tests.configured import changed, configured

NOW = 1_800_000_000


@pytest.fixture
def say(tmp_path, monkeypatch):
    """Return what lets commands print these texts, by name; and a file of Slurm's configuration hold one."""
    monkeypatch.setattr(sitesays, "CONFIGLESS", str(tmp_path / "conf-cache"))
    (tmp_path / "conf-cache").mkdir()

    def say(printed, **files):
        def asked(_system, command, *_arguments, **_more):
            answer = printed[command.rpartition("/")[2]]
            if isinstance(answer, Exception):
                raise answer
            return answer.replace("{etc}", str(tmp_path))

        for name, text in files.items():
            (
                tmp_path / name.replace("__", "/").replace("_conf", ".conf").replace("_yaml", ".yaml")
            ).write_text(text)
        monkeypatch.setattr(sitesays, "run_query", asked)
        return configured(slurm_scontrol="/opt/slurm/bin/scontrol")

    return say


@pytest.fixture(autouse=True)
def it_is_now(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: NOW)


def running(*ids, state=JobState.RUNNING, start_secs=NOW - 3600):
    return [Job(key=JobKey("slurm", each), state=state, start_secs=int(start_secs)) for each in ids]


POD = (
    "/kubepods.slice/kubepods-pod0a1b2c3d_0a1b_0a1b_0a1b_0123456789ab.slice/cri-containerd-"
    + "0123456789ab" * 5
)
POD += "0123.scope"


class Groups:
    """Stands in for /proc: what is seen of the batch system's daemon."""

    def __init__(self, *parents, group="/system.slice/slurmd.service", makes_none=False):
        self.daemon = DaemonGroups("slurmd", group, parents, makes_none)

    def paths(self, _pid):
        return ()

    def of_system(self, _name, _ids):
        return self.daemon

    def why_unseen(self):
        return "see to it"


@pytest.fixture
def judged(make_table, context):
    """Return what judges jobs of which some have a group."""

    def judged(jobs, *seen, groups=None, groupless=(), places=ORDINARY, unconfirmed=()):
        samples = [
            JobSample(key=JobKey("slurm", each), accounting=FigureSource.CGROUP, in_group=True)
            for each in seen
        ]
        snapshot = replace(
            context.snapshot,
            jobs={each.key: each for each in samples},
            unconfirmed=[JobKey("slurm", each) for each in unconfirmed],
        )
        table = replace(make_table(*jobs), groupless=frozenset(JobKey("slurm", each) for each in groupless))
        found = jobs_without_group("slurm", table, snapshot, places, groups or Groups())
        return [(each.mark, each.words, each.remedy) for each in found]

    return judged


def test_slurm_lists_the_jobs_of_which_no_control_group_tells(tmp_path):
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\nprintf '154\\n160\\nsqueue: warning ../7\\n'\n")
    squeue.chmod(0o755)
    config = configured(slurm_scontrol=str(tmp_path / "scontrol"))
    assert listed_jobs("slurm", config, "n1") == {JobKey("slurm", "154"), JobKey("slurm", "160")}
    assert listed_jobs("pbs", config, "n1") == frozenset()  # its source lists them itself
    assert listed_jobs("slurm", changed(config, slurm_ask="controller"), "n1") == frozenset()
    squeue.unlink()
    with pytest.raises(SourceError):
        listed_jobs("slurm", config, "n1")


def test_jobs_run_and_have_no_group_that_is_found_is_wrong(judged):
    told = "running here: no control group is found; slurmd's control group is /system.slice/slurmd.service"
    (one,) = judged(running("154"))
    assert one[:2] == (Mark.WRONG, f"job 154 of 1 {told}")
    (two,) = judged(running("7", "8", "9"), "8")
    assert two[:2] == (Mark.WRONG, f"job 7 and 1 more of 3 {told}")
    assert judged(running("7", "8"), "7", "8") == []
    assert judged(running("7"), unconfirmed=["7"]) == []  # its group waits for Slurm's word
    assert judged(running("7", start_secs=NOW - 10)) == []  # in its prolog
    for state in (JobState.PENDING, JobState.COMPLETING, JobState.SUSPENDED, JobState.UNKNOWN):
        assert judged(running("7", state=state)) == []


@pytest.mark.parametrize(
    ("groups", "remedy"),
    [
        (Groups("/site/batch"), 'set batch.cgroup_parents = ["/site/batch"]'),
        (Groups("/a", "/b\x1b"), 'set batch.cgroup_parents = ["/a", "/b?"]'),
        (
            Groups(group=f"{POD}/system.slice/slurmd.service"),
            'set batch.cgroup_parents = ["/kubepods.slice/kubepods-pod*.slice/cri-containerd-*.scope"]',
        ),
        (
            Groups("/lxc.payload.7/system.slice", f"{POD}/system.slice", group=f"{POD}/system.slice/slurmd"),
            'set batch.cgroup_parents = ["/kubepods.slice/kubepods-pod*.slice/cri-containerd-*.scope/system.slice"]',
        ),
        (
            Groups(
                "/machine.slice/x.scope", group="/lxc.payload.7/system.slice/lab7_slurmstepd.scope/slurmd"
            ),
            'set batch.cgroup_parents = ["/lxc.payload.7"]',
        ),
        (Groups(), "set batch.cgroup_parents to the groups above those of jobs: docs/control-groups.md"),
        (Groups(group=None), "see to it"),
        (Groups(group=""), LOST),
    ],
)
def test_what_to_set_is_said_by_where_the_daemon_s_processes_stand(judged, groups, remedy):
    ((_, _, said),) = judged(running("7"), groups=groups)
    assert said == remedy


def test_why_a_place_is_refused_that_would_have_to_be_named(judged):
    places = Places((), {"/site/batch": "it belongs to uid 1000"})
    ((_, _, said),) = judged(running("7"), groups=Groups("/site/batch"), places=places)
    assert said == 'set batch.cgroup_parents = ["/site/batch"] (below /site/batch: it belongs to uid 1000)'
    (found,) = refused_places(places)
    assert (found.mark, found.words) == (
        Mark.NOTE,
        "those below /site/batch look like those of jobs, but are ignored: it belongs to uid 1000",
    )


def test_of_refused_groups_the_first_are_named_with_what_to_set_and_the_rest_counted():
    pod = f"{POD}/system.slice"
    places = Places((), {pod: "it is in a container", **{f"/x{number:04}": "no" for number in range(2_000)}})
    first, *others, last = refused_places(places)
    wanted = '"/kubepods.slice/kubepods-pod*.slice/cri-containerd-*.scope/system.slice"'
    assert first.remedy == f"if they are jobs', set batch.cgroup_parents = [{wanted}]: docs/control-groups.md"
    assert len(others) == 9
    assert last.words == "1991 more of this kind are ignored"


def test_jobs_of_which_no_group_is_to_be_expected_are_a_note(judged):
    told = "running here have no control group, as is normal"
    for more in ({"groupless": ["7"]}, {"groups": Groups(makes_none=True)}):
        ((mark, words, _),) = judged(running("7"), **more)
        assert (mark, words) == (Mark.NOTE, f"job 7 of 1 {told}")


def test_processes_that_are_hidden_or_whose_groups_cannot_be_told_are_wrong(tmp_path):
    config = configured(path_procfs=str(tmp_path), path_cgroup=str(tmp_path))
    (hidden,) = unseen_processes(config)
    assert (hidden.mark, hidden.what) == (Mark.WRONG, "processes")
    assert "hidepid" in hidden.remedy
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "cgroup").write_text("0::/init.scope\n")
    assert list(unseen_processes(config)) == []
    (tmp_path / "1" / "cgroup").write_text("0::/../../init.scope\n")
    (lost,) = unseen_processes(config)
    assert (lost.mark, lost.what) == (Mark.WRONG, "control groups")
    assert "--cgroupns=host" in lost.remedy


TMPFS = "JobContainerType = job_container/tmpfs\nSLURM_CONF = {etc}/slurm.conf\n"
LINUX = "NamespaceType = namespace/linux\nSLURM_CONF = {etc}/slurm.conf\n"


@pytest.mark.parametrize(
    ("kind", "file", "hidden"),
    [
        (TMPFS, "AutoBasePath=true\nBasePath=/var/jc\n", None),  # by default /tmp and /dev/shm
        (TMPFS, "BasePath=/var/jc Dirs=/tmp,/run # and so\n", "/run"),
        (TMPFS, "BasePath=/var/jc dirs=/run/jobfeatures/\n", "/run/jobfeatures"),
        (TMPFS, "BasePath=/x Dirs=/tmp #,/run\n", None),
        (TMPFS, "NodeName=n[2-4] BasePath=/x Dirs=/run\nBasePath=/x Dirs=/tmp\n", None),
        (TMPFS, "NodeName=n[1-4] BasePath=/x Dirs=/run\nBasePath=/x Dirs=/tmp\n", "/run"),
        (TMPFS, "BasePath=/x Dirs=/running,/run/job\n", None),
        (TMPFS, 'BasePath = /x Dirs = "/tmp, /run"\n', "/run"),
        (
            TMPFS.replace("JobContainerType = job_container", "NamespaceType = namespace"),
            "Dirs=/run\n",
            "/run",
        ),
        (LINUX, 'defaults:\n  base_path: /x\n  dirs: "/tmp,/run"\n', "/run"),
        (LINUX, "node_confs:\n  - nodes: n1\n    options:\n      dirs: /tmp\n", None),
        (LINUX, 'defaults:\n  dirs:\n    - /tmp\n    - "/run"\n  base_path: /run/jobfeatures\n', "/run"),
        (LINUX, "defaults: {dirs: '/tmp,/run', base_path: /x}\n", "/run"),
        (LINUX, 'defaults:\n  "dirs": ["/tmp", "/run"]\n', "/run"),
        (LINUX, "defaults:\n  dirs: /tmp\nnode_confs:\n  - nodes: /run\n", None),
        (LINUX, 'defaults:\n  dir_confs:\n    - path: "/run"\n      tmpfs: true\n', "/run"),  # real
        (LINUX, "defaults: {dir_confs: [{tmpfs: true, 'path': '/run'}]}\n", "/run"),
        (LINUX, "defaults:\n  dir_confs:\n    - base_path: /run\n      path: /tmp\n", None),
        ("JobContainerType = (null)\n", "Dirs=/run\n", None),
        ("JobContainerType = job_container/none\n", "Dirs=/run\n", None),
    ],
)
@pytest.mark.parametrize("place", ["", "conf-cache__"])
def test_a_folder_of_features_that_slurm_hides_from_jobs_is_wrong(say, kind, file, hidden, place):
    name = "namespace_yaml" if kind == LINUX else "job_container_conf"
    found = list(hidden_features("slurm", say({"scontrol": kind}, **{f"{place}{name}": file}), "n1"))
    assert [each.mark for each in found] == ([Mark.WRONG] if hidden else [])
    assert all(
        f"gives each job a {hidden} of its own, in which it cannot find /run/jobfeatures" in each.words
        for each in found
    )


def test_what_htcondor_mounts_elsewhere_is_read_too(say):
    for text, count in (("/tmp,/var/tmp", 0), ('"/tmp, /run"', 1), ("Not defined: MOUNT_UNDER_SCRATCH", 0)):
        config = say({"condor_config_val": text})
        assert len(list(hidden_features("htcondor", config, "n1"))) == count
        assert list(hidden_features("htcondor", changed(config, features_publish=False), "n1")) == []


def test_what_cannot_be_read_is_unknown_and_who_does_not_answer_is_named_elsewhere(say):
    (finding,) = hidden_features("slurm", say({"scontrol": TMPFS}), "n1")
    assert (finding.mark, "job_container.conf" in finding.words) == (Mark.NOTE, True)
    assert list(hidden_features("slurm", say({"scontrol": SourceError("no answer")}), "n1")) == []
    assert list(hidden_features("pbs", say({}), "n1")) == []


def test_nodes_that_nobody_can_read_leave_it_unknown(say):
    config = say({"scontrol": TMPFS}, job_container_conf="NodeName=n[1- Dirs=/run\n")
    (finding,) = hidden_features("slurm", config, "n1")
    assert (finding.mark, finding.words.startswith("which folders jobs see is unknown: ")) == (
        Mark.NOTE,
        True,
    )
