"""The rights to load programs into the kernel are given up, and what was loaded goes on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from jobfeatures_exporter.sampling.bpf.reader import KernelSums
from jobfeatures_exporter.sampling.bpf.rights import give_up_rights
sums = KernelSums(path=sys.argv[1])
give_up_rights(lambda: sums.look([]))
sums.look([])
assert sums.processes > 0
assert sums.checks().threads > 0
print(open("/proc/self/status").read())
try:
    KernelSums(path=sys.argv[1])
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
def test_both_rights_suffice_and_are_given_up_for_good(rights, bpf_object, make_sums):
    make_sums().close()  # or skips
    command = ["setpriv", *rights, sys.executable, "-c", SCRIPT, bpf_object]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ":".join(sys.path)}
    )
    assert done.returncode == 0, done.stderr
    status = dict(line.split(":\t") for line in done.stdout.splitlines() if line.startswith("Cap"))
    for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        assert int(status[name], 16) & (1 << 38 | 1 << 39) == 0, name
    assert "again: Operation not permitted" in done.stdout
