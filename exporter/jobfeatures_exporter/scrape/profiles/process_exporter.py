"""Profile: names of ncabatoff/process-exporter, with jobs as its named groups, such as slurm/1234.

Page faults and context switches are the kernel's sums by job. Source: its collector/process_collector.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from jobfeatures_exporter.families.exposition import Values
from jobfeatures_exporter.model.context import job_labels
from jobfeatures_exporter.model.snapshot import JobSample, ProcessSample
from jobfeatures_exporter.sampling.host.units import TICKS_PER_SEC
from jobfeatures_exporter.scrape.profiles.common import ContextView, Reading, counter, gauge, known

GROUP = ("groupname",)

PROCESSES = gauge("namedprocess_namegroup_num_procs", "Processes.", GROUP)
THREADS = gauge("namedprocess_namegroup_num_threads", "Threads.", GROUP)
CPU = counter("namedprocess_namegroup_cpu_seconds_total", "CPU time.", (*GROUP, "mode"))
MEMORY = gauge("namedprocess_namegroup_memory_bytes", "Memory, summed over processes.", (*GROUP, "memtype"))
READ = counter("namedprocess_namegroup_read_bytes_total", "Bytes read from storage.", GROUP)
WRITTEN = counter("namedprocess_namegroup_write_bytes_total", "Bytes written to storage.", GROUP)
START = gauge(
    "namedprocess_namegroup_oldest_start_time_seconds", "Start of the oldest process since the epoch.", GROUP
)
STATES = gauge(
    "namedprocess_namegroup_states",
    "Processes, and threads of those with several.",
    (*GROUP, "state"),
)

SWITCHES = counter(
    "namedprocess_namegroup_context_switches_total", "Context switches.", (*GROUP, "ctxswitchtype")
)
FAULTS = counter("namedprocess_namegroup_major_page_faults_total", "Page faults that read storage.", GROUP)
FILES = gauge("namedprocess_namegroup_open_filedesc", "Open files, summed over processes.", GROUP)
WORST = gauge(
    "namedprocess_namegroup_worst_fd_ratio", "Open files ÷ limit, of the process nearest it.", GROUP
)

METRICS = (PROCESSES, THREADS, CPU, MEMORY, READ, WRITTEN, START, STATES, SWITCHES, FAULTS, FILES, WORST)

_STATES = {"R": "Running", "S": "Sleeping", "D": "Waiting", "Z": "Zombie"}
_OTHER = "Other"


def of_job(view: ContextView, sample: JobSample) -> Iterator[Reading]:
    """Yield the readings of one job, unit or process group under process-exporter's names."""
    values = ("/".join(job_labels(sample.key)),)
    yield from known(values, (PROCESSES, sample.processes), (THREADS, sample.threads))
    yield from known((*values, "user"), (CPU, sample.user_cpu_secs))
    yield from known((*values, "system"), (CPU, sample.system_cpu_secs))
    if sample.process_io is not None:
        yield READ, values, sample.process_io.data_read_bytes
        yield WRITTEN, values, sample.process_io.data_written_bytes
    yield from known((*values, "swapped"), (MEMORY, sample.memory.swap))
    if sample.scheduling is not None:
        yield SWITCHES, (*values, "voluntary"), sample.scheduling.voluntary_switches
        yield SWITCHES, (*values, "nonvoluntary"), sample.scheduling.involuntary_switches
        yield FAULTS, values, sample.scheduling.major_faults
    processes = view.processes_of.get(sample.key)
    if not processes:
        return
    yield MEMORY, (*values, "resident"), sum(each.resident_bytes for each in processes)
    yield MEMORY, (*values, "virtual"), sum(each.virtual_bytes for each in processes)
    threads = view.thread_states(processes)
    if threads:
        # The original counts a process by itself, and each of its threads as well if it has several.
        states = Counter(_STATES.get(each.state, _OTHER) for each in processes if each.threads > 1)
        for letter, count in threads.items():
            states[_STATES.get(letter, _OTHER)] += count
        for state in (*_STATES.values(), _OTHER):
            yield STATES, (*values, state), states[state]
    yield from _open_files(view, values, processes)
    node = view.snapshot.node
    if node is not None and node.boot_time_secs is not None:
        ticks = min(each.start_ticks for each in processes)
        yield START, values, node.boot_time_secs + ticks // TICKS_PER_SEC


def _open_files(view: ContextView, values: Values, processes: list[ProcessSample]) -> Iterator[Reading]:
    """Yield nothing if a process cannot be read: its files would be missing from the sum."""
    known = view.snapshot.open_files
    found = [known[each.pid] for each in processes if each.pid in known]
    if len(found) == len(processes):
        yield FILES, values, sum(each.opened for each in found)
        yield WORST, values, max(each.opened / each.limit if each.limit else 0.0 for each in found)
