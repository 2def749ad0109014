"""`jobfeatures-exporter validate`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from jobfeatures.errors import shown_name
from jobfeatures.formats.sonar.documents import iterate_documents
from jobfeatures.formats.sonar.fields import PROFILES
from jobfeatures.formats.sonar.validate import validate_envelope

CLEAN, FAULTS, UNREADABLE = 0, 1, 2
MAX_FILE_BYTES = 512 * 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="files with one or more envelopes; - is standard input"
    )
    parser.add_argument("--profile", choices=PROFILES, help="whose fields may be there (default: any)")
    parser.add_argument("--strict", action="store_true", help="also what readers tolerate")


def run(arguments: argparse.Namespace) -> int:
    """Print ``FILE:NUMBER: path: reason: text`` for each fault; 0 none, 1 some, 2 unreadable input."""
    status = CLEAN
    for file in arguments.files:
        try:
            text = _read(file)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            print(f"jobfeatures-exporter: {shown_name(file)}: {reason}", file=sys.stderr)
            status = UNREADABLE
            continue
        name = shown_name(file)
        for fault in _faults(text, arguments.profile, arguments.strict):
            print(f"{name}:{fault}")
            status = status or FAULTS
    return status


def _faults(text: str, profile: str | None, strict: bool) -> Iterator[str]:
    number = 0
    for document in iterate_documents(text):
        number = document.number
        if document.reason:
            yield f"{number}: envelope: {document.reason}"
            continue
        for fault in validate_envelope(document.value, profile=profile, strict=strict):
            yield f"{number}: {fault}"
    if number == 0:
        yield "0: envelope: there is none"


def _read(file: str) -> str:
    """Return the text; bytes that are not UTF-8 become lone surrogates, which no string may contain."""
    if file == "-":
        content = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    else:
        with open(file, "rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"longer than {MAX_FILE_BYTES} bytes")
    return content.decode("utf-8", "surrogateescape")
