"""What HTCondor's files and commands say of one job of each kind, word by word: the captured fixtures are made by this.

    CONDOR_LAB=... python -m tests.labs.htcondor.record FOLDER

The lab has to be up and its queues empty. Names have the version. The commands are those that the product gives, with
its attributes; times, host and users are the lab's.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from jobfeatures.batch.htcondor.accounting import HISTORY_ATTRIBUTES
from jobfeatures.batch.htcondor.fields import SITE_LIMITS
from jobfeatures.batch.htcondor.jobad import QUEUE_ATTRIBUTES
from jobfeatures.batch.htcondor.machine import NOTICE_ATTRIBUTES, STATUS_ATTRIBUTES
from tests.integration.condorpool import PATIENCE_SECS, Pool
from tests.running import until

SLEEP = "executable = /bin/sleep\narguments = 600"


def record(pool: Pool, folder: Path) -> None:
    """Run the jobs and write what is said of them."""
    version = pool.run("condor_version").split()[1]

    def keep(name: str, text: str) -> None:
        stem, _, ending = name.partition(".")
        (folder / f"{stem}-{version}.{ending}".rstrip(".")).write_text(text, encoding="utf-8")

    def ask(command: str, attributes: tuple[str, ...], *more: str) -> str:
        return pool.run(command, *more, "-json", "-attributes", ",".join(attributes))

    ended = [
        pool.shell("sleep 2; exit 0", "request_cpus = 2\nbatch_name = fit"),
        pool.shell("sleep 1; exit 3", user="bob"),
        pool.submit("executable = /usr/bin/python3\narguments = \"-c 'import os; os.kill(os.getpid(), 9)'\"")[
            0
        ],
    ]
    for job in ended:
        pool.wait_for_end(job)
    removed = pool.shell("sleep 600"), pool.submit(f"{SLEEP}\nhold = True")[0]
    pool.wait(removed[0], 2)
    for job in removed:
        pool.act("condor_rm", job)
        pool.wait_for_end(job)
    keep("history", "".join(
        pool.run("cat", pool.run("condor_config_val", *where, "HISTORY").strip())
        for where in ((), ("-local-name", "schedd2"))
    ))  # fmt: skip
    keep("history.json", ask("condor_history", (*HISTORY_ATTRIBUTES, *SITE_LIMITS)))

    running = [
        *pool.submit(
            f"{SLEEP}\nrequest_cpus = 2\nrequest_memory = 200\nrequest_disk = 100M\nbatch_name = fit \"2\"\npriority = -2\n"
            "accounting_group = group_physics\naccounting_group_user = alice\nallowed_job_duration = 3600",
            count=2,
        ),
        *pool.submit(f"{SLEEP}\n+MaxRuntime = 900", user="bob"),
    ]  # fmt: skip
    suspended = pool.shell("sleep 600")
    for job in (*running, suspended):
        pool.wait(job, 2)
    time.sleep(3)  # its shadow has to know it first
    pool.act("condor_suspend", suspended)
    pool.wait(suspended, 7)
    pool.submit(
        f"{SLEEP}\nrequest_cpus = 64\nrequest_memory = ifThenElse(Later is undefined, 128, 256)", user="bob"
    )
    pool.submit(f"{SLEEP}\nhold = True")
    failed = pool.submit("executable = /bin/false\nleave_in_queue = True")[0]
    pool.wait(failed, 4)
    scratch = pool.scratch_of(running[0])
    keep("job.ad", pool.run("cat", f"{scratch}/.job.ad"))
    keep("machine.ad", pool.run("cat", f"{scratch}/.machine.ad"))
    until(lambda: pool.run("condor_status", "-claimed", "-af", "Name").count("slot1_") >= 4, PATIENCE_SECS)
    keep("queue.json", ask("condor_q", (*QUEUE_ATTRIBUTES, *SITE_LIMITS), "-global", "-allusers"))
    keep("status.json", ask("condor_status", STATUS_ATTRIBUTES))
    pool.run("condor_drain", "-graceful", "wn1.lab")
    try:
        keep("direct.json", ask("condor_status", NOTICE_ATTRIBUTES, "-direct", "wn1.lab"))
    finally:
        pool.run("condor_drain", "-cancel", "wn1.lab")
        pool.run("condor_qedit", "-constraint", "True", "LeaveJobInQueue", "False")
        pool.clear()


if __name__ == "__main__":
    record(Pool(Path(os.environ["CONDOR_LAB"])), Path(sys.argv[1]))
