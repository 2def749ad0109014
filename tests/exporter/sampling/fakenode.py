"""A made-up node: a /proc and control groups as plain files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path


class FakeNode:
    """A /proc and a control group root below one directory. Pids are directories, as in the real thing."""

    def __init__(self, top: Path) -> None:
        self.proc = top / "proc"
        self.cgroup = top / "cgroup"
        self.proc.mkdir()
        self.cgroup.mkdir()
        (self.proc / "stat").write_text(
            "cpu  100 0 50 1000 5 0 1 0 0 0\ncpu0 100 0 50 1000 5 0 1 0\nbtime 1795247965\n"
        )
        (self.proc / "meminfo").write_text("MemTotal:  1024 kB\nHugePages_Total:   0\n")
        (self.proc / "loadavg").write_text("0.35 0.12 0.03 3/136 12720\n")

    def stat_line(
        self,
        pid: int,
        *,
        ppid: int = 1,
        pgid: int | None = None,
        session: int | None = None,
        start: int = 100,
        name: bytes = b"sleep",
        state: str = "S",
        user: int = 0,
        system: int = 0,
        children_user: int = 0,
        children_system: int = 0,
        threads: int = 1,
        virtual: int = 4096,
        resident: int = 1,
    ) -> bytes:
        pgid = pid if pgid is None else pgid
        session = pgid if session is None else session
        return (
            b"%d (%s) " % (pid, name)
            + (
                f"{state} {ppid} {pgid} {session} 0 -1 4194304 1 2 3 4 {user} {system} {children_user} "
                f"{children_system} 20 0 {threads} 0 {start} {virtual} {resident} 18446744073709551615 0 0 0\n"
            ).encode()
        )

    def process(
        self,
        pid: int,
        *,
        cgroup: str = "0::/user.slice\n",
        uid: int = 6001,
        rss_kib: int = 4,
        cmdline: bytes = b"",
        environ: bytes = b"",
        groups: str = "",
        **stat,
    ) -> Path:
        """Start a process, or let it change."""
        path = self.proc / str(pid)
        path.mkdir(exist_ok=True)
        (path / "stat").write_bytes(self.stat_line(pid, **stat))
        (path / "cgroup").write_text(cgroup)
        (path / "cmdline").write_bytes(cmdline)
        (path / "environ").write_bytes(environ)
        (path / "status").write_text(
            f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGroups:\t{groups} \nRssAnon:\t{rss_kib} kB\nRssFile:\t1 kB\n"
            "RssShmem:\t0 kB\nVmSwap:\t2 kB\n"
        )
        return path

    def thread(self, pid: int, tid: int, cgroup: str, *, rss_kib: int = 4) -> None:
        """Let a process have one more thread; of a process whose main thread has ended only these tell anything."""
        path = self.proc / str(pid) / "task" / str(tid)
        path.mkdir(parents=True)
        (path.parent / str(pid)).mkdir(exist_ok=True)
        (path / "cgroup").write_text(cgroup)
        status = (self.proc / str(pid) / "status").read_text()
        (path / "status").write_text(re.sub(r"RssAnon:.*", f"RssAnon:\t{rss_kib} kB", status))

    def huge_pages(self, pids: dict[int, int], *, free: int = 0) -> str:
        """Let processes have so many pages of 2 MiB, and `free` more in the pool; return the /sys of these."""
        for pid, count in pids.items():
            status = self.proc / str(pid) / "status"
            status.write_text(f"{status.read_text()}HugetlbPages:\t{count * 2048} kB\n")
        sysfs = self.proc.parent / "sys"
        pool = sysfs / "kernel/mm/hugepages/hugepages-2048kB"
        pool.mkdir(parents=True, exist_ok=True)
        (pool / "nr_hugepages").write_text(f"{sum(pids.values()) + free}\n")
        (pool / "free_hugepages").write_text(f"{free}\n")
        return str(sysfs)

    def end(self, pid: int) -> None:
        shutil.rmtree(self.proc / str(pid))

    def job_v1(
        self, path: str, *, usage_secs: float = 0.0, user: int = 0, system: int = 0, memory: int = 4096
    ) -> None:
        """Make or change the control groups of a job, `path` such as ``slurm/uid_1/job_2``."""
        cpuacct = self.cgroup / "cpu,cpuacct" / path
        cpuacct.mkdir(parents=True, exist_ok=True)
        (cpuacct / "cpuacct.usage").write_text(f"{int(usage_secs * 1e9)}\n")
        (cpuacct / "cpuacct.stat").write_text(f"user {user}\nsystem {system}\n")
        group = self.cgroup / "memory" / path
        group.mkdir(parents=True, exist_ok=True)
        (group / "memory.stat").write_text(
            f"total_cache 0\ntotal_rss {memory}\ntotal_shmem 0\ntotal_swap 0\n"
        )
        for name in ("kmem.usage_in_bytes", "usage_in_bytes", "max_usage_in_bytes"):
            (group / f"memory.{name}").write_text(f"{memory}\n")
        (group / "memory.limit_in_bytes").write_text("9223372036854771712\n")

    def job_v2(self, path: str, *, user_usec: int = 0, system_usec: int = 0, memory: int = 4096) -> Path:
        """Make or change the control group of a job, `path` such as ``job_2``, in slurmstepd's scope."""
        (self.cgroup / "cgroup.controllers").write_text("cpu memory\n")
        group = self.cgroup / path if "/" in path else self.cgroup / "system.slice/slurmstepd.scope" / path
        group.mkdir(parents=True, exist_ok=True)
        (group / "cpu.stat").write_text(f"usage_usec 0\nuser_usec {user_usec}\nsystem_usec {system_usec}\n")
        (group / "memory.stat").write_text(f"anon {memory}\nfile 0\nkernel 0\nshmem 0\n")
        (group / "memory.current").write_text(f"{memory}\n")
        (group / "memory.max").write_text("max\n")
        return group

    def end_job(self, path: str) -> None:
        for top in ("cpu,cpuacct", "memory", "system.slice/slurmstepd.scope"):
            shutil.rmtree(self.cgroup / top / path, ignore_errors=True)
