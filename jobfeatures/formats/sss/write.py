"""A job → its document for a spool folder, as `replay` and the demonstration write it: pure."""

from __future__ import annotations

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.values import checked_text
from jobfeatures.formats.sss.writerecords import write_records
from jobfeatures.joblogs.loggedjob import record_of
from jobfeatures.records.model import Job


def format_job(job: Job) -> str:
    """Return a job, with the fields of a log record and its processes, as a document ending in a newline.

    Raises ParseError, naming the field, for a text that readers reject or a value the format cannot hold.
    """
    lost: list[str] = []
    texts = {name: getattr(job, name) for name in ("name", "user", "account", "partition")}
    record = record_of(
        job,
        **{name: checked_text(text.strip(), name) for name, text in texts.items() if text is not None},
        total_cpus=job.total_cpus,
        cpu_limit_secs=job.limits.cpu_secs,
        requested_memory_bytes=job.limits.memory_bytes,
    )
    lines = [f"{line}\n" for line in write_records([record], lost.append)]
    if lost:
        raise ParseError("has no place in a document", field=lost[0])
    tasks = [f"<Task><Process>{each}</Process></Task>" for each in sorted(job.processes)]
    processes = f"    <TaskGroup>{''.join(tasks)}</TaskGroup>\n" if tasks else ""
    return "".join(lines).replace("  </Job>\n", f"{processes}  </Job>\n")
