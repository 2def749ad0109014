"""Services and sessions of a real systemd, in a throw-away machine that it boots."""

import re
import sys
from pathlib import Path

import pytest

# Runs as root in the machine, itself in lab.service; prints one page of metrics.
SCRIPT = """
set -eu
exec 2>&1
systemd-run -q --unit=busy sh -c 'while :; do :; done'
systemd-run -q --slice=site-fast.slice --unit=inner sleep 6000
systemd-run -q --unit=docker-{hex}.scope --scope --slice=system.slice sleep 6000 &
systemd-run -q --scope --slice=user-6001.slice --unit=session-3 sh -c 'sleep 6000 & sleep 6000' &
systemd-run -q --slice=user-6001.slice --unit=of-the-user sleep 6000
mkdir -p /sys/fs/cgroup/user.slice/user-6001.slice/torque/987009.server
sleep 6000 &
echo $! >/sys/fs/cgroup/user.slice/user-6001.slice/torque/987009.server/cgroup.procs
/mnt/bin/jobfeatures-exporter serve --web.listen-address 127.0.0.1:9819 --batch.sources '' \\
  --sample.interval 1s --jobs.kinds batch,container,service,session,group &
exporter=$!
for i in $(seq 1200); do
  {python} -c '
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:9819/metrics").read().decode())' >/tmp/page 2>/dev/null || continue
  grep -q 'batch_job_cpu_seconds_total{{batch_system="service",job_id="busy.service",mode="user"}} [1-9]' /tmp/page && break
  sleep 0.2
done
cat /tmp/page
kill $exporter; wait $exporter || true
"""
HEX = "0123456789abcdef" * 4


@pytest.fixture(scope="module")
def page(run_in_machine):
    if not Path("/lib/systemd/systemd").exists() or not Path("/usr/bin/dbus-daemon").exists():
        pytest.skip("needs systemd and dbus installed")
    return run_in_machine(SCRIPT.format(hex=HEX, python=Path(sys.executable).resolve()), "-s")


def processes(page: str) -> dict[tuple[str, str], float]:
    found = re.findall(
        r'^batch_job_processes\{batch_system="(.*?)",job_id="(.*?)"\} (\S+)$', page, re.MULTILINE
    )
    return {(system, job_id): float(value) for system, job_id, value in found}


def test_services_are_named_by_their_units(page):
    found = processes(page)
    assert found["service", "busy.service"] == 1
    assert found["service", "inner.service"] == 1
    assert found["service", "lab.service"] >= 2  # the script and the exporter
    assert found["service", "init.scope"] == 1


def test_a_scope_of_a_container_is_a_container(page):
    assert processes(page)["container", "docker-0123456789ab"] == 1


def test_all_that_a_user_runs_is_one_session_whatever_they_call_it(page):
    found = processes(page)
    assert found["session", "user-6001"] == 5
    assert not any(system == "torque" for system, _ in found)


def test_a_service_has_cpu_time(page):
    assert 'batch_job_cpu_seconds_total{batch_system="service",job_id="busy.service",mode="user"}' in page
