"""The container's file, built by buildah without a registry: the base is a clean Debian in place of Python's image."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from tests.integration.debian import ROOT, clean_debian, read_metrics

pytestmark = pytest.mark.timeout(900)

FILE = ROOT / "packaging/Containerfile"
ENTRY_POINT = json.loads(re.search(r"(?m)^ENTRYPOINT (.+)$", FILE.read_text())[1])
JOB = """<Job><Id>7</Id><State>Running</State><User>alice</User>
<TaskGroup><Task><Process>{pid}</Process></Task></TaskGroup></Job>"""


class Buildah:
    """Buildah with a store of its own: files are copied, and commands run in a chroot, which any machine can do."""

    def __init__(self, folder):
        if shutil.which("buildah") is None:
            pytest.skip("buildah is not installed")
        store = ("--root", folder / "store", "--runroot", folder / "run", "--storage-driver", "vfs")
        self.command = ["buildah", *map(str, store)]
        self.environ = {**os.environ, "BUILDAH_ISOLATION": "chroot", "TMPDIR": str(folder)}

    def __call__(self, *words):
        done = subprocess.run([*self.command, *words], capture_output=True, text=True, env=self.environ)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout.strip()


@pytest.fixture
def buildah(tmp_path):
    return Buildah(tmp_path)


@pytest.fixture
def image(packages, buildah, tmp_path):
    """Build the file with the bundle beside the packages as its context, and no network."""
    context = tmp_path / "dist"
    context.mkdir()
    for bundle in packages.deb.parent.glob("*-wheels-*.tar"):
        shutil.copy(bundle, context)
    with clean_debian(tmp_path / "debian", ["python3-venv"]) as system:
        base = buildah("from", "scratch")
        buildah("add", "--quiet", base, f"{system.root}/", "/")
        buildah("commit", "--quiet", base, "localhost/base")
    base = ("--build-arg", "BASE=localhost/base")
    buildah("build", "--network", "none", *base, "-f", FILE, "-t", "exporter", context)
    return buildah("from", "localhost/exporter")


@pytest.mark.long
def test_the_image_is_built_and_its_daemon_reads_the_host_from_its_mounts(image, buildah, tmp_path):
    assert json.loads(buildah("inspect", image))["OCIv1"]["config"]["Entrypoint"] == ENTRY_POINT
    assert buildah("run", image, "--", "jobfeatures-exporter", "--version").startswith("jobfeatures-exporter")
    spool = tmp_path / "spool"
    spool.mkdir()
    mounts = ("-v", "/proc:/host/proc:ro", "-v", "/sys:/host/sys:ro", "-v", f"{spool}:/spool:ro")
    flags = ("--web.listen-address=127.0.0.1:0", "--batch.sources=spool", "--spool.directory=/spool")
    with subprocess.Popen(["sleep", "600"]) as payload:
        (spool / "7.xml").write_text(JOB.format(pid=payload.pid))
        with subprocess.Popen(
            [*buildah.command, "run", "--network", "host", *mounts, image, "--", *ENTRY_POINT, *flags],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=buildah.environ,
        ) as daemon:
            page = read_metrics(daemon, 'batch_job_processes{batch_system="spool"')
            os.killpg(daemon.pid, signal.SIGTERM)
        payload.kill()
    assert 'batch_job_processes{batch_system="spool",job_id="7"} 1\n' in page
