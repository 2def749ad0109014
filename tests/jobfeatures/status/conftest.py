"""A status directory, and another process that holds a lock in it."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

HOLDER = """
import fcntl, sys
file = open(sys.argv[2], "r+")
getattr(fcntl, sys.argv[1])(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "status"
    made.mkdir()
    return made


@pytest.fixture
def held() -> Callable[[str, Path], AbstractContextManager[None]]:
    """Return a context in which another process holds a lock ("flock" or "lockf") on a file."""

    @contextlib.contextmanager
    def hold(kind: str, path: Path) -> Iterator[None]:
        argv = [sys.executable, "-c", HOLDER, kind, str(path)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            assert holder.stdin is not None
            assert holder.stdout is not None
            try:
                assert holder.stdout.readline() == b"held\n"
                yield
            finally:
                holder.stdin.close()
                holder.wait(60)

    return hold
