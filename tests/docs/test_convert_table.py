"""The table of docs/convert.md says what each kind of log does not tell, as its reader and the fixtures have it."""

from __future__ import annotations

import re
import runpy
from datetime import UTC

import pytest

from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.logkinds import KINDS, WRITABLE, read_log
from tests.docs.pages import ROOT, text_of

TABLE = runpy.run_path(str(ROOT / "docs/logtable.py"))
FIXTURES = ROOT / "tests" / "fixtures"
LOGS = {
    "sacct": ["slurm/json/accounting.txt"],
    "slurmjson": ["slurm/json/accounting-26.05-v0.0.45.json", "slurm/json/jobs-26.05-v0.0.45.json"],
    "pbs": ["pbs/accounting.txt", "torque/accounting.txt"],
    "lsf": ["lsf/lsb.acct"],
    "htcondor": ["htcondor/history", "htcondor/history-23.9.6"],
    "gridengine": ["gridengine/accounting"],
    "qacct": ["gridengine/qacct"],
    "oar": ["oar/ended.json", "oar/ended-2.6.1.json"],
}
FIELDS = {
    "command": {"executable"},
    "dependencies": {"preceding_job_id"},
    "interactive": {"is_interactive"},
    "uid": {"uid"},
    "split of CPU time": {"user_cpu_secs", "system_cpu_secs"},
    "GPUs": {"total_gpus", "requested_gpus"},
    "memory asked for": {"requested_memory_bytes"},
    "memory used": {"used_memory_bytes"},
    "CPU time": {"used_cpu_secs"},
    "restarts": {"restarts"},
    "energy": {"energy_joules"},
    "queue": {"queue", "partition"},
    "eligible": {"eligible_secs"},
    "suspension": {"suspended_secs"},
}
MAY_BE_ABSENT = {  # what these fixtures do not have, but the kind
    "sacct": {"GPUs", "suspension", "energy", "split of CPU time", "restarts"},
    "slurmjson": {"GPUs", "energy"},
    "pbs": {"suspension"},
    "qacct": {"memory asked for"},
    "oar": {"dependencies", "split of CPU time"},  # the second: no CPU time at all
}


def told_of(kind: str) -> set[str]:
    """Return the names of what stands in the table's column, before any remark."""
    row = re.search(rf"^\| `{kind}` \|(.*)$", text_of("docs/convert.md"), re.MULTILINE)
    assert row is not None
    return {word.strip() for word in row[1].split("|")[1].partition(";")[0].split(",")}


@pytest.mark.parametrize("kind", LOGS)
def test_what_a_kind_does_not_tell_is_in_the_table(kind):
    known: set[str] = set()
    for name in LOGS[kind]:
        zoned = {"zone": UTC} if KINDS[kind].is_zoned else {}
        lines = (FIXTURES / name).read_text().splitlines(keepends=True)
        for job in read_log(lines, kind, source=name, **zoned):
            if isinstance(job, JobRecord):
                known |= {
                    each for words in FIELDS.values() for each in words if getattr(job, each) is not None
                }
    absent = {word for word, names in FIELDS.items() if not names & known}
    assert told_of(kind) == absent - MAY_BE_ABSENT.get(kind, set())


@pytest.mark.parametrize("kind", WRITABLE)
def test_of_a_kind_that_is_written_too_the_table_of_fields_tells_where_there_is_anything(kind):
    found = [after for record in TABLE["VARIANTS"] for after in TABLE["there_and_back"]([record], kind)[0]]
    absent = {
        word
        for word, names in FIELDS.items()
        if not any(getattr(each, name) is not None for each in found for name in names)
    }
    assert told_of(kind) == ({"see below"} if absent else {""})


def test_every_kind_is_tested():
    assert {*LOGS, *WRITABLE} == set(KINDS)
