"""Which lines of docs/behaviour.toml hold with what Debian's sid and PyPI have today: `.ci/run next`. Nothing is pinned.

Of each line that says `next`, its probe runs beside the newest package, without this project; tests of this project
run where the newest libraries are installed, or with sid's programs first on PATH. Ends with 1 if a line has changed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.next.verdicts import CHANGED, VERDICTS, Outcomes, judge, read, wanted

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs/behaviour.toml"
UV = ROOT / ".venv/bin/uv"
PYTHON = ROOT / ".venv/bin/python"
ISOLATED = ROOT / "tests/labs/isolated.sh"
OF_ITS_OWN = "test_slurm_suites.py"  # makes its own namespaces
PROGRAMS = ("prometheus", "promtool", "prometheus-node-exporter")
SERVERS = (
    "prometheus",
    "prometheus-node-exporter",
    "slurmctld",
    "htcondor",
)  # of which sid's versions are told
LIMIT_SECS = 2400


def main() -> int:
    """Try all lines; print what holds. Return the exit status."""
    lines = [each for each in tomllib.loads(TABLE.read_text())["line"] if "next" in each]
    began, outcomes, versions = time.monotonic(), Outcomes(), dict[str, str]()
    with tempfile.TemporaryDirectory(prefix="next-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # users of a lab reach what is below
        environ = {**os.environ, "UV_CACHE_DIR": str(folder / "uv"), "XDG_CACHE_HOME": str(folder / "cache")}
        try_pypi(lines, folder, environ, outcomes, versions)
        try_sid(lines, folder, environ, outcomes, versions)
        probe = wanted(lines, "sonar")
        run([PYTHON], probe, folder, environ, outcomes, "-m", "not integration")
        subprocess.run(["umount", "-q", *map(str, folder.glob("**/root/proc"))], capture_output=True)
    print("\nToday's versions:", ", ".join(f"{each} {version}" for each, version in sorted(versions.items())))
    counts = dict.fromkeys(VERDICTS, 0)
    for line in lines:
        verdict, why = judge(line, outcomes)
        counts[verdict] += 1
        about = f"{line['system']} ({line['version']}): {line['happens']}"
        print(f"{verdict:9}  {about}{f'  << {why}' if why else ''}")
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    print(f"\n{len(lines)} lines: {told} ({time.monotonic() - began:.0f} s)")
    return 1 if counts[CHANGED] else 0


def try_pypi(
    lines: list[Any], folder: Path, environ: dict[str, str], outcomes: Outcomes, versions: dict[str, str]
) -> None:
    """Run probes beside the newest libraries alone, and tests of this project with them."""
    packages = sorted({each["package"] for each in lines if "package" in each})
    probes = [test for test in wanted(lines, "pypi") if test.startswith("tests/next/")]
    alone, ours = folder / "alone", folder / "ours"
    for venv, what in ((alone, ["pytest", *packages]), (ours, ["-e", f"{ROOT}[test]"])):
        say(f"the newest of PyPI: {' '.join(map(str, what))}")
        subprocess.run([UV, "venv", "-q", "--clear", venv], check=True, env=environ)
        install = [UV, "pip", "install", "-q", "--upgrade", "-p", venv / "bin/python", *what]
        subprocess.run(install, check=True, env=environ, cwd=ROOT)
        listed = [UV, "pip", "list", "-q", "--format", "json", "-p", venv / "bin/python"]
        text = subprocess.run(listed, check=True, env=environ, capture_output=True, text=True).stdout
        found = {each["name"].lower(): each["version"] for each in json.loads(text)}
        if venv == alone:
            versions |= {each: found[each.lower()] for each in packages}
        else:
            older = {
                each: found[each.lower()]
                for each in packages
                if found.get(each.lower()) not in {None, versions[each]}
            }
            print("held back by this project:", older or "nothing")
    run(
        [alone / "bin/python"],
        probes,
        folder,
        environ,
        outcomes,
        "--noconftest",
        "-c",
        "/dev/null",
        f"--rootdir={ROOT}",
    )
    rest = [test for test in wanted(lines, "pypi") if test not in probes]
    run([ours / "bin/python"], rest, folder, environ, outcomes, "-m", "not integration")


def try_sid(
    lines: list[Any], folder: Path, environ: dict[str, str], outcomes: Outcomes, versions: dict[str, str]
) -> None:
    """Run probes and tests of this project with sid's programs, in a folder that is made now."""
    say("the newest of sid")
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        print("needs root, and debootstrap")
        return
    command = [ROOT / "tests/labs/suites/folder.sh", "sid", "prometheus", "prometheus-node-exporter"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr)
        return
    suite = Path(done.stdout.strip())
    for each in SERVERS:
        policy = subprocess.run(
            ["chroot", suite, "apt-cache", "policy", each], capture_output=True, text=True
        ).stdout
        found = re.search(r"Candidate: (\S+)", policy)
        versions[f"sid's {each}"] = found[1] if found and found[1] != "(none)" else "is not there"
    programs = folder / "bin"
    programs.mkdir()
    for each in PROGRAMS:  # with the suite's own libraries, among this machine's files
        script = f'#!/bin/sh\nexec {suite}/lib64/ld-linux-x86-64.so.2 --library-path {suite}/usr/lib/x86_64-linux-gnu {suite}/usr/bin/{each} "$@"\n'
        (programs / each).write_text(script)
        (programs / each).chmod(0o755)
    environ = {**environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    every = wanted(lines, "sid")
    probes = [test for test in every if test.startswith("tests/next/")]
    run([PYTHON], probes, folder, environ, outcomes, "--noconftest", "-c", "/dev/null", f"--rootdir={ROOT}")
    suites = [test for test in every if OF_ITS_OWN in test]
    rest = [test for test in every if test not in {*probes, *suites}]
    run([ISOLATED, PYTHON], rest, folder, environ, outcomes, "-m", "integration and not long")
    run([PYTHON], suites, folder, environ, outcomes, "-m", "integration and not long")


def run(
    python: Sequence[Path],
    tests: Sequence[str],
    folder: Path,
    environ: dict[str, str],
    outcomes: Outcomes,
    *more: str,
) -> None:
    """Run tests; add what happened to each."""
    if not tests:
        return
    say(f"{len(tests)} tests, {' '.join(each.name for each in python)}")
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [*python, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}", *more, *tests]
    environ = {**environ, "PYTEST_DEBUG_TEMPROOT": str(folder)}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=LIMIT_SECS
        )
        print(done.stdout[-3000:] if done.returncode else done.stdout.strip().rpartition("\n")[2])
    except subprocess.TimeoutExpired:
        print(f"not done after {LIMIT_SECS} s")
    if report.is_file():
        read(report, tests, outcomes)


def say(what: str) -> None:
    print(f"\n=== {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
