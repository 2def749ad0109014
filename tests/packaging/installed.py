"""Run every command of an installation on something small: `python3 installed.py BIN`.

Each has to end as the table says, with no traceback; where that is 2 for want
of a library, it has to name the extra that brings it. Only the standard
library is used, and nothing of the checkout: what is installed is looked at.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LOG = "; MaxProcs: 8\n; UnixStartTime: 1700000000\n1 0 0 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n"
JOB = "<Job><Id>1</Id><State>Queued</State></Job>\n"
EXTRA = "jobfeatures-exporter["

# Words, and the exit status; where two are allowed, the second is for lack of an extra.
JOBFEATURES = {
    "publish": (0,),  # a hook never fails a job
    "remove": (0,),
    "env": (2,),  # there is no job here
    "show": (0,),
    "get wall_limit_secs": (0,),
    "remaining": (1,),  # nothing limits this job
    "run --signal USR1@60 -- true": (0,),
    "drain show --features.root FOLDER/features": (0,),
    "drain expire": (0,),
    "drain plan --metrics http://127.0.0.1:1/metrics --plot out.png": (1, 2),
    "victims --cores 1 --metrics http://127.0.0.1:1/metrics": (1,),
    "report --used-cpu 1": (2,),  # $JOBSTATUS is not set
    "check machine job": (1,),  # keys are missing
    "check log.swf": (0,),
    "convert log.swf out.jsonl --to records": (0,),
    "schedule log.swf": (0, 2),
    "schedule log.swf --report out.html": (0, 2),
    "expect 1 --log log.swf --share 3": (0,),
    "simulate log.swf --policy fifo": (0, 2),
    "sss schema": (0,),
    "sss explain job.xml": (0, 2),
    "sss match job.xml nodes.json": (0, 2),
}
EXPORTER = {
    "serve --no-such-flag": (2,),
    "check-config --features.root FOLDER/features": (0,),
    "check-config --features.root FOLDER/features --web.config.file FOLDER/web.yml": (0, 2),
    "doctor --features.root FOLDER/features": (1,),  # no daemon runs
    "node-token n1": (2,),  # there is no secret
    "report 1 --prometheus http://127.0.0.1:1": (1,),
    "summaries --prometheus http://127.0.0.1:1 --sacct /bin/false": (1,),
    "mail --prometheus http://127.0.0.1:1 --mailer /bin/true -s x alice": (0,),
    "top --once": (0,),
    "textfile FOLDER --batch.sources spool --spool.directory FOLDER": (0,),
    "sonar sample --sonar.cluster c": (0,),
    "sonar sysinfo --sonar.cluster c": (0,),
    "sonar jobs --sonar.cluster c --batch.sources slurm": (1,),  # no server
    "sonar cluster --sonar.cluster c --batch.sources slurm": (1,),
}


def commands_of(program: str) -> set[str]:
    """Return the commands that the program's help names."""
    said = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^    ([a-z][a-z-]+)(?: {2,}|$)", said, re.MULTILINE))


def fault_of(program: str, words: str, allowed: tuple[int, ...], folder: str) -> str | None:
    """Run one command; return what is wrong with what it did."""
    environment = {
        **{name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}},
        "MACHINEFEATURES": f"{folder}/machine",
        "JOBFEATURES": f"{folder}/job",
        "JOBFEATURES_CONFIG_FILE": "/dev/null",
    }
    done = subprocess.run(
        [program, *words.replace("FOLDER", folder).split()],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, cwd=folder, env=environment,
    )  # fmt: skip
    said = done.stdout + done.stderr
    if "Traceback" in said or "ModuleNotFoundError" in said:
        return said
    if done.returncode == allowed[0]:
        return None
    if len(allowed) > 1 and done.returncode == allowed[1] and EXTRA in done.stderr:
        return None
    return f"ended with {done.returncode}, not {allowed[0]}: {said[-500:]}"


def main() -> int:
    """Judge the installation; 1 where anything is wrong."""
    faults = 0
    for name, table in (("jobfeatures", JOBFEATURES), ("jobfeatures-exporter", EXPORTER)):
        program = os.path.abspath(os.path.join(sys.argv[1], name))
        for missing in commands_of(program) ^ {words.split()[0] for words in table} - {"demo"}:
            if missing != "demo":  # shown by itself
                faults += 1
                print(f"{name} {missing}: in one of help and this table only")
        for words, allowed in table.items():
            with tempfile.TemporaryDirectory() as folder:
                for made in ("machine", "job", "spool"):
                    Path(folder, made).mkdir()
                Path(folder, "log.swf").write_text(LOG)
                Path(folder, "job.xml").write_text(JOB)
                Path(folder, "nodes.json").write_text('{"Node": "n1", "Processors": 8}\n')
                Path(folder, "web.yml").write_text("basic_auth_users: {}\n")
                for machine in ("total_cpu", "hs06"):
                    Path(folder, "machine", machine).write_text("8\n")
                for key, value in (("wall_limit_secs", "7200"), ("allocated_cpu", "2"), ("job_id", "1")):
                    Path(folder, "job", key).write_text(f"{value}\n")
                fault = fault_of(program, words, allowed, folder)
            print(f"{name} {words}: {fault or 'as it should'}")
            faults += fault is not None
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
