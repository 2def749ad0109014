"""Why nodes start no jobs: free-text reasons, by administrators or Slurm, as one of a few classes. Pure.

The texts may name people and places, and are unbounded in number, so no label ever contains one.
"""

from __future__ import annotations

import re

# The first match counts. Slurm's own texts: node_mgr.c, ping_nodes.c, job_mgr.c, slurmd's reports.
CLASSES = {
    "not_responding": r"not responding|unreachable",
    "rebooted": r"unexpectedly rebooted|boot_?id",
    "reboot": r"reboot|power[ _-]?(?:cycle|off|down)|resume ?timeout",
    "kill_failed": r"kill task failed|job step not ending|batch job complete fail|not ending",
    "prolog": r"prolog|epilog",
    "configuration": r"low (?:realmemory|memory|cpus|tmpdisk|socket)|gres/|config|invalid argument|mismatch",
    "health_check": r"nhc\b|health ?check|check_",
    "gpu": r"gpu|nvidia|xid|cuda|nvlink|rocm",
    "network": r"network|infiniband|\bib\b|\bopa\b|ethernet|\bnic\b|slingshot",
    "storage": r"disk|file ?system|lustre|gpfs|\bnfs\b|mount|scratch|nvme|raid",
    "memory": r"memory|dimm|\bmce\b|\becc\b|\boom\b",
    "power_or_heat": r"temperature|thermal|overheat|\bpsu\b|power|cooling|\bfan\b",
    "maintenance": r"maint|update|upgrade|kernel|firmware|bios|patch|install|migrat",
    "hardware": r"hardware|\bhw\b|broken|repair|\brma\b|dead",
    "test": r"test|benchmark|burn-?in|debug",
}
OTHER = "other"
_CLASSES = [(name, re.compile(pattern, re.IGNORECASE)) for name, pattern in CLASSES.items()]
MAX_CHARACTERS = 1000


def classify_reason(text: str) -> str:
    """Return the class of a reason; "" without a reason."""
    if not text.strip() or text.strip().lower() in {"none", "(null)"}:
        return ""
    cut = text.rpartition(" [")[0] or text  # without its author and time
    return next((name for name, pattern in _CLASSES if pattern.search(cut[:MAX_CHARACTERS])), OTHER)
