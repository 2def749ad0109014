"""Rules of `jobfeatures check` on answers of an HTTP server. Pure functions.

Each rule checks one directory, and yields a pair of key and message for each violation that it finds.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.check.listing import Case, Remarks, ResponseHead


def http_missing_key(case: Case) -> Remarks:
    """Yield a violation if the status of the answer for a key that cannot exist is not 404."""
    answer = case.listing.missing
    if answer is not None and answer.status != 404:
        yield "", f"a missing key is answered with {answer.status} instead of 404"


def http_missing_body(case: Case) -> Remarks:
    """Yield a violation if the 404 answer for a key that cannot exist has a body.

    Readers that ignore the status take the body for a value.
    """
    answer = case.listing.missing
    if answer is not None and answer.status == 404 and answer.body_bytes:
        yield "", "the 404 for a missing key has a body"


def http_content_type(case: Case) -> Remarks:
    """Yield a violation for each value whose Content-Type is not text/plain."""
    for name, answer in _answers(case):
        found = answer.headers.get("content-type", "")
        if found.split(";")[0].strip().lower() != "text/plain":
            yield name, f"Content-Type is {found or 'absent'}, not text/plain"


def http_content_length(case: Case) -> Remarks:
    """Yield a violation for each answer without a Content-Length."""
    for name, answer in _answers(case):
        if "content-length" not in answer.headers:
            yield name, "Content-Length is absent"


def http_cut(case: Case) -> Remarks:
    """Yield a violation for each answer whose body is not as long as its Content-Length says.

    Readers then fail, or take part of a value for all of it.
    """
    for name, answer in _answers(case):
        length = answer.headers.get("content-length")
        if length is not None and length.strip() != str(answer.body_bytes):
            yield name, f"Content-Length is {length[:20]}, but {answer.body_bytes} bytes came"


def http_no_cache_headers(case: Case) -> Remarks:
    """Yield a violation for each answer without headers on caching.

    None of its headers says how long the value may be cached, or how to revalidate it.
    """
    for name, answer in _answers(case):
        if not any(map(answer.headers.get, ("cache-control", "expires", "etag", "last-modified"))):
            yield name, "none of Cache-Control, Expires, ETag and Last-Modified is present"


def _answers(case: Case) -> Iterator[tuple[str, ResponseHead]]:
    for name, entry in case.listing.entries.items():
        if entry.answer is not None and entry.content is not None:
            yield name, entry.answer
