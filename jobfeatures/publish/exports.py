"""Writes the lines that export $MACHINEFEATURES, $JOBFEATURES and $JOBSTATUS, as paths or as HTTP URLs.

Only the job's user can read a job's files: whoever knows a job's URLs can use them, and a hook that looks up
another user's job by mistake must find no lines. Until the user is known, root alone can read them. A daemon
that is neither root nor that user cannot restrict a file so: then it holds only paths, and everybody can read
it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from jobfeatures.publish.files import Owner
from jobfeatures.publish.folders import EXPORTS, URLS
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey

LOCAL = "local"
HTTP = "http"
BOTH = "both"
NO_PROXY = ("no_proxy", "NO_PROXY")  # programs read one or the other, and some only the first that is set


class FeatureAccess(NamedTuple):
    """How jobs reach their features: by paths, by URLs or by both (`form`).

    `url` is the HTTP listener's, None without one. `binds` are container programs that are to see the
    folders, by variables such as ``APPTAINER_BIND``.
    """

    url: str | None = None
    form: str = LOCAL
    binds: tuple[str, ...] = ()


def format_exports(tree: FeatureTree, key: JobKey, binds: Iterable[str] = ()) -> str:
    """Return shell lines that export MACHINEFEATURES, JOBFEATURES and JOBSTATUS as paths for one job.

    A Slurm TaskProlog or a shell can read the lines. For each container program in `binds`, such as
    ``apptainer``, a further line makes these folders visible in its containers.
    """
    machine, job, status = tree.machine_path, tree.job_path(key), tree.status_path(key)
    bound = f"{machine}:{machine}:ro,{job}:{job}:ro,{status}:{status}"
    return _lines(machine, job, status) + "".join(f"export {each.upper()}_BIND={bound}\n" for each in binds)


def beside_others(lines: Iterable[str], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield export lines merged with values that the job's environment has already.

    Merged are lists of folders to bind into containers, and lists of hosts in ``no_proxy``; the job's own
    come first. If the job's value would be unsafe in a shell, the line is left out.
    """
    for line in lines:
        name, _, ours = line.removeprefix("export ").partition("=")
        old = _without_submitters(environ.get(name, ""), ours) if name.endswith("_BIND") else ""
        if name in NO_PROXY:
            hosts = re.split(r"[\s,]+", next(filter(None, map(environ.get, (name, *NO_PROXY))), ""))
            old = ",".join(filter(None, hosts))
            if old == "*" or f",{ours}," in f",{old},":
                ours = ""
        elif f",{ours}," in f",{old},":
            continue
        if not old:
            yield line
        elif re.fullmatch(r"[\w@%+=:,./*[\]-]+", old, re.ASCII):
            yield f"export {name}={old}{',' if ours else ''}{ours}"


def _without_submitters(old: str, ours: str) -> str:
    """Return the folders in `old` without those of a job that has submitted this one, which are gone."""
    root, found, _ = ours.partition("/machinefeatures:")
    theirs = tuple(f"{root}/{each}" for each in ("machinefeatures:", "jobfeatures/", "jobstatus/"))
    if not found or f",{ours}," in f",{old},":
        return old
    return ",".join(each for each in old.split(",") if not each.startswith(theirs))


def format_urls(url: str, token: str, suffix: str = "") -> str:
    """Return shell lines that export MACHINEFEATURES, JOBFEATURES and JOBSTATUS as HTTP URLs for one job.

    `url` is the address of the HTTP listener. `token` is the job's secret token. `suffix`, such as ``_URL``,
    is appended to the names of these three variables. Further lines set ``no_proxy`` and ``NO_PROXY`` to the
    host in `url`, since a proxy must not see the token. An IPv6 address is given with and without brackets,
    as programs differ.
    """
    from urllib.parse import urlsplit  # not for hooks of sites without addresses

    host = urlsplit(url).hostname or ""
    hosts = f"[{host}],{host}" if ":" in host else host
    lines = _lines(f"{url}/machinefeatures", f"{url}/jobfeatures/{token}", f"{url}/jobstatus/{token}", suffix)
    return lines + "".join(f"export {name}={hosts}\n" for name in NO_PROXY)


def _lines(machine: str, job: str, status: str, suffix: str = "") -> str:
    return (
        f"export MACHINEFEATURES{suffix}={machine}\n"
        f"export JOBFEATURES{suffix}={job}\n"
        f"export JOBSTATUS{suffix}={status}\n"
    )


def write_exports(tree: FeatureTree, key: JobKey, uid: int | None, gid: int, access: FeatureAccess) -> None:
    """Write the files with a job's export lines: one in the configured form, and one with URLs, if any.

    They are readable by the job's user, `uid` and `gid` (`uid` None: unknown). `access` says how jobs reach
    their features.
    """
    local, us = format_exports(tree, key, access.binds), os.geteuid()
    reader = Owner(us if uid is None else uid, gid) if us in (0, uid) else None
    lines = local
    if access.url is not None and uid is not None and reader is not None:
        token = tree.make_token(key)
        urls = format_urls(access.url, token)
        tree.write_lines(URLS, key, urls, reader)
        both = local + format_urls(access.url, token, "_URL")
        lines = {LOCAL: local, HTTP: urls, BOTH: both}[access.form]
    tree.write_lines(EXPORTS, key, lines, reader)
