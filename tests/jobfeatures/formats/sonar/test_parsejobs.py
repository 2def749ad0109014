"""Words and numbers of Slurm's in Sonar's envelopes."""

import pytest

from jobfeatures.formats.sonar.parsejobs import parse_limit, parse_state
from jobfeatures.records.model import UNLIMITED, JobState


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("RUNNING", JobState.RUNNING),
        ("CANCELLED+", JobState.CANCELLED),
        ("completed", JobState.COMPLETED),
        ("DEADLINE", JobState.TIMEOUT),
        ("WEIRD", JobState.UNKNOWN),
        (" ", JobState.UNKNOWN),
    ],
)
def test_states(text, state):
    assert parse_state(text) == state


def test_an_extended_number_is_unset_infinite_or_two_less():
    assert [parse_limit(each) for each in (0, 1, 2, 62)] == [None, UNLIMITED, 0, 60]
