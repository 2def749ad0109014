"""`packaging/build.sh --help` answers at once: it installs no tools and needs no network."""

import os
import subprocess

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.program


@pytest.mark.parametrize("arguments", [["--help"], ["--only", "deb", "-h"]])
def test_help_needs_no_tools(tmp_path, arguments):
    tools = tmp_path / "tools"
    environ = {**os.environ, "JOBFEATURES_BUILD_TOOLS": str(tools)}
    command = [ROOT / "packaging/build.sh", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=30)
    assert done.returncode == 0, done.stderr
    for word in ("--only", "--repository", "--key", "--revision", "PYTHON", "SOURCE_DATE_EPOCH"):
        assert word in done.stdout
    assert done.stderr == ""
    assert not tools.exists()
