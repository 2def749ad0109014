"""What is written when packages are made, and what their scripts take away."""

import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from makepackages.files import copy, put, settle_archive, write_checksums
from makepackages.release import maintainer_of

ROOT = Path(__file__).parents[2]


def test_a_package_is_whole_or_not_there(tmp_path, monkeypatch):
    """Whoever installs the newest one while the next is being written gets the one before."""
    made, out = tmp_path / "made.deb", tmp_path / "out"
    out.mkdir()
    (out / "made.deb").write_text("old")
    made.write_text("new")
    looked = []
    replace = Path.replace

    def look(path, target):
        looked.append((target.read_text(), path.read_text(), sorted(out.glob("*.deb"))))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", look)
    assert put(made, out) == out / "made.deb"
    assert looked == [("old", "new", [out / "made.deb"])]
    assert [each.read_text() for each in out.iterdir()] == ["new"]


@pytest.mark.program
def test_a_script_that_is_copied_can_be_run(tmp_path):
    script = tmp_path / "script"
    script.touch()
    script.chmod(0o755)
    copy(script, tmp_path / "share/script")
    assert os.access(tmp_path / "share/script", os.X_OK)


def test_all_that_was_built_has_a_checksum_that_can_be_checked(tmp_path):
    for name in ("a.deb", "b.whl"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".c.rpm.part").write_text("half")
    (tmp_path / "repository").mkdir()
    for _ in range(2):  # the list is not in itself
        write_checksums(tmp_path)
        assert len((tmp_path / "SHA256SUMS").read_text().splitlines()) == 2
    check = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path).returncode == 0
    (tmp_path / "b.whl").write_text("another")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode == 1


@pytest.fixture
def run(tmp_path):
    """Return what calls functions of the scripts on a machine whose /run is a folder here."""
    text = (ROOT / "packaging/scripts/functions.sh").read_text().replace("/run/", f"{tmp_path}/run/")
    (tmp_path / "run").mkdir()
    (tmp_path / "functions").write_text(text)

    def call(*names):
        program = f". {tmp_path}/functions; has() {{ false; }}; {'; '.join(names)}"
        subprocess.run(["/bin/sh", "-ec", program], check=True)

    call.folder = tmp_path / "run/jobfeatures"
    return call


@pytest.mark.program
def test_the_folder_that_the_package_made_goes_with_it(run):
    run("note_folders", "make_folders")
    (run.folder / "records").mkdir()
    run("make_folders")  # an upgrade
    run("forget_jobs")
    assert list(run.folder.parent.iterdir()) == []


@pytest.mark.program
def test_a_folder_that_was_there_before_stays(run):
    run.folder.mkdir()
    (run.folder / "records").mkdir()
    run("note_folders", "make_folders")
    run("make_folders")  # an upgrade
    run("forget_jobs")
    assert (run.folder / "records").is_dir()
    assert list(run.folder.parent.iterdir()) == [run.folder]


@pytest.mark.program
def test_after_a_start_of_the_machine_the_folder_is_the_packages_own(run):
    run.folder.mkdir()
    run("note_folders", "make_folders")
    for each in run.folder.parent.iterdir():  # /run is empty then
        each.rmdir() if each.is_dir() else each.unlink()
    run("make_folders", "forget_jobs")
    assert list(run.folder.parent.iterdir()) == []


def test_a_source_archive_does_not_tell_when_and_by_whom_it_was_made(tmp_path):
    made = []
    for name, age_secs in (("one", 0), ("two", 5000)):
        folder = tmp_path / name / "project"
        folder.mkdir(parents=True)
        for file in ("b", "a") if age_secs else ("a", "b"):
            (folder / file).write_text(f"what {file} holds")
            os.utime(folder / file, (age_secs, age_secs))
        archive = tmp_path / f"{name}.tar.gz"
        with tarfile.open(archive, "w:gz") as packed:
            packed.add(folder, "project")
        settle_archive(archive, 1_795_000_000)
        made.append(archive.read_bytes())
    assert made[0] == made[1]
    with tarfile.open(archive) as packed:
        assert packed.extractfile("project/a").read() == b"what a holds"
        assert {(each.mtime, each.uid, each.uname) for each in packed} == {(1_795_000_000, 0, "")}


@pytest.mark.parametrize("missing", ["DEBFULLNAME", "DEBEMAIL"])
def test_packages_for_others_are_not_built_without_their_maintainer(missing):
    known = {"DEBFULLNAME": "Ann", "DEBEMAIL": "ann@our.site"}
    assert maintainer_of(known, for_others=True) == "Ann <ann@our.site>"
    with pytest.raises(
        ValueError, match=f"^{missing} is not set: packages for others name their maintainer$"
    ):
        maintainer_of({**known, missing: " "}, for_others=True)


def test_packages_for_own_use_say_so():
    assert maintainer_of({}, for_others=False) == "built for own use <root@localhost>"
    assert maintainer_of({"DEBEMAIL": "ann@our.site"}, for_others=False) == "ann@our.site <ann@our.site>"
