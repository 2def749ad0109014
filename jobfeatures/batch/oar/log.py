"""What ``oarstat -J -f`` prints, as a log of jobs: of OAR 2.5, 2.6 and 3. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jobfeatures.batch.oar import oar3
from jobfeatures.batch.oar.answers import arrays_in, make_record
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.records.jsontext import parse_objects

_HEAD = re.compile(
    r'\s*\{\s*"[1-9][0-9]{0,9}"\s*:\s*\{.{0,4096}?'
    r'"(?:assigned_resources|cpuset_name|launchingDirectory|initial_request)"\s*:',
    re.DOTALL,
)


def recognise(head: str) -> bool:
    """Return whether a text starts like the output of ``oarstat -J``."""
    return _HEAD.match(head) is not None


def read_records(lines: Iterable[str], *, source: str, notes: Notes) -> Iterator[JobRecord | Rejected]:
    """Yield the jobs of answers, one behind the other."""
    for found in parse_objects("".join(lines), source=source):
        if isinstance(found, ParseError):
            yield Rejected.from_error(found)
            continue
        arrays, arrays3 = arrays_in([found]), oar3.arrays_in(found)
        for name, values in sorted(found.items(), key=lambda each: (len(each[0]), each[0])):
            try:
                if oar3.is_job(values):
                    yield oar3.make_record(values, notes, arrays3)
                else:
                    yield make_record(values, notes, arrays)
            except ParseError as error:
                yield Rejected.from_error(error.at(source, field=f"{name}.{error.field}"))
