"""What the exit status of each command means, where it says more than the usual; see `jobfeatures.exits`."""

from __future__ import annotations

from collections.abc import Mapping

from jobfeatures.exits import DONE, FAILED, INTERRUPTED, WRONG

_DAEMON = {
    DONE: "ended by SIGTERM or SIGINT, after what was under way",
    FAILED: "it could not go on; what failed is in the log",
    WRONG: "a wrong flag, setting, certificate or port: one line says which; nothing was started",
    INTERRUPTED: "ended by SIGINT before anything had started",
}
_DOCUMENT = {FAILED: "something went wrong: the document that is printed tells what"}

EXITS: Mapping[str, Mapping[int, str]] = {
    "serve": _DAEMON,
    "demo": _DAEMON,
    "check-config": {DONE: "the settings can be used", WRONG: "they cannot: one line says which and why"},
    "doctor": {DONE: "nothing is wrong", FAILED: "something is", WRONG: "the settings cannot be read"},
    "node-token": {WRONG: "no such secret, a name that is none, or a wrong flag"},
    "report": {
        FAILED: "there is no such job, or the server did not answer",
        WRONG: "several jobs are called so, each is listed; or a wrong flag",
    },
    "top": {DONE: "ended by q, or printed once", FAILED: "the daemon did not answer"},
    "sample": _DOCUMENT,
    "sysinfo": _DOCUMENT,
    "jobs": _DOCUMENT,
    "cluster": _DOCUMENT,
    "validate": {DONE: "no faults", FAILED: "faults", WRONG: "something could not be read, or a wrong flag"},
}
