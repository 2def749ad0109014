"""The paths of HTCondor, PBS, Torque and LSF; constructed after their manuals and sources."""

import pytest

from exporter.sampling.hierarchies import match_path
from exporter.sampling.hierarchies.membership import Membership


def slot(name: str) -> Membership:
    return Membership(batch_system="htcondor", slot=name)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/htcondor/condor_var_lib_condor_execute_slot1", slot("slot1")),
        ("/htcondor/condor_var_lib_condor_execute_slot1_12@node7.example.org", slot("slot1_12@node7.example.org")),
        ("/system.slice/condor.service/htcondor/condor_var_lib_condor_execute_slot1_1@h", slot("slot1_1@h")),
        ("/system.slice/htcondor.service/htcondor/condor_scratch_slot2@h/leaf", slot("slot2@h")),
        ("/system.slice/htcondor/condor_var_lib_condor_execute_slot1_1@h", slot("slot1_1@h")),
        ("/htcondor/condor_a_slot1_1_slot2_3@my_host1", slot("slot2_3@my_host1")),
        ("/htcondor/condor_x_backfill1_1@h", slot("backfill1_1@h")),
        (r"/htcondor/condor_x_slot1_1@a\x2db", slot("slot1_1@a-b")),
        ("/htcondor/condor_x_slot1_1@name@h (deleted)", slot("slot1_1@name@h")),
    ],
)  # fmt: skip
def test_a_path_of_htcondor_names_its_slot(path, expected):
    assert match_path(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "/htcondor",
        "/htcondor/condor_master",
        "/htcondor/other_slot1_1@h",
        "/htcondor/x/condor_x_slot1_1@h",
        "/htcondor/condor_x_slot1_1@",
        "/htcondor/condor_x_slot@h",
        "/htcondor/condor_x_slot٣@h",
        "/system.slice/mine.service/htcondor/condor_x_slot1_1@h",
        "/user.slice/user-1.slice/user@1.service/condor.service/htcondor/condor_x_slot1_1@h",
    ],
)
def test_any_other_path_is_no_slot(path):
    assert match_path(path) is None


@pytest.mark.parametrize(
    ("path", "job_id"),
    [
        ("/pbs_jobs.service/jobid/1234.pbs01", "1234"),
        ("/pbs_jobs.service/jobid/1234[5].pbs01.example.org", "1234[5]"),
        ("/pbs_jobs.service/jobs/1234.pbs01/leaf", "1234"),
        ("/pbs_jobs.service/jobs/1234", "1234"),
        ("/pbs.slice/pbs_jobs.service/jobs/7.s", "7"),
        ("/system.slice/pbs_jobs.service/jobs/7.s", "7"),
        (r"/pbs_jobs.service/jobs/1234\x5b5\x5d.pbs01", "1234[5]"),
    ],
)
def test_a_path_of_pbs_names_its_job(path, job_id):
    assert match_path(path) == Membership(batch_system="pbs", job_id=job_id)


@pytest.mark.parametrize(
    "path",
    [
        "/pbs_jobs.service",
        "/pbs_jobs.service/jobid",
        "/pbs_jobs.service/1234.pbs01",
        "/pbs_jobs.service/jobid/x.pbs01",
        "/pbs_jobs.service/jobid/0.pbs01",
        "/pbs_jobs.service/jobid/1234[].pbs01",
        "/pbs_jobs.service/jobid/1234x",
        "/user.slice/pbs_jobs.service/jobs/7.s",
        "/a.slice/b.slice/pbs_jobs.service/jobs/7.s",
    ],
)
def test_any_other_path_is_no_job_of_pbs(path):
    assert match_path(path) is None


@pytest.mark.parametrize(
    ("path", "job_id"),
    [
        ("/torque/1182958.batch.host", "1182958"),
        ("/torque/123[4].server", "123[4]"),
        ("/torque/123-4.server", "123-4"),
        ("/torque/123/R0.t0", "123"),
    ],
)
def test_a_path_of_torque_names_its_job(path, job_id):
    assert match_path(path) == Membership(batch_system="torque", job_id=job_id)


@pytest.mark.parametrize("path", ["/torque", "/torque/x.server", "/torque/0.server", "/torque/12x.server"])
def test_any_other_path_is_no_job_of_torque(path):
    assert match_path(path) is None


@pytest.mark.parametrize(
    ("path", "job_id"),
    [
        ("/lsf/cluster1/job.1234.5678.1700000000", "1234"),
        ("/lsf/cluster1/job.1234[5].5678.1700000000/leaf", "1234[5]"),
    ],
)
def test_a_path_of_lsf_names_its_job(path, job_id):
    assert match_path(path) == Membership(batch_system="lsf", job_id=job_id)


@pytest.mark.parametrize(
    "path", ["/lsf/cluster1", "/lsf/job.1.2.3", "/lsf/c/job.1.2", "/lsf/c/job.0.2.3", "/lsf/a/b/job.1.2.3"]
)
def test_any_other_path_is_no_job_of_lsf(path):
    assert match_path(path) is None
