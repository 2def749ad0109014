"""Many small checks as one test that names each which fails: as tests of their own they would cost more than they do."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def failures(check: Callable[..., object], cases: Iterable[tuple[Any, ...]]) -> list[str]:
    """Return what fails, with the name of its case; whatever happens in one, the others are tried."""
    found = []
    for case in cases:
        try:
            check(*case)
        except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError, OSError) as error:
            found.append(f"{': '.join(map(_name_of, case))}: {type(error).__name__}: {error}")
    return found


def together(cases: Iterable[tuple[Any, ...]]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Make one test of a check of several arguments. A case is named by its texts, and its panel's title."""
    every = list(cases)

    def make(check: Callable[..., None]) -> Callable[[], None]:
        @functools.wraps(check)
        def test() -> None:
            assert every
            if failed := failures(check, every):
                pytest.fail(f"{len(failed)} of {len(every)}:\n" + "\n".join(failed), pytrace=False)

        del test.__wrapped__  # type: ignore[attr-defined]  # pytest would take its arguments for fixtures
        return test

    return make


def _name_of(argument: object) -> str:
    return str(argument.get("title")) if isinstance(argument, dict) else str(argument)
