"""Resource usage of tasks, summed in the kernel (eBPF) by control group, as `sums.bpf.c` says at its top."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.declare import BOOLEAN, choice, option

AUTO, BPF, PROCFS = "auto", "bpf", "procfs"


@dataclass(frozen=True, kw_only=True)
class ReaderSettings:
    """Settings: whether programs in the kernel sum what processes use, and what else needs these programs."""

    processes: str = option(
        choice(AUTO, BPF, PROCFS),
        AUTO,
        "how processes are measured: bpf (eBPF: sums in the kernel) or procfs; auto: bpf if available",
    )
    network: bool = option(
        BOOLEAN,
        False,
        "count IP bytes and packets of jobs; needs cgroup v2, bpf and CAP_NET_ADMIN",
        key="jobs.network",
    )
