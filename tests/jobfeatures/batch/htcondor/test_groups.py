"""HTCondor's control groups; constructed from its manuals and sources."""

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures.batch.htcondor.groups import HIERARCHY
from jobfeatures_exporter.sampling.layout.hierarchies import match_path


def slot(name: str) -> Membership:
    return Membership(batch_system="htcondor", alias=HIERARCHY.alias._replace(name=name))


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
