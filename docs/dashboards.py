"""Which panels of public dashboards work with the names of other exporters, and why others do not.

``python docs/dashboards.py`` prints it; docs/generate.py writes the table into comparison.md.
"""

from __future__ import annotations

import fnmatch
from typing import NamedTuple

from jobfeatures_exporter.scrape.profiles import PROFILES


class Dashboard(NamedTuple):
    """A public dashboard: the names that the queries of each panel ask for, recording rules resolved.

    A bar stands between queries that show something without each other.
    """

    name: str
    profile: str
    panels: dict[str, str]


_USED = "slurm_job_core_usage_total"
_MEMORY = "slurm_job_memory_limit slurm_job_memory_max"
_UNIT = "ceems_compute_unit_"
_GROUP = "namedprocess_namegroup_"
_CPU_OF_UNIT = f"{_UNIT}cpu_user_seconds_total {_UNIT}cpu_system_seconds_total"
_HOST_POWER = (
    f"ceems_rapl_package_joules_total ceems_rapl_dram_joules_total ceems_cpu_seconds_total {_CPU_OF_UNIT} "
    f"{_UNIT}memory_used_bytes ceems_meminfo_MemTotal_bytes ceems_meminfo_MemAvailable_bytes"
)
_FLAG = f"{_UNIT}gpu_index_flag"

DASHBOARDS = (
    Dashboard(
        "Jobstats, Single Job Stats",
        "jobstats",
        {
            "Job CPU Utilization": "cgroup_cpu_user_seconds cgroup_cpu_system_seconds "
            "cgroup_cpu_total_seconds cgroup_cpus",
            "Job CPU Memory Utilization": "cgroup_memory_total_bytes cgroup_memory_rss_bytes "
            "cgroup_memory_cache_bytes cgroup_memory_used_bytes cgroup_memory_fail_count",
            "GPU Utilization": "nvidia_gpu_duty_cycle nvidia_gpu_jobId",
            "GPU Memory": "nvidia_gpu_memory_used_bytes nvidia_gpu_jobId",
            "GPU Temperature": "nvidia_gpu_temperature_celsius nvidia_gpu_jobId",
            "GPU Power": "nvidia_gpu_power_usage_milliwatts nvidia_gpu_jobId",
            "Node CPU": "node_cpu_seconds_total",
            "Node memory": "node_memory_MemTotal_bytes",
            "CPU frequency": "node_cpu_scaling_frequency_hertz",
            "NFS": "node_nfs_requests_total",
            "Local disk R/W": "node_disk_read_bytes_total",
            "Local disk IOPS": "node_disk_reads_completed_total",
            "GPFS bandwidth": "gpfs_bytes_read",
            "GPFS operations": "gpfs_requests_read",
            "InfiniBand throughput": "node_infiniband_port_data_received_bytes_total",
            "InfiniBand packets": "node_infiniband_unicast_packets_received_total",
            "InfiniBand errors": "node_infiniband_link_downed_total",
        },
    ),
    Dashboard(
        "TrailblazingTurtle, a job",
        "slurm-job-exporter",
        {
            "CPU used": _USED,
            "cores by node": _USED,
            "memory used": "slurm_job_memory_max",
            "GPU used": "slurm_job_utilization_gpu",
            "GPU memory used": "slurm_job_memory_usage_gpu",
            "GPU power used": "slurm_job_power_gpu",
            "threads against cores": "slurm_job_threads_count",
            "applications": "slurm_job_process_usage_total",
            "CPU by core": _USED,
            "memory": "slurm_job_memory_usage slurm_job_memory_limit slurm_job_memory_max "
            "slurm_job_memory_cache slurm_job_memory_rss | slurm_job_memory_rss_huge | "
            "slurm_job_memory_mapped_file | slurm_job_memory_active_file | slurm_job_memory_inactive_file | "
            "slurm_job_memory_unevictable",
            "processes and threads": "slurm_job_process_count slurm_job_threads_count | "
            "slurm_job_process_usage_total",
            "GPU utilization": "slurm_job_utilization_gpu | slurm_job_sm_occupancy_gpu | "
            "slurm_job_tensor_gpu | slurm_job_fp64_gpu | slurm_job_fp32_gpu | slurm_job_fp16_gpu",
            "GPU memory utilization": "slurm_job_utilization_gpu_memory",
            "GPU memory": "slurm_job_memory_usage_gpu",
            "GPU power": "slurm_job_power_gpu",
            "GPU PCIe": "slurm_job_pcie_gpu",
            "GPU NVLink": "slurm_job_nvlink_gpu",
            "Lustre metadata": "lustre_job_stats_total",
            "Lustre bandwidth": "lustre_job_read_bytes_total",
            "Ethernet": "node_network_receive_bytes_total",
            "InfiniBand": "node_infiniband_port_data_received_bytes_total",
            "disk IOPS": "node_disk_reads_completed_total",
            "disk bandwidth": "node_disk_read_bytes_total",
            "disk used": "node_filesystem_size_bytes",
            "memory bandwidth": "DRAM_Reads",
            "L2 rate": f"L2_Cache_Hits OS_ID {_USED}",
            "L3 rate": f"L3_Cache_Hits OS_ID {_USED}",
            "IPC": f"Instructions_Retired_Any OS_ID {_USED}",
            "CPU interconnect": "Incoming_Data_Traffic_On_Link_0",
            "power without GPUs": f"redfish_chassis_power {_USED} node_cpu_seconds_total",
            "power with GPUs": "redfish_chassis_power nvidia_gpu_power_usage_milliwatts slurm_job_power_gpu",
        },
    ),
    Dashboard(
        "TrailblazingTurtle, users, accounts, nodes and top",
        "slurm-job-exporter",
        {
            "user: CPU": _USED,
            "user: memory": f"{_MEMORY} slurm_job_memory_rss",
            "user: GPU": "slurm_job_utilization_gpu",
            "user: GPU power": "slurm_job_power_gpu",
            "user: Lustre": "lustre_job_stats_total lustre_job_read_bytes_total",
            "account: CPU": _USED,
            "account: memory": _MEMORY,
            "account: GPU": "slurm_job_utilization_gpu",
            "account: GPU power": "slurm_job_power_gpu",
            "account: applications": "slurm_job_process_usage_total",
            "account: Lustre": "lustre_job_stats_total lustre_job_read_bytes_total",
            "node: jobs by core": f"{_USED} node_cpu_seconds_total",
            "node: jobs by GPU": "slurm_job_utilization_gpu",
            "node: CPU by job": _USED,
            "node: memory by job": "slurm_job_memory_usage",
            "node: GPU utilization": "slurm_job_utilization_gpu | slurm_job_sm_occupancy_gpu | "
            "slurm_job_tensor_gpu | slurm_job_fp64_gpu | slurm_job_fp32_gpu | slurm_job_fp16_gpu",
            "node: GPU memory": "slurm_job_memory_usage_gpu",
            "node: GPU power": "slurm_job_power_gpu",
            "list of nodes": "slurm_node_state_info node_cpu_seconds_total",
            "top: compute": f"{_USED} {_MEMORY}",
            "top: large memory": f"{_USED} {_MEMORY}",
            "top: GPU": "slurm_job_utilization_gpu",
            "cluster: cores and GPUs used": f"{_USED} slurm_job_utilization_gpu",
            "software: programs": "slurm_job_process_usage_total",
            "software: GPUs by program": "slurm_job_process_usage_total slurm_job_utilization_gpu",
        },
    ),
    Dashboard(
        "CEEMS, SLURM Single Job Metrics",
        "ceems",
        {
            "CPU Utilization": f"{_CPU_OF_UNIT} {_UNIT}cpus",
            "CPU Memory Utilization": f"{_UNIT}memory_total_bytes {_UNIT}memory_used_bytes "
            f"{_UNIT}memory_rss_bytes {_UNIT}memory_cache_bytes",
            "Host Power Usage": _HOST_POWER,
            "CPU Time": _CPU_OF_UNIT,
            "CPU Frequency": f"ceems_perf_cpucycles_total {_UNIT}cpus",
            "CPU IPC": "ceems_perf_instructions_total ceems_perf_cpucycles_total",
            "CPU Software Events": "ceems_perf_context_switches_total | ceems_perf_cpu_migrations_total",
            "Page Fault Events": "ceems_perf_major_faults_total | ceems_perf_minor_faults_total",
            "CPU Cache Events": "ceems_perf_cache_l1d_read_misses_total",
            "GPU Utilization": f"DCGM_FI_DEV_GPU_UTIL {_FLAG}",
            "GPU Memory Utilization": f"DCGM_FI_DEV_FB_USED {_FLAG}",
            "GPU Power Usage": f"DCGM_FI_DEV_POWER_USAGE {_FLAG}",
            "GPU SM Activity": f"DCGM_FI_PROF_SM_ACTIVE {_FLAG}",
            "GPU engines": f"DCGM_FI_PROF_GR_ENGINE_ACTIVE {_FLAG}",
            "GPU FP engines": f"DCGM_FI_PROF_PIPE_FP64_ACTIVE {_FLAG}",
            "GPU memory bandwidth": f"DCGM_FI_PROF_DRAM_ACTIVE {_FLAG}",
            "GPU NVLink": f"DCGM_FI_PROF_NVLINK_TX_BYTES {_FLAG}",
            "GPU PCIe": f"DCGM_FI_PROF_PCIE_TX_BYTES {_FLAG}",
            "IO bandwidth": "ceems_ebpf_read_bytes_total",
            "IO requests": "ceems_ebpf_read_requests_total",
            "IO errors": "ceems_ebpf_read_errors_total",
            "Network bandwidth": "ceems_ebpf_ingress_bytes_total",
            "Network packets": "ceems_ebpf_ingress_packets_total",
            "Profile": "pyroscope",
        },
    ),
    Dashboard(
        "process-exporter, Named processes (249)",
        "process-exporter",
        {
            "num processes": f"{_GROUP}num_procs",
            "cpu": f"{_GROUP}cpu_seconds_total",
            "read bytes": f"{_GROUP}read_bytes_total",
            "write bytes": f"{_GROUP}write_bytes_total",
            "resident memory": f"{_GROUP}memory_bytes",
            "virtual memory": f"{_GROUP}memory_bytes",
        },
    ),
    Dashboard(
        "process-exporter, Process Exporter Detail",
        "process-exporter",
        {
            "CPU User": f"{_GROUP}cpu_user_seconds_total",
            "CPU System": f"{_GROUP}cpu_system_seconds_total",
            "Context switches": f"{_GROUP}context_switches_total",
            "Num processes": f"{_GROUP}num_procs",
            "Num threads": f"{_GROUP}num_threads",
            "Exits/Restarts": f"{_GROUP}oldest_start_time_seconds",
            "Open filedescs": f"{_GROUP}open_filedesc",
            "Worst filedesc ratio": f"{_GROUP}worst_fd_ratio",
            "Wchan threads": f"{_GROUP}threads_wchan",
        },
    ),
)

# Why a name is not there; the first pattern that fits. Exporters that are named go on beside this one.
WHY = {
    "node_*": "node_exporter has it",
    "gpfs_*": "an exporter of GPFS has it",
    "lustre_*": "an exporter of Lustre has it",
    "DCGM_*": "dcgm-exporter has it",
    "nvidia_gpu_*": "profile `jobstats` or its exporter has it",
    "redfish_*": "an exporter of Redfish has it",
    "slurm_node_*": "an exporter of Slurm's nodes has it",
    "pyroscope": "Grafana Alloy has it",
    "slurm_job_memory_*": "parts of memory that are not sampled",
    "slurm_job_*_gpu": "profiling counters, not by these names",
    "ceems_perf_cpu_migrations_total": "migrations are not counted",
    "ceems_perf_minor_faults_total": "minor faults are not counted",
    "ceems_perf_*": "hardware counters, not opened for jobs",
    "ceems_ebpf_*": "transfers by mount and protocol, not counted",
    f"{_GROUP}cpu_*_seconds_total": "a former name of `cpu_seconds_total`",
    f"{_GROUP}threads_wchan": "wait channels, not read",
    "*": "Intel's PCM has it",
}


# What a name that is told depends on.
WHERE = {
    "slurm_job_process_usage_total": "with `collector.processes`",
    "ceems_perf_*": "where the kernel sums",
    f"{_GROUP}context_switches_total": "where the kernel sums",
    f"{_GROUP}open_filedesc": "where processes may be read",
    f"{_GROUP}worst_fd_ratio": "where processes may be read",
    "ceems_rapl_*": "where RAPL can be read",
}
YES, BESIDE, PART, NO = "yes", "beside another", "in part", "no"


def first_fit(name: str, said: dict[str, str]) -> str:
    """Return what is said of the first pattern that fits a name; empty where none does."""
    return next((text for pattern, text in said.items() if fnmatch.fnmatchcase(name, pattern)), "")


def judge(asked: str, told: set[str]) -> tuple[str, str]:
    """Return whether a panel works, and what it depends on or misses."""
    queries = [query.split() for query in asked.split("|")]
    missing = [name for query in queries for name in query if name not in told]
    if not missing:
        names = [name for query in queries for name in query]
        return YES, "; ".join(dict.fromkeys(filter(None, (first_fit(name, WHERE) for name in names))))
    reasons = list(dict.fromkeys(first_fit(name, WHY) for name in missing))
    if all(each.endswith(" has it") for each in reasons):
        return BESIDE, "; ".join(reasons)
    works = any(told.issuperset(query) for query in queries)
    return PART if works else NO, "; ".join(reasons)


def judged(dashboard: Dashboard) -> dict[tuple[str, str], list[str]]:
    """Return the panels of a dashboard by whether they work and what they depend on."""
    told = {metric.sample_name for metric in PROFILES[dashboard.profile].metrics}
    found: dict[tuple[str, str], list[str]] = {}
    for panel, asked in dashboard.panels.items():
        found.setdefault(judge(asked, told), []).append(panel)
    return dict(sorted(found.items(), key=lambda each: (YES, BESIDE, PART, NO).index(each[0][0])))


def dashboards_text(*, with_reasons: bool = False) -> str:
    """Return a table of how many panels of each dashboard work; on request, what they depend on or miss."""
    lines = [
        "",
        "|dashboard|as they are|on a condition|beside another exporter|in part|no|",
        "|---" * 6 + "|",
    ]
    said: dict[str, None] = {}
    for each in DASHBOARDS:
        found = judged(each)
        counts = [len(found.get((YES, ""), ()))]
        for answer in (YES, BESIDE, PART, NO):
            counts.append(
                sum(len(panels) for (works, why), panels in found.items() if works == answer and why)
            )
        lines.append(f"|{each.name}|{'|'.join(str(count or '–') for count in counts)}|")
        said |= dict.fromkeys(why for _, why in found if why and not why.endswith(" has it"))
    if with_reasons:
        lines += ["", f"Conditions, and what is missing: {'; '.join(said)}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(dashboards_text(with_reasons=True))
