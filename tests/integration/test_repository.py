"""The signed repository, by apt in a clean Debian and by dnf into an empty root; the wheels without any network."""

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from makepackages.layout import NAME
from makepackages.repository import PROGRAMS, build_repository

from tests.integration.debian import CACHE, ROOT

OURS = "site@example.org"
NEEDS = ("/usr/bin/python3.11", "/usr/sbin/useradd", "/bin/sh")


@pytest.fixture(scope="module")
def keyring(tmp_path_factory):
    """Two throw-away keys: the builder's, and one of somebody else."""
    for program in (*PROGRAMS, "rpmbuild"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    folder = tmp_path_factory.mktemp("gnupg")
    folder.chmod(0o700)
    before = os.environ.get("GNUPGHOME")
    os.environ["GNUPGHOME"] = str(folder)
    for address in (OURS, "other@example.org"):
        command = ["gpg", "--batch", "--passphrase", "", "--quick-generate-key", address, "rsa3072", "sign"]
        subprocess.run(command, check=True, capture_output=True)
    yield folder
    subprocess.run(["gpgconf", "--kill", "gpg-agent"], check=False)
    if before is None:
        del os.environ["GNUPGHOME"]
    else:
        os.environ["GNUPGHOME"] = before


@pytest.fixture(scope="module")
def repository(packages, keyring, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "repository"
    build_repository([packages.deb, packages.rpm], folder, OURS)
    return folder


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (OURS, "--repository needs --key: nobody should install what nobody has signed"),
        ("", "DEBEMAIL is not set: packages for others name their maintainer"),
    ],
)
def test_no_repository_is_built_without_a_key_and_a_maintainer(packages, tmp_path, address, said):
    environ = {**os.environ, "JOBFEATURES_BUILD_TOOLS": str(CACHE / "build-tools")}
    environ |= {"DEBFULLNAME": "Ann", "DEBEMAIL": address}
    command = [ROOT / "packaging/build.sh", "--out", tmp_path, "--repository"]
    done = subprocess.run(command, capture_output=True, text=True, env=environ)
    assert done.returncode == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def use_apt(debian, repository, *, key=None) -> str:
    """Write what a node needs to know, from what the repository brings; return what apt says of it."""
    shutil.copytree(repository, debian.root / "srv/repository", dirs_exist_ok=True)
    sources = (repository / f"deb/{NAME}.sources").read_text()
    sources = sources.replace("https://repository.example.org/deb", "file:/srv/repository/deb")
    for old in (debian.root / "etc/apt").glob("sources.list*"):  # nothing else is to be reached
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    (debian.root / "etc/apt/sources.list.d").mkdir(parents=True)
    (debian.root / f"etc/apt/sources.list.d/{NAME}.sources").write_text(sources)
    (debian.root / "etc/apt/keyrings").mkdir(exist_ok=True)
    shutil.copy(key or repository / f"{NAME}.asc", debian.root / f"etc/apt/keyrings/{NAME}.asc")
    return debian.run("apt-get", "update", check=False)


def test_apt_installs_from_the_repository_that_its_key_has_signed(repository, debian):
    said = use_apt(debian, repository)
    assert not re.search(r"^[EW]:", said, re.MULTILINE), said
    said = debian.run("apt-get", "install", "-y", NAME)
    assert "cannot be authenticated" not in said
    assert debian.run("jobfeatures-exporter", "--version").startswith(NAME)


def test_apt_refuses_what_another_key_has_signed_and_what_was_changed(repository, debian, tmp_path):
    other = tmp_path / "other.asc"
    export = ["gpg", "--armor", "--export", "other@example.org"]
    other.write_bytes(subprocess.run(export, check=True, capture_output=True).stdout)
    assert "NO_PUBKEY" in use_apt(debian, repository, key=other)
    index = debian.root / "srv/repository/deb/InRelease"
    index.write_text(index.read_text().replace("Origin:", "Origin: not"))
    shutil.copy(repository / f"{NAME}.asc", debian.root / f"etc/apt/keyrings/{NAME}.asc")
    assert "BADSIG" in debian.run("apt-get", "update", check=False)


def test_an_earlier_version_stays_in_the_repository(packages, repository, tmp_path):
    folder = tmp_path / "repository"
    shutil.copytree(repository, folder)
    shutil.copytree(repository, tmp_path / "unpacked")
    subprocess.run(["dpkg-deb", "-R", packages.deb, tmp_path / "files"], check=True)
    control = tmp_path / "files/DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*", "Version: 99.0-1", control.read_text()))
    newer = tmp_path / "newer_99.0-1.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Znone", "-b", tmp_path / "files", newer]
    subprocess.run(command, check=True, capture_output=True)
    build_repository([newer], folder, OURS)
    versions = re.findall(r"(?m)^Version: (.*)", (folder / "deb/Packages").read_text())
    assert len(versions) == 2
    assert "99.0-1" in versions


def dnf(root: Path, repos: Path, *words: str) -> subprocess.CompletedProcess:
    if shutil.which("dnf") is None:
        pytest.skip("needs dnf")
    (root / "log").mkdir(parents=True, exist_ok=True)
    settings = [f"reposdir={repos}", f"cachedir={root}/cache", f"logdir={root}/log", "tsflags=noscripts"]
    flags = [each for setting in settings for each in ("--setopt", setting)]
    command = ["dnf", "--assumeyes", f"--installroot={root}", "--releasever=9", *flags, *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"})


@pytest.fixture
def repos(repository, tmp_path):
    """Where dnf looks: our repository, and one with a package that stands for what a distribution brings."""
    folder, base = tmp_path / "repos", tmp_path / "base"
    folder.mkdir()
    provides = "\n".join(f"Provides: {each}" for each in NEEDS)
    spec = tmp_path / "base.spec"
    spec.write_text(
        f"Name: base\nVersion: 1\nRelease: 1\nSummary: Stands for a distribution\nLicense: none\n"
        f"BuildArch: noarch\n{provides}\n%description\nNothing.\n%files\n"
    )
    build = ["rpmbuild", "-bb", "--quiet", "--define", f"_topdir {base}", spec]
    subprocess.run(build, check=True, capture_output=True)
    subprocess.run(["createrepo_c", "--quiet", base], check=True)
    (folder / "base.repo").write_text(f"[base]\nname=base\nbaseurl=file://{base}\ngpgcheck=0\n")
    text = (repository / f"rpm/{NAME}.repo").read_text()
    text = text.replace("https://repository.example.org/rpm", f"file://{repository}/rpm")
    key = f"file://{repository}/{NAME}.asc"
    (folder / f"{NAME}.repo").write_text(text.replace(f"file:///etc/pki/rpm-gpg/{NAME}.asc", key))
    return folder


def test_dnf_installs_from_the_repository_and_checks_both_signatures(repos, tmp_path):
    root = tmp_path / "root"
    done = dnf(root, repos, "install", NAME)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (root / "opt/jobfeatures-exporter/bin/jobfeatures-exporter").is_file()
    repo = repos / f"{NAME}.repo"
    assert "gpgcheck=1\nrepo_gpgcheck=1\n" in repo.read_text()


def test_dnf_refuses_a_changed_index_and_a_package_that_is_not_signed(repos, repository, packages, tmp_path):
    changed = tmp_path / "changed"
    shutil.copytree(repository, changed)
    index = changed / "rpm/repodata/repomd.xml"
    index.write_text(index.read_text() + "<!-- changed -->\n")
    repo = repos / f"{NAME}.repo"
    ours = repo.read_text()
    repo.write_text(ours.replace(f"file://{repository}/rpm", f"file://{changed}/rpm"))
    done = dnf(tmp_path / "root", repos, "install", NAME)
    assert done.returncode != 0
    assert "GPG" in done.stdout + done.stderr or "signature" in (done.stdout + done.stderr).lower()

    shutil.copy(packages.rpm, changed / "rpm")  # as it was before it was signed
    subprocess.run(["createrepo_c", "--quiet", changed / "rpm"], check=True)
    repo.write_text(repo.read_text().replace("repo_gpgcheck=1", "repo_gpgcheck=0"))
    done = dnf(tmp_path / "other", repos, "install", NAME)
    assert done.returncode != 0
    assert "is not signed" in done.stdout + done.stderr


def test_the_wheels_are_installed_where_there_is_no_network(packages, tmp_path):
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("an empty network namespace needs root and unshare")
    [bundle] = packages.deb.parent.glob("*-wheels-*.tar")
    with tarfile.open(bundle) as archive:
        archive.extractall(tmp_path, filter="data")
    [wheels] = tmp_path.iterdir()
    subprocess.run(["/usr/bin/python3.11", "-m", "venv", tmp_path / "venv"], check=True)
    pip = [tmp_path / "venv/bin/pip", "install", "--quiet", "--no-index", "--find-links", wheels]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environ["PIP_CONFIG_FILE"] = os.devnull
    command = ["unshare", "--net", *pip, f"{NAME}[web,top]"]
    done = subprocess.run(command, capture_output=True, text=True, env=environ)
    assert done.returncode == 0, done.stderr
    version = subprocess.run(
        [tmp_path / "venv/bin/jobfeatures-exporter", "--version"], capture_output=True, text=True
    )
    assert version.stdout.startswith(f"{NAME}, version ")
