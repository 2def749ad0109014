"""The .deb is built by README's commands on several Debians, each with its own Python, and works there.

Their folders have what README names, and nothing else that a build could want; pip finds its index as it does here.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from makepackages.layout import NAME, PREFIX

from tests.docs.pages import blocks_in, text_of
from tests.integration.debian import ROOT, later_debian, read_metrics

pytestmark = pytest.mark.timeout(3000)
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
BUILD_SECS = 1800  # on a busy machine, most of it pip's


def readmes_commands():
    """Return the packages that README names for the build, and the command that builds."""
    [block] = [
        each for each in blocks_in(text_of("README.md"), "README.md") if "packaging/build.sh" in each.text
    ]
    install, build = block.text.strip().splitlines()
    packages = re.fullmatch(r"apt-get install -y --no-install-recommends ([a-z0-9 -]+)", install)[1]
    return packages.split(), build


@pytest.mark.parametrize(
    "suite",
    ["bookworm", pytest.param("trixie", marks=pytest.mark.long), pytest.param("sid", marks=pytest.mark.long)],
)
def test_a_deb_is_built_installed_started_scraped_and_removed_on(suite, tmp_path):
    packages, build = readmes_commands()
    with later_debian(suite, packages, tmp_path / "debian") as system:
        clone = system.root / "root/clone"
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        for file in (CERTIFICATES, Path("/etc/resolv.conf")):
            if file.exists():
                shutil.copy(file, system.root / file.relative_to("/"))
        kept = {
            name: value
            for name, value in os.environ.items()
            if re.fullmatch(r"PIP_.*|.*_proxy|SSL_CERT_FILE|SSL_CERT_DIR", name, re.IGNORECASE)
        }
        done = subprocess.run(
            system.command("sh", "-c", f"cd /root/clone && {build}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_SECS,
            env={**kept, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"},
        )
        assert done.returncode == 0, done.stdout
        [deb] = (clone / "dist").glob("*.deb")
        python = (system.root / "usr/bin/python3").readlink().name
        depends = subprocess.run(
            ["dpkg-deb", "-f", deb, "Depends"], capture_output=True, text=True, check=True
        )
        assert depends.stdout.startswith(f"{python}, ")

        system.run("apt-get", "install", "-qy", "--no-install-recommends", f"/root/clone/dist/{deb.name}")
        assert f"python version:   {python[len('python') :]}." in system.run(NAME, "--version")
        with subprocess.Popen(
            system.command(NAME, "serve", "--web.listen-address", "127.0.0.1:0"),
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as daemon:
            page = read_metrics(daemon, "batch_node_cpu_seconds_total")
            daemon.terminate()
            assert daemon.wait(60) == 0
        assert "batch_exporter_build_info" in page
        system.run("apt-get", "purge", "-qy", NAME)
        assert not (system.root / PREFIX[1:]).exists()
