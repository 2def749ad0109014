"""How much memory a long log takes, of each command that reads one, and which engines could sort it.

The log is made: the jobs of a seeded week of 5,000 (or of SWF LOG), again and again, each time later, until there are
as many as wanted; one of its 200 users has a tenth of the jobs, all with `--shape one`. With `--shape followed` every
third job follows the one before it, with `--shape one,followed` both hold. Memory is the most that the command had resident
(getrusage), disk the most that its folder for temporary files held, looked at ten times a second.

Usage: python tests/benchmarks/bench_large.py [LOG] [--jobs 1000000,10000000] [--ways convert,schedule,simulate]
                                             [--shape week|one|followed|one,followed]
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
WAYS = (
    "convert",
    "schedule",
    "pictures",
    "heatmap",
    "joined",
    "filtered",
    "groups",
    "simulated",
    "simulate",
    "engine disk",
    "engine duckdb",
    "engine polars",
    "engine dask",
)
SHAPES = ("week", "one", "followed", "one,followed")
USER = 11  # its place in a line
LIMITS = (3600, 4 * 3600, 86400)


def week(jobs: int = 5000) -> list[list[int]]:
    """Return lines without number: a week of constructed jobs of 1,000 processors that are 90 % busy."""
    rng = random.Random(1)
    found = []
    for _ in range(jobs):
        run = min(int(rng.lognormvariate(8, 1.5)), LIMITS[-1])
        limit = next(each for each in LIMITS if each >= run)
        user = 1 if rng.random() < 0.1 else 2 + int(199 * rng.random() ** 2)
        size = rng.choice((1, 1, 1, 2, 4, 8, 16))
        found.append(
            [
                0,
                int(rng.expovariate(1 / 600)),
                run,
                size,
                -1,
                -1,
                size,
                limit,
                1 << 20,
                1,
                user,
                1,
                -1,
                1,
                1,
                -1,
                -1,
            ]
        )
    span = int(sum(each[2] * each[3] for each in found) / 1000 / 0.9)
    for each in found:
        each[0] = rng.randrange(span)
    return sorted(found)


def read(log: str) -> list[list[int]]:
    """Return the lines of a log without number."""
    sys.path.insert(0, str(ROOT))
    from jobfeatures.joblogs.logfiles import reading

    with reading(log) as stream:
        return [list(map(int, line.split()[1:])) for line in stream if not line.startswith(";")]


def make_log(path: Path, lines: list[list[int]], jobs: int, shape: str) -> None:
    """Write so many jobs."""
    lines = [each.copy() for each in lines]
    for line in lines if "one" in shape else ():
        line[USER - 1] = 1
    span = lines[-1][0] + 1
    with path.open("w") as stream:
        stream.write("; Version: 2.2\n; Note: constructed\n; MaxProcs: 1000\n")
        for number in range(jobs):
            again, place = divmod(number, len(lines))
            submit, *rest = lines[place]
            if "followed" in shape and number % 3 == 2:
                rest[-2:] = [number, 60]
            stream.write(" ".join(map(str, (number + 1, submit + again * span, *rest))) + "\n")


def words_of(way: str, log: Path, out: Path) -> list[str]:
    command = [sys.executable, "-m", "jobfeatures"]
    return {
        "convert": [*command, "convert", str(log), str(out / "log.xml")],
        "schedule": [*command, "schedule", str(log), "--format", "json"],
        "pictures": [*command, "schedule", str(log), "--report", str(out / "report.html")],
        "heatmap": [
            *command,
            "schedule",
            str(log),
            "--format",
            "json",
            "--heatmap",
            str(cell_secs(log)),
        ],
        "joined": [*command, "schedule", str(log), "--format", "json", "--join", "preceding"],
        "filtered": [*command, "schedule", str(log), "--format", "json", "--filter", "queue!=2"],
        "groups": [*command, "schedule", str(log), "--format", "json", "--share-of", "group:1=20"],
        "simulated": [*command, "schedule", str(log), "--format", "json", "--simulate", "easy"],
        "simulate": [
            *command,
            "simulate",
            str(log),
            "--policy",
            "fairshare+easy",
            "--output",
            str(out / "made.swf"),
        ],
    }.get(way) or [sys.executable, __file__, "--engine", way.split()[1], str(log)]


def cell_secs(log: Path) -> int:
    """Return how long cells of a heatmap are that has nearly as many as there may be."""
    with log.open("rb") as stream:
        stream.seek(-300, os.SEEK_END)
        last = int(stream.read().splitlines()[-1].split()[1])
    return 1 + (last + 2 * LIMITS[-1]) * 201 // 2**25


def measure(way: str, log: Path) -> tuple[float, float, float]:
    """Return MiB of memory and of disk, and seconds of CPU."""
    with tempfile.TemporaryDirectory(dir=log.parent) as folder:
        out, spill = Path(folder, "out"), Path(folder, "spill")
        out.mkdir()
        spill.mkdir()
        most = 0
        with open(os.devnull, "w") as nowhere, open(Path(folder, "told"), "w+") as told:
            started = subprocess.Popen(
                words_of(way, log, out),
                stdout=nowhere,
                stderr=told,
                cwd=ROOT,
                env={**os.environ, "TMPDIR": str(spill)},
            )
            while True:
                pid, status, used = os.wait4(started.pid, os.WNOHANG)
                if pid:
                    break
                most = max(most, sum(size_of(each) for each in spill.rglob("*")))
                time.sleep(0.1)
            if status:
                told.seek(0)
                raise SystemExit(f"{way}: status {os.waitstatus_to_exitcode(status)}: {told.read()[-2000:]}")
    return used.ru_maxrss / 1024, most / 2**20, used.ru_utime + used.ru_stime


def size_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:  # it has gone
        return 0


def sort_by(engine: str, log: str) -> None:
    """Sort the jobs by user and submission with an engine, reading the log as it can."""
    spill = os.environ["TMPDIR"]
    if engine == "disk":
        sys.path.insert(0, str(ROOT))
        from jobfeatures.analysis.schedule.logreading import Pieces
        from jobfeatures.analysis.schedule.result import Options
        from jobfeatures.analysis.schedule.runs import Store
        from jobfeatures.analysis.schedule.spooled import spool

        spooled = spool(log, Pieces([(log, log)]).logs(), Options(), Store(0))
        jobs = sum(len(chunk) for chunk, _ in spooled.read_chunks(2**20))
    elif engine == "duckdb":
        import duckdb

        base = duckdb.connect()
        base.execute(
            f"SET memory_limit='1500MB'; SET temp_directory='{spill}'; SET preserve_insertion_order=false"
        )
        names = ", ".join(f"'c{place}': 'BIGINT'" for place in range(18))
        found = base.execute(
            f"SELECT * FROM read_csv('{log}', delim=' ', header=false, skip=3, columns={{{names}}}) ORDER BY c11, c1, c0"
        )
        jobs = 0
        while rows := found.fetchmany(10_000):
            jobs += len(rows)
    elif engine == "dask":
        import dask
        import dask.dataframe
        import distributed

        dask.config.set({"temporary-directory": spill, "dataframe.convert-string": False})
        with (
            distributed.LocalCluster(
                n_workers=1,
                threads_per_worker=1,
                processes=False,
                memory_limit="1500MB",
                dashboard_address=None,
            ) as cluster,
            distributed.Client(cluster),
        ):
            table = dask.dataframe.read_csv(
                log,
                sep=" ",
                header=None,
                skiprows=3,
                names=[f"c{place}" for place in range(18)],
                blocksize="32MB",
            )
            table.sort_values(["c11", "c1", "c0"]).to_parquet(f"{spill}/sorted")
            jobs = len(dask.dataframe.read_parquet(f"{spill}/sorted"))
    else:
        import polars

        made = polars.scan_csv(log, separator=" ", has_header=False, skip_rows=3).sort(
            "column_12", "column_2", maintain_order=True
        )
        made.sink_ipc(f"{spill}/sorted")
        jobs = polars.scan_ipc(f"{spill}/sorted").select(polars.len()).collect().item()
    print(jobs, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", nargs="?", help="an SWF log of whole seconds instead of the constructed week")
    parser.add_argument("--jobs", default="1000000,10000000", help="how many, separated by commas")
    parser.add_argument("--ways", default="convert,schedule,simulate", help=f"some of {', '.join(WAYS)}")
    parser.add_argument("--shape", default=SHAPES[0], choices=SHAPES)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        sort_by(options.engine, options.log)
        return
    lines = week() if options.log is None else read(options.log)
    print(f"{'':16}{'jobs':>12}{'MiB':>8}{'disk MiB':>10}{'CPU s':>8}")
    for jobs in map(int, options.jobs.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "log.swf")
            make_log(log, lines, jobs, options.shape)
            for way in options.ways.split(","):
                memory, disk, cpu = measure(way, log)
                print(f"{way:16}{jobs:12}{memory:8.0f}{disk:10.0f}{cpu:8.1f}", flush=True)


if __name__ == "__main__":
    main()
