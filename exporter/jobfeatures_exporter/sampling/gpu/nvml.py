"""Calls functions of NVML, NVIDIA's library: missing functions are ignored, failures are counted."""

from __future__ import annotations

from typing import Any

from jobfeatures_exporter.sampling.descriptors import Unreadable

NOT_SUPPORTED, NOT_FOUND, TIMEOUT, FUNCTION_NOT_FOUND = 3, 6, 10, 13
VERSION_MISMATCH = 18  # of the driver and its library
FAILURES = frozenset({15, 16})  # the card is lost, or needs a reset
NO_NEWS = frozenset({NOT_SUPPORTED, NOT_FOUND, FUNCTION_NOT_FOUND})


class NvmlDevice:
    """Queries NVML about one device; `failing` is 0, or the error code by which NVML says that it is lost."""

    def __init__(self, nvml: Any, handle: Any, unreadable: Unreadable) -> None:
        self._nvml = nvml
        self._handle = handle
        self._unreadable = unreadable
        self.failing = 0
        self.error = 0  # of the latest call

    def __call__(self, function: str, *arguments: Any) -> Any | None:
        """Return the result of an NVML function for the device, None if it does not exist or fails."""
        return self.call(function, self._handle, *arguments)

    def call(self, function: str, *arguments: Any, no_news: int = NOT_SUPPORTED) -> Any | None:
        """Return the result of an NVML function; None if the function is missing or fails.

        A failure is counted, unless its error code is `no_news`.
        """
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
        """Set `failing` if this error code means a lost device; count other errors of `function`."""
        if error in FAILURES:
            self.failing = error
        elif error and error not in NO_NEWS:
            self._unreadable.count(f"gpu_{function}_{error}")

    def refuse(self, name: str) -> None:
        """Count an impossible value of the figure `name`, which the caller does not report."""
        self._unreadable.count(f"gpu_refused_{name}")

    def first(self, *functions: str) -> Any | None:
        """Return the result of the first of these functions that NVML has; None if it fails."""
        for function in functions:
            found = self(function)
            if self.error != FUNCTION_NOT_FOUND:
                return found
        return None

    def number(self, function: str, *arguments: Any, scale: float = 1.0) -> float | None:
        """Return the result of an NVML function for the device, multiplied by `scale`; None if unknown."""
        value = self(function, *arguments)
        return None if value is None else value * scale

    def text(self, function: str) -> str:
        """Return the text that an NVML function has for the device; "" if it has none."""
        value = self(function)
        return value if isinstance(value, str) else ""
