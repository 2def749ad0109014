"""Determines the version, and formats it as Prometheus and its exporters do."""

from __future__ import annotations

import json
import os
import re
from functools import cache

from jobfeatures import __version__

# Files are opened by path: importlib's metadata and resources need 2 MB, in the daemon too.
HERE = os.path.dirname(os.path.abspath(__file__))
REVISION_FILE = "revision.txt"  # next to this file, written when packages are built
_REVISION = re.compile(r"[0-9a-f]{7,64}\Z")


@cache
def find_revision() -> str:
    """Return the commit of this build, as recorded by its package, pip or git checkout; "" if unknown."""
    try:
        noted = _read(f"{HERE}/{REVISION_FILE}").strip()
    except (OSError, ValueError):
        noted = _installed_from() or _checked_out(f"{os.path.dirname(HERE)}/.git")
    return noted if _REVISION.match(noted) else ""


def _installed_from() -> str:
    """Return the commit that pip installed. Source: PEP 610, direct_url.json."""
    beside = f"{os.path.dirname(HERE)}/jobfeatures_exporter-{__version__}.dist-info"
    try:
        found = json.loads(_read(f"{beside}/direct_url.json")).get("vcs_info", {}).get("commit_id", "")
    except (OSError, ValueError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""


def _checked_out(folder: str) -> str:
    """Return the commit of a checkout that is used in place. Source: gitrepository-layout(5)."""
    try:
        if os.path.isfile(folder):  # one of several worktrees
            folder = _read(folder).removeprefix("gitdir:").strip()
        head = _read(f"{folder}/HEAD").strip()
        if not head.startswith("ref: "):
            return head
        if os.path.exists(f"{folder}/commondir"):
            folder = os.path.join(folder, _read(f"{folder}/commondir").strip())
        name = head.removeprefix("ref: ")
        if os.path.exists(f"{folder}/{name}"):
            return _read(f"{folder}/{name}").strip()
        packed = re.search(rf"(?m)^([0-9a-f]+) {re.escape(name)}$", _read(f"{folder}/packed-refs"))
        return packed[1] if packed else ""
    except (OSError, ValueError):
        return ""


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read(65536)


def format_version(program: str) -> str:
    """Return what ``--version`` prints."""
    import platform

    return (
        f"{program}, version {__version__} (revision: {find_revision() or 'unknown'})\n"
        f"  python version:   {platform.python_version()}\n"
        f"  platform:         {platform.system().lower()}/{platform.machine()}"
    )
