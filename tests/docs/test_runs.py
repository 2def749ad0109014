"""What a page marks as run is run, in the page's order, in one folder a page; what it prints is what the page says.

Above a block stands, as an HTML comment:

- ``run``: a script (shell or Python) has to end with 0; of a console what is printed is compared, … standing for anything;
- ``file: NAME``: the block is written to this file of the folder.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import NAMES, Block, blocks_in, text_of
from tests.docs.shell import lines_of

pytestmark = pytest.mark.program

MARKED = [name for name in NAMES if re.search(r"<!--\s*run\s*-->", text_of(name))]
ALLOWED = {"jobfeatures", "jobfeatures-exporter", "cat", "date", "echo", "eval", "export", "id", "mkdir"}


def environment(folder):
    """Nothing of the machine's own settings or jobs, and nowhere to write but the folder."""
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "COLUMNS": "120",
        "JOBFEATURES_FEATURES_ROOT": str(folder / "run"),
        "JOBFEATURES_CONFIG_FILE": "/dev/null",
    }


def steps_of(block):
    """Return command and expected output of each step of a block; None: nothing is said of it."""
    if block.language == "python":
        return [(f"python - <<'END'\n{block.text}END\n", None)]
    if block.language != "console":
        return [(block.text, None)]
    parts = re.split(r"(?m)^[$#] ", block.text)[1:]
    steps = []
    for part in parts:
        lines = part.splitlines(keepends=True)
        count = next(place for place, line in enumerate(lines, 1) if not line.endswith("\\\n"))
        steps.append(("".join(lines[:count]), "".join(lines[count:])))
    return steps


def fits(expected, printed):
    """Return whether the output is what is said; a line of … alone stands for any lines, … in a line for any words."""
    lines = [re.escape(line).replace("…", ".*") + "\n" for line in expected.splitlines()]
    pattern = "".join("(?:.*\n)*?" if line == ".*\n" else line for line in lines)
    return re.fullmatch(pattern, printed) is not None


def run(page_blocks, folder):
    (folder / "run").mkdir()
    state = folder / ".state"
    state.write_text("")
    for block in page_blocks:
        for mark in block.marks:
            if mark.startswith("file: "):
                (folder / mark.removeprefix("file: ")).write_text(block.text)
        for command, expected in steps_of(block) if "run" in block.marks else ():
            script = f"set -a; . {state}; set +a\nset -euo pipefail\n{command}\nexport -p >{state}\n"
            done = subprocess.run(
                ["bash", "-c", script],
                capture_output=True,
                text=True,
                cwd=folder,
                env=environment(folder),
                timeout=60,
            )
            assert done.returncode == 0, f"{block.place}: {command}{done.stderr}"
            if expected is not None:
                printed = done.stdout + done.stderr
                assert fits(expected, printed), f"{block.place}: {command}{printed}"


@pytest.mark.parametrize("name", MARKED)
def test_what_a_page_runs_does_what_it_says(name, tmp_path):
    run(blocks_in(text_of(name), name), tmp_path)


def test_some_pages_run_something():
    assert len(MARKED) >= 3


def test_only_harmless_programs_are_started():
    """Ours, and such as can do nothing outside of the folder they are told."""
    from tests.docs.shell import commands_in

    blocks = [each for name in MARKED for each in blocks_in(text_of(name), name) if "run" in each.marks]
    scripts = [each for each in blocks if each.language != "python"]
    started = {words[0] for each in scripts for words in commands_in(lines_of(each))}
    assert started - ALLOWED == set()


def test_a_wrong_output_and_a_failure_would_be_noticed(tmp_path):
    assert fits("a … c\n…\nend\n", "a b c\n1\n2\nend\n")
    assert fits("", "")
    assert not fits("a\n", "b\n")
    with pytest.raises(AssertionError, match="jobfeatures get"):
        run([Block("page", 1, "sh", "jobfeatures get nonsense\n", ("run",))], tmp_path)
