"""Finds out which GPUs a job has: the devices that PBS's cgroups hook lets its control group open.

On v1 the kernel shows them in ``devices.list``, Documentation/admin-guide/cgroup-v1/devices.rst: ``c 195:3
rw``, and ``a *:* rwm`` where anything may be opened. NVIDIA's have the major number 195; the minor numbers
254 and 255 are no GPUs. On v2 no file of the group shows them, but the hook's own
``mom_priv/hooks/hook_data/ID`` (pbs_cgroups.PY of OpenPBS, write_cgroup_assigned_resources):
``{"cpuset.cpus": "0-3", "device_names": ["nvidia0", "nvidia3"]}``, with the GPUs' minor numbers.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator

from jobfeatures.system.privatefile import read_bounded

MAX_BYTES = 2**16
# To open takes r or w; m lets make device files.
_ALL = re.compile(r"^(?:a \*:\*|c (?:195|\*):\*) m?[rw]", re.MULTILINE)
_CARD = re.compile(r"^c 195:([0-9]{1,3}) m?[rw]", re.MULTILINE)
PLACES = ("*.service/jobid", "*.slice/*.service/jobid", "pbspro")  # of the hook's versions
_NO_CARDS = frozenset({"254", "255"})
_NAME = re.compile(r"nvidia([0-9]{1,3})\Z", re.ASCII)
_OTHER = re.compile(r"mic[0-9]{1,3}\Z", re.ASCII)


def parse_devices(text: str) -> tuple[str, ...]:
    """Return the minor numbers of the GPUs that ``devices.list`` allows; () if it allows all devices."""
    if _ALL.search(text):
        return ()
    return tuple(dict.fromkeys(number for number in _CARD.findall(text) if number not in _NO_CARDS))


def parse_assigned(text: str) -> tuple[str, ...]:
    """Return the minor numbers of the GPUs in the hook's ``hook_data/ID``; () if malformed or ambiguous."""
    try:
        names = json.loads(text)["device_names"]
        found = {name: _NAME.match(name) for name in names if not _OTHER.match(name)}
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    return tuple(match[1] for match in found.values() if match) if all(found.values()) else ()


def read_cards(cgroup: str, home: str, job_id: str) -> tuple[str, ...]:
    """Return the minor numbers of a job's GPUs; () if neither its control group nor the hook's file has any.

    `cgroup` is where control groups are mounted, `home` is PBS_HOME.
    """
    name = f"{glob.escape(job_id)}.*"
    for place in PLACES:
        for text in _read(f"{glob.escape(cgroup)}/devices/{place}/{name}/devices.list"):
            return parse_devices(text)
    assigned = {
        parse_assigned(text) for text in _read(f"{glob.escape(home)}/mom_priv/hooks/hook_data/{name}")
    }
    return assigned.pop() if len(assigned) == 1 else ()  # else jobs of two servers have one number


def _read(pattern: str) -> Iterator[str]:
    for path in glob.glob(pattern):
        try:
            content, _ = read_bounded(path, MAX_BYTES)
        except OSError:
            continue
        yield content.decode("ascii", "replace")
