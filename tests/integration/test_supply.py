"""The same commit gives the same bytes, wherever and whenever it is built; what is in packages is listed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.debian import CACHE, PYTHON, ROOT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3600)]
KINDS = "wheel,deb,rpm" if os.environ.get("JOBFEATURES_LONG") else "wheel"


def built(source: Path, folder: Path) -> dict[str, str]:
    """Build in a clone of its own; return digests by name."""
    folder.mkdir()
    clone, out = folder / "clone", folder / "out"
    subprocess.run(["git", "clone", "-q", source, clone], check=True)
    environ = {**os.environ, "JOBFEATURES_BUILD_TOOLS": str(CACHE / "build-tools"), "PYTHON": PYTHON}
    command = [clone / "packaging/build.sh", "--only", KINDS, "--out", out]
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in out.iterdir()}


@pytest.mark.long
@pytest.mark.usefixtures("packages")  # tools are there, and were not made by two at once
def test_two_builds_of_a_commit_are_the_same_bytes(tmp_path):
    first = built(ROOT, tmp_path / "one")
    second = built(
        tmp_path / "one/clone", tmp_path / "another place"
    )  # the same commit, whatever is committed meanwhile
    assert any(name.endswith(".whl") for name in first)
    assert first == second


def test_one_command_makes_every_file_of_a_release_candidate_and_their_checksums(packages):
    """That of README's first block; whoever downloads them checks them."""
    folder = packages.deb.parent
    listed = dict(line.split("  ")[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    made = {each.name for each in (packages.wheel, packages.archive, packages.deb, packages.rpm)}
    made |= {each.name for kind in ("*-wheels-*", "*.cdx.json") for each in folder.glob(kind)}
    assert len(made) == 6
    assert listed.keys() >= made
    for name in made:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == listed[name], name
    first = (ROOT / "README.md").read_text().partition("## What it looks like")[0]
    assert "`packaging/build.sh`" in first
    for word in ("wheel", "source archive", ".deb", ".rpm", "`SHA256SUMS`"):
        assert word in first


def test_a_list_in_cyclonedx_names_every_library_of_a_package_with_its_licence(packages):
    [listed] = packages.deb.parent.glob("*.cdx.json")
    document = json.loads(listed.read_text())
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["name"] == "jobfeatures-exporter"
    inside = subprocess.run(
        ["dpkg-deb", "--contents", packages.deb], check=True, capture_output=True, text=True
    ).stdout
    folders = set(re.findall(r"/site-packages/([^/]+)-([^/-]+)\.dist-info/METADATA$", inside, re.MULTILINE))
    names = {(re.sub(r"[-_.]+", "_", name).lower(), version) for name, version in folders}
    found = {
        (re.sub(r"[-_.]+", "_", each["name"]).lower(), each["version"]) for each in document["components"]
    }
    assert found == {each for each in names if each[0] != "jobfeatures_exporter"}
    assert all(each.get("licenses") for each in document["components"])
    assert str(ROOT) not in listed.read_text()
