"""The page at ``/``, for people: what is known now → HTML text. Pure.

Plain HTML that works without its script, which may only refresh, sort and filter. Style, script and icon are
files of our own listener; nothing stands inline (no ``style=``, no ``<script>`` with text) and nothing comes
from elsewhere, so that `CONTENT_SECURITY_POLICY` holds. All addresses are relative: the page works behind a
proxy that serves it below a path.

Nothing of this is imported before somebody opens the page.
"""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
