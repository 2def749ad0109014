"""What the exit status of each command means, where it says more than the usual; see `jobfeatures.exits`."""

from __future__ import annotations

from collections.abc import Mapping

from jobfeatures.exits import DONE, FAILED, INTERRUPTED, WRONG

_DAEMON = {
    DONE: "ended by SIGTERM or SIGINT",
    FAILED: "failed: the log has the reason",
    WRONG: "a wrong flag, setting, certificate or port: one line names it; nothing was started",
    INTERRUPTED: "ended by SIGINT before anything had started",
}
_DOCUMENT = {FAILED: "failed: the document has the error"}

EXITS: Mapping[str, Mapping[int, str]] = {
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
    "sample": _DOCUMENT,
    "sysinfo": _DOCUMENT,
    "jobs": _DOCUMENT,
    "cluster": _DOCUMENT,
    "validate": {DONE: "no faults", FAILED: "faults", WRONG: "something could not be read, or a wrong flag"},
}
