"""Finds GPU software that is installed for all users, in the directories named by CUDA_ROOT and ROCm_ROOT.

Source: Sonar, NEW-FORMAT.md, "SysinfoSoftwareVersion". ``$CUDA_ROOT/version.json`` has a key, name and
version of each package:

    {"cuda_cudart": {"name": "CUDA Runtime (cudart)", "version": "12.2.140"}, …}

The files ``$ROCm_ROOT/.info/.version*`` have the component in their names and its version as content; ROCm
itself writes ``version`` and ``version-COMPONENT``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from jobfeatures.errors import ParseError
from jobfeatures.system.privatefile import opened
from jobfeatures_exporter.model.hardware import Software
from jobfeatures_exporter.sampling.descriptors import Unreadable

MAX_BYTES: Final = 2**20
MAX_FILES: Final = 100
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY  # symbolic links are allowed
_VERSION: Final = re.compile(r"\.?version(?:-([\w.+-]{1,100}))?\Z", re.ASCII)


def parse_cuda_versions(text: str, *, source: str = "version.json") -> Iterator[Software]:
    """Yield the packages with a version in version.json. Raises ParseError if it is malformed."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ParseError("not JSON", source=source, text=text) from None
    if not isinstance(found, dict):
        raise ParseError("not an object", source=source, text=text)
    for key, entry in found.items():
        reported = entry if isinstance(entry, dict) else {}
        name, version = reported.get("name"), reported.get("version")
        if key and isinstance(version, str) and version:
            yield Software(key, name if isinstance(name, str) else "", version)


def read_software(environ: Mapping[str, str], unreadable: Unreadable) -> tuple[Software, ...]:
    """Return the software packages in the directories $CUDA_ROOT and $ROCm_ROOT; failed reads are counted.

    `environ` has these environment variables.
    """
    found: dict[str, Software] = {}
    for variable, read in (("CUDA_ROOT", _read_cuda), ("ROCm_ROOT", _read_rocm)):
        root = environ.get(variable, "")
        if not root.startswith("/"):
            continue
        try:
            for each in read(root):
                found.setdefault(each.key, each)
        except (OSError, ParseError) as error:
            unreadable.add("software", error)
    return tuple(found.values())


def _read_cuda(root: str) -> Iterator[Software]:
    path = f"{root}/version.json"
    yield from parse_cuda_versions(_read(path), source=path)


def _read_rocm(root: str) -> Iterator[Software]:
    folder = f"{root}/.info"
    for name in sorted(os.listdir(folder))[:MAX_FILES]:
        match = _VERSION.match(name)
        version = _read(f"{folder}/{name}").strip() if match else ""
        if match and version:
            component = match[1]
            yield Software(component or "rocm", f"ROCm {component}" if component else "ROCm", version)


def _read(path: str) -> str:
    with opened(path, _FLAGS) as file:
        content = os.read(file, MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ParseError(f"is longer than {MAX_BYTES} bytes", source=path)
    return content.decode("utf-8", "replace")
