"""A stand-in for squeue, scontrol, sacct and sdiag: answers from a plan, in the forms that Slurm 22.05 gives.

    LAB_PLAN=FILE LAB_UID=UID python slurm.py squeue|scontrol|sacct|sdiag [ARGUMENTS]

It knows the questions that the exporter asks and no others.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.labs.monitoring.plan import MACHINES, USERS, Job, Machine, load

USER_IDS = {name: 61000 + number for number, name in enumerate(USERS)}


def uid_of(user: str) -> int:
    """Return the user's number; our own where we could not give files away."""
    return USER_IDS[user] if os.geteuid() == 0 else os.geteuid()


def length(secs: int) -> str:
    days, secs = divmod(secs, 86400)
    return f"{days}-{secs // 3600:02}:{secs // 60 % 60:02}:{secs % 60:02}"


def tres(job: Job) -> str:
    gpus = f",gres/gpu={job.gpus}" if job.gpus else ""
    return f"cpu={job.cpus},mem={job.memory_bytes // 2**20}M,node={max(1, len(job.places))},billing={job.cpus}{gpus}"


def when(job: Job, now: float) -> tuple[str, str]:
    start = str(job.start) if job.start is not None and job.start <= now else "Unknown"
    end = str(job.end) if job.end is not None and job.end <= now else "Unknown"
    return start, end


def on_node(job: Job, node: str) -> str:
    ids = ",".join(map(str, job.places[node]))
    cards = f"gpu:a100:{job.gpus}(IDX:{','.join(map(str, job.cards))})" if job.gpus else ""
    return f"Nodes={node} CPU_IDs={ids} Mem={job.memory_bytes // len(job.places) // 2**20} GRES={cards}"


def show_job(job: Job, now: float) -> str:
    start, end = when(job, now)
    nodes = ",".join(job.places) if start != "Unknown" else "(null)"
    details = " ".join(on_node(job, node) for node in job.places) if start != "Unknown" else ""
    return (
        f"JobId={job.job_id} JobName={job.name} UserId={job.user}({uid_of(job.user)}) GroupId=users(100) "
        f"Account={USERS[job.user]} QOS=normal JobState={job.state(now)} Reason=None Restarts=0 "
        f"TimeLimit={length(job.limit_secs)} SubmitTime={job.submit} EligibleTime={job.submit} StartTime={start} "
        f"EndTime={end} Partition={job.partition} NodeList={nodes} NumNodes={max(1, len(job.places))} "
        f"NumCPUs={job.cpus} TRES={tres(job)} {details} MinCPUsNode=1 "
        f"MinMemoryCPU={job.memory_bytes // job.cpus // 2**20}M MinTmpDiskNode=0 Features=(null) Command=(null)"
    )


def show_node(machine: Machine, jobs: list[Job], now: float) -> str:
    running = [job for job in jobs if machine.name in job.places and job.state(now) == "RUNNING"]
    cpus = sum(len(job.places[machine.name]) for job in running)
    memory = sum(job.memory_bytes // len(job.places) for job in running) // 2**20
    gpus = sum(job.gpus for job in running)
    state = "IDLE" if not cpus else "MIXED" if cpus < machine.cpus else "ALLOCATED"
    total = f"cpu={machine.cpus},mem={machine.memory_bytes // 2**20}M"
    given = f"cpu={cpus},mem={memory}M"
    if machine.gpus:
        total, given = f"{total},gres/gpu={machine.gpus}", f"{given},gres/gpu={gpus}"
    return (
        f"NodeName={machine.name} Arch=x86_64 CPUAlloc={cpus} CPUEfctv={machine.cpus} CPUTot={machine.cpus} "
        f"Gres={f'gpu:a100:{machine.gpus}' if machine.gpus else '(null)'} NodeAddr={machine.name} "
        f"RealMemory={machine.memory_bytes // 2**20} AllocMem={memory} State={state}{'+DRAIN' * machine.drains} "
        f"Partitions={','.join(machine.partitions)} CfgTRES={total} AllocTRES={given}"
    )


def show_partition(name: str) -> str:
    nodes = [machine for machine in MACHINES if name in machine.partitions]
    return (
        f"PartitionName={name} AllowGroups=ALL Nodes={','.join(each.name for each in nodes)} State=UP "
        f"TotalCPUs={sum(each.cpus for each in nodes)} TotalNodes={len(nodes)}"
    )


def show_reservation(maintenance: dict) -> str:
    start, end = maintenance["start"], maintenance["end"]
    return (
        f"ReservationName=service StartTime={start} EndTime={end} Duration={length(end - start)} "
        f"Nodes={maintenance['node']} NodeCnt=1 CoreCnt=16 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES "
        "TRES=cpu=16 Users=root Groups=(null) Accounts=(null)"
    )


def scontrol(jobs: list[Job], more: dict, now: float) -> None:
    known = {
        str(job.job_id): job for job in jobs if job.submit <= now and (job.end is None or job.end > now - 300)
    }
    for line in sys.stdin:
        words = line.split()
        match words:
            case ["show", "hostnames", name]:
                print(name)
            case ["show", "job", job_id] if job_id in known:
                print(show_job(known[job_id], now))
            case ["show", "job", job_id]:
                print("slurm_load_jobs error: Invalid job id specified", file=sys.stderr)
            case ["show", "node", *names]:
                for machine in MACHINES:
                    if not names or machine.name in names:
                        print(show_node(machine, jobs, now))
            case ["show", "partition"]:
                for name in sorted({name for machine in MACHINES for name in machine.partitions}):
                    print(show_partition(name))
            case ["show", "reservation"]:
                print(show_reservation(more["maintenance"]))
            case ["show", "licenses"]:
                print("LicenseName=matlab@flexhost Total=20 Used=3 Free=17 Reserved=0 Remote=yes")


def fields_of(job: Job, now: float) -> dict[str, object]:
    """Return the values of squeue's and sacct's fields that the exporter asks for."""
    start, end = when(job, now)
    state = job.state(now)
    pending = state == "PENDING"
    place = "None assigned" if pending else ",".join(job.places)
    used = 0 if pending else int(job.cpus * job.uses_cpus * (min(now, job.end) - job.start))
    return {
        **dict.fromkeys(("JobID", "ArrayJobID", "JobIDRaw"), job.job_id),
        **dict.fromkeys(("UserName", "User"), job.user),
        **dict.fromkeys(("Name", "JobName"), job.name),
        **dict.fromkeys(("StartTime", "Start"), start),
        **dict.fromkeys(("EndTime", "End"), end),
        **dict.fromkeys(("SubmitTime", "Submit", "EligibleTime", "Eligible"), job.submit),
        **dict.fromkeys(("NumCPUs", "ReqCPUS", "AllocCPUS"), job.cpus),
        **dict.fromkeys(("NumNodes", "ReqNodes", "AllocNodes"), max(1, len(job.places))),
        **dict.fromkeys(("tres-alloc", "ReqTRES", "AllocTRES"), tres(job)),
        "UserID": uid_of(job.user), "Account": USERS[job.user], "Partition": job.partition, "State": state,
        "Reason": "Resources" if pending else "None", "TimeLimit": length(job.limit_secs), "NodeList": place,
        "TimelimitRaw": job.limit_secs // 60, "PriorityLong": 1000, "Priority": 1000, "RestartCnt": 0,
        "ElapsedRaw": 0 if pending else int(min(now, job.end) - job.start), "ExitCode": "0:0",
        "ReqMem": f"{job.memory_bytes // 2**20}M", "UserCPU": length(used), "SystemCPU": "00:00:00",
        "HetJobID": "N/A", "HetJobOffset": "N/A", "ArrayTaskID": "N/A", "Suspended": "00:00:00",
    }  # fmt: skip


def squeue(jobs: list[Job], _more: dict, now: float) -> None:
    wanted = re.findall(r"([A-Za-z-]+):(\x1fz[0-9a-f]+\x1f)", os.environ["SQUEUE_FORMAT2"])
    for job in jobs:
        if job.state(now) in {"PENDING", "RUNNING"}:
            values = fields_of(job, now)
            print("".join(f"{values.get(name, '(null)')}{separator}" for name, separator in wanted))


def sacct(jobs: list[Job], _more: dict, now: float) -> None:
    separator = next(each.partition("=")[2] for each in sys.argv if each.startswith("--delimiter="))
    ago = int(re.search(r"-S now-([0-9]+)seconds", " ".join(sys.argv))[1])
    names = sys.argv[sys.argv.index("-o") + 1].split(",")
    for job in jobs:
        if job.submit <= now and (job.end is None or job.end >= now - ago):
            values = fields_of(job, now)
            print(separator.join(str(values.get(name, "")) for name in names))


def sdiag(_jobs: list[Job], _more: dict, _now: float) -> None:
    print((Path(__file__).parents[2] / "fixtures/slurm/sdiag.txt").read_text(), end="")


if __name__ == "__main__":
    command = {"squeue": squeue, "scontrol": scontrol, "sacct": sacct, "sdiag": sdiag}[sys.argv[1]]
    command(*load(Path(os.environ["LAB_PLAN"])), time.time())
