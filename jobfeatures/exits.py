"""What the exit status of each command means: 0, 1 and 2, where they say more than the usual. Pure.

A wrong flag or setting is status 2 of every command, and Ctrl-C status 130;
docs/reference/exits.md is written from this.
"""

from __future__ import annotations

from collections.abc import Mapping

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
NOT_ASKED = TOO_LITTLE_KNOWN = 3
USUAL: Mapping[int, str] = {
    DONE: "done",
    FAILED: "the work could not be done",
    WRONG: "a wrong flag, setting or settings file: one line names it; nothing was done",
    INTERRUPTED: "interrupted by Ctrl-C (SIGINT)",
}
_HOOK = {
    DONE: "done; without `--strict` always, since a failing prolog drains its node",
    FAILED: "with `--strict`: something failed",
    WRONG: "a wrong flag",
}
_NOT_ASKED = "no features could be read: no directory, no answer, or an expired token"
LOG = "a log could not be read, or a wrong flag or setting"

EXITS: Mapping[str, Mapping[int, str]] = {
    "publish": _HOOK,
    "remove": _HOOK,
    "env": {FAILED: "no addresses, or another user's"},
    "show": {FAILED: "there is no such job here, or no features"},
    "get": {FAILED: "the key has no value", NOT_ASKED: _NOT_ASKED},
    "remaining": {FAILED: "no limit is known", NOT_ASKED: _NOT_ASKED},
    "drain": {
        FAILED: "refused, nothing to cancel or to plan, files could not be written, or no answer",
        TOO_LITTLE_KNOWN: "`plan`: too little is known to name a best time",
    },
    "victims": {
        FAILED: "no node's jobs have that many CPUs, or no answer",
        TOO_LITTLE_KNOWN: "too little is known of the jobs",
    },
    "report": {FAILED: "the status could not be written", WRONG: "a wrong value, flag or setting"},
    "check": {
        DONE: "no errors",
        FAILED: "errors",
        WRONG: "something could not be read, or a wrong flag or setting",
    },
    "swf": {DONE: "no errors", FAILED: "errors", WRONG: LOG},
    "sss": {
        DONE: "no errors; `match`: each job finds its nodes",
        FAILED: "errors; `match`: a job does not",
        WRONG: "a file could not be read, or a wrong flag or setting",
    },
    "convert": {DONE: "all jobs were converted", FAILED: "some were not", WRONG: LOG},
    "schedule": {
        DONE: "all logs were evaluated",
        FAILED: "one has no job that can be counted, or no expected ends",
        WRONG: LOG,
    },
    "expect": {
        DONE: "answered",
        FAILED: "no answer for this job",
        WRONG: LOG,
        TOO_LITTLE_KNOWN: "nothing is certain, since earlier jobs may be missing",
    },
    "simulate": {DONE: "written", FAILED: "no job can be simulated", WRONG: LOG},
    "replay": {
        DONE: "all was played, or Ctrl-C or SIGTERM; its documents are removed",
        WRONG: "the log or the folder could not be used, or a wrong flag or setting",
    },
}
