"""What owners of jobs and clients can try with a running daemon, beyond what each part is tested with."""

from __future__ import annotations

import importlib.util
import os
import socket
import ssl
import time
import urllib.request
from contextlib import ExitStack

import pytest

from tests.exporter.web.authority import Authority
from tests.faults.faultrules import BLOCK, OPEN, READ, Faults, Rule, compile_shim
from tests.faults.site import ROOT, Site, now
from tests.running import until

_spec = importlib.util.spec_from_file_location("blockingfile", ROOT / "tests/labs/blockingfile.py")
blockingfile = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(blockingfile)

STATUS = {"used_CPU": "1", "last_job_start": str(now() - 50)}

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]


@pytest.fixture
def make_site(tmp_path):
    made = []

    def make(**flags):
        made.append(Site(tmp_path, {"features.form": "local", **flags}))
        return made[-1]

    yield make
    for each in made:
        each.close()


def begin(site, job_id):
    environ = {"SLURM_JOB_START_TIME": str(now() - 100), "SLURM_JOB_END_TIME": str(now() + 4000)}
    site.group(job_id, user_usec=1_000_000)
    assert site.hook("prolog.sh", job_id, **environ).wait() == 0
    until(lambda: f"slurm-{job_id}" in site.published())


def end(site, job_id):
    site.end_group(job_id)
    assert site.hook("epilog.sh", job_id).wait() == 0
    until(lambda: f"slurm-{job_id}" not in site.published())


def tell(site, job_id):
    for name, value in STATUS.items():
        (site.root / "jobstatus" / f"slurm-{job_id}" / name).write_text(f"{value}\n")


def status_is_shown(site, job_id):
    return f'batch_job_status_used_cpus{{batch_system="slurm",job_id="{job_id}"}} 1' in (
        site.get("/metrics") or ""
    )


@pytest.mark.skipif(blockingfile.why_not() is not None, reason=str(blockingfile.why_not()))
def test_a_file_system_of_a_users_own_holds_up_neither_pages_nor_other_jobs_nor_its_own_end(make_site):
    site = make_site()
    site.start()
    site.wait_until_ready()
    for job_id in ("1", "2"):
        begin(site, job_id)
        tell(site, job_id)
    until(lambda: status_is_shown(site, "1") and status_is_shown(site, "2"))
    hanging = blockingfile.BlockingFile(str(site.root / "jobstatus/slurm-1/used_CPU"))
    try:
        for _ in range(5):
            assert site.get("/metrics", timeout_secs=30)
            time.sleep(0.2)
        end(site, "2")
        begin(site, "3")
        tell(site, "3")
        until(lambda: status_is_shown(site, "3"))
        assert not hanging.asked.is_set()  # nobody has entered it
        end(site, "1")
        assert site.published() == {"slurm-3"}
        [left] = filter(
            os.path.ismount, (site.root / "staging").glob("*/used_CPU")
        )  # moved aside with its mount, which keeps it there
        hanging.path = str(left)
    finally:
        hanging.close()
    left.unlink()


def test_what_a_user_has_loaded_into_a_hook_s_shell_reaches_nothing_that_the_daemon_does(make_site, tmp_path):
    """LD_PRELOAD acts before a script's first line: a batch system takes it out, or its hook is whatever the library is."""
    faults = Faults(compile_shim(tmp_path), tmp_path / "rules")
    site = make_site()
    site.start()
    site.wait_until_ready()
    environ = {"SLURM_JOB_START_TIME": str(now()), "SLURM_JOB_END_TIME": str(now() + 500), **faults.environ}
    with faults.on([Rule(f"{site.root}/*", OPEN | READ, BLOCK)]):
        hook = site.hook("prolog.sh", "1", **environ)
        until(lambda: faults.hits() > 0)  # its shell is held
        begin(site, "2")  # others are not
        assert site.get("/metrics", timeout_secs=30)
        hook.kill()
        hook.wait()
    assert "LD_PRELOAD" not in "".join(path.read_text() for path in (site.root / "records").iterdir())
    faults.close()


def test_a_flood_of_handshakes_that_never_end_lets_a_client_of_another_address_in(make_site, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.make("server")
    settings = tmp_path / "web.yml"
    settings.write_text(f"tls_server_config:\n  cert_file: {certificate}\n  key_file: {key}\n")
    site = make_site(**{"web.config.file": settings})
    site.start()
    context = ssl.create_default_context(cafile=str(authority.path))
    address = f"https://127.0.0.1:{site.web}/metrics"

    def page():
        try:
            with urllib.request.urlopen(address, timeout=60, context=context) as answer:
                return answer.read()
        except OSError:
            assert site.process.poll() is None, site.log.read_text()
            return None

    assert until(page)
    with ExitStack() as stack:
        for number in range(600):  # more than there may be connections
            client = stack.enter_context(socket.socket())
            client.bind((f"127.0.0.{2 + number % 5}", 0))
            client.settimeout(60)
            try:
                client.connect(("127.0.0.1", site.web))
                client.sendall(
                    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
                )  # a hello that goes no further
            except OSError:  # cut off already
                continue
            if number % 200 == 199:
                assert until(page)
    assert until(page)
    assert b"batch_exporter_web_rejected_total" in until(page)
