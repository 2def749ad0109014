"""Which version this is, in the form in which Prometheus and its exporters say it."""

from __future__ import annotations

import re
from functools import cache
from importlib import metadata, resources

from jobfeatures import __version__

REVISION_FILE = "revision.txt"  # beside this file, written where packages are built
_REVISION = re.compile(r"[0-9a-f]{7,64}\Z")


@cache
def find_revision() -> str:
    """Return the commit that this was built from; empty where neither the package nor pip has noted it."""
    try:
        noted = resources.files("jobfeatures").joinpath(REVISION_FILE).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        noted = _installed_from()
    return noted if _REVISION.match(noted) else ""


def _installed_from() -> str:
    """Return the commit that pip installed. Source: PEP 610, direct_url.json."""
    import json

    try:
        text = metadata.distribution("jobfeatures-exporter").read_text("direct_url.json")
        found = json.loads(text or "{}").get("vcs_info", {}).get("commit_id", "")
    except (metadata.PackageNotFoundError, OSError, ValueError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""


def format_version(program: str) -> str:
    """Return what ``--version`` prints."""
    import platform

    return (
        f"{program}, version {__version__} (revision: {find_revision() or 'unknown'})\n"
        f"  python version:   {platform.python_version()}\n"
        f"  platform:         {platform.system().lower()}/{platform.machine()}"
    )
