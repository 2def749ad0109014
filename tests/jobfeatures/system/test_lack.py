import pytest

from jobfeatures.system.lack import describe_lack, is_lack


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (MemoryError(), True),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("no running event loop"), False),
        (OSError("no"), False),
    ],
)
def test_lack_of_memory_and_of_threads_is_told_from_other_errors(error, found):
    assert is_lack(error) is found


def test_what_lacks_is_told_with_what_to_look_at():
    assert describe_lack(MemoryError()).startswith("out of memory: is memory (LimitAS=")
    assert describe_lack(RuntimeError("can't start new thread")).startswith("can't start new thread: ")
