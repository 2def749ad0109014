"""Sums the resource usage of tasks by control group in the kernel (eBPF); see the top of `sums.bpf.c`."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.declare import BOOLEAN, choice, option

AUTO, BPF, PROCFS = "auto", "bpf", "procfs"


@dataclass(frozen=True, kw_only=True)
class ReaderSettings:
    """Settings: whether eBPF programs sum what processes use, and count the network traffic of jobs."""

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
