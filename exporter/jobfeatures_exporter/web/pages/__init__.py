"""Makes the HTML pages for people from what the daemon knows (its `Context`). Pure.

The pages work without their script, which only refreshes, sorts and filters. Nothing is inline or from
elsewhere, as `CONTENT_SECURITY_POLICY` requires. All URLs are relative, so a proxy may serve them below a
path.
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
