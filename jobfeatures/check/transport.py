# ruff: noqa: D401  # a rule's docstring says what breaks it
"""Rules about answers over HTTP: pure. Each yields (key, text) for what breaks it."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.check.listing import Answer, Case, Said


def http_missing_key(case: Case) -> Said:
    """The answer for a key that is not there is something other than 404."""
    answer = case.listing.missing
    if answer is not None and answer.status != 404:
        yield "", f"a key that is not there is answered with {answer.status} instead of 404"


def http_missing_body(case: Case) -> Said:
    """The 404 has a body, which a reader that does not look at the status takes for a value."""
    answer = case.listing.missing
    if answer is not None and answer.status == 404 and answer.body_bytes:
        yield "", "the answer 404 for a key that is not there has a body"


def http_content_type(case: Case) -> Said:
    """A value is declared as something other than plain text."""
    for name, answer in _answers(case):
        if answer.content_type is None or answer.content_type.split(";")[0].strip().lower() != "text/plain":
            yield name, f"Content-Type is {answer.content_type or 'absent'}, not text/plain"


def http_content_length(case: Case) -> Said:
    """The length is not reported."""
    for name, answer in _answers(case):
        if answer.content_length is None:
            yield name, "Content-Length is absent"


def http_cut(case: Case) -> Said:
    """What came is not as long as was reported: readers fail, or take a part for the whole."""
    for name, answer in _answers(case):
        if answer.content_length is not None and answer.content_length.strip() != str(answer.body_bytes):
            yield name, f"Content-Length is {answer.content_length[:20]}, and {answer.body_bytes} bytes came"


def http_no_cache_headers(case: Case) -> Said:
    """Nothing tells for how long a value may be kept, or how to ask whether it has changed."""
    for name, answer in _answers(case):
        if not (answer.cache_control or answer.expires or answer.etag or answer.last_modified):
            yield name, "none of Cache-Control, Expires, ETag and Last-Modified is there"


def _answers(case: Case) -> Iterator[tuple[str, Answer]]:
    for name, entry in case.listing.entries.items():
        if entry.answer is not None and entry.content is not None:
            yield name, entry.answer
