"""Asking NVIDIA's library: what it does not support is no news, what fails is counted."""

from __future__ import annotations

from typing import Any

from jobfeatures_exporter.sampling.descriptors import Unreadable

NOT_SUPPORTED, NOT_FOUND, TIMEOUT, FUNCTION_NOT_FOUND = 3, 6, 10, 13
FAILURES = frozenset({15, 16})  # the card is lost, or wants a reset
NO_NEWS = frozenset({NOT_SUPPORTED, NOT_FOUND, FUNCTION_NOT_FOUND})


class Asked:
    """Asks NVML about one device and remembers whether the device is failing."""

    def __init__(self, nvml: Any, handle: Any, unreadable: Unreadable) -> None:
        self._nvml = nvml
        self._handle = handle
        self._unreadable = unreadable
        self.failing = 0
        self.error = 0  # of the latest call

    def __call__(self, function: str, *arguments: Any) -> Any | None:
        """Return what a function answers about the device, None where it does not exist or fails."""
        return self.call(function, self._handle, *arguments)

    def call(self, function: str, *arguments: Any, no_news: int = NOT_SUPPORTED) -> Any | None:
        """Return what a function answers that takes no device first; one more error may be no news."""
        self.error = 0
        call = getattr(self._nvml, function, None)
        if call is None:
            self.error = FUNCTION_NOT_FOUND
            return None
        try:
            return call(*arguments)
        except self._nvml.NVMLError as error:
            self.error = error.value
        except ValueError:  # a name that is not UTF-8
            self.error = NOT_SUPPORTED
        if self.error != no_news:
            self.note(function, self.error)
        return None

    def note(self, function: str, error: int) -> None:
        """Remember an error, or count it."""
        if error in FAILURES:
            self.failing = error
        elif error and error not in NO_NEWS:
            self._unreadable.count(f"gpu_{function}_{error}")

    def first(self, *functions: str) -> Any | None:
        """Return what the first function that exists answers."""
        for function in functions:
            found = self(function)
            if self.error != FUNCTION_NOT_FOUND:
                return found
        return None

    def number(self, function: str, *arguments: Any, scale: float = 1.0) -> float | None:
        """Return a number, scaled."""
        value = self(function, *arguments)
        return None if value is None else value * scale

    def text(self, function: str) -> str:
        """Return a text, empty where it is not known."""
        value = self(function)
        return value if isinstance(value, str) else ""
