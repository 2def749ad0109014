"""Reads figures of processes for documents in Sonar's format that /proc/PID/stat lacks, once per document.

Reading three files per process at every sample would be expensive; documents are made every few minutes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from jobfeatures.errors import ParseError
from jobfeatures.records.quantities import parse_count
from jobfeatures_exporter.model.snapshot import ProcessDetail, ProcessSample
from jobfeatures_exporter.sampling.descriptors import VANISHED, Unreadable, read_text
from jobfeatures_exporter.sampling.parsers.counterfiles import parse_process_io
from jobfeatures_exporter.sampling.processes.members import find_memory, find_unmapped, read_memory
from jobfeatures_exporter.sampling.processes.scan import PAGE_BYTES


def parse_statm_data(text: str, *, page_bytes: int = PAGE_BYTES) -> int:
    """Return the bytes of data and stack in /proc/PID/statm, whose sixth field has them in pages.

    Source: proc_pid_statm(5). Sample: ``765 443 415 5 0 123 0``. Raises ParseError if malformed.
    """
    words = text.split()
    if len(words) < 6:
        raise ParseError("fewer than 6 fields", source="statm", line=1, text=text)
    return parse_count(words[5], field="statm") * page_bytes


def read_details(
    procfs: str, processes: Iterable[ProcessSample], unreadable: Unreadable
) -> dict[int, ProcessDetail]:
    """Return the figures from `read_detail` of each process, by pid, without processes that have ended."""
    found = {each.pid: read_detail(procfs, each, unreadable) for each in processes}
    unmapped = find_unmapped(procfs)
    return {
        pid: detail if unmapped is None or detail.uid != unmapped else detail._replace(uid=None)
        for pid, detail in found.items()
        if detail is not None
    }


def read_detail(procfs: str, process: ProcessSample, unreadable: Unreadable) -> ProcessDetail | None:
    """Return a process's uid, anonymous memory, data size, input and output; None if it has ended.

    Only root may read the input and output of other users' processes, see ptrace(2). Kernel threads and
    zombies have no memory, so none is read for them.
    """
    folder = f"{procfs}/{process.pid}"
    tried, uid = unreadable.tried, None
    try:
        uid = os.stat(folder).st_uid
    except OSError as error:
        if error.errno in VANISHED:
            return None
        unreadable.add("process_owner", error)
    memory = data_bytes = None
    if (with_memory := find_memory(procfs, process, unreadable)) is not None:
        memory = tried("process_status", read_memory, with_memory)
        data_bytes = tried("process_statm", lambda: parse_statm_data(read_text(f"{with_memory}/statm")))
    return ProcessDetail(
        uid=uid,
        anon_bytes=None if memory is None else memory.anon,
        data_bytes=data_bytes,
        io=tried("process_io", lambda: parse_process_io(read_text(f"{folder}/io"))),
    )
