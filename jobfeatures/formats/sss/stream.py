"""Reads a log of SSS documents as jobs with their defaults filled in, in bounded memory. Pure.

A log is one JobGroup with many jobs, or a sequence of documents with one job each. After an error, the
document is discarded, or only the job if it is in a group; reading resumes at the next line that begins with
a document or a job.

JobDefaults may follow the jobs to which they apply, so up to 2,000 jobs of ordinary size are held until then.
JobDefaults that come later are an error, and the earlier jobs lack them.
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
from jobfeatures.formats.sss.xml import GROUP, Element, ElementFeed, XmlEvent, repair_quotes
from jobfeatures.joblogs.loggedjob import Passage

MAX_HELD: Final = 2000
MAX_HELD_SIZE: Final = 2**25  # bytes, roughly
KIND: Final = "sss"
QUOTES: Final = "lines with typographic quotes"
GROUP_ID: Final = "log"  # of the groups that we write; not a workflow id
GROUP_ID_NAME: Final = f"{GROUP} Id"


class KeptJob(NamedTuple):
    """A job and the source text of its element."""

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
    """Yield the jobs in a log's lines with all defaults filled in.

    Warnings and errors are yielded as Rejected, the properties of job groups as Property. If `repaired` is
    given, typographic quotes are replaced by straight ones, and `repaired` counts the lines that had some.
    With `keep_text`, jobs are yielded as KeptJob, and the text between them as Passage; neither includes
    what could not be read.
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
    """The text that was fed and not yet returned."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._first = 0  # offset of the first of them in the stream
        self.before = ""  # text before the next job

    def add(self, line: str) -> None:
        self._bytes += line.encode()

    def begin(self) -> None:
        """Discard unreadable text, except its leading whitespace, and restart offsets at 0."""
        self.before += self._bytes[: len(self._bytes) - len(self._bytes.lstrip())].decode()
        self._bytes.clear()
        self._first = 0

    def take(self, event: XmlEvent, *, is_job: bool) -> str:
        """Return the text of a job's element; text before it, or of another element, goes to `before`."""
        end = event.last_tag - self._first  # the element's last tag; the end of an empty element
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
        """Move the remaining text of a document to `before`."""
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
        if self._texts is not None and not line.isascii():  # decode invalid UTF-8 as other readers do
            line = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        blanks = "   " if line.startswith("\ufeff") else ""  # replaces bytes hidden from the parser
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
        return ElementFeed(line=number, in_group=in_group)

    def finish(self) -> Iterator[Found]:
        """Read what remains at the end of a document or of the stream."""
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

    def _take(self, event: XmlEvent) -> Iterator[Found]:
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
            yield error_at(element, "the root must be a Job or a JobGroup")

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
    """Yield the text before a job as a passage, then its results, the job with its text if kept."""
    yield from _passage(before)
    for each in found:
        yield KeptJob(each, text) if text and isinstance(each, SssJob) else each


class _Group:
    """A JobGroup whose end has not been read yet."""

    def __init__(self) -> None:
        self._policy = REJECT
        self._defaults: SssJob | None = None
        self._refused: str | None = None  # why its jobs are rejected
        self._id: str | None = None
        self._held: list[tuple[Element, str, str]] | None = []  # with texts; None: no longer holding
        self._held_size = 0

    def begin(self, element: Element) -> Iterator[Found]:
        """Read the attributes of the group's start tag."""
        notes: list[Rejected] = []
        try:
            understood(Element(element.name, element.attributes, "", element.line, element.column),
                       ROOTS["JobGroup"], REJECT, notes.append)  # fmt: skip
            self._policy = policy_of(element)
        except ParseError as error:
            self._refused = "skipped, because its JobGroup was rejected"
            yield error
        yield from notes

    def take(self, element: Element, before: str, text: str) -> Iterator[Found]:
        """Yield a child's results; `before` is the text before it, `text` its own (of jobs)."""
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
                self._refused = "skipped, because the JobDefaults of its group were rejected"
            yield error
        yield from notes

    def finish(self) -> Iterator[Found]:
        """Read the jobs held back for the defaults."""
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
            raise error_at(element, "occurs twice in one element")
        late = self._held is None
        defaults = read_container(element, CONTENT["JobGroup"]["JobDefaults"], self._policy, [])
        self._defaults = defaults if isinstance(defaults, SssJob) else None
        if late:
            yield error_at(element, "comes after many jobs, to which it was not applied")
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
    """Convert a Job element: yield the job with its defaults filled in, or its error; then the warnings.

    `policy` is the awareness policy of the enclosing element, `defaults` the JobDefaults of its group.
    """
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
