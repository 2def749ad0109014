"""Maps the path of a control group to its job, container, service or session: pure."""

from __future__ import annotations

import re
from functools import lru_cache

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.groups import BatchHierarchy, Membership, unescape
from jobfeatures_exporter.snapshot import Kind, UnitKey

BATCH_HIERARCHIES: tuple[BatchHierarchy, ...] = tuple(
    each.load("groups").HIERARCHY for each in SYSTEMS.values() if each.has_groups
)
_DELETED = " (deleted)"  # follows the path of a removed group
MAX_REMEMBERED = 4096  # cached job paths, and texts of /proc/PID/cgroup, which processes of a job share

# Names of groups of containers, services and sessions, see `match_unit`.
_HEX = "(?P<id>[0-9a-f]{12})[0-9a-f]{52}"
_RUNTIMES = {
    "docker": "docker",
    "libpod": "podman",
    "libpod-conmon": "podman",
    "cri-containerd": "cri",
    "crio": "cri",
    "crio-conmon": "cri",
    "nerdctl": "containerd",
}
_SCOPE = re.compile(rf"(?:.{{0,255}}:)?(?P<runtime>{'|'.join(_RUNTIMES)})[-:]{_HEX}(?:\.scope)?", re.ASCII)
_IMAGE = re.compile(r"(?P<runtime>apptainer|singularity)-(?P<id>[0-9]{1,10})\.scope", re.ASCII)
_MACHINE = re.compile(r"machine-(?P<name>.{1,200})\.scope|systemd-nspawn@(?P<nspawn>.{1,200})\.service")
# Groups created by the runtimes themselves, without systemd, by the path from the root.
_DIRECT = (
    ("docker", re.compile(rf"/docker/{_HEX}(?:/|\Z)")),
    ("podman", re.compile(rf"/libpod_parent/libpod-(?:conmon-)?{_HEX}(?:/|\Z)")),
    (
        "cri",
        re.compile(
            rf"/kubepods(?:/besteffort|/burstable)?/pod[0-9a-f_-]{{32,36}}/(?:crio-)?{_HEX}(?:/|\Z)"
        ),
    ),
    ("containerd", re.compile(rf"/(?:default|k8s\.io|moby)/{_HEX}(?:/|\Z)")),
    ("lxc", re.compile(r"/lxc(?:\.payload|\.monitor)?[./](?P<id>[^/]{1,64})(?:/|\Z)")),
    ("apptainer", re.compile(r"/(?:apptainer|singularity)/(?P<id>[0-9]{1,10})(?:/|\Z)")),
)  # fmt: skip
_USER = re.compile(r"/user\.slice/(?P<name>user-[0-9]{1,10})\.slice(?:/|\Z)", re.ASCII)


@lru_cache(MAX_REMEMBERED)
def match_path(path: str) -> Membership | None:
    """Return the batch job that a path from the hierarchy's root belongs to, None if it is no job's.

    Only the start of a path is trusted: users may create groups of any name below groups delegated to them.
    """
    path = path.removesuffix(_DELETED)
    for hierarchy in BATCH_HIERARCHIES:
        if membership := hierarchy.match(path):
            return membership
    return None


@lru_cache(MAX_REMEMBERED)
def parse_process_cgroup(text: str) -> Membership | UnitKey | None:
    """Return what a process belongs to by the text of its /proc/PID/cgroup, None if no group is recognised.

    Source: cgroups(7), lines ``ID:CONTROLLERS:PATH``. Never raises. Controllers may disagree on v1: a batch
    system's own process may be in the job in freezer only. The first line that names a job's step takes
    precedence, then the first that names a job, then a container, then a service or session.
    """
    job: Membership | None = None
    unit: UnitKey | None = None
    for line in text.split("\n"):
        _, _, rest = line.partition(":")
        path = rest.partition(":")[2]
        if not path.startswith("/"):
            continue
        membership = match_path(path)
        if membership is None:
            found = match_unit(path.removesuffix(_DELETED))
            if found and (unit is None or (found.kind is Kind.CONTAINER and unit.kind is not Kind.CONTAINER)):
                unit = found
        elif membership.step is not None:
            return membership
        else:
            job = job or membership
    return job or unit


def match_unit(path: str) -> UnitKey | None:
    """Return the container, service or user session that a control group's path belongs to, None for others.

    Source: systemd.unit(5), systemd.slice(5), user@.service(5), and groups made by the runtimes. Slices are
    skipped; the first unit below them, which only root can create, decides. Everything below
    ``user-UID.slice`` is that user's session, including rootless containers.
    """
    if found := _USER.match(path):
        return UnitKey(Kind.SESSION, found["name"])
    parts = path.split("/")
    number = 1
    while number < len(parts) and parts[number].endswith(".slice"):
        number += 1
    if number == len(parts) or parts[1] == "user.slice":
        return None
    if parts[number].endswith((".service", ".scope")) or ":" in parts[number]:
        return _match_name(parts[number])
    if number == 1:
        for runtime, pattern in _DIRECT:
            if found := pattern.match(path):
                return UnitKey(Kind.CONTAINER, f"{runtime}-{found['id']}")
    return None


def _match_name(name: str) -> UnitKey | None:
    if found := _SCOPE.fullmatch(name):
        return UnitKey(Kind.CONTAINER, f"{_RUNTIMES[found['runtime']]}-{found['id']}")
    if found := _IMAGE.fullmatch(name):
        return UnitKey(Kind.CONTAINER, f"apptainer-{found['id']}")
    if found := _MACHINE.fullmatch(name):
        return UnitKey(Kind.CONTAINER, f"machine-{unescape(found['name'] or found['nspawn'])}")
    return UnitKey(Kind.SERVICE, name) if name.endswith((".service", ".scope")) else None
