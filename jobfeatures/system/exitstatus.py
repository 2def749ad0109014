"""The exit statuses of commands. docs/exitstatuses.py describes their meaning for each command."""

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
NOT_ASKED = TOO_LITTLE_KNOWN = 3
