"""Tests that fail once, in a run of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import unstable

TESTS = """
import os, pytest

runs = []

def note(what):
    with open("order", "a") as file:
        print(what, file=file)

@pytest.fixture(scope="module")
def of_the_module():
    return 1

@pytest.mark.parametrize("number", range(int(os.environ["UNSTABLE"])))
def test_fails_once(number, of_the_module, tmp_path):
    runs.append(number)
    note(number)
    assert runs.count(number) > of_the_module, f"first time {number}"

def test_breaks():
    assert "TESTS_BREAK" not in os.environ

def test_passes():
    note("last")
"""


def run(folder, workers=2, **environ):
    (folder / "test_it.py").write_text(TESTS)
    inherited = {name: value for name, value in os.environ.items() if name != "JOBFEATURES_RETRY"}
    words = [
        "-p",
        "xdist",
        f"-n{workers}",
        "-p",
        "tests.unstable",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        folder,
    ]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *words, folder],
        env={
            **inherited,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(Path(unstable.__file__).parent.parent),
            **environ,
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.program
@pytest.mark.parametrize("workers", [0, 2])
def test_what_fails_once_and_passes_behind_all_others_is_named_with_its_first_failure(tmp_path, workers):
    done = run(tmp_path, workers, JOBFEATURES_RETRY="1", UNSTABLE=str(unstable.LIMIT))
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("UNSTABLE, passed when it was run again") == unstable.LIMIT
    assert "first time 2" in done.stdout
    assert "5 passed" in done.stdout
    order = (tmp_path / "order").read_text().split()
    assert sorted(order) == [*"001122", "last"]
    if workers == 0:  # each worker runs its own again behind its own others
        assert order == [*"012", "last", *"012"]


@pytest.mark.program
def test_more_unstable_tests_than_the_limit_are_a_failure(tmp_path):
    done = run(tmp_path, JOBFEATURES_RETRY="1", UNSTABLE=str(unstable.LIMIT + 1))
    assert done.returncode == 1, done.stdout


@pytest.mark.program
def test_what_fails_twice_fails_and_without_the_variable_once_suffices(tmp_path):
    done = run(tmp_path, JOBFEATURES_RETRY="1", UNSTABLE="0", TESTS_BREAK="1")
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "1 failed, 2 passed" in run(tmp_path, UNSTABLE="1").stdout
