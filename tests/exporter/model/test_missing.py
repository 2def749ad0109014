"""Jobs without a control group, as rooms pass them on."""

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.missing import JobsWithoutGroup, Reason

ONE, TWO, THREE = (JobKey("slurm", each) for each in "123")


def test_those_that_should_have_a_group_are_told_in_order_and_all_are_counted():
    missing = JobsWithoutGroup({TWO: Reason.FOUND, THREE: Reason.EXPECTED, ONE: Reason.FOUND})
    assert missing.not_found == (ONE, TWO)
    assert missing.counts == {Reason.FOUND: 2, Reason.EXPECTED: 1}


def test_a_reason_that_none_has_is_not_counted():
    assert JobsWithoutGroup({ONE: Reason.EXPECTED}).counts == {Reason.EXPECTED: 1}
