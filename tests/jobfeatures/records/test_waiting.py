import pytest

from jobfeatures.records.waiting import DATE, DEPENDENT, HELD, cause_of


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("JobHeldUser", HELD),
        ("launch failed requeued held", HELD),
        ("launch_failed_requeued_held", HELD),
        ("PSUSP", HELD),
        ("PSUSPENDED", None),
        ("DependencyNeverSatisfied", DEPENDENT),
        ("BeginTime", DATE),
        ("Resources", None),
        ("", None),
        (None, None),
    ],
)
def test_the_words_of_batch_systems_say_what_a_job_waits_for(reason, cause):
    assert cause_of(reason) == cause


def test_a_job_that_is_held_says_so_where_its_reason_does_not():
    assert cause_of(None, is_held=True) == HELD
    assert cause_of("Dependency", is_held=True) == DEPENDENT
