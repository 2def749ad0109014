"""Logs as arrays, made of a few words."""

import pytest

from tests.jobfeatures.analysis.schedule.conftest import read_swf

__all__ = ["read_swf"]


@pytest.fixture
def read_records(tmp_path):
    """Return a function: lines of JSON records → what was read of them."""
    from jobfeatures.analysis.schedule.logreading import Pieces

    def read(*lines):
        path = tmp_path / "log.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines))
        [found] = Pieces([(str(path), str(path))], "records").reads()
        return found

    return read
