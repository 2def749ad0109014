"""What it costs to watch a schedule while it is made, against expected ends of the same jobs from a log.

Makes `--jobs` jobs of 5,000 users (seeded), each told three times: when it waits, when it runs, when it has
ended. They are told in turns of a minute or more, and after each turn jobs are settled and the quality is
asked for, as the controller role does. Ways:

offline            `Lanes.place` of the same jobs, user by user, sorted before
live               all turns: telling and settling; what the looks cost is printed below, by job not settled
live, first        all ended jobs at once, as at the start from history, then the quality
one user           10,000 jobs of one user that wait and run, and as many that have ended behind the first of them:
                   the time is of one quality

Usage: python tests/benchmarks/bench_live.py [--jobs 300000] [--turns 200] [--rounds 3]
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobfeatures.analysis.schedule.eet import Lanes
from jobfeatures.analysis.schedule.live.facts import JobFacts
from jobfeatures.analysis.schedule.live.ongoing import LiveSchedule
from jobfeatures.analysis.schedule.shares import Shares

USERS = 5000
SHARE = 64
OPEN = 10_000


def make_jobs(count: int) -> list[JobFacts]:
    rng = random.Random(1)
    span = count / USERS * 43_200 * 32 / SHARE
    found = []
    for number, submit in enumerate(sorted(rng.randrange(int(span) + 1) for _ in range(count)), 1):
        start = submit + rng.randrange(100_000)
        end = start + rng.randrange(86_400)
        user = f"u{rng.randrange(USERS)}"
        cpus = rng.randrange(1, 64)
        found.append(JobFacts(str(number), user, "batch", submit, start, end, 0, 90_000, cpus))
    return found


def make_live() -> LiveSchedule:
    made = LiveSchedule(begin_secs=0)
    made.use_shares(
        Shares(resource="cpu", default=SHARE * 1000, total=0, total_from="given", default_from="given")
    )
    return made


def offline(jobs: list[JobFacts], _turns: int) -> tuple[int, int]:
    by_user: dict[str | None, list[JobFacts]] = {}
    for each in jobs:
        by_user.setdefault(each.user, []).append(each)
    late = 0
    for mine in by_user.values():
        ends = Lanes(SHARE).place(
            [each.submit_secs for each in mine],
            [each.cpus for each in mine],
            [each.runtime_secs for each in mine],
        )
        late += sum(each.end_secs > end for each, end in zip(mine, ends, strict=True))
    return len(jobs), late


def live(jobs: list[JobFacts], turns: int) -> tuple[int, int]:
    """Tell each job's three events at the turn behind them; print what telling and what looking costs."""
    last = max(each.end_secs for each in jobs)
    step = last / turns
    told: list[tuple[list[JobFacts], list[JobFacts]]] = [([], []) for _ in range(turns + 2)]
    for each in jobs:
        told[int(each.submit_secs // step) + 1][0].append(each._replace(start_secs=None, end_secs=None))
        told[int(each.start_secs // step) + 1][0].append(each._replace(end_secs=None))
        told[int(each.end_secs // step) + 1][1].append(each)
    made = make_live()
    telling = looking = 0.0
    looked_at = 0
    for turn, (queue, ended) in enumerate(told):
        started = time.process_time()
        made.apply_queue(queue, turn * step)
        made.apply_ended(ended)
        made.finalize_ends(turn * step)
        reported_at = time.process_time()
        made.quality("x", turn * step, top_users=20)
        telling += reported_at - started
        looking += time.process_time() - reported_at
        looked_at += len(made)
    print(f"{telling:.6f} {looking:.6f} {looked_at}")
    return 3 * len(jobs), made.quality("x", last).violated


def live_first(jobs: list[JobFacts], _turns: int) -> tuple[int, int]:
    made = make_live()
    started = time.process_time()
    made.apply_ended(jobs)
    made.finalize_ends(10**12)
    violated = made.quality("x", 10**12).violated
    print(f"{time.process_time() - started:.6f} 0 0")
    return len(jobs), violated


def one_user(_jobs: list[JobFacts], _turns: int) -> tuple[int, int]:
    rng = random.Random(1)
    made = make_live()
    waiting, ended = [], []
    for number in range(OPEN):
        start = None if number % 2 else rng.randrange(number, 20_000)
        cpus = rng.randrange(1, 64)
        waiting.append(JobFacts(str(number), "u", "batch", number, start, None, 0, 90_000, cpus))
        submit = number + rng.randrange(5000)
        ended.append(
            JobFacts(f"e{number}", "u", "batch", submit, submit, submit + rng.randrange(5000), 0, None, cpus)
        )
    made.apply_queue(waiting, 20_000)
    made.apply_ended(ended)
    started = time.process_time()
    made.finalize_ends(20_000)
    found = made.quality("x", 20_000)
    print(f"{time.process_time() - started:.6f} 0 0")
    assert sum(found.unfinished.values()) == OPEN
    assert found.unsettled_jobs > OPEN - 10
    return 2 * OPEN, 0


WAYS = {"offline": offline, "live": live, "live, first": live_first, "one user": one_user}


def run_one(name: str, count: int, turns: int) -> None:
    jobs = make_jobs(count)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    events, late = WAYS[name](jobs, turns)
    spent = time.process_time() - started
    if name == "offline":
        print(f"{spent:.6f} 0 0")
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(events, late, more // 1024)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=300_000)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        run_one(args.one, args.jobs, args.turns)
        return
    found: dict[str, list[list[float]]] = {name: [] for name in WAYS}
    for _ in range(args.rounds):
        for name, figures in found.items():
            argv = [
                sys.executable,
                __file__,
                "--one",
                name,
                "--jobs",
                str(args.jobs),
                "--turns",
                str(args.turns),
            ]
            done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
            figures.append([float(word) for word in done.stdout.split()])
    lates = {figures[0][4] for name, figures in found.items() if name != "one user"}
    assert len(lates) == 1, f"the ways differ: {lates}"
    base = statistics.median(each[0] for each in found["offline"])
    print(f"{'':14}{'s':>8}{'events/s':>11}{'x offline':>11}{'more MiB':>10}")
    for name, figures in found.items():
        secs = statistics.median(each[0] for each in figures)
        more = max(each[5] for each in figures)
        print(f"{name:14}{secs:8.2f}{figures[0][3] / secs:11.0f}{secs / base:11.2f}{more:10.0f}")
    looking, looked_at = statistics.median(each[1] for each in found["live"]), found["live"][0][2]
    print(
        f"looks while live: {args.turns + 2} at {looked_at / (args.turns + 2):.0f} jobs that are not settled, "
        f"{1e6 * looking / looked_at:.2f} µs a job, {looking / (args.turns + 2):.3f} s a look"
    )


if __name__ == "__main__":
    main()
