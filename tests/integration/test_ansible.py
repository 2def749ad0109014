"""The role of Ansible on clean Debian systems: a node and a controller; twice, and with a newer package."""

import json
import os
import re
import shutil
import subprocess

import bcrypt
import pytest
from makepackages.layout import NAME
from makepackages.repository import PROGRAMS, build_repository

from tests.integration.debian import ROOT, clean_debian

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]  # all of it happens in the first test
ROLE = ROOT / "packaging/ansible"
ETC = f"etc/{NAME}"
SCONTROL = '#!/bin/sh\necho "$@" >>/var/log/scontrol\n'  # stands for Slurm's


@pytest.fixture(scope="module")
def site(packages, tmp_path_factory):
    """A repository, an inventory, and two machines in folders."""
    for program in (*PROGRAMS, "ansible-playbook", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GNUPGHOME", str(folder / "gnupg"))
        (folder / "gnupg").mkdir(mode=0o700)
        key = [
            "gpg",
            "--batch",
            "--passphrase",
            "",
            "--quick-generate-key",
            "site@example.org",
            "rsa3072",
            "sign",
        ]
        subprocess.run(key, check=True, capture_output=True)
        build_repository([packages.deb], folder / "repository", "site@example.org")
        with (
            clean_debian(folder / "node", ["python3-apt"]) as node,
            clean_debian(folder / "head", ["python3-apt"]) as head,
        ):
            for machine in (node, head):
                shutil.copytree(folder / "repository", machine.root / "srv/repository")
                for old in (machine.root / "etc/apt").glob("sources.list"):  # nothing else is to be reached
                    old.unlink()
                (machine.root / "etc/slurm").mkdir(exist_ok=True)
                (machine.root / "etc/slurm/slurm.conf").write_text("ClusterName=site\n")
                (machine.root / "usr/local/bin/scontrol").write_text(SCONTROL)
                (machine.root / "usr/local/bin/scontrol").chmod(0o755)
            yield Site(folder, node, head)
        subprocess.run(["gpgconf", "--kill", "gpg-agent"], check=False)


class Site:
    """Runs the playbook; each answer is kept."""

    def __init__(self, folder, node, head):
        self.folder, self.node, self.head = folder, node, head
        hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(10)).decode()
        variables = {
            "ansible_connection": "folder",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_become": False,
            "jobfeatures_repository": "file:/srv/repository",
            "jobfeatures_key": str(folder / f"repository/{NAME}.asc"),
            "jobfeatures_ca": str(folder / "ca"),
            "jobfeatures_users": {"prometheus": hashed},
            "jobfeatures_settings": "[machine]\nhs06 = 160\n",
        }
        hosts = {
            "jobfeatures_nodes": {"hosts": {"node001": {"ansible_host": str(node.root)}}},
            "jobfeatures_controller": {"hosts": {"head1": {"ansible_host": str(head.root)}}},
        }
        (folder / "inventory.json").write_text(json.dumps({"all": {"vars": variables, "children": hosts}}))

    def play(self, *flags):
        """Return how many tasks changed something on each machine, and what was said."""
        environ = {
            **os.environ,
            "ANSIBLE_CONNECTION_PLUGINS": str(ROOT / "tests/labs/ansible/connection_plugins"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "ansible"),
            "LC_ALL": "C.UTF-8",
        }
        command = ["ansible-playbook", "-i", self.folder / "inventory.json", *flags, ROLE / "site.yml"]
        done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=self.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(re.findall(r"^(\w+) +: ok=\d+ +changed=(\d+)", done.stdout, re.MULTILINE)), done.stdout


@pytest.fixture(scope="module")
def played(site):
    """The first run."""
    return site.play()


def test_a_node_and_a_controller_are_installed_configured_and_enabled(site, played):
    for machine in (site.node, site.head):
        assert machine.run("jobfeatures-exporter", "--version").startswith(NAME)
    wanted = "etc/systemd/system/multi-user.target.wants"
    assert (site.node.root / wanted / f"{NAME}.service").is_symlink()
    assert (site.head.root / wanted / "jobfeatures-controller.service").is_symlink()
    assert not (site.head.root / wanted / f"{NAME}.service").is_symlink()
    said = site.node.run("jobfeatures-exporter", "check-config")
    assert "machine.hs06 = 160\n" in said
    assert "web.listen_address = :9819\n" in said
    assert f"web.config_file = /{ETC}/web.yml\n" in said


def test_one_authority_has_signed_a_certificate_with_the_names_of_each_machine(site, played):
    for machine, name in ((site.node, "node001"), (site.head, "head1")):
        certificate = machine.root / ETC / "tls.crt"
        verify = [
            "openssl",
            "verify",
            "-CAfile",
            site.folder / "ca/ca.crt",
            "-verify_hostname",
            name,
            certificate,
        ]
        done = subprocess.run(verify, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        key = (machine.root / ETC / "tls.key").stat()
        assert key.st_uid == 0
        assert key.st_mode & 0o777 == 0o640
    assert (site.folder / "ca/ca.key").stat().st_mode & 0o077 == 0


def test_the_hooks_are_named_once_and_slurm_is_told(site, played):
    for machine in (site.node, site.head):
        conf = (machine.root / "etc/slurm/slurm.conf").read_text()
        assert conf.count("Prolog=/opt/jobfeatures-exporter/slurm/prolog.sh") == 1
        assert conf.startswith("ClusterName=site\n")
    logs = [machine.root / "var/log/scontrol" for machine in (site.node, site.head)]
    assert [each.read_text() for each in logs if each.exists()] == ["reconfigure\n"]


def test_a_second_run_changes_nothing(site, played):
    before = [machine.files() for machine in (site.node, site.head)]
    changed, said = site.play()
    assert set(changed.values()) == {"0"}, said
    after = [machine.files() for machine in (site.node, site.head)]
    differing = [
        {name for name in one.keys() | two.keys() if one.get(name) != two.get(name)}
        for one, two in zip(before, after, strict=True)
    ]
    assert [
        {each for each in names if not each.startswith(("root/.ansible", "var/lib/apt"))}
        for names in differing
    ] == [set(), set()]


def test_a_newer_package_is_an_upgrade_that_keeps_the_sites_settings(site, played, packages, tmp_path):
    subprocess.run(["dpkg-deb", "-R", packages.deb, tmp_path / "files"], check=True)
    control = tmp_path / "files/DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*", "Version: 99.0-1", control.read_text()))
    newer = tmp_path / "newer_99.0-1.deb"
    wrap = ["dpkg-deb", "--root-owner-group", "-Znone", "-b", tmp_path / "files", newer]
    subprocess.run(wrap, check=True, capture_output=True)
    build_repository([newer], site.folder / "repository", "site@example.org")
    kept = {}
    for machine in (site.node, site.head):
        shutil.copytree(site.folder / "repository", machine.root / "srv/repository", dirs_exist_ok=True)
        kept[machine] = (machine.root / ETC / "conf.d/50-site.toml").read_text()
    changed, said = site.play()
    assert set(changed.values()) == {"1"}, said
    for machine in (site.node, site.head):
        assert "Version: 99.0-1" in machine.run("dpkg", "-s", NAME)
        assert (machine.root / ETC / "conf.d/50-site.toml").read_text() == kept[machine]


def test_hooks_of_the_site_are_not_replaced(site, played):
    conf = site.node.root / "etc/slurm/slurm.conf"
    before = conf.read_text()
    conf.write_text(before + "Prolog=/etc/slurm/own.sh\n")
    try:
        with pytest.raises(AssertionError, match=r"sets other hooks or flags: .*own.sh; call our"):
            site.play("--limit", "node001,localhost")
    finally:
        conf.write_text(before)
