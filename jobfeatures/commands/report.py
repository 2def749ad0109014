"""`jobfeatures report`: writes values into $JOBSTATUS, the status that a job reports about itself."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Mapping

from jobfeatures.client import CAN_POSTPONE, JOB, STATUS_KEYS, USED_CPU, Features, FeaturesError, StatusWriter
from jobfeatures.errors import ConfigurationError, shown
from jobfeatures.settings.usage import complain
from jobfeatures.status.jobstatus import QUIET_SECS

VARIABLE = "JOBSTATUS"
NONE = "none"
TIMEOUT_SECS = 10.0  # for a lock, or for a server's answer
MADE_WITHIN_SECS = 1.0  # for the files of one update

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}\Z", re.ASCII)
_RELATIVE = re.compile(r"[+-][0-9]{1,12}\Z", re.ASCII)
_BOOLEANS = {"true": True, "false": False}
_TIMES = ("last_job_start", "first_exp_job_end", "last_exp_job_end", "last_max_job_end")
_MEANINGS = {
    USED_CPU: "processors in use",
    "last_job_start": "when the last payload started",
    "first_exp_job_end": "when the first payload is expected to end",
    "last_exp_job_end": "when the last payload is expected to end",
    "last_max_job_end": "when the last payload will have ended at the latest",
    "add_uncom_time": "CPU seconds wasted by a kill at the start of the last payload",
    "add_final_exp_waste": "idle CPU seconds between the first and the last expected end",
    "can_postpone_last_job": "whether the last payload can be postponed",
    "priority_factor": "worth among this user's jobs; higher is better",
}

Value = int | bool | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add an option for each of the nine $JOBSTATUS keys."""
    parser.epilog = (
        "TIME is epoch seconds, 'now', or seconds from now, such as +3600 or -60. Values that are not "
        f"given stay as reported before; '{NONE}' removes a value. Exit status: 0 reported, "
        "1 not reported, 2 wrong usage. What a job used and wasted: jobfeatures-exporter report."
    )
    for name, meaning in _MEANINGS.items():
        metavar = "TIME" if name in _TIMES else "true|false" if STATUS_KEYS[name] is None else "N"
        parser.add_argument(_option(name), dest=name, metavar=metavar, help=meaning)
    parser.add_argument("--directory", metavar="DIR-or-URL", help=f"where to report (default: ${VARIABLE})")


def run(arguments: argparse.Namespace) -> int:
    """Write the given values into the job's status; return the exit status."""
    location = arguments.directory or os.environ.get(VARIABLE, "")
    if not location:
        raise ConfigurationError(
            f"${VARIABLE}", 'is not set; in a job: eval "$(jobfeatures env)", else name --directory'
        )
    values = parse_values(vars(arguments), int(time.time()))
    if not values:
        raise ConfigurationError(_option(USED_CPU), "give this value or another one to report")
    is_url = location.startswith(("http://", "https://"))
    if not is_url and not location.startswith("/"):
        raise ConfigurationError(
            f"${VARIABLE}", f"must be an absolute path or an address, not {shown(location)}"
        )
    reverts = values.get(CAN_POSTPONE) is True and read_can_postpone(location) is False
    reverted_secs = None if reverts or is_url else read_reverted_secs(location, time.time())
    allocated_cpu = None if is_url else read_allocated_cpu(Features.from_environment())  # the server knows it
    done = _write(location, values, allocated_cpu)
    if reverts and done == 0:
        others = "were updated too, but should not change" if len(values) > 1 else "should not change"
        _warn("went back from False to True", others)
    elif reverted_secs is not None and done == 0 and values.keys() - {CAN_POSTPONE}:
        _warn(f"went back to True {reverted_secs:.0f} s ago", "were updated now, but should not change")
    return done


def _warn(when: str, others: str) -> None:
    complain(
        f"{CAN_POSTPONE} {when}: other values {others} for a while "
        f"(draft 0.99, 3.8; checked for {QUIET_SECS / 60:.0f} min)"
    )


def _write(location: str, values: Mapping[str, Value], allocated_cpu: int | None) -> int:
    try:
        with StatusWriter(location, allocated_cpu, lock_timeout_secs=TIMEOUT_SECS) as writer:
            writer.amend(**values)
    except ValueError as error:  # the values contradict each other
        complain(error)
        return 2
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        complain(f"nothing was reported: {place}{error.strerror or error}")
        return 1
    return 0


def _option(name: str) -> str:
    return "--" + name.lower().replace("_", "-")


def parse_values(given: Mapping[str, object], now_secs: int) -> dict[str, Value]:
    """Return the values of the given options by key, None to remove one.

    Raises ConfigurationError if a value is invalid.
    """
    return {
        name: _parse(name, text, now_secs)
        for name, text in given.items()
        if name in STATUS_KEYS and isinstance(text, str)
    }


def _parse(name: str, text: str, now_secs: int) -> Value:
    if text == NONE:
        return None
    if STATUS_KEYS[name] is None:
        if text.lower() not in _BOOLEANS:
            raise ConfigurationError(_option(name), f"must be true or false, not {shown(text)}")
        return _BOOLEANS[text.lower()]
    if name in _TIMES and text == "now":
        return now_secs
    if name in _TIMES and _RELATIVE.match(text):
        return now_secs + int(text)
    if not _INTEGER.match(text):
        raise ConfigurationError(_option(name), f"must be an integer, not {shown(text)}")
    return int(text)


def read_can_postpone(location: str) -> bool | None:
    """Return the value of can_postpone_last_job in a job's status; None if there is none.

    `location` is a path or URL, such as the value of $JOBSTATUS.
    """
    try:
        text = Features(job=location).get(JOB, CAN_POSTPONE)
    except FeaturesError:
        return None
    return {"True": True, "False": False}.get((text or "").strip())


def read_reverted_secs(path: str, now_secs: float) -> float | None:
    """Return the seconds since can_postpone_last_job became True again; None if long ago, never or unknown.

    The key's file in the status directory `path` is written only when its value changes, so the file's time
    tells when. If that time is close to the directory's, the value was True from the start: None.
    """
    try:
        changed_secs = os.lstat(f"{path}/{CAN_POSTPONE}").st_mtime
        is_first = changed_secs - os.stat(path).st_mtime < MADE_WITHIN_SECS
    except OSError:
        return None
    quiet_secs = now_secs - changed_secs
    is_quiet = 0 <= quiet_secs < QUIET_SECS and read_can_postpone(path) is True
    return quiet_secs if is_quiet and not is_first else None


def read_allocated_cpu(features: Features) -> int | None:
    """Return how many processors the job has, None if unknown."""
    for key in ("allocated_cpu", "allocated_CPU"):
        try:
            text = features.get(JOB, key)
        except FeaturesError:
            return None
        if text is not None and text.isascii() and text.isdigit() and len(text) < 19:
            return int(text)
    return None
