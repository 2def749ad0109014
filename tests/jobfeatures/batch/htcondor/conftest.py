"""A clock, and stand-ins for HTCondor's commands."""

import sys
import time

import pytest

from tests.running import HandClock


@pytest.fixture
def clock():
    return HandClock(time.time())  # so that a test's files are new


@pytest.fixture
def command(tmp_path):
    """Return a function that makes a stand-in for a command, which prints a text and logs its arguments."""

    def make(name, body):
        path = tmp_path / name
        path.write_text(f"#!{sys.executable} -S\nimport os, sys\nwith open({str(tmp_path / 'calls')!r}, 'a') as calls:\n"
                        f"    print(repr([*sys.argv[1:], os.environ['LC_ALL']]), file=calls)\n{body}\n")  # fmt: skip
        path.chmod(0o755)
        return str(path)

    return make
