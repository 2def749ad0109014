#!/bin/bash
# htcondor 25.14.1 (PyPI wheel), htcondor2.JobEventLog: event logs in the form of today, 2026-10-25 02:30:00, and in
# UTC with a Z (EVENT_LOG_FORMAT_OPTIONS = UTC, ISO_DATE), over the end of summer time. Times are those of the reader's zone.
# One would guess: local logs are doubtful for one hour a year, so a site writes its logs in UTC and is safe:
# EventTime is the text of the log, and .timestamp counts the seconds that passed.
# What happens: an event is kept in local time without a zone. EventTime is written anew (12:00:00Z reads
# 2026-07-15T14:00:00), and .timestamp follows it: in a log in UTC, 00:30:00Z and 01:30:00Z of the last Sunday in October
# are one and the same second, so that a job that ran for an hour ran for 0 s. In a local log each time between 2
# and 3 is taken for summer time, also one behind a later one: suspended at 02:50, continued at 02:10, -2400 s.
# Why it matters: UTC in the logs does not help if the reader's zone has summer time (TZ=UTC of the reader does); EventTime
# is what dict() and str() of an event carry along; and times below zero reach accounts once a year.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install htcondor==25.14.1
cd "$work"
cat >events.py <<'PYTHON'
import os

import htcondor2

SUBMITTED = (0, "Job submitted from host: <127.0.0.1:9618?addrs=127.0.0.1-9618>")
EXECUTING = (1, "Job executing on host: <127.0.0.1:9618?addrs=127.0.0.1-9618>")
SUSPENDED = (10, "Job was suspended.\n\tNumber of processes actually suspended: 1")
CONTINUED = (11, "Job was unsuspended.")


def read(*events):
    with open("job.log", "w") as log:
        for (number, text), at in events:
            log.write(f"{number:03d} (001.000.000) {at} {text}\n...\n")
    read_events = list(htcondor2.JobEventLog("job.log").events(0))
    for (_, at), event in zip(events, read_events):
        print(f"{at}: EventTime {event['EventTime']}, timestamp {event.timestamp}")
    return read_events


if os.environ["TZ"] == "UTC":
    first, second = read((SUBMITTED, "2026-10-25T00:30:00Z"), (EXECUTING, "2026-10-25T01:30:00Z"))
    assert second.timestamp - first.timestamp == 3600
    raise SystemExit
print("htcondor2", htcondor2.version(), "with TZ=Europe/Berlin")
print("guess: EventTime is what the log says; a log in UTC loses no hour")
(summer,) = read((SUBMITTED, "2026-07-15T12:00:00Z"))
assert summer["EventTime"] == "2026-07-15T14:00:00" and summer.timestamp == 1784116800
first, second = read((SUBMITTED, "2026-10-25T00:30:00Z"), (EXECUTING, "2026-10-25T01:30:00Z"))
assert first["EventTime"] == second["EventTime"] == "2026-10-25T02:30:00"
print("seconds between them:", second.timestamp - first.timestamp)
assert second.timestamp == first.timestamp
suspended, continued = read((SUSPENDED, "2026-10-25 02:50:00"), (CONTINUED, "2026-10-25 02:10:00"))
print("suspended for", continued.timestamp - suspended.timestamp, "s")
assert continued.timestamp - suspended.timestamp == -2400
PYTHON
TZ=Europe/Berlin venv/bin/python events.py
echo "with TZ=UTC:"
TZ=UTC venv/bin/python events.py
