"""What tests of the sampler share: the names of jobs and of their groups."""

from jobfeatures.records.model import JobKey

EPOCH = 1795247965 - 1577836800
V2 = "0::/system.slice/slurmstepd.scope"


def slurm(job_id: str) -> JobKey:
    return JobKey("slurm", job_id)


def v1(path: str) -> str:
    return f"9:memory:{path}\n8:cpu,cpuacct:{path}\n0::/\n"


def killed_v1(node, path, task):
    """Have the kernel's counts of a kill in a task's group of v1, and the peak before it."""
    (node.cgroup / "memory" / path / "memory.max_usage_in_bytes").write_text("9000\n")
    group = node.cgroup / "memory" / path / task
    group.mkdir(parents=True, exist_ok=True)
    (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
