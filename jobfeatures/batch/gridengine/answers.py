"""Parse the XML that ``qstat`` and ``qhost`` print about a node's jobs and queues. Pure.

Commands: qstat(1). Only what the spool directory lacks is queried: wall limits, and the states of this host's
queues. The output is not always valid XML. Some versions write nameless elements (``<>`` and ``</>``, about
an unknown job), job names may contain control characters or bytes in any encoding, and a wrapper may print
text before the document.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree  # for the type: defusedxml parses

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError as XmlError
from defusedxml.ElementTree import fromstring

from jobfeatures.batch.gridengine.basics import is_number, known, least_limit, parse_limit_secs
from jobfeatures.errors import ParseError, Rejected, parse_each
from jobfeatures.records.model import UNLIMITED, Limit, NodeNotice

JOB_SOURCE = "qstat -j"
QUEUE_SOURCE = "qstat -f"

# Queue state letters that mean a deliberate decision to start no more jobs: disabled by hand (d) or by
# its calendar (D), or deleted while jobs run in it (o). qstat(1), "Full Format". An overload (a), an
# unreachable host (u) or an error (E) is not a decision.
DRAINING_LETTERS = frozenset("dDo")

Element = ElementTree.Element
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_DECLARATION = re.compile(r"<\?xml[^>]*\?>")


@dataclass(frozen=True, slots=True)
class RequestedLimits:
    """The wall limit that a job requested, as ``qstat -j`` reports it: the lower one of h_rt and s_rt.

    `wall_secs` is UNLIMITED if it requested none. `known` is False if the master knows no such job.
    """

    wall_secs: Limit = None
    known: bool = True  # False: the master knows no such job


@dataclass(frozen=True, slots=True)
class QueueInstance:
    """One queue on one host.

    `states` are qstat's letters, empty while the queue accepts jobs. `wall_secs` is the wall limit of its
    jobs. None means unknown.
    """

    queue: str
    host: str
    states: str = ""
    slots: int | None = None
    used_slots: int | None = None
    wall_secs: Limit = None

    @property
    def is_draining(self) -> bool:
        """Return whether the queue was deliberately stopped from starting jobs."""
        return not DRAINING_LETTERS.isdisjoint(self.states)


def parse_xml(data: bytes, tags: Collection[str], about: str, *, source: str) -> Element:
    """Return the root element of an answer in XML, which must have one of `tags`.

    `about` says in errors what the answer should be about, such as "the queue". Text before the declaration
    is dropped, as are characters that XML does not allow; bytes that are not UTF-8 are decoded as Latin-1.
    Raises ParseError for another root, malformed XML, and document types and entities, which no answer has.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    declaration = _DECLARATION.search(text)
    if declaration is None:
        raise ParseError("no XML in the answer", source=source, text=text.strip())
    body = _FORBIDDEN.sub("", text[declaration.end() :])
    body = body.replace("<>", "<element>").replace("</>", "</element>")
    try:
        root: Element = fromstring(body, forbid_dtd=True)
    except XmlError as error:
        line = getattr(error, "position", (0, 0))[0]
        raise ParseError(f"broken XML: {error}", source=source, line=line) from None
    except DefusedXmlException:
        raise ParseError("DOCTYPE is not accepted", source=source) from None
    if root.tag not in tags:
        raise ParseError(f"the answer is not about {about}", source=source, text=root.tag)
    return root


def text_of(element: Element, name: str) -> str | None:
    """Return the text of the first child element `name`; None if it is absent or empty."""
    child = element.find(name)
    return None if child is None else (child.text or "").strip() or None


def notice_of(queues: Mapping[str, QueueInstance]) -> NodeNotice | None:
    """Return the notice for the host with these queues: it drains if all of them do. None without queues."""
    return NodeNotice(draining=all(each.is_draining for each in queues.values())) if queues else None


def parse_asked_jobs(data: bytes) -> tuple[dict[str, RequestedLimits], list[Rejected]]:
    """Return requested limits by job number, and rejected values, from ``qstat -j 10,11 -xml``.

    Sample, shortened: ``<djob_info><element><JB_job_number>10</JB_job_number> …
    <JB_hard_resource_list><qstat_l_requests><CE_name>h_rt</CE_name> <CE_stringval>1::1</CE_stringval> …``.
    The answer omits jobs that the master does not know, or lists them in ``<unknown_jobs>`` if it knows none.
    Grid Scheduler and UGE omit ``<element>``: each job has its own ``<djob_info>``. A job that requested no
    limit is UNLIMITED here; its queue's limits still apply. Raises ParseError if the XML is malformed.
    """
    root = parse_xml(data, {"unknown_jobs", "detailed_job_info"}, "jobs", source=JOB_SOURCE)
    jobs: dict[str, RequestedLimits] = {}
    rejected: list[Rejected] = []
    if root.tag == "unknown_jobs":
        names = ((element.text or "").strip() for element in root.iter("ST_name"))
        return {name: RequestedLimits(known=False) for name in names if is_number(name)}, rejected
    for element in _job_elements(root):
        numbers = [(each.text or "").strip() for each in element.iterfind("JB_job_number")]
        number = " ".join(numbers)  # with several numbers the limits' owner would be ambiguous
        if not is_number(number):
            rejected.append(Rejected(JOB_SOURCE, "not a job id", 0, "JB_job_number", number))
            continue
        limits: list[Limit] = [UNLIMITED]
        for field, value in _requests(element):
            if field not in {"h_rt", "s_rt"}:
                continue
            try:
                limits.append(parse_limit_secs(value))
            except ParseError as error:
                limits.append(None)
                rejected.append(Rejected.from_error(error.at(JOB_SOURCE, 0, field, f"job {number}")))
        jobs[number] = RequestedLimits(least_limit(*limits))
    return jobs, rejected


def _requests(job: Element) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the resources that a job requested.

    Each resource is an element, except that UGE writes the fields of all of them in sequence.
    """
    name = value = ""
    for each in job.iterfind("JB_hard_resource_list//"):
        if each.tag == "CE_name":
            if name:
                yield name, value
            name, value = (each.text or "").strip(), ""
        elif each.tag == "CE_stringval" or (each.tag == "CE_doubleval" and not value):
            value = (each.text or "").strip() or value
    if name:
        yield name, value


def _job_elements(root: Element) -> Iterator[Element]:
    for info in root.iterfind("djob_info"):
        if info.find("JB_job_number") is not None:
            yield info
        else:
            yield from info


def parse_host_queues(data: bytes) -> tuple[dict[str, QueueInstance], list[Rejected]]:
    """Return queues by name, and rejected values, from ``qstat -f -F h_rt,s_rt -q *@HOST -xml``.

    Sample, shortened: ``<Queue-List><name>all.q@node1</name> … <slots_used>3</slots_used> …
    <slots_total>4</slots_total> … <state>d</state> <resource name="h_rt" type="qf">02:00:00</resource> …``. A
    name is without the host (``all.q``). ``state`` is absent while a queue accepts jobs. Raises ParseError if
    the XML is malformed.
    """
    root = parse_xml(data, {"job_info"}, "queues", source=QUEUE_SOURCE)
    rejected: list[Rejected] = []
    made = parse_each(
        _parse_instance,
        root.iter("Queue-List"),
        rejected,
        QUEUE_SOURCE,
        lambda element: f"queue {(text_of(element, 'name') or '')[:64]}",
    )
    return {queue.queue: queue for queue in made}, rejected


def _parse_instance(element: Element) -> QueueInstance:
    name = text_of(element, "name") or ""
    queue, at, host = name.partition("@")
    if not (queue and at and host):
        raise ParseError("not QUEUE@HOST", field="name", text=name)
    limits = [
        parse_limit_secs((each.text or "").strip(), field=each.get("name", ""))
        for each in element.iterfind("resource")
        if each.get("name") in {"h_rt", "s_rt"}
    ]
    return QueueInstance(
        queue,
        host,
        states=known(text_of(element, "state")) or "",
        slots=parse_slots(text_of(element, "slots_total")),
        used_slots=parse_slots(text_of(element, "slots_used")),
        wall_secs=least_limit(*limits),
    )


def parse_slots(text: str | None) -> int | None:
    """Return a number of slots; None if absent or ``-``. Raises ParseError if malformed."""
    if text is None or text == "-":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise ParseError("not a number of slots", field="slots", text=text)
    return int(text)
