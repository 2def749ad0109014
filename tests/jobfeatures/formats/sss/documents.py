"""Documents drawn from the vocabulary: what it allows, and small breaches of it."""

from __future__ import annotations

from hypothesis import strategies as st

from jobfeatures.errors import Rejected
from jobfeatures.formats.sss.job import parse_document
from jobfeatures.formats.sss.objects import Environment
from jobfeatures.formats.sss.vocabulary import (
    AWARENESS_POLICY,
    CONTENT,
    DISTRIBUTIONS,
    REQUIRED,
    ROOTS,
    Slot,
    Type,
    type_of,
    words_of,
)
from jobfeatures.formats.sss.xml import Element
from jobfeatures.records.model import Job


def tasks(*contents: str) -> str:
    """Return a group of tasks."""
    return "<TaskGroup>" + "".join(f"<Task>{content}</Task>" for content in contents) + "</TaskGroup>"


def variables_of(environment: Environment) -> dict[str, str]:
    """Return the variables by name."""
    return {each.text("name"): str(each.value) for each in environment.variables}


def parse_jobs(data: bytes, *, source: str) -> tuple[list[Job], list[Rejected]]:
    """Return the jobs of a document, and what was rejected or passed over in it."""
    document = parse_document(data, source=source)
    return list(document.jobs), [*document.rejected, *document.warnings]


TEXTS = st.sampled_from(["", " ", "a", " b c ", "x,y", "1", "<&>\"'", "é”", "node[1-3]", "\u00a05", "\n"])
GOOD = {
    Type.INTEGER: ["0", "-1", "+7", " 12\n"],
    Type.COUNT: ["0", "16", " 2 "],
    Type.DATE_TIME: ["1700000000"],
    Type.DURATION: ["3600"],
    Type.FLOAT: ["-1.5", ".5", "5.", "1e3", "+0"],
    Type.AMOUNT: ["1.89", "2", "1E-9", ".50"],
    Type.BOOLEAN: ["true", "False"],
    Type.GEOMETRY: ["{1,4}{2}", " { 1 , 2 }\t{3} "],
    Type.LIST: ["", "Close", "JobStart, JobEnd", "Keep ,Close"],
}
BAD = ["", "x", "-", "1.5.", "0x1", "{1}{", "\u0661", "TRUE", "NaN", "1_0"]


def contents(kind: Type, *, breached: bool) -> st.SearchStrategy[str]:
    good = st.sampled_from(GOOD[kind]) if kind in GOOD else TEXTS
    return st.one_of(good, st.sampled_from(BAD)) if breached else good


def attribute_values(element: str, name: str, *, breached: bool) -> st.SearchStrategy[str]:
    if name == AWARENESS_POLICY:
        return st.sampled_from(["Reject", "reject"] if breached else ["Reject"])  # others let things pass
    words, kind = words_of(element, name), type_of(name)
    if words is None:
        return contents(kind, breached=breached)
    good = sorted(words) or ["none"]
    if kind is Type.LIST:
        good += ["", " , ".join(good)]
    return st.sampled_from([*good, "Odd"] if breached else good)


@st.composite
def elements(draw, slot: Slot, depth: int = 5) -> Element:
    """Draw an element at its place: one in four breaches something here and there."""
    term = slot.term
    breached = draw(st.integers(0, 15)) == 0
    allowed = sorted(slot.attributes - ({"units"} if term.name == "Processors" and not breached else set()))
    names = set(draw(st.lists(st.sampled_from(allowed), max_size=2)))
    if not breached:
        names.update(term.needs)
    attributes = {
        name: draw(attribute_values(term.name, name, breached=breached))
        if name not in term.needs or breached
        else "n"
        for name in sorted(names)
    }
    if term.type is not Type.CONTAINER:
        kind = term.type
        if term.name == "TaskDistribution":
            kind = DISTRIBUTIONS.get(attributes.get("type", ""), kind)
        content = draw(contents(kind, breached=breached))
        return Element(
            term.name, attributes, content if content.strip() or term.name != "Id" or breached else "1"
        )
    if depth == 0 or draw(st.integers(0, 9)) == 0:
        text = draw(TEXTS) if breached or not term.name.endswith(("Defaults", "ed", "ment")) else ""
        return Element(
            term.name,
            attributes,
            text if text.strip() or breached else "7" * (term.name[-2:] in {"ob", "up", "sk"}),
        )
    inside = CONTENT[term.name]
    chosen = draw(st.lists(st.sampled_from(sorted(inside)), max_size=5))
    if not breached:
        chosen = [
            name for place, name in enumerate(chosen) if inside[name].term.many or name not in chosen[:place]
        ]
        chosen += [name for name in REQUIRED.get(term.name, ()) if name not in chosen]
    children = [draw(elements(inside[name], depth - 1)) for name in chosen]
    text = draw(st.sampled_from(["", "\n ", "text"])) if breached else ""
    return Element(term.name, attributes, text, children=tuple(children))


def documents() -> st.SearchStrategy[Element]:
    return st.sampled_from(sorted(ROOTS)).flatmap(lambda name: elements(ROOTS[name]))


def as_bytes(element: Element) -> bytes:
    """Write an element with its text before its children, exactly."""
    from xml.sax.saxutils import escape, quoteattr

    def written(each: Element) -> str:
        attributes = "".join(f" {name}={quoteattr(value)}" for name, value in each.attributes.items())
        inside = escape(each.text) + "".join(map(written, each.children))
        return f"<{each.name}{attributes}>{inside}</{each.name}>"

    return written(element).encode()
