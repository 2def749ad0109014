"""Makes the HTML pages for people from what the daemon knows (its `Context`). Pure.

The pages are plain HTML that works without its script, which only refreshes, sorts and filters. Style, script
and icon are files of our own listener; nothing is inline (no ``style=``, no ``<script>`` with text) and
nothing comes from elsewhere, as `CONTENT_SECURITY_POLICY` requires. All URLs are relative: the pages work
behind a proxy that serves them below a path.

None of this is imported before somebody opens a page.
"""

import os

DOCUMENTATION = "/usr/share/doc/jobfeatures-exporter/docs"  # of the packages; pip brings none
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def has_documentation() -> bool:
    """Return whether the documentation of these pages is installed, to link to it."""
    return os.path.isdir(DOCUMENTATION)
