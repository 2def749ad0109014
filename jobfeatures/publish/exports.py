"""The lines that export a job's variables, as paths or as HTTP URLs.

Whoever can read a job's URLs can use them. Lines with URLs are therefore readable by the job's user alone;
where the file cannot be restricted to one reader, the job gets paths.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from jobfeatures.model import JobKey
from jobfeatures.publish.files import Owner
from jobfeatures.publish.folders import EXPORTS, URLS
from jobfeatures.publish.tree import FeatureTree

LOCAL = "local"
HTTP = "http"
BOTH = "both"


class Access(NamedTuple):
    """How a job accesses its features. `url` is the listener's URL, None without one."""

    url: str | None = None
    form: str = LOCAL


def format_exports(tree: FeatureTree, key: JobKey) -> str:
    """Return export lines for a Slurm TaskProlog or a shell, unquoted: no path here needs quotes."""
    return _lines(tree.machine_path, tree.job_path(key), tree.status_path(key))


def format_urls(url: str, token: str, suffix: str = "") -> str:
    """Return the same lines with HTTP URLs; `suffix` is appended to the variables' names."""
    return _lines(f"{url}/machinefeatures", f"{url}/jobfeatures/{token}", f"{url}/jobstatus/{token}", suffix)


def _lines(machine: str, job: str, status: str, suffix: str = "") -> str:
    return (
        f"export MACHINEFEATURES{suffix}={machine}\n"
        f"export JOBFEATURES{suffix}={job}\n"
        f"export JOBSTATUS{suffix}={status}\n"
    )


def write_exports(tree: FeatureTree, key: JobKey, uid: int | None, gid: int, access: Access) -> None:
    """Write the job's export lines in its configured form, and its URLs where it has any."""
    local = format_exports(tree, key)
    if access.url is None or uid is None or os.geteuid() not in (0, uid):
        tree.write_lines(EXPORTS, key, local)
        return
    reader = Owner(uid, gid)
    token = tree.make_token(key)
    urls = format_urls(access.url, token)
    tree.write_lines(URLS, key, urls, reader)
    if access.form == HTTP:
        tree.write_lines(EXPORTS, key, urls, reader)
    elif access.form == BOTH:
        tree.write_lines(EXPORTS, key, local + format_urls(access.url, token, "_URL"), reader)
    else:
        tree.write_lines(EXPORTS, key, local)
