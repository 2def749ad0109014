"""Reads files below /sys that have one value each; missing ones are None, and failed reads are counted."""

from __future__ import annotations

import os
import re

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.descriptors import Unreadable, read_text

_NUMBER = re.compile(r"-?[0-9]{1,20}\Z")
_HWMON = re.compile(r"hwmon([0-9]{1,6})\Z")
MAX_BYTES = 65536
_WHAT = "gpu_sysfs"


class Sysfs:
    """Reads files below /sys with one value each, for GPU drivers; counts failures as `gpu_sysfs`."""

    def __init__(self, unreadable: Unreadable) -> None:
        self._unreadable = unreadable

    def text(self, path: str) -> str | None:
        """Return a file's text without surrounding whitespace; None if it cannot be read."""
        text = self._unreadable.tried(_WHAT, read_text, path, max_bytes=MAX_BYTES)
        return None if text is None else text.strip()

    def number(self, path: str) -> int | None:
        """Return the number in a file; None if it cannot be read."""
        text = self.text(path)
        if text is None:
            return None
        if not _NUMBER.match(text):
            self._unreadable.add(_WHAT, ParseError("not a number", source=path, text=text))
            return None
        return int(text)

    def scaled(self, path: str, scale: float) -> float | None:
        """Return the number in a file times `scale`; None if it cannot be read."""
        value = self.number(path)
        return None if value is None else value * scale

    def first(self, *paths: str) -> int | None:
        """Return the number in the first of these files that has one; None if no file has one."""
        return next((value for path in paths if (value := self.number(path)) is not None), None)

    def names(self, path: str) -> list[str]:
        """Return the names of a directory's entries, sorted; empty if it cannot be listed."""
        return sorted(self._unreadable.tried(_WHAT, os.listdir, path) or ())

    def hwmon(self, device: str) -> str:
        """Return the path of ``hwmonN``, a device's sensors; if it has none, a path that does not exist.

        Of several, it is the first that is for the whole card: i915 names those of single tiles ``i915_gt0``.
        """
        found = [match for name in self.names(f"{device}/hwmon") if (match := _HWMON.match(name))]
        paths = [f"{device}/hwmon/{each[0]}" for each in sorted(found, key=lambda each: int(each[1]))]
        whole = (each for each in paths if len(paths) == 1 or "_gt" not in (self.text(f"{each}/name") or ""))
        return next(whole, f"{device}/hwmon/none")
