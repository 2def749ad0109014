"""What the exit status of each command means, where it says more than the usual: for `reference/exits.md`.

A wrong flag or setting is status 2 of every command, and Ctrl-C status 130.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobfeatures.system.exitstatus import DONE, FAILED, INTERRUPTED, NOT_ASKED, TOO_LITTLE_KNOWN, WRONG

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

JOBFEATURES: Mapping[str, Mapping[int, str]] = {
    "publish": _HOOK,
    "remove": _HOOK,
    "env": {FAILED: "no addresses, or another user's"},
    "show": {FAILED: "there is no such job here, or no features"},
    "get": {FAILED: "the key has no value", NOT_ASKED: _NOT_ASKED},
    "remaining": {FAILED: "no limit is known, and no `--default` given", NOT_ASKED: _NOT_ASKED},
    "run": {
        DONE: "the program's own status; 128 + N if signal N ended it",
        126: "the program cannot be run",
        127: "there is no such program",
    },
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
}

_DAEMON = {
    DONE: "ended by SIGTERM or SIGINT",
    FAILED: "failed: the log has the reason",
    WRONG: "a wrong flag, setting, certificate or port: one line names it; nothing was started",
    INTERRUPTED: "ended by SIGINT before anything had started",
}

EXPORTER: Mapping[str, Mapping[int, str]] = {
    "serve": _DAEMON,
    "demo": _DAEMON,
    "check-config": {DONE: "the settings can be used", WRONG: "they cannot: one line says which and why"},
    "doctor": {DONE: "nothing is wrong", FAILED: "something is", WRONG: "the settings cannot be read"},
    "node-token": {WRONG: "no such secret, an invalid name, or a wrong flag"},
    "report": {
        FAILED: "there is no such job, or the server did not answer",
        WRONG: "several jobs have this id, each is listed; or a wrong flag",
    },
    "summaries": {
        DONE: "written, or ended by SIGTERM or SIGINT",
        FAILED: "accounting or the server did not answer, or sacctmgr spoils comments",
    },
    "mail": {DONE: "sent, with figures or without", FAILED: "the site's own mailer failed"},
    "top": {DONE: "ended by q, or printed once", FAILED: "the daemon did not answer"},
    "textfile": {
        DONE: "written, or ended by SIGTERM or SIGINT",
        FAILED: "could not write",
        WRONG: "a wrong flag, setting or directory",
    },
    "sonar": {
        DONE: "done",
        FAILED: "failed: the document has the error",
        WRONG: "a wrong flag or setting",
    },
}

EXITS = {"jobfeatures": JOBFEATURES, "jobfeatures-exporter": EXPORTER}
