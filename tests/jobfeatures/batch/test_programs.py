"""A batch system's commands, played by scripts."""

from __future__ import annotations

import pytest

from jobfeatures.batch.gridengine import COMMAND
from jobfeatures.batch.programs import Programs
from jobfeatures.errors import CommandError, SourceError


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def make(qstat, **more):
    return Programs(COMMAND, qstat, 60.0, **more)


def test_the_other_commands_lie_beside_the_one_that_the_setting_names(tmp_path):
    programs = make(script(tmp_path / "qstat", "echo jobs $A"), environment={"A": "1"})
    script(tmp_path / "qhost", 'echo hosts $A "$@"')
    assert programs.path("qhost") == f"{tmp_path}/qhost"
    assert programs.ask("qstat") == "jobs 1\n"
    assert programs.ask("qhost", "-q", "-xml", environment={"A": "2"}) == "hosts 2 -q -xml\n"
    assert make("qstat").path("qhost") == "qhost"


def test_a_command_of_another_name_is_called_as_the_site_calls_it(tmp_path):
    programs = make("/opt/site/my-qstat.sh")
    assert programs.path("qstat") == "/opt/site/my-qstat.sh"


def test_what_stands_before_all_commands_runs_them(tmp_path):
    before = script(tmp_path / "as", 'shift; exec "$@"')
    programs = make(script(tmp_path / "qstat", "echo $#"), prefix=(before, "--"))
    assert programs.ask("qstat", "-u", "all") == "2\n"


def test_a_bad_end_is_the_caller_s_to_judge_or_no_answer(tmp_path):
    programs = make(script(tmp_path / "qstat", "echo why >&2; exit 3"))
    assert programs.run("qstat").status == 3
    with pytest.raises(SourceError, match=r"qstat: failed with exit status 3: 'why'"):
        programs.ask("qstat")
    with pytest.raises(CommandError, match="qhost: No such file"):
        programs.run("qhost")
