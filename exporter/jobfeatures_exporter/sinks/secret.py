"""Passwords, kept in files so that they stand in no list of processes."""

from __future__ import annotations

from jobfeatures.errors import SinkError


def read_secret(path: str) -> str:
    """Return the first line of a file. Raises SinkError."""
    try:
        with open(path, encoding="utf-8") as file:
            secret = file.readline(4096).rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SinkError(f"{path}: {error}") from error
    if not secret:
        raise SinkError(f"{path}: is empty")
    return secret
