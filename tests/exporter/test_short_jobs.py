"""A job that begins and ends between two scrapes and two regular looks, on the real kernel."""

import os
import re
import subprocess
import sys
from contextlib import suppress

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.node.daemon import Daemon
from tests.running import count_watches, until

pytestmark = pytest.mark.program

KEY = JobKey("slurm", "7")
BUSY = "import time; until = time.process_time() + 0.3\nwhile time.process_time() < until: pass"


ORDINARY, UNTHOUGHT = "system.slice", "site.slice/site-pod.slice/x"
POD = f"kubepods.slice/kubepods-pod0.slice/cri-containerd-{'0123456789abcdef' * 4}.scope/system.slice"


@pytest.fixture(params=[ORDINARY, UNTHOUGHT, POD], ids=["ordinary", "unthought", "pod"])
def scope(request, tmp_path):
    """Return a real control group of v2 that stands for the root, and slurmstepd's scope, to be made in it.

    The ordinary place is there already, and that of a slurmd in a pod.
    """
    for top in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        root = f"{top}/jobfeatures-test-{os.getpid()}-{tmp_path.name}"
        if not os.path.exists(f"{top}/cgroup.controllers"):
            continue
        with suppress(OSError):
            os.makedirs(root if request.param == UNTHOUGHT else f"{root}/{request.param}")
            break
    else:
        pytest.skip("no control group of v2 can be made here: needs root and a mounted hierarchy")
    scope = f"{root}/{request.param}/slurmstepd.scope"
    if request.param != UNTHOUGHT:
        os.mkdir(scope)
    yield root, scope
    while scope != os.path.dirname(root):
        os.rmdir(scope)
        scope = os.path.dirname(scope)


def test_a_job_that_no_regular_look_and_no_scrape_sees_is_shown(scope, tmp_path):
    root, parent = scope
    flags = {
        "features.root": str(tmp_path / "features"),
        "path.cgroup": root,
        "batch.sources": "spool",
        "spool.directory": str(tmp_path),
        "sample.interval": "1h",
        "batch.cgroup_parents": "/site.slice/*,/kubepods.slice/*/cri-containerd-*.scope",
    }
    daemon = Daemon(load_config(ExporterConfig, flags=flags, environ={}))
    before = count_watches()
    daemon.start()
    try:
        until(lambda: daemon.is_ready and count_watches() > before)
        job = f"{parent}/job_7"
        os.makedirs(job)
        script = f"echo $$ > {job}/cgroup.procs && exec {sys.executable} -S -c '{BUSY}'"
        subprocess.run(["/bin/sh", "-c", script], check=True)

        def used_secs():
            sample = daemon.board.samples.snapshot.jobs.get(KEY)
            return sample is not None and (sample.user_cpu_secs or 0) + (sample.system_cpu_secs or 0)

        until(lambda: used_secs() >= 0.3)
        os.rmdir(job)
        until(lambda: KEY in daemon.board.ended)
        page = daemon.exposition(openmetrics=False).decode()
    finally:
        daemon.stop()
    label = re.escape('{batch_system="slurm",job_id="7"')
    modes = re.findall(rf'batch_job_cpu_seconds_total{label},mode="\w+"}} (\S+)', page)
    assert sum(map(float, modes)) >= 0.3
    assert re.search(rf"batch_job_info{label}", page)
    assert re.search(rf"batch_job_end_time_seconds{label}}} \d", page)
    assert not re.search(rf"batch_job_(remaining|kill|draining)\w*{label}", page)
