"""A round that fails is logged, as briefly as its kind of failure deserves."""

import pytest

from jobfeatures.errors import JobfeaturesError
from jobfeatures_exporter.node.supervised import supervised


@pytest.mark.parametrize("error", [OSError("no space"), JobfeaturesError("no space")])
def test_an_expected_failure_is_one_line(caplog, error):
    with supervised("publishing"):
        raise error
    assert [(each.message, each.exc_info) for each in caplog.records] == [
        ("publishing failed: no space", None)
    ]


def test_a_fault_has_its_traceback(caplog):
    with supervised("publishing"):
        raise ZeroDivisionError
    assert caplog.records[0].exc_info[0] is ZeroDivisionError


def test_without_memory_the_thread_ends():
    with pytest.raises(MemoryError), supervised("publishing"):
        raise MemoryError
