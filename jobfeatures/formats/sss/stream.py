"""Documents that follow each other → jobs with their defaults, in bounded memory: pure.

A log is one JobGroup with many jobs, or one document a job, one after the other. What is broken costs its
document, or its job in a group: reading goes on at the next line that begins with a document or a job.

JobDefaults may stand behind the jobs that they hold for: 2,000 jobs of an
ordinary size wait for them. Where they come later still, that is an error, and those jobs lack them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sss.awareness import REJECT, policy_of, understood
from jobfeatures.formats.sss.inherit import resolve_job
from jobfeatures.formats.sss.objects import Property, Reference, SssJob
from jobfeatures.formats.sss.reader import read_container
from jobfeatures.formats.sss.values import error_at
from jobfeatures.formats.sss.vocabulary import CONTENT, ROOTS
from jobfeatures.formats.sss.xml import Element, ElementFeed, Event, repair_quotes
from jobfeatures.joblog import Passage

MAX_HELD: Final = 2000
MAX_HELD_SIZE: Final = 2**25  # bytes, roughly
KIND: Final = "sss"
QUOTES: Final = "lines with typographic quotes"
GROUP: Final = "JobGroup"
GROUP_ID: Final = "log"  # of those that we write, which is no workflow
GROUP_ID_NAME: Final = f"{GROUP} Id"


class KeptJob(NamedTuple):
    """A job, and its element as it was written."""

    job: SssJob
    text: str


FoundJob = SssJob | Rejected | ParseError
Found = FoundJob | Property | Passage | KeptJob
_DECLARATION = re.compile(r"\ufeff?[ \t]{0,80}<\?xml[ \t\r\n][^>]{0,200}\?>")
_START = re.compile(r"[ \t]*<(Job|JobGroup)(?:[ \t\r\n/>]|\Z)")
_END_OF_GROUP = re.compile(r"[ \t]*</JobGroup\b")
_TAG = re.compile(rb"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")
_TYPOGRAPHIC = re.compile("[“”„‟″‘’]")


def read_jobs(
    lines: Iterable[str], *, repaired: Counter[str] | None = None, keep_text: bool = False
) -> Iterator[Found]:
    """Return the jobs of a stream with all defaults resolved, what was passed over, and what is wrong.

    With `repaired` typographic quotes within a line are straightened, and counted. The properties of
    groups come as such, unless `keep_text` has jobs come with their text, and
    what stands around them as passages; what is broken is in neither.
    """
    reader = _StreamReader(keep_text=keep_text)
    for number, line in enumerate(lines, 1):
        text = line
        if repaired is not None and _TYPOGRAPHIC.search(line):
            text = repair_quotes(line)
            repaired[QUOTES] += text != line
        yield from reader.read_line(number, text)
    yield from reader.finish()


class _Texts:
    """What was fed and not yet handed out."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._first = 0  # the place of the first of them
        self.before = ""  # what stands before the next job

    def add(self, line: str) -> None:
        self._bytes += line.encode()

    def begin(self) -> None:
        """Forget what was broken, but for the blanks before it, and count from 0."""
        self.before += self._bytes[: len(self._bytes) - len(self._bytes.lstrip())].decode()
        self._bytes.clear()
        self._first = 0

    def take(self, event: Event, *, is_job: bool) -> str:
        """Return the text of a job's element; what stands before it, or is no job, goes to `before`."""
        end = event.last_tag - self._first  # of an element without content its end, of others its last tag
        tag = b"<" if event.kind == "open" else f"</{event.element.name}".encode()
        if self._bytes.startswith(tag, end) and (last := _TAG.match(self._bytes, end)):
            end = last.end()
        begin = event.begin - self._first if is_job else end
        self.before += self._bytes[:begin].decode()
        text = self._bytes[begin:end].decode()
        self._first += end
        del self._bytes[:end]
        return text

    def take_rest(self) -> None:
        """Take what is left at the end of a document."""
        self.before += self._bytes.decode()
        self._bytes.clear()

    def take_before(self) -> str:
        before, self.before = self.before, ""
        return before


class _StreamReader:
    def __init__(self, *, keep_text: bool) -> None:
        self._feed: ElementFeed | None = None  # None: looking for the next document
        self._group: _Group | None = None
        self._has_begun = False
        self._texts = _Texts() if keep_text else None

    def read_line(self, number: int, line: str) -> Iterator[Found]:
        if self._texts is not None and not line.isascii():  # what is not UTF-8, as other readers have it
            line = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        blanks = "   " if line.startswith("\ufeff") else ""  # for what no parser shall see, byte by byte
        if declared := _DECLARATION.match(line):
            yield from self.finish()
            blanks = " " * len(declared[0].encode())
            self._feed = self._new_feed(number)
        if self._feed is None:
            start = _START.match(line)
            if start is None and (line.isspace() or self._has_begun):
                if line.isspace() and self._texts is not None:
                    self._texts.before += line
                if _END_OF_GROUP.match(line):
                    yield from self._leave_group()
                return
            in_group = self._group is not None and start is not None and start[1] == "Job"
            if not in_group:
                yield from self._leave_group()
            self._feed = self._new_feed(number, in_group=in_group)
        self._has_begun = True
        if self._texts is not None:
            self._texts.add(line)
        if blanks:
            line = blanks + line.encode()[len(blanks) :].decode()
        try:
            for event in self._feed.feed(line):
                yield from self._take(event)
        except ParseError as error:
            self._feed = None
            self._forget()
            yield error

    def _forget(self) -> None:
        if self._texts is not None:
            self._texts.begin()

    def _new_feed(self, number: int, *, in_group: bool = False) -> ElementFeed:
        self._forget()
        return ElementFeed(line=number, group=GROUP, in_group=in_group)

    def finish(self) -> Iterator[Found]:
        """Read what there is still at the end of a document or of the stream."""
        if self._feed is not None:
            try:
                for event in self._feed.finish():
                    yield from self._take(event)
                if self._texts is not None:
                    self._texts.take_rest()
            except ParseError as error:
                self._forget()
                yield error
            self._feed = None
        yield from self._leave_group()
        if self._texts is not None:
            yield from _passage(self._texts.take_before())

    def _take(self, event: Event) -> Iterator[Found]:
        element = event.element
        is_job = element.name == "Job"
        before = text = ""
        if self._texts is not None:
            before = self._texts.take_before()
            text = self._texts.take(event, is_job=is_job)
            if is_job:
                before += self._texts.take_before()
            elif event.kind == "root":
                self._texts.before = before
            else:
                self._texts.before = before + self._texts.before
        if event.kind == "open":
            yield from self._leave_group()
            self._group = _Group()
            yield from self._group.begin(element)
        elif event.kind == "part" and self._group is not None:
            yield from self._group.take(element, before, text)
        elif event.kind == "close":
            yield from self._leave_group(is_closed=True)
        elif is_job:
            yield from _with_text(read_job(element, REJECT, None), before, text)
        else:
            yield error_at(element, "neither Job nor JobGroup")

    def _leave_group(self, *, is_closed: bool = False) -> Iterator[Found]:
        group, self._group = self._group, None
        if group is not None:
            yield from group.finish()
            if self._texts is not None and not is_closed:
                self._texts.before += f"</{GROUP}>\n"


def _passage(text: str) -> Iterator[Passage]:
    if text:
        yield Passage(KIND, text)


def _with_text(found: Iterator[FoundJob], before: str, text: str) -> Iterator[Found]:
    """Return what a job came to with its text, if there is one, and what stands before it."""
    yield from _passage(before)
    for each in found:
        yield KeptJob(each, text) if text and isinstance(each, SssJob) else each


class _Group:
    """A JobGroup of which the end has not been read."""

    def __init__(self) -> None:
        self._policy = REJECT
        self._defaults: SssJob | None = None
        self._refused: str | None = None  # why none of its jobs can be taken
        self._id: str | None = None
        self._held: list[tuple[Element, str, str]] | None = []  # with its texts; None: they wait no longer
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

    def take(self, element: Element, before: str, text: str) -> Iterator[Found]:
        """Take a part of the group; of a job with what stands before it, and its own text."""
        if element.name == "Job":
            if self._held is None:
                yield from self._read(element, before, text)
                return
            self._held.append((element, before, text))
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
        for element, before, text in held or ():
            yield from self._read(element, before, text)

    def _take_property(self, element: Element, notes: list[Rejected]) -> Iterator[Found]:
        shell = Element("JobGroup", children=(element,))
        kept = understood(shell, ROOTS["JobGroup"], self._policy, notes.append)
        if kept is not None and element.name != "JobDefaults":
            yield from (Property(f"{GROUP} {each.name}", each.text) for each in kept.children)
            self._id = next((each.text for each in kept.children if each.name == "Id"), self._id)
        if element.name != "JobDefaults" or kept is None or not kept.children:
            return
        if self._defaults is not None:
            raise error_at(element, "occurs twice here")
        late = self._held is None
        defaults = read_container(element, CONTENT["JobGroup"]["JobDefaults"], self._policy, [])
        self._defaults = defaults if isinstance(defaults, SssJob) else None
        if late:
            yield error_at(element, "after many jobs, which were read without it")
        yield from self.finish()

    def _read(self, element: Element, before: str, text: str) -> Iterator[Found]:
        if self._refused is not None:
            yield from _passage(before)
            yield error_at(element, self._refused)
        else:
            found = read_job(element, self._policy, self._defaults)
            if self._id not in {None, "", GROUP_ID}:
                found = (
                    replace(each, group_id=self._id) if isinstance(each, SssJob) else each for each in found
                )
            yield from _with_text(found, before, text)


def _size(element: Element) -> int:
    attributes = sum(map(len, element.attributes.values()))
    return 300 + len(element.text) + attributes + sum(map(_size, element.children))


def read_job(element: Element, policy: str, defaults: SssJob | None) -> Iterator[FoundJob]:
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
