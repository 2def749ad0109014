"""Documents that follow each other → jobs with their defaults, in bounded memory: pure.

A log is one JobGroup with many jobs, or one document a job, one after the
other. What is broken costs its document, or its job in a group: reading goes
on at the next line that begins with a document or a job.

JobDefaults may stand behind the jobs that they hold for: 2,000 jobs of an
ordinary size wait for them. Where they come later still, that is an error, and those jobs lack them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sss.awareness import REJECT, policy_of, understood
from jobfeatures.formats.sss.inherit import resolve_job
from jobfeatures.formats.sss.objects import Reference, SssJob
from jobfeatures.formats.sss.reader import read_container
from jobfeatures.formats.sss.values import error_at
from jobfeatures.formats.sss.vocabulary import CONTENT, ROOTS
from jobfeatures.formats.sss.xml import Element, ElementFeed, Event, repair_quotes

MAX_HELD: Final = 2000
MAX_HELD_SIZE: Final = 2**25  # bytes, roughly
Found = SssJob | Rejected | ParseError
_DECLARATION = re.compile(r"\ufeff?[ \t]{0,80}<\?xml[ \t\r\n][^>]{0,200}\?>")
_START = re.compile(r"[ \t]*<(Job|JobGroup)(?:[ \t\r\n/>]|\Z)")
_END_OF_GROUP = re.compile(r"[ \t]*</JobGroup\b")
_TYPOGRAPHIC = re.compile("[“”„‟″‘’]")


def read_jobs(lines: Iterable[str], *, repairing: bool = False) -> Iterator[Found]:
    """Return the jobs of a stream with all defaults resolved, what was passed over, and what is wrong.

    `repairing` straightens typographic quotes within a line.
    """
    reader = _StreamReader()
    repaired = 0
    for number, line in enumerate(lines, 1):
        text = line
        if repairing and _TYPOGRAPHIC.search(line):
            text = repair_quotes(line)
            repaired += text != line
        yield from reader.read_line(number, text)
    yield from reader.finish()
    if repaired:
        yield Rejected("", f"typographic quotes were read as straight ones, in {repaired} line(s)")


class _StreamReader:
    """Where a stream has been read to."""

    def __init__(self) -> None:
        self._feed: ElementFeed | None = None  # None: looking for the next document
        self._group: _Group | None = None
        self._has_begun = False

    def read_line(self, number: int, line: str) -> Iterator[Found]:
        if declared := _DECLARATION.match(line):
            yield from self.finish()
            line = " " * declared.end() + line[declared.end() :]
            self._feed = ElementFeed(line=number, group="JobGroup")
        if self._feed is None:
            start = _START.match(line)
            if start is None and (line.isspace() or self._has_begun):
                if _END_OF_GROUP.match(line):
                    yield from self._leave_group()
                return
            in_group = self._group is not None and start is not None and start[1] == "Job"
            if not in_group:
                yield from self._leave_group()
            self._feed = ElementFeed(line=number, group="JobGroup", in_group=in_group)
        self._has_begun = True
        try:
            for event in self._feed.feed(line.removeprefix("\ufeff")):
                yield from self._take(event)
        except ParseError as error:
            self._feed = None
            yield error

    def finish(self) -> Iterator[Found]:
        """Read what there is still at the end of a document or of the stream."""
        if self._feed is not None:
            try:
                for event in self._feed.finish():
                    yield from self._take(event)
            except ParseError as error:
                yield error
            self._feed = None
        yield from self._leave_group()

    def _take(self, event: Event) -> Iterator[Found]:
        element = event.element
        if event.kind == "open":
            yield from self._leave_group()
            self._group = _Group()
            yield from self._group.begin(element)
        elif event.kind == "part" and self._group is not None:
            yield from self._group.take(element)
        elif event.kind == "close":
            yield from self._leave_group()
        elif element.name == "Job":
            yield from read_job(element, REJECT, None)
        else:
            yield error_at(element, "neither Job nor JobGroup")

    def _leave_group(self) -> Iterator[Found]:
        group, self._group = self._group, None
        if group is not None:
            yield from group.finish()


class _Group:
    """A JobGroup of which the end has not been read."""

    def __init__(self) -> None:
        self._policy = REJECT
        self._defaults: SssJob | None = None
        self._refused: str | None = None  # why none of its jobs can be taken
        self._held: list[Element] | None = []  # None: they wait no longer
        self._held_size = 0

    def begin(self, element: Element) -> Iterator[Found]:
        """Take what stands at the beginning: its attributes."""
        notes: list[Rejected] = []
        try:
            understood(Element(element.name, element.attributes, "", element.line, element.column),
                       ROOTS["JobGroup"], REJECT, notes.append)  # fmt: skip
            self._policy = policy_of(element)
        except ParseError as error:
            self._refused = "its group was refused"
            yield error
        yield from notes

    def take(self, element: Element) -> Iterator[Found]:
        """Take a part of the group."""
        if element.name == "Job":
            if self._held is None:
                yield from self._read(element)
                return
            self._held.append(element)
            self._held_size += _size(element)
            if len(self._held) > MAX_HELD or self._held_size > MAX_HELD_SIZE:
                yield from self.finish()
            return
        notes: list[Rejected] = []
        try:
            yield from self._take_property(element, notes)
        except ParseError as error:
            if element.name == "JobDefaults":
                self._refused = "the defaults of its group were refused"
            yield error
        yield from notes

    def finish(self) -> Iterator[Found]:
        """Read the jobs that waited for the defaults."""
        held, self._held = self._held, None
        for element in held or ():
            yield from self._read(element)

    def _take_property(self, element: Element, notes: list[Rejected]) -> Iterator[Found]:
        shell = Element("JobGroup", children=(element,))
        kept = understood(shell, ROOTS["JobGroup"], self._policy, notes.append)
        if element.name != "JobDefaults" or kept is None or not kept.children:
            return
        if self._defaults is not None:
            raise error_at(element, "stands here twice")
        late = self._held is None
        defaults = read_container(element, CONTENT["JobGroup"]["JobDefaults"], self._policy, [])
        self._defaults = defaults if isinstance(defaults, SssJob) else None
        if late:
            yield error_at(element, "after many jobs, which were read without it")
        yield from self.finish()

    def _read(self, element: Element) -> Iterator[Found]:
        if self._refused is not None:
            yield error_at(element, self._refused)
        else:
            yield from read_job(element, self._policy, self._defaults)


def _size(element: Element) -> int:
    attributes = sum(map(len, element.attributes.values()))
    return 300 + len(element.text) + attributes + sum(map(_size, element.children))


def read_job(element: Element, policy: str, defaults: SssJob | None) -> Iterator[Found]:
    """Yield a job with its defaults resolved, or why it has to be refused, and what was passed over."""
    notes: list[Rejected] = []
    try:
        job = read_container(element, CONTENT["JobGroup"]["Job"], policy, notes)
        if isinstance(job, Reference):
            raise error_at(element, "a reference to a job, not a job", job.id)
        if isinstance(job, SssJob):
            yield resolve_job(job, defaults)
    except ParseError as error:
        yield error
    yield from notes
