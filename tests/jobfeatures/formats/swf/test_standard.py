"""Each sentence of the standard that can be checked, with a log in breach of it.

The logs that are not in breach stand at their limits: all that was requested is used, the last queue is used.
"""

import pytest

from jobfeatures.cli import main
from jobfeatures.formats.swf.check import ERROR, NOTE, RULES, WARNING, check_log

LOG = """\
; Version: 2.2
; MaxJobs: 2
; MaxRecords: 2
; Preemption: No
; UnixStartTime: 843480031
; TimeZoneString: Europe/Stockholm
; StartTime: Mon Sep 23 14:00:31 CEST 1996
; EndTime: Mon Sep 23 14:02:46 CEST 1996
; MaxNodes: 50 (30, 20)
; MaxProcs: 100
; MaxRuntime: 80
; MaxMemory: 500
; AllowOveruse: No
; MaxQueues: 2
; Queue: 0 interactive
; Queue: 2 long
; MaxPartitions: 1
; Partition: 1 all
1 0 10 20 4 -1 500 4 60 500 1 1 1 1 0 1 -1 -1
2 40 15 80 100 -1 500 100 80 500 0 1 1 1 2 1 1 10
"""
FIRST, SECOND = LOG.splitlines()[-2:]
PARTS = """\
; Version: 2.2
; Preemption: Double
; UnixStartTime: 843480031
; TimeZoneString: Europe/Stockholm
; MaxProcs: 100
1 0 10 50 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1
1 0 10 20 4 -1 -1 4 -1 -1 2 1 1 1 1 1 -1 -1
1 -1 100 30 4 -1 -1 4 -1 -1 3 1 1 1 1 1 -1 -1
2 170 -1 7 4 -1 -1 4 -1 -1 1 1 1 1 1 1 1 10
"""
MODEL = """\
; Version: 2.2
; MaxProcs: 100
1 0 -1 50 4 -1 -1 4 -1 -1 -1 1 1 1 1 1 -1 -1
2 -1 -1 50 4 -1 -1 4 -1 -1 -1 1 1 1 1 1 1 10
"""

USERS = "a natural number, between one and the number of different users"
GROUPS = "a natural number, between one and the number of different groups"
PROGRAMS = "a natural number, between one and the number of different applications"
QUEUES = "a natural number, between one and the number of different queues in the system"
PARTITIONS = "a natural number, between one and the number of different partitions in the systems"
THINK = (
    "the number of seconds that should elapse between the termination of the preceding job and the submittal "
    "of this one"
)
NO_NEGATIVE = "fields like wait time, runtime, and number of processors do not contain negative values"
CONSECUTIVE = "All these lines have the same job ID and appear consecutively in the log."
LAST = "the completion code for the last such line is 3 or 4"
DOUBLE = "'Double' means that jobs may be split, and their information appears twice in the file"
NODES = "Integer, number of nodes in the computer."
VERSION = "The format described here is version 2."
START = "When the log starts, in human readable form, in this standard format"
END = "When the log ends (the last termination), formatted like StartTime."
OVERUSE = "Boolean. 'Yes' if a job may use more than it requested for any resource, 'No' if it can't."

# sentence, check, level, the log, what stands in it, what is in breach
BREACHES = [
    ("Each workload is stored in a single ASCII file.", "not ASCII", WARNING, LOG, "1 all", "1 alle Knoten für alle"),
    ("Each job (or roll) is represented by a single line in the file.", "number repeated", ERROR, LOG, SECOND, FIRST),
    ("Lines contain a predefined number of fields, which are mostly integers, separated by whitespace.",
     "not a job", ERROR, LOG, SECOND, "2 40 15"),
    ("Lines contain a predefined number of fields, which are mostly integers, separated by whitespace.",
     "fields", ERROR, LOG, SECOND, SECOND + " 9"),
    ("Fields that are irrelevant for a specific log or model appear with a value of -1.",
     "negative value", WARNING, LOG, "100 -1 500", "100 -2 500"),
    ("The same format is used for models and logs.", "model", NOTE, PARTS, PARTS, MODEL),
    ("files are expected to start with a set of header comments that define the environment or model",
     "header", WARNING, LOG, "; UnixStartTime: 843480031\n", ""),
    ("The format is completely defined, with no scope for user extensability.",
     "header label", WARNING, LOG, "; MaxProcs", "; Colour: red\n; MaxProcs"),
    ("a counter field, starting from 1", "number", ERROR, LOG, "\n1 0 10", "\n0 0 10"),
    ("a counter field, starting from 1", "number sequence", WARNING, LOG, "\n1 0 10", "\n7 0 10"),
    ("a counter field, starting from 1", "number sequence", WARNING, LOG, "\n2 40", "\n4 40"),
    ("The earliest time the log refers to is zero, and is usually the submittal time of the first job.",
     "first submit", WARNING, LOG, "\n1 0 10", "\n1 7 3"),
    ("The lines in the log are sorted by ascending submittal times.", "order", ERROR, LOG, "\n1 0 10", "\n1 41 10"),
    ("The lines in the log are sorted by ascending submittal times.",
     "no submit time", ERROR, LOG, "\n1 0 10", "\n1 -1 10"),
    (USERS, "natural number", WARNING, LOG, "500 0 1 1 1 2", "500 0 0 1 1 2"),
    (USERS, "numbering", WARNING, LOG, "500 0 1 1 1 2", "500 0 3 1 1 2"),
    (GROUPS, "natural number", WARNING, LOG, "500 0 1 1 1 2", "500 0 1 0 1 2"),
    (GROUPS, "numbering", WARNING, LOG, "500 0 1 1 1 2", "500 0 1 3 1 2"),
    (PROGRAMS, "natural number", WARNING, LOG, "500 0 1 1 1 2", "500 0 1 1 0 2"),
    (PROGRAMS, "numbering", WARNING, LOG, "500 0 1 1 1 2", "500 0 1 1 3 2"),
    (QUEUES, "MaxQueues", WARNING, LOG, "1 2 1 1 10", "1 3 1 1 10"),
    (PARTITIONS, "natural number", WARNING, LOG, "1 2 1 1 10", "1 2 0 1 10"),
    (PARTITIONS, "MaxPartitions", WARNING, LOG, "1 2 1 1 10", "1 2 2 1 10"),
    ("the number of a previous job in the workload", "preceding job", WARNING, LOG, "2 1 1 10", "2 1 2 10"),
    ("the current job can only start after the termination of this preceding job",
     "start", ERROR, LOG, SECOND, SECOND.replace("2 40 15", "2 14 15").replace(" 1 10", " 1 -1")),
    ("the current job can only start after the termination of this preceding job",
     "start", ERROR, PARTS, "2 170 -1 7", "2 60 99 7"),
    (THINK, "think time", WARNING, LOG, "2 1 1 10", "2 1 -1 10"),
    (THINK, "think time", WARNING, LOG, "2 1 1 10", "2 1 1 11"),
    (NO_NEGATIVE, "negative value", ERROR, LOG, "40 15 80", "40 -15 80"),
    (NO_NEGATIVE, "negative value", ERROR, LOG, "40 15 80", "40 15 -80"),
    (NO_NEGATIVE, "negative value", ERROR, LOG, "80 100 -1", "80 -100 -1"),
    ("the number of processors specified does not exceed the number available in the system",
     "processors", ERROR, LOG, "80 100 -1", "80 101 -1"),
    ("cancelled jobs may have positive runtimes and processors if cancelled after they started to run, or 0 or -1",
     "no processors", WARNING, LOG, "80 100 -1", "80 0 -1"),
    ("its runtime is the sum of all partial runtimes", "summary", WARNING, PARTS, "10 50 4", "10 150 4"),
    ("its code is 0 or 1 according to the completion status of the whole job",
     "summary", WARNING, PARTS, "-1 3 1", "-1 4 1"),
    (CONSECUTIVE, "number repeated", ERROR, PARTS, "\n2 170", "\n1 -1 100 30 4 -1 -1 4 -1 -1 3 1 1 1 1 1 -1 -1\n2 170"),
    (CONSECUTIVE, "number repeated", ERROR, PARTS, PARTS, PARTS + "1 -1 9 9 4 -1 -1 4 -1 -1 3 1 1 1 1 1 -1 -1\n"),
    (CONSECUTIVE, "number repeated", ERROR, PARTS, "-1 2 1 1", "-1 1 1 1"),
    (LAST, "last part", WARNING, PARTS, "-1 3 1", "-1 2 1"),
    (LAST, "last part", WARNING, PARTS, PARTS, PARTS[: PARTS.index("\n2 170")].replace("-1 3 1", "-1 2 1") + "\n; End\n"),
    ("the status field codes are (or should be) as follows", "status", WARNING, LOG, "500 0 1 1", "500 6 1 1"),
    ("models can include precedences with dependent jobs that don't have independent arrival times",
     "no submit time", ERROR, LOG, "2 40 15", "2 -1 15"),
    (VERSION, "header value", WARNING, LOG, "Version: 2.2", "Version: 1.9"),
    (VERSION, "header value", WARNING, LOG, "Version: 2.2", "Version: two"),
    ("Integer, total number of jobs in this workload file.", "header count", WARNING, LOG, "Jobs: 2", "Jobs: 3"),
    ("Integer, total number of records in this workload file.",
     "header count", WARNING, LOG, "Records: 2", "Records: 3"),
    ("Enumerated, with four possible values.", "header value", WARNING, LOG, "tion: No", "tion: Perhaps"),
    ("'No' means that jobs run to completion, and are represented by a single line in the file.",
     "header", WARNING, LOG, "500 0 1 1", "500 3 1 1"),
    (DOUBLE, "summary", WARNING, PARTS, "1 0 10 50 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1\n", ""),
    ("When the log starts, in Unix time (seconds since the epoch)",
     "header value", WARNING, LOG, "UnixStartTime: 843480031", "UnixStartTime: 1996-09-23"),
    ("DEPRECATED and replaced by TimeZoneString.",
     "header", WARNING, LOG, "; TimeZoneString", "; TimeZone: 3600\n; TimeZoneString"),
    ("this is actually the name of a zoneinfo file", "header value", WARNING, LOG, "Stockholm", "Atlantis"),
    (START, "header value", WARNING, LOG, "Mon Sep 23 14:00:31 CEST 1996", "1996-09-23 14:00:31"),
    (START, "header time", WARNING, LOG, "14:00:31", "15:00:31"),
    (END, "header value", WARNING, LOG, "Mon Sep 23 14:02:46 CEST 1996", "1996-09-23 14:02:46"),
    (END, "header time", WARNING, LOG, "14:02:46", "14:02:47"),
    (NODES, "header value", WARNING, LOG, "MaxNodes: 50 (30, 20)", "MaxNodes: 0"),
    (NODES, "header value", WARNING, LOG, "MaxNodes: 50 (30, 20)", "MaxNodes: 2.5"),
    ("List the number of nodes in different partitions in parentheses if applicable.",
     "header value", WARNING, LOG, "(30, 20)", "(30, 51)"),
    ("Integer, number of processors in the computer. This is different from MaxNodes if each node is an SMP.",
     "header value", WARNING, LOG, "MaxNodes: 50", "MaxNodes: 101"),
    ("This is the maximum that the system allowed, and may be larger than any specific job's runtime",
     "MaxRuntime", WARNING, LOG, "MaxRuntime: 80", "MaxRuntime: 79"),
    ("Again, this is the maximum the system allowed.", "MaxMemory", WARNING, LOG, "MaxMemory: 500", "MaxMemory: 499"),
    (OVERUSE, "header value", WARNING, LOG, "AllowOveruse: No", "AllowOveruse: Never"),
    (OVERUSE, "AllowOveruse", WARNING, LOG, "100 80 500", "100 79 500"),
    (OVERUSE, "AllowOveruse", WARNING, LOG, "100 80 500", "99 80 500"),
    (OVERUSE, "AllowOveruse", WARNING, LOG, "100 80 500", "100 80 499"),
    ("Integer, number of queues used.", "header count", WARNING, LOG, "MaxQueues: 2", "MaxQueues: 3"),
    ("A description of a single queue in the following format: queue-number queue-name (optional-details).",
     "header value", WARNING, LOG, "Queue: 2 long", "Queue: long"),
    ("This should be repeated for all the queues.", "unknown queue", WARNING, LOG, "1 2 1 1 10", "1 1 1 1 10"),
    ("Integer, number of partitions used.", "header count", WARNING, LOG, "Partitions: 1", "Partitions: 2"),
    ("Description of a single partition.", "unknown partition", WARNING, LOG, "1 2 1 1 10", "1 2 4 1 10"),
]  # fmt: skip


def found_in(log):
    return [(each.level, each.rule) for each in check_log(log.splitlines())]


def test_logs_that_keep_to_the_standard_have_no_faults():
    assert found_in(LOG) == []
    assert found_in(PARTS) == []
    assert found_in(MODEL) == [(NOTE, "model")]


@pytest.mark.parametrize(("sentence", "rule", "level", "log", "kept", "breach"), BREACHES)
def test_a_breach_of_the_standard_is_found(sentence, rule, level, log, kept, breach):
    assert log.count(kept) == 1, sentence
    assert (level, rule) in found_in(log.replace(kept, breach)), sentence


def test_each_rule_has_a_sentence():
    assert {rule for _, rule, *_ in BREACHES} == set(RULES)


@pytest.mark.parametrize("overuse", ["Yes", "-1"])
def test_more_than_requested_is_no_fault_where_that_is_allowed_or_unknown(overuse):
    assert found_in(LOG.replace("100 80 500", "99 79 499").replace("use: No", f"use: {overuse}")) == []


@pytest.mark.parametrize(
    ("kept", "log"),
    [
        ("\n1 0 -1 50", "\n1 0 3 50"),
        ("\n1 0 -1 50 4 -1 -1 4 -1 -1 -1", "\n1 0 -1 50 4 -1 -1 4 -1 -1 1"),
        ("; MaxProcs", "; UnixStartTime: 843480031\n; MaxProcs"),
    ],
)
def test_a_wait_a_status_or_a_time_in_the_header_makes_a_log_where_each_job_has_a_submit_time(kept, log):
    assert MODEL.count(kept) == 1
    found = found_in(MODEL.replace(kept, log))
    assert (ERROR, "no submit time") in found
    assert (NOTE, "model") not in found


def test_a_rounded_second_is_no_start_before_the_predecessors_end():
    near = SECOND.replace("2 40 15", "2 29.5 0").replace(" 1 10", " 1 -1")
    assert (ERROR, "start") not in found_in(LOG.replace(SECOND, near))


def test_a_model_is_told_by_the_command_and_is_no_fault(tmp_path, capsys):
    path = tmp_path / "model.swf"
    path.write_text(MODEL)
    assert main(["check", "--as", "swf", str(path)]) == 0
    told = "a model's log: no waits, no statuses, and no time in the header"
    assert capsys.readouterr().out == f"{path}: note: model: {told}\n{path}: 0 errors, 0 warnings\n"
