"""The rights to load programs into the kernel are given up, and what was loaded goes on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies
from tests.exporter.sampling.bpf.conftest import HIERARCHIES

SCRIPT = """
import sys
from jobfeatures_exporter.sampling.bpf.reader import KernelSums
from jobfeatures_exporter.sampling.bpf.rights import CAP_NET_ADMIN, CAP_PERFMON, give_up_rights
keep = [CAP_PERFMON] if "keep" in sys.argv else []
network = [each for each in sys.argv[1:] if each != "keep"]
sums = KernelSums(*network, network=bool(network))
print("network:", sums.no_network)
give_up_rights(lambda: sums.look([]), [CAP_NET_ADMIN] if network else [], keep)
sums.look([])
assert sums.processes > 0
assert sums.checks().threads > 0
print(open("/proc/self/status").read())
try:
    KernelSums()
except OSError as error:
    print("again:", error.strerror)
"""
# As the service has them: not all of root's powers, of which CAP_SYS_ADMIN would do instead.
SERVICE = ["--bounding-set=-all,+bpf,+perfmon,+dac_override", "--inh-caps=-all", "--no-new-privs"]
# As its variant without root has them.
NOBODY = ["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]
NOBODY += ["--inh-caps=+bpf,+perfmon", "--ambient-caps=+bpf,+perfmon", "--bounding-set=-all,+bpf,+perfmon"]


@pytest.mark.program
@pytest.mark.parametrize("rights", [SERVICE, NOBODY], ids=["root's service", "a user with both"])
def test_both_rights_suffice_and_are_given_up_for_good(rights, make_sums):
    make_sums().close()  # or skips
    told, held = run_with(rights)
    assert held & (1 << 38 | 1 << 39) == 0
    assert "again: Operation not permitted" in told


@pytest.mark.program
@pytest.mark.parametrize("rights", [SERVICE, NOBODY], ids=["root's service", "a user with both"])
def test_the_right_to_count_is_kept_for_who_goes_on_counting(rights, make_sums):
    make_sums().close()  # or skips
    told, held = run_with(rights, "keep")
    assert held & (1 << 38 | 1 << 39) == 1 << 38
    assert "again: Operation not permitted" in told


@pytest.mark.program
@pytest.mark.parametrize("rights", [SERVICE, NOBODY], ids=["root's service", "a user with all"])
def test_packets_take_one_right_more_which_is_given_up_too_and_without_it_the_sums_go_on(rights, make_sums):
    make_sums().close()  # or skips
    v2 = next((each for each in HIERARCHIES if "cpuacct" not in find_hierarchies(each)), None)
    if v2 is None:
        pytest.skip("this machine has no control groups v2")
    told, held = run_with(rights, v2)
    assert "network: bpf_program__attach_cgroup: Operation not permitted" in told
    told, held = run_with([each.replace(",+perfmon", ",+perfmon,+net_admin") for each in rights], v2)
    assert "network: \n" in told
    assert held & (1 << 12 | 1 << 38 | 1 << 39) == 0


def run_with(rights: list[str], *arguments: str) -> tuple[str, int]:
    """Return what the script says, and the rights that it has at the end."""
    command = ["setpriv", *rights, sys.executable, "-c", SCRIPT, *arguments]
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if "error while loading shared libraries: libpython" in done.stderr:
        pytest.skip("this machine has no Python that another user may start: its library is in root's home")
    assert done.returncode == 0, done.stderr
    status = dict(line.split(":\t") for line in done.stdout.splitlines() if line.startswith("Cap"))
    held = 0
    for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        held |= int(status[name], 16)
    return done.stdout, held
