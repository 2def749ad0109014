"""A node's /proc, /sys and /sys/fs/cgroup, made up: what its kernel would count while the plan's jobs run.

Forms: proc(5), Documentation/admin-guide/cgroup-v2.rst, Slurm's cgroup/v2 plugin.
Files are written in place, because readers keep them open.
"""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path

from tests.labs.monitoring.plan import GIB, Job, Machine

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SCOPE = "system.slice/slurmstepd.scope"
WATTS_IDLE, WATTS_CORE = 60.0, 6.0
GPU_MEMORY = 80 * GIB
BOOT_SECS = 3 * 86400  # before the lab


class Use:
    """What one job has used on one node so far."""

    def __init__(self, job: Job, node: str, now: float) -> None:
        self.job, self.places, self.cpus = job, job.places[node], len(job.places[node])
        self.pid = job.job_id * 10
        self.began = job.start
        elapsed = max(0.0, now - job.start)
        self.cpu_secs = self.cpus * job.uses_cpus * elapsed
        self.read = job.reads_bytes * elapsed
        self.stalled = 0.05 * elapsed
        self.memory = 0
        self.peak = 0
        self.step(now, 0.0)

    def step(self, now: float, secs: float) -> float:
        """Go on for a while; return the CPUs in use."""
        job = self.job
        wave = 1 + 0.12 * math.sin((now - self.began) / 47 + job.job_id) * min(
            1.0, 2 * (1 - job.uses_cpus) + 0.2
        )
        busy = min(self.cpus, self.cpus * job.uses_cpus * wave)
        self.cpu_secs += busy * secs
        self.read += job.reads_bytes * max(0.0, 1 + math.sin((now - self.began) / 31)) * secs
        self.stalled += (0.02 + 0.1 * max(0.0, math.sin((now - self.began) / 60))) * secs
        share = job.memory_bytes * self.cpus / job.cpus
        grown = 1 - math.exp(-(now - self.began) / 600)
        self.memory = int(share * job.uses_memory * grown * (1 + 0.04 * math.sin(now / 53 + job.job_id)))
        self.peak = max(self.peak, self.memory)
        return busy

    @property
    def gpu_percent(self) -> int:
        return int(100 * self.job.uses_gpus * (0.93 + 0.07 * math.sin(self.cpu_secs / 90)))


class SimulatedMachine:
    """The trees of one node, and who runs there."""

    def __init__(self, top: Path, machine: Machine, now: float) -> None:
        self.machine, self.top, self.now = machine, top, now
        self.boot = int(now) - BOOT_SECS
        self.uses: dict[int, Use] = {}
        self.cores = [[BOOT_SECS * 0.7, BOOT_SECS * 0.02, BOOT_SECS * 0.28] for _ in range(machine.cpus)]
        self.joules = BOOT_SECS * 200.0
        self.card_joules = [BOOT_SECS * 150.0] * machine.gpus
        self.disk = [5e9, 9e9, 4e5]  # bytes read, written, milliseconds busy
        self.stalled = {"cpu": 9e3, "memory": 12.0, "io": 700.0}
        self.files: dict[str, int] = {}
        self._write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
        if machine.gpus:
            self._write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64\n")
        self._write("proc/cpuinfo", "".join(
            f"processor\t: {core}\nmodel name\t: AMD EPYC 7313 16-Core Processor\nphysical id\t: 0\ncore id\t\t: {core}\n"
            "cpu cores\t: 16\n\n" for core in range(machine.cpus)))  # fmt: skip
        zone = "sys/class/powercap/intel-rapl:0"
        self._write(f"{zone}/name", "package-0\n")
        self._write(f"{zone}/max_energy_range_uj", f"{2**62}\n")
        self._write(f"{zone}:0/name", "dram\n")
        self._write(f"{zone}:0/max_energy_range_uj", f"{2**62}\n")
        self._write("sys/class/hwmon/hwmon0/name", "power_meter\n")
        (self.top / "sys/block/nvme0n1/slaves").mkdir(parents=True)

    def step(self, now: float, jobs: list[Job]) -> None:
        """Go on until `now`, with these jobs of the plan here."""
        secs, self.now = now - self.now, now
        name = self.machine.name
        here = {job.job_id: job for job in jobs if name in job.places and job.state(now) == "RUNNING"}
        for job_id in self.uses.keys() - here.keys():
            self._remove(self.uses.pop(job_id))
        busy_cores = [0.0] * self.machine.cpus
        for job_id, job in here.items():
            if job_id not in self.uses:
                self.uses[job_id] = Use(job, name, now)
            use = self.uses[job_id]
            busy = use.step(now, secs)
            for place, core in enumerate(job.places[name]):
                busy_cores[core] += min(1.0, max(0.0, busy - place))
        for core, part in zip(self.cores, busy_cores, strict=True):
            core[0] += secs * part * 0.96
            core[1] += secs * (part * 0.04 + 0.004)
            core[2] += secs * (1 - min(1.0, part) - 0.004) if part < 0.99 else 0.0
        self._write_node(secs, sum(busy_cores))
        for use in self.uses.values():
            self._write_job(use)

    def _write_node(self, secs: float, busy: float) -> None:
        lines = []
        for number, core in [
            ("", [sum(each) for each in zip(*self.cores, strict=True)]),
            *enumerate(self.cores),
        ]:
            user, system, idle = (int(each * TICKS) for each in core)
            lines.append(f"cpu{number} {user} 0 {system} {idle} 0 0 0 0 0 0")
        self._write("proc/stat", "\n".join([*lines, "ctxt 1", f"btime {self.boot}", "processes 99", ""]))
        jobs = sum(use.memory for use in self.uses.values())
        total = self.machine.memory_bytes
        sizes = {
            "MemTotal": total, "MemFree": total - jobs - 6 * GIB, "MemAvailable": total - jobs - 2 * GIB,
            "Buffers": GIB // 4, "Cached": 3 * GIB, "Shmem": GIB // 8, "Slab": GIB // 2, "SwapTotal": 0, "SwapFree": 0,
        }  # fmt: skip
        self._write("proc/meminfo", "".join(f"{k}: {max(0, v) // 1024:>14} kB\n" for k, v in sizes.items()))
        self._write(
            "proc/loadavg", f"{busy:.2f} {busy * 0.98:.2f} {busy * 0.95:.2f} {max(1, int(busy))}/412 99999\n"
        )
        self._write("proc/vmstat", "oom_kill 2\n")
        moved = sum(use.job.reads_bytes for use in self.uses.values()) * 0.02 + 4e5
        self.disk[0] += moved * secs
        self.disk[1] += (moved * 0.4 + 2e5 * (1 + math.sin(self.now / 40))) * secs
        self.disk[2] += 1000 * secs * min(0.9, moved / 2e7)
        read, written, busy_ms = self.disk
        self._write("proc/diskstats", f" 259 0 nvme0n1 {int(read / 65536)} 0 {int(read / 512)} 0 {int(written / 65536)} 0 "
                                      f"{int(written / 512)} 0 0 {int(busy_ms)} 0\n")  # fmt: skip
        load = busy / self.machine.cpus
        for resource, part in (
            ("cpu", 0.25 * load**4),
            ("memory", 0.002),
            ("io", 0.03 * (1 + math.sin(self.now / 70))),
        ):
            self.stalled[resource] += part * secs
            self._write(f"proc/pressure/{resource}", pressure(self.stalled[resource]))
        watts = WATTS_IDLE + WATTS_CORE * busy
        self.joules += watts * secs
        self._write("sys/class/hwmon/hwmon0/power1_average", f"{int((120 + 1.2 * watts) * 1e6)}\n")
        self._write("sys/class/powercap/intel-rapl:0/energy_uj", f"{int(self.joules * 1e6)}\n")
        self._write("sys/class/powercap/intel-rapl:0:0/energy_uj", f"{int(self.joules * 1.5e5)}\n")
        if self.machine.gpus:
            self._write_gpus(secs)

    def _write_gpus(self, secs: float) -> None:
        lines = ["driver version=550.54.15 cuda=12040"]
        for card in range(self.machine.gpus):
            user = next((use for use in self.uses.values() if card in use.job.cards), None)
            percent = user.gpu_percent if user else 0
            used = int(GPU_MEMORY * (0.15 + 0.6 * user.job.uses_gpus)) if user else 0
            watts = 55 + 3.1 * percent
            self.card_joules[card] += watts * secs
            lines.append(
                f"gpu uuid=GPU-8f0d{card}a31-5c1b-4e0e-9a60-2f7f3c0000{card}0 name=NVIDIA%20H100-PCIe minor={card} "
                f"bus=0000:{0x10 + card:02X}:00.0 util={percent} memutil={percent // 2} total={GPU_MEMORY} "
                f"used={used} reserved=0 temp={32 + percent * 4 // 10} power={int(watts * 1000)} limit=400000 "
                f"energy={int(self.card_joules[card] * 1000)} sm={210 + 12 * percent} mem=1215 fan=30 "
                f"pstate={0 if percent else 8} mig=0 maxsm=1410 maxmem=1215 minlimit=100000 maxlimit=400000 arch=9 "
                f"computemode=0 vbios=92.00 gpm=2:{percent * 0.8},3:{percent * 0.3},5:{percent * 0.25},10:{percent * 0.4},"
                f"20:{percent * 4},21:{percent * 9} ecc={card},0 rows=0,0,{card // 3},0 reasons=0x1ff "
                f"throttle={4 if percent > 80 else 0}"
            )
            if user and percent:
                lines.append(
                    f"proc gpu={card} pid={user.pid} used={used} sm={percent} mem=5 enc=0 dec=0 type=C"
                )
        self._write("nvml.txt", "\n".join(lines) + "\n")

    def _write_job(self, use: Use) -> None:
        job, here = use.job, f"sys/fs/cgroup/{SCOPE}/job_{use.job.job_id}"
        share = int(job.memory_bytes * use.cpus / job.cpus)
        anon, kernel = int(use.memory * 0.85), use.memory // 100
        files = {
            "cpu.stat": f"usage_usec {int(use.cpu_secs * 1e6)}\nuser_usec {int(use.cpu_secs * 0.96e6)}\n"
                        f"system_usec {int(use.cpu_secs * 0.04e6)}\n",
            "memory.current": f"{use.memory}\n",
            "memory.peak": f"{use.peak}\n",
            "memory.max": f"{share}\n",
            "memory.swap.current": "0\n",
            "memory.stat": f"anon {anon}\nfile {use.memory - anon - kernel}\nkernel {kernel}\nshmem 0\n",
        }  # fmt: skip
        step = dict(files)
        moved = int(use.read * 0.3)
        files |= {
            "memory.events": f"low 0\nhigh 0\nmax {12 if job.uses_memory > 0.9 else 0}\noom 0\noom_kill 0\n",
            "cpuset.cpus.effective": ",".join(map(str, use.places)) + "\n",
            "io.stat": f"259:0 rbytes={moved} wbytes={moved // 3} rios={moved // 65536} wios={moved // 196608} "
                       "dbytes=0 dios=0\n",
            **{f"{kind}.pressure": pressure(use.stalled * part)
               for kind, part in (("cpu", 1.0), ("io", 0.5), ("memory", 0.05))},
        }  # fmt: skip
        for name, text in files.items():
            self._write(f"{here}/{name}", text)
        for name, text in step.items():
            self._write(f"{here}/step_0/{name}", text)
        self._write_process(use, f"/{SCOPE}/job_{job.job_id}/step_0/user/task_0")

    def _write_process(self, use: Use, group: str) -> None:
        ticks = int(use.cpu_secs * TICKS)
        start = max(0, int((use.began - self.boot) * TICKS))
        command = use.job.name.replace(" ", "-")[:15]
        here = f"proc/{use.pid}"
        self._write(f"{here}/stat", (
            f"{use.pid} ({command}) R 1 {use.pid} {use.pid} 0 -1 4194304 0 0 0 0 {ticks} {ticks // 25} 0 0 20 0 "
            f"{use.cpus + 1} 0 {start} {use.memory * 2} {use.memory // PAGE} 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 "
            "0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"))  # fmt: skip
        self._write(f"{here}/cgroup", f"0::{group}\n")
        self._write(f"{here}/cmdline", f"/opt/bin/{command}\0")
        read = int(use.read)
        self._write(f"{here}/io", f"rchar: {read}\nwchar: {read // 4}\nsyscr: 0\nsyscw: 0\nread_bytes: {read // 3}\n"
                                  f"write_bytes: {read // 8}\ncancelled_write_bytes: {read // 80}\n")  # fmt: skip

    def _remove(self, use: Use) -> None:
        for place in (f"proc/{use.pid}", f"sys/fs/cgroup/{SCOPE}/job_{use.job.job_id}"):
            for name in [name for name in self.files if name.startswith(f"{place}/")]:
                os.close(self.files.pop(name))
            shutil.rmtree(self.top / place)

    def _write(self, name: str, text: str) -> None:
        if name not in self.files:
            path = self.top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            self.files[name] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        data = text.encode()
        os.pwrite(self.files[name], data, 0)
        os.ftruncate(self.files[name], len(data))


def pressure(secs: float) -> str:
    total = int(secs * 1e6)
    averages = "avg10=0.00 avg60=0.00 avg300=0.00"
    return f"some {averages} total={total}\nfull {averages} total={total // 4}\n"
