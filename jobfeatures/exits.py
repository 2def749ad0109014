"""Exit statuses of commands. What each means of which command stands in docs/exitstatuses.py."""

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
NOT_ASKED = TOO_LITTLE_KNOWN = 3
