"""Reads how much memory of the node's huge pages is in use.

Source: Documentation/admin-guide/mm/hugetlbpage.rst of Linux.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from jobfeatures.records.quantities import parse_count
from jobfeatures_exporter.sampling.descriptors import VANISHED, Unreadable, read_text

_SIZE = re.compile(r"hugepages-([0-9]{1,12})kB\Z")


def read_huge_pages(sysfs: str, sizes: Mapping[str, int], unreadable: Unreadable) -> Mapping[int, int] | None:
    """Return the bytes of huge pages in use, by page size in bytes; None: no huge pages, or not reported.

    `sizes` has the fields of /proc/meminfo in bytes. Since Linux 4.17 its ``Hugetlb`` is the whole pool, of
    all page sizes. Pages that are reserved but were never touched are not in use.
    """
    if not sizes.get("Hugetlb", 1):
        return None
    top = f"{sysfs}/kernel/mm/hugepages"
    try:
        found = [match for name in os.listdir(top) if (match := _SIZE.match(name))]
    except OSError as error:
        if error.errno not in VANISHED:
            unreadable.add("node_hugepages", error)
        return None
    pages = {}
    for each in found:
        whole, free = (
            unreadable.tried("node_hugepages", _read_count, f"{top}/{each[0]}/{name}_hugepages")
            for name in ("nr", "free")
        )
        if whole is None or free is None:
            return None
        if whole:
            pages[int(each[1]) * 1024] = max(0, whole - free) * int(each[1]) * 1024
    return pages or None


def _read_count(path: str) -> int:
    return parse_count(read_text(path).removesuffix("\n"))


def name_size(size: int) -> str:
    """Return a page size in bytes as it is written in names of control groups' files: 2MB, 1GB, 64KB."""
    for unit, name in ((2**30, "GB"), (2**20, "MB")):
        if size >= unit:
            return f"{size // unit}{name}"
    return f"{size // 1024}KB"
