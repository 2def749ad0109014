"""Each kind of accounting, with every field of a real line broken in turn: right, or refused or listed by name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.jobfeatures.mutated.lines import Log, complaint, mutants, read
from tests.jobfeatures.mutated.more import MORE, SLURM_22
from tests.jobfeatures.mutated.secondreaders import (
    GRID_ENGINE,
    GRID_ENGINE_FIELDS,
    HTCONDOR,
    LSF,
    OAR,
    PBS,
    SACCT,
    SLURM_JSON,
    PartialReport,
)

FIXTURES = Path(__file__).parents[2] / "fixtures"


def _grid_engine() -> Log:
    lines = (FIXTURES / "gridengine/accounting").read_text().splitlines()
    line = next(each for each in lines if ":sleep:" in each)
    return Log(
        "gridengine",
        dict(zip(GRID_ENGINE_FIELDS, line.split(":"), strict=True)),
        lambda values: ":".join(values.values()),
        GRID_ENGINE,
        separators=(":", "\t"),
        governs=frozenset({"failed", "exit_status", "start_time"}),
        closed=frozenset({"job_number", "iow", "pe_taskid", "maxvmem", "arid", *GRID_ENGINE_FIELDS[:4]}),
        aliases={"category": "-l "},
        partial=frozenset({"category"}),
    )


def _sacct() -> Log:
    header, *lines = (FIXTURES / "slurm/json/accounting.txt").read_text().splitlines()
    line = next(each for each in lines if "|COMPLETED|" in each and "." not in each.split("|")[0])
    return Log(
        "sacct",
        dict(zip(header.split("|"), line.split("|"), strict=True)),
        lambda values: "|".join(values.values()),
        SACCT,
        separators=("|", "\n"),
        before=f"{header}\n",
        governs=frozenset({"State", "AllocCPUS", "ElapsedRaw"}),
        closed=frozenset({"JobIDRaw", "UID", "Group", "Account", "Partition", "State"}),
        aliases={"NodeList": "node list"},
    )


def _pbs(name: str, job: str) -> Log:
    lines = (FIXTURES / name / "accounting.txt").read_text().splitlines()
    stamp, _, _, text = next(each for each in lines if f";E;{job}" in each).split(";", 3)
    quoted = [part.strip('"') for part in text.split('"')]
    assert len(quoted) % 2
    words = text.replace('"1:ncpus=4 x"', "1:ncpus=4").replace('"', "").split(" ")
    pairs = dict(word.split("=", 1) for word in words)

    def join(values):
        rest = " ".join(f"{each}={text}" for each, text in values.items() if each != "stamp")
        return f"{values.get('stamp', '')};E;{job};{rest}"

    return Log(
        "pbs", {"stamp": stamp, **pairs}, join, PBS, separators=(" ", "=", ";", '"'),
        governs=frozenset({"Exit_status"}), named=True,
        aliases={"stamp": "DATE;TYPE;ID;FIELDS"}, partial=frozenset({"exec_vnode"}),
    )  # fmt: skip


LSF_FIELDS = (
    *("event type", "version", "event time", "jobId", "userId", "options", "numProcessors", "submitTime"),
    *(
        "beginTime",
        "termTime",
        "startTime",
        "userName",
        "queue",
        "resReq",
        "dependCond",
        "preExecCmd",
        "fromHost",
    ),
    *("cwd", "inFile", "outFile", "errFile", "jobFile", "numAskedHosts", "asked1", "asked2", "numExHosts"),
    *("exec1", "exec2", "jStatus", "hostFactor", "jobName", "command", "ru_utime", "ru_stime"),
    *(f"lsfRusage{number}" for number in range(17)),
    *(
        "mailUser",
        "projectName",
        "exitStatus",
        "maxNumProcessors",
        "loginShell",
        "timeEvent",
        "idx",
        "maxRMem",
    ),
)


def _lsf() -> Log:
    """Return a line whose middle, which is not read, and whose tail are kept as they are."""
    text = (FIXTURES / "lsf/lsb.acct").read_text().split("\n")[0]
    words = re.findall(r'"(?:[^"]|"")*"|[^ ]+', text)
    limit, run, hosts = words.index("86400"), words.index("90"), len(words) - 1 - words[::-1].index('"4*n1"')
    names = [*LSF_FIELDS, *(f"rest{place}" for place in range(len(LSF_FIELDS), len(words)))]
    for place, name in ((limit, "runLimit"), (run, "runTime"), (hosts, "alloc1"), (hosts + 1, "alloc2")):
        names[place] = name
    names[62], names[79] = "rsvId", "rsvId2"
    quoted = {name for name, word in zip(names, words, strict=True) if word[0] == '"'}

    def join(values):
        return " ".join(
            '"{}"'.format(text.replace('"', '""')) if name in quoted else text
            for name, text in values.items()
        )

    fields = {
        name: word[1:-1].replace('""', '"') if name in quoted else word
        for name, word in zip(names, words, strict=True)
    }
    return Log(
        "lsf",
        fields,
        join,
        LSF,
        separators=(" ", '"'),
        governs=frozenset({"jStatus", "startTime"}),
        is_positional=True,
    )


def _htcondor() -> Log:
    """Return the first completed job, of which its history wrote one attribute a line."""
    for ad in re.split(
        r"^\*\*\*.*\n", (FIXTURES / "htcondor/history-23.9.6").read_text(), flags=re.MULTILINE
    ):
        if "\nJobStatus = 4\n" in ad and "\nNumJobStarts = 1\n" in ad and "\nExitBySignal = false\n" in ad:
            break
    pairs = dict(line.split(" = ", 1) for line in ad.splitlines())
    return Log(
        "htcondor",
        pairs,
        lambda values: "".join(f"{name} = {text}\n" for name, text in values.items()) + "*** Offset = 0\n",
        HTCONDOR,
        separators=('"', " = "),
        governs=frozenset({"JobStatus", "ExitBySignal", "NumJobStarts"}),
        refuses_all=True,
        aliases={"ProcId": "ClusterId"},
        named=True,
    )


def _flat(value, path=""):
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from _flat(each, f"{path}.{name}" if path else name)
    else:
        yield path, value


def _nested(fields):
    found = {}
    for path, value in fields.items():
        *above, name = path.split(".")
        place = found
        for each in above:
            place = place.setdefault(each, {})
        place[name] = value
    return found


def _oar() -> Log:
    answer = json.loads((FIXTURES / "oar/ended-2.6.1.json").read_text())
    job = next(
        each for each in answer.values() if each["exit_code"] == 0 and len(each["assigned_resources"]) == 1
    )
    return Log(
        "oar",
        job,
        lambda values: json.dumps({str(job["Job_Id"]): values}),
        OAR,
        separators=('"', ","),
        governs=frozenset({"state", "startTime", "stopTime", "assigned_resources"}),
        named=True,
    )


def _slurm_json(name: str, told: PartialReport = SLURM_JSON) -> Log:
    answer = json.loads((FIXTURES / f"slurm/json/{name}.json").read_text())
    job = next(each for each in answer["jobs"] if "COMPLETED" in each["state"]["current"])
    return Log(
        "slurmjson",
        dict(_flat({**job, "steps": []})),
        lambda values: json.dumps({**answer, "jobs": [_nested(values)]}),
        told,
        separators=('"', ","),
        governs=frozenset({"state.current", "tres.allocated", "tres.requested"}),
        named=True,
    )


LOGS = {
    "gridengine 8.1.9": _grid_engine(),
    "sacct 22.05": _sacct(),
    "pbs": _pbs("pbs", "123.head"),
    "torque": _pbs("torque", "45.batch.example.org"),
    "lsf": _lsf(),
    "htcondor 23.9.6": _htcondor(),
    "oar 2.6.1": _oar(),
    "slurm 24.11": _slurm_json("accounting-24.11-v0.0.42"),
    "slurm 26.05": _slurm_json("accounting-26.05-v0.0.45"),
    "slurm 22.05": _slurm_json("accounting-v0.0.38", SLURM_22),
    **MORE,
}


@pytest.mark.parametrize("name", LOGS)
def test_the_unbroken_line_is_what_its_documentation_says(name):
    log = LOGS[name]
    [base] = read(log, log.fields)[0]
    assert complaint(log, base, "nothing", "", log.fields) is None


@pytest.mark.parametrize("name", LOGS)
def test_a_broken_field_is_read_right_or_refused_or_listed_by_name(name):
    log = LOGS[name]
    [base] = read(log, log.fields)[0]
    wrong = [
        f"{field}, {how}, {str(values.get(field))[:60]!r}: {found}"
        for field, how, values in mutants(log)
        if (found := complaint(log, base, field, how, values)) is not None
    ]
    assert not wrong, f"{len(wrong)} of {name}:\n" + "\n".join(wrong)
