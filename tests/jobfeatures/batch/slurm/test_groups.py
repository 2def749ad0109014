"""Paths of Slurm's control groups, of every form; constructed from its plugins' sources."""

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures.records.model import Alias
from jobfeatures_exporter.sampling.layout.hierarchies import match_path

V2 = "/system.slice/slurmstepd.scope"


def slurm(job_id: str | None = None, **more) -> Membership:
    return Membership(batch_system="slurm", job_id=job_id, **more)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/slurm/uid_1000/job_12", slurm("12", uid=1000)),
        ("/slurm/uid_0/job_12/step_batch", slurm("12", uid=0, step="batch")),
        ("/slurm_n1/uid_6001/job_10/step_batch/task_0", slurm("10", uid=6001, step="batch", node="n1")),
        ("/slurm_a_b/uid_6001/job_10/step_0", slurm("10", uid=6001, step="0", node="a_b")),
        (f"{V2}/job_4/step_0/user/task_0", slurm("4", step="0")),
        (f"{V2}/job_4/step_extern/user/task_special", slurm("4", step="extern")),
        (f"{V2}/job_4/step_0/slurm", slurm("4", step="0")),
        (f"{V2}/job_4/step_interactive", slurm("4", step="interactive")),
        (f"{V2}/job_4", slurm("4")),
        (f"{V2}/job_4/step_0+1/user", slurm("4", step="0+1")),
        ("/system.slice/n1_slurmstepd.scope/job_4/step_0", slurm("4", step="0", node="n1")),
        ("/slurm.slice/n1_slurmstepd.scope/job_4", slurm("4", node="n1")),  # CgroupSlice, 26.05
        ("/slurm.slice/slurmstepd.scope/s5K1KKYAYG5D00", slurm(alias=Alias("sluid", "s5K1KKYAYG5D00"))),
        (f"{V2}/s5K1KKYAYG5D00/step_0/user/task_0", slurm(alias=Alias("sluid", "s5K1KKYAYG5D00"), step="0")),
        (f"{V2}/job_4/step_0/user/task_0 (deleted)", slurm("4", step="0")),
        ("/slurm/uid_1/job_2 (deleted)", slurm("2", uid=1)),
    ],
)
def test_a_path_of_slurm_names_its_job(path, expected):
    assert match_path(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "job_4",
        "/user.slice/user-1000.slice/session-1.scope",
        "/user.slice/user-1000.slice/user@1000.service/system.slice/slurmstepd.scope/job_99/step_0",
        "/user.slice/user-1000.slice/user@1000.service/slurm/uid_0/job_99",
        "/user.slice/slurmstepd.scope/job_99",
        "/a.slice/mine.service/x.slice/slurmstepd.scope/job_99",
        "/slurmstepd.scope/job_99",
        "/docker/abc/slurm/uid_1000/job_12",
        f"{V2}/system",
        f"{V2}/job_x",
        f"{V2}/job_0",
        f"{V2}/job_012",
        f"{V2}/job_-1",
        f"{V2}/job_٣",
        f"{V2}/job_12x/step_0",
        f"{V2}/s5K1KKYAYG5DOO",
        f"{V2}/s5K1KKYAYG5D000",
        f"{V2}/S5K1KKYAYG5D00",
        "/slurm/uid_x/job_12",
        "/slurm/job_12",
        "/slurmx/uid_1/job_12",
        "/slurm_/uid_1/job_12",
        "/slurm_a/b/uid_1/job_12",
        "/../system.slice/slurmstepd.scope/job_4",
        "/system.slice/slurmstepd.scope.d/job_4",
    ],
)
def test_any_other_path_is_no_job(path):
    assert match_path(path) is None


def test_a_job_may_make_groups_below_its_own_without_becoming_another():
    path = f"{V2}/job_4/step_0/user/task_0/slurm/uid_0/job_99/step_0"
    assert match_path(path) == slurm("4", step="0")
