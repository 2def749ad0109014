"""The packages on a clean Debian 12: installed, run, upgraded, removed; under its systemd: test_end_to_end.py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from makepackages.layout import HOOKS, NAME, PREFIX
from makepackages.release import Release
from makepackages.rpm import build_rpm

from tests.integration.debian import read_metrics

ROOT = Path(__file__).parents[2]
ETC = f"etc/{NAME}"
CONFIGURATION = {ETC, *(f"{ETC}/{name}" for name in ("config.toml", "controller.toml", "web.yml"))}
ACCOUNTS = {"etc/passwd", "etc/shadow", "etc/group", "etc/gshadow"}


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


@pytest.fixture(scope="module")
def staged(packages, tmp_path_factory):
    """Return a folder with the files of the .deb, scripts included."""
    folder = tmp_path_factory.mktemp("staged") / "files"
    subprocess.run(["dpkg-deb", "-R", packages.deb, folder], check=True)
    return folder


@pytest.fixture(scope="module")
def older_deb(staged, tmp_path_factory):
    """Return the package as an older version had it: with other defaults, and a file that is no more."""
    folder = tmp_path_factory.mktemp("older")
    older = shutil.copytree(staged, folder / "files", symlinks=True)
    control = older / "DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*", "Version: 0.0.9-1", control.read_text()))
    for name in ("config.toml", "controller.toml"):
        file = older / ETC / name
        file.write_text(file.read_text() + "# of an older version\n")
    (
        older / PREFIX[1:] / "lib/python3.11/site-packages/jobfeatures_exporter/of_an_older_version.py"
    ).write_text("")
    return wrap(older, folder / "older.deb")


def wrap(folder: Path, deb: Path) -> Path:
    command = ["dpkg-deb", "--root-owner-group", "-Znone", "-b", folder, deb]
    subprocess.run(command, check=True, capture_output=True)
    return deb


def test_a_deb_is_installed_upgraded_removed_and_purged(packages, older_deb, debian):
    before = debian.files()
    version = re.search(r"_([\d.]+)-", packages.deb.name)[1]

    debian.run("dpkg", "-i", debian.bring(older_deb))
    assert "jobfeatures:x:" in (debian.root / "etc/passwd").read_text()
    assert (debian.root / "run/jobfeatures").stat().st_mode & 0o7777 == 0o755
    web = (debian.root / ETC / "web.yml").stat()
    [group] = re.findall(r"(?m)^jobfeatures:x:(\d+):", (debian.root / "etc/group").read_text())
    assert (web.st_uid, web.st_gid, web.st_mode & 0o7777) == (0, int(group), 0o640)

    config = debian.root / ETC / "config.toml"
    config.write_text(
        config.read_text().replace('#listen_address = "127.0.0.1:9819"', 'listen_address = "127.0.0.1:0"')
    )
    kept = config.read_text()
    said = debian.run("dpkg", "--force-confold", "-i", debian.bring(packages.deb))
    assert config.read_text() == kept
    assert "# of an older version" not in (debian.root / ETC / "controller.toml").read_text()
    assert "# of an older version" not in (debian.root / ETC / "config.toml.dpkg-dist").read_text()
    assert not list(debian.root.rglob("of_an_older_version.*"))
    assert "Traceback" not in said
    assert "rror" not in said
    assert debian.run("dpkg", "-V", NAME).split() == ["??5??????", "c", f"/{ETC}/config.toml"]

    assert debian.run("jobfeatures-exporter", "--version").startswith(
        f"{NAME}, version {version} (revision: "
    )
    assert "web.listen_address = 127.0.0.1:0\n" in debian.run("jobfeatures-exporter", "check-config")
    a_job_s = ("env", "PYTHONHOME=/opt/python/3.6", "PYTHONPATH=/opt/python/3.6/site-packages")
    said = debian.run(*a_job_s, "jobfeatures", "--version")
    assert said.startswith(f"jobfeatures, version {version} (revision: ")
    with subprocess.Popen(
        debian.command("jobfeatures-exporter", "serve"),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as daemon:
        page = read_metrics(daemon, "batch_node_cpu_seconds_total")
        daemon.terminate()
        assert daemon.wait(60) == 0
    assert "batch_exporter_build_info" in page

    debian.run("dpkg", "-r", NAME)
    left = changed(before, debian.files()) - {f"{ETC}/config.toml.dpkg-dist"}
    assert left == CONFIGURATION | ACCOUNTS
    debian.run("dpkg", "-P", NAME)
    assert changed(before, debian.files()) == set()


def test_a_deb_needs_no_systemd(packages, debian):
    for name in ("systemctl", "systemd-sysusers", "systemd-tmpfiles"):
        (debian.root / "usr/bin" / name).unlink(missing_ok=True)
    before = debian.files()
    debian.run("dpkg", "-i", debian.bring(packages.deb))
    passwd = (debian.root / "etc/passwd").read_text()
    assert re.search(
        r"(?m)^jobfeatures:x:\d+:\d+:jobfeatures-exporter:/var/lib/jobfeatures-exporter:/usr/sbin/nologin$",
        passwd,
    )
    assert (debian.root / "run/jobfeatures").is_dir()
    debian.run("jobfeatures-exporter", "check-config")
    debian.run("dpkg", "-P", NAME)
    assert changed(before, debian.files()) == set()


def test_units_are_enabled_by_nobody_but_the_administrator_and_disabled_at_the_end(packages, debian):
    debian.run("dpkg", "-i", debian.bring(packages.deb))
    wanted = debian.root / "etc/systemd/system/multi-user.target.wants"
    assert not (wanted / "jobfeatures-exporter.service").is_symlink()
    debian.run("systemctl", "enable", "jobfeatures-exporter.service")
    assert (wanted / "jobfeatures-exporter.service").is_symlink()
    debian.run("dpkg", "-i", debian.bring(packages.deb))  # again: an upgrade leaves it
    assert (wanted / "jobfeatures-exporter.service").is_symlink()
    debian.run("dpkg", "-r", NAME)
    assert not (wanted / "jobfeatures-exporter.service").is_symlink()


def test_hooks_run_where_the_package_puts_them(packages, debian):
    debian.run("dpkg", "-i", debian.bring(packages.deb))
    environ = [
        "env",
        "-i",
        "SLURM_JOB_ID=7",
        "SLURM_JOB_UID=1000",
        "SLURM_JOB_USER=alice",
        "JOBFEATURES_HOOK_TIMEOUT=20",
    ]
    debian.run(*environ, f"{PREFIX}/slurm/prolog.sh")
    published = debian.root / "run/jobfeatures/jobfeatures/slurm-7/job_id"
    assert published.read_text() == "7\n"
    debian.run(*environ, f"{PREFIX}/slurm/epilog.sh")
    assert not published.exists()
    for system in set(HOOKS) - {"common", "htcondor", "pbs"}:
        assert (debian.root / PREFIX[1:] / system / "hook.sh").read_text().startswith("#!/bin/bash")


def test_an_rpm_is_installed_upgraded_and_removed(packages, debian, tmp_path):
    """No Red Hat system here: the files go into a Debian, whose packages rpm does not know (--nodeps)."""

    def rpm(*arguments: str | Path, check: bool = True) -> str:
        command = ["rpm", "--root", debian.root, *(["--nodeps"] if arguments[0] != "-q" else []), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done.stdout

    before = debian.files()
    rpm("-U", older_rpm(packages, tmp_path))
    assert rpm("-q", NAME).startswith(f"{NAME}-0.0.9-1.")
    assert rpm("-V", NAME) == ""
    config = debian.root / ETC / "config.toml"
    config.write_text(config.read_text() + "# ours\n")
    rpm("-U", packages.rpm)
    assert config.read_text().endswith("# ours\n")
    assert re.fullmatch(rf"S\.5\S+ +c /{ETC}/config.toml\n", rpm("-V", NAME, check=False))
    assert not list(debian.root.rglob("of_an_older_version.py"))
    assert debian.run("jobfeatures-exporter", "--version").startswith(NAME)
    assert "role = node\n" in debian.run("jobfeatures-exporter", "check-config")

    rpm("-e", NAME)
    assert changed(before, debian.files()) - {"root/.rpmdb"} == ACCOUNTS | {ETC, f"{ETC}/config.toml.rpmsave"}


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_hooks_that_are_still_named_stay_as_scripts_that_do_nothing(packages, debian, kind):
    """What Slurm prints is constructed; with a real one: test_removal.py."""
    rpm = ["rpm", "--root", debian.root, "--nodeps"]

    def do(deb_words, rpm_words):
        if kind == "deb":
            return debian.run("dpkg", *deb_words)
        done = subprocess.run([*rpm, *rpm_words], capture_output=True, text=True, timeout=400, check=True)
        return done.stdout + done.stderr

    install = (["-i", debian.bring(packages.deb)], ["-U", packages.rpm])
    remove = (["-r", NAME], ["-e", NAME])
    scontrol = debian.root / "usr/bin/scontrol"
    scontrol.write_text(f"#!/bin/sh\necho Prolog = {PREFIX}/slurm/prolog.sh\n")
    scontrol.chmod(0o755)
    folder = debian.root / PREFIX[1:]
    stub = (ROOT / "packaging/scripts/stub.sh").read_text()
    for _ in range(2):  # a new installation takes their place
        do(*install)
        assert (folder / "slurm/prolog.sh").read_text() != stub
        said = do(*remove)
        [line] = [each for each in said.splitlines() if each.startswith("warning: slurm: ")]
        assert "still names hooks of the package (Prolog)" in line
        hooks = {f"slurm/{name}.sh" for name in ("prolog", "taskprolog", "epilog")}
        assert {str(each.relative_to(folder)) for each in folder.rglob("*") if not each.is_dir()} == hooks
        for each in hooks:
            assert (folder / each).read_text() == stub
            assert (folder / each).stat().st_mode & 0o7777 == 0o755
    scontrol.write_text("#!/bin/sh\necho Slurm is down >&2; exit 1\n")
    do(*install)
    assert "slurm: its hooks are not known (" in do(*remove)
    assert (folder / "slurm/prolog.sh").is_file()
    scontrol.write_text("#!/bin/sh\necho Prolog = /site/prolog\n")
    do(*install)
    do(*remove)
    assert not folder.exists()
    assert not list((debian.root / "run").glob("jobfeatures*"))


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_every_command_of_a_package_works_or_names_the_extra_it_needs(packages, debian, kind):
    if kind == "deb":
        debian.run("dpkg", "-i", debian.bring(packages.deb))
    else:
        subprocess.run(
            ["rpm", "--root", debian.root, "--nodeps", "-U", packages.rpm], check=True, timeout=400
        )
    debian.run("python3.11", debian.bring(ROOT / "tests/packaging/installed.py"), "/usr/bin")


def older_rpm(packages, tmp_path: Path) -> Path:
    """Wrap the files of the .deb as an older version, with a file that is no more."""
    tree = tmp_path / "tree"
    subprocess.run(["dpkg-deb", "-x", packages.deb, tree], check=True)
    shutil.rmtree(tree / "usr/share/lintian")
    (tree / PREFIX[1:] / "of_an_older_version.py").write_text("")
    spec = tmp_path / "package.spec"
    spec.write_text((ROOT / "packaging/rpm/package.spec").read_text().replace("w12.zstdio", "w1.gzdio"))
    release = Release(
        "0.0.9", "1", "older", "An older version.", "nobody <nobody@example.invalid>", 1_700_000_000
    )
    functions = (ROOT / "packaging/scripts/functions.sh").read_text()
    return build_rpm(tree, spec, functions, release, os.uname().machine, tmp_path)


def test_the_packages_name_nobody(packages, tmp_path):
    """Neither the machine that built them, nor where it has its libraries from."""
    subprocess.run(["dpkg-deb", "-R", packages.deb, tmp_path / "deb"], check=True)
    with zipfile.ZipFile(packages.wheel) as wheel:
        wheel.extractall(tmp_path / "wheel")
    libraries = tmp_path / "deb" / PREFIX[1:] / "lib/python3.11/site-packages"
    assert not list(libraries.glob("*.dist-info/direct_url.json"))
    configured = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True
    ).stdout
    places = {each for each in re.findall(r"[\w:.]*/[\w./-]{4,}", configured) if "certs" not in each}
    hostname = os.uname().nodename if len(os.uname().nodename) > 4 else None
    foreign = [
        each.encode() for each in (*places, "jobfeatures-packages-", str(ROOT) + "/", hostname) if each
    ]
    guilty = [
        (path, word)
        for path in tmp_path.rglob("*")
        if path.is_file() and not path.is_symlink()
        for word in foreign
        if word in path.read_bytes()
    ]
    assert guilty == []
    with tarfile.open(packages.archive) as archive:
        assert {member.name for member in archive if "direct_url" in member.name} == set()
    query = subprocess.run(
        ["rpm", "-qp", "--qf", "%{BUILDHOST} %{VENDOR}", packages.rpm], capture_output=True, text=True
    )
    assert query.stdout == "localhost (none)"


def test_the_environment_of_a_package_is_complete(packages, tmp_path):
    subprocess.run(["dpkg-deb", "-x", packages.deb, tmp_path], check=True)
    prefix = tmp_path / PREFIX[1:]
    for script in (prefix / "bin").iterdir():
        if not script.is_symlink():
            assert script.read_text().startswith(f"#!{PREFIX}/bin/python3 -I\n")
    libraries = prefix / "lib/python3.11/site-packages"
    modules = [each for each in libraries.rglob("*.py") if each.is_file()]
    compiled = [each.parent / "__pycache__" / f"{each.stem}.cpython-311.pyc" for each in modules]
    assert [str(each) for each in compiled if not each.is_file()] == []
    code = (libraries / "jobfeatures/records/__pycache__/model.cpython-311.pyc").read_bytes()
    assert f"{PREFIX}/lib/python3.11/site-packages/jobfeatures/records/model.py".encode() in code
    assert not list(libraries.glob("pip*"))
    with tarfile.open(packages.archive) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    ours = [
        name.removeprefix("exporter/")
        for name in names
        if re.match(r"(jobfeatures|exporter/jobfeatures_exporter)/.*\.py$", name)
    ]
    assert len(ours) > 400
    assert [name for name in ours if not (libraries / name).is_file()] == []


def test_wheel_and_source_archive_hold_what_they_should(packages):
    with zipfile.ZipFile(packages.wheel) as wheel:
        names = set(wheel.namelist())
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {
        "jobfeatures",
        "jobfeatures_exporter",
    }
    data = {str(each.relative_to(ROOT)) for each in (ROOT / "jobfeatures/formats/sss").glob("*.rng")}
    assert data
    sums = "jobfeatures_exporter/sampling/bpf/sums.bpf.o"
    assert names >= data | {"jobfeatures/py.typed", "jobfeatures_exporter/py.typed", sums}
    with tarfile.open(packages.archive) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert held >= {
        "LICENSE", "CHANGELOG.md", "packaging/build.sh", f"exporter/{sums}", "packaging/slurm/prolog.sh", "packaging/common/hook.sh",
        "packaging/slurm/hook.sh", "packaging/pbs/jobfeatures_hook.json", "docs/install.md", "tests/conftest.py",
    }  # fmt: skip
    assert not [name for name in held if "__pycache__" in name]


@pytest.mark.long
def test_debians_checker_has_nothing_to_say(packages):
    if not shutil.which("lintian"):
        pytest.skip("needs lintian")
    done = subprocess.run(
        ["lintian", "--allow-root", packages.deb], capture_output=True, text=True, timeout=400
    )
    assert [line for line in done.stdout.splitlines() if line.startswith(("E:", "W:"))] == []
