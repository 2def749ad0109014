"""A small cluster and what its users run on it, made up: the same each time, around a given moment.

A few jobs are set by hand, each of a kind that a site wants to see. The others
come by chance and are started first come, first served, where there is room.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

GIB = 2**30
HOUR = 3600
HISTORY_SECS = 8 * HOUR
FUTURE_SECS = 4 * HOUR
PATIENCE_SECS = 1800


@dataclass(frozen=True)
class Machine:
    """A node of the cluster."""

    name: str
    cpus: int
    memory_bytes: int
    gpus: int = 0
    partitions: tuple[str, ...] = ("batch",)
    drains: bool = False  # no more jobs start, says the batch system


@dataclass
class Job:
    """A job, and what it will have used. Times are epoch seconds; `end` is where it ends by itself."""

    job_id: int
    user: str
    name: str
    partition: str
    cpus: int
    memory_bytes: int
    submit: int
    runs_secs: int
    limit_secs: int
    gpus: int = 0
    uses_cpus: float = 1.0  # of its CPUs, the part that it keeps busy
    uses_memory: float = 0.5  # of its memory
    uses_gpus: float = 0.9
    reads_bytes: int = 2 * 2**20  # a second
    pilot: bool = False
    start: int | None = None
    places: dict[str, list[int]] = field(default_factory=dict)  # CPUs by node
    cards: list[int] = field(default_factory=list)

    @property
    def end(self) -> int | None:
        return None if self.start is None else self.start + min(self.runs_secs, self.limit_secs)

    def state(self, now: float) -> str | None:
        """Return the state by Slurm's word, None before the job was submitted."""
        if now < self.submit:
            return None
        if self.start is None or now < self.start:
            return "PENDING"
        if now < self.end:
            return "RUNNING"
        return "TIMEOUT" if self.runs_secs > self.limit_secs else "COMPLETED"


USERS = {  # and their accounts
    "alice": "physics", "bob": "physics", "carol": "climate", "dave": "chemistry", "erin": "biology",
    "frank": "climate", "grace": "chemistry", "heidi": "biology", "ivan": "physics", "judy": "biology",
    # Of the resident jobs. An earlier job that has not ended leaves open when later ones of its user should end.
    "paula": "physics", "quinn": "physics", "rosa": "climate", "sam": "chemistry", "tina": "biology",
}  # fmt: skip
ACTIVITY = (9, 5, 3, 2, 2, 1, 1, 1, 0.5, 0.3)  # how much each submits

MACHINES = (
    Machine("c1", 16, 64 * GIB),
    Machine("c2", 16, 64 * GIB),
    Machine("c3", 16, 64 * GIB, drains=True),
    Machine("g1", 32, 256 * GIB, gpus=4, partitions=("gpu",)),
    Machine("w1", 8, 32 * GIB, partitions=("whole",)),
)


def make_jobs(now: int, seed: int = 1) -> list[Job]:
    """Return all jobs, submitted between HISTORY_SECS ago and FUTURE_SECS from now, placed."""
    known = _resident_jobs(now)
    chance = random.Random(seed)
    free = _Free(MACHINES)
    for job in known:
        free.take(job, list(job.places))
    waiting = sorted(_chance_jobs(now, chance), key=lambda job: job.submit)
    ends = [(job.end, job.job_id, job) for job in known]
    heapq.heapify(ends)
    queue: list[Job] = []
    while waiting or ends:
        moment = min(waiting[0].submit if waiting else 2**40, ends[0][0] if ends else 2**40)
        while ends and ends[0][0] <= moment:
            free.release(heapq.heappop(ends)[2])
        while waiting and waiting[0].submit <= moment:
            queue.append(waiting.pop(0))
        held = set()  # partitions whose room is kept for who has waited long
        for job in list(queue):
            node = free.find(job, draining_since=now - 600, moment=moment)
            if job.partition in held:
                continue
            if node is None:
                if moment - job.submit > PATIENCE_SECS:
                    held.add(job.partition)
                continue
            queue.remove(job)
            job.start = moment
            free.take(job, [node])
            heapq.heappush(ends, (job.end, job.job_id, job))
            known.append(job)
    return known + queue


class _Free:
    """What is free on each node."""

    def __init__(self, machines: Iterable[Machine]) -> None:
        self.machines = {machine.name: machine for machine in machines}
        self.cpus = {name: list(range(machine.cpus)) for name, machine in self.machines.items()}
        self.memory = {name: machine.memory_bytes for name, machine in self.machines.items()}
        self.cards = {name: list(range(machine.gpus)) for name, machine in self.machines.items()}

    def find(self, job: Job, draining_since: int, moment: int) -> str | None:
        for name, machine in self.machines.items():
            if (
                job.partition in machine.partitions
                and not (machine.drains and moment >= draining_since)
                and len(self.cpus[name]) >= job.cpus
                and self.memory[name] >= job.memory_bytes
                and len(self.cards[name]) >= job.gpus
            ):
                return name
        return None

    def take(self, job: Job, nodes: list[str]) -> None:
        share = job.cpus // len(nodes)
        for name in nodes:
            job.places[name] = [self.cpus[name].pop(0) for _ in range(share)]
            self.memory[name] -= job.memory_bytes // len(nodes)
            job.cards += [self.cards[name].pop(0) for _ in range(job.gpus)]

    def release(self, job: Job) -> None:
        for name, cpus in job.places.items():
            self.cpus[name] = sorted(self.cpus[name] + cpus)
            self.memory[name] += job.memory_bytes // len(job.places)
            self.cards[name] = sorted(self.cards[name] + job.cards)


def _resident_jobs(now: int) -> list[Job]:
    """Return the jobs that are there from the beginning and stay, one of each kind."""

    def job(
        number: int, user: str, name: str, places: Iterable[str], ago: int, limit: int, **more: object
    ) -> Job:
        values = {"partition": "batch", "cpus": 4, "memory_bytes": 8 * GIB, "runs_secs": limit + 1, **more}
        return Job(
            number, user, name, submit=now - ago - 120, limit_secs=limit, start=now - ago,
            places={place: [] for place in places}, **values,
        )  # fmt: skip

    return [
        job(1001, "paula", "pilot", ["c1"], 2 * HOUR, 12 * HOUR, cpus=8, memory_bytes=16 * GIB, pilot=True,
            uses_cpus=0.8),
        job(1002, "rosa", "ocean model", ["c2", "c3"], 5 * HOUR, 10 * HOUR, cpus=16, memory_bytes=48 * GIB,
            uses_cpus=0.95, uses_memory=0.7, reads_bytes=40 * 2**20),
        job(1003, "tina", "train network", ["g1"], 3 * HOUR, 9 * HOUR, partition="gpu", cpus=8, gpus=2,
            memory_bytes=64 * GIB, uses_cpus=0.6, uses_memory=0.4, reads_bytes=120 * 2**20),
        job(1004, "sam", "notebook", ["g1"], 4 * HOUR, 8 * HOUR, partition="gpu", cpus=4, gpus=1,
            memory_bytes=32 * GIB, uses_cpus=0.02, uses_memory=0.06, uses_gpus=0.0, reads_bytes=2**12),
        job(1005, "quinn", "assembly", ["c1"], HOUR, 6 * HOUR, cpus=2, memory_bytes=24 * GIB, uses_memory=0.94),
        job(1006, "sam", "serial on many", ["c2"], 2 * HOUR, 8 * HOUR, cpus=4, uses_cpus=0.25, uses_memory=0.1),
        job(1007, "quinn", "near its limit", ["c3"], 4 * HOUR - 1500, 4 * HOUR, cpus=2),
        job(1008, "rosa", "weather", ["w1"], 2 * HOUR, 9 * HOUR, partition="whole", cpus=8, uses_cpus=0.9),
        # Some that end soon after the lab has started, so that there is news of jobs at once.
        *(
            job(1010 + number, user, "brief", ["g1"], 600, 3600, partition="gpu", cpus=1, memory_bytes=GIB,
                runs_secs=600 + 40 + 12 * number)
            for number, user in enumerate(("erin", "frank", "grace", "heidi", "ivan", "judy"))
        ),
    ]  # fmt: skip


def _chance_jobs(now: int, chance: random.Random) -> Iterable[Job]:
    moment, number = float(now - HISTORY_SECS), 2000
    while moment < now + FUTURE_SECS:
        moment += chance.expovariate(1 / 17)
        number += 1
        gpus = chance.random() < 0.12
        cpus = chance.choice((1, 1, 1, 1, 2))
        runs = min(max(60, int(chance.lognormvariate(4.4, 1.2))), 4 * HOUR)
        yield Job(
            number,
            chance.choices(list(USERS)[: len(ACTIVITY)], ACTIVITY)[0],
            chance.choice(("simulate", "reconstruct", "fit", "align", "merge")),
            "gpu" if gpus else "batch",
            cpus,
            cpus * chance.choice((1, 1, 2)) * GIB,
            int(moment),
            runs,
            int(runs * chance.choice((0.95, 1.5, 3, 6))) + 60,
            gpus=1 if gpus else 0,
            uses_cpus=chance.choice((0.98, 0.9, 0.7, 0.3)),
            uses_memory=chance.uniform(0.1, 0.9),
            uses_gpus=chance.choice((0.95, 0.6, 0.1)),
            reads_bytes=chance.choice((2**14, 2**20, 8 * 2**20)),
        )


def save(path: Path, jobs: list[Job], **more: object) -> None:
    """Write the plan for those who play it, who may be reading the one before."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"jobs": [asdict(job) for job in jobs], **more}))
    new.replace(path)


def load(path: Path) -> tuple[list[Job], dict]:
    """Return the jobs of a plan, and what stands beside them."""
    plan = json.loads(path.read_text())
    return [Job(**job) for job in plan.pop("jobs")], plan
