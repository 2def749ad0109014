"""What Torque's ``qstat -x`` and ``pbsnodes -x`` print → records of attributes. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.batch.pbs.records import Record, Records, collect_records
from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.xml import Element, parse_element

MAX_BYTES = 512 * 2**20
MAX_ELEMENTS = 50_000_000
MAX_DEPTH = 8
_NAMES = {"Job": "Job_Id", "Node": "name"}


def parse_xml(data: bytes, *, kind: str, source: str) -> Records:
    """Return the records of a document: `kind` is Job or Node. Nothing at all is no records.

    Sample: ``<Data><Job><Job_Id>123.server</Job_Id><Job_Name>a</Job_Name>
    <Resource_List><walltime>01:00:00</walltime></Resource_List></Job></Data>``.
    Times are epoch seconds. Text before the document, such as a banner, is
    passed over. Raises ParseError.
    """
    start = data.find(b"<Data")
    if start < 0:
        if data.strip():
            raise ParseError("no XML", source=source, text=data[:200].decode("utf-8", "replace"))
        return Records({})
    root = parse_element(
        data[start:].rstrip(),
        source=source,
        max_bytes=MAX_BYTES,
        max_depth=MAX_DEPTH,
        max_elements=MAX_ELEMENTS,
    )
    return collect_records(_records(root, kind), source=source)


def _records(root: Element, kind: str) -> Iterator[tuple[str, Record | ParseError]]:
    for element in root.children:
        if element.name == kind:
            yield _record(element, _NAMES[kind])


def _record(element: Element, name_field: str) -> tuple[str, Record | ParseError]:
    attributes: dict[str, str] = {}
    doubled = ""
    for child in element.children:
        parts = [(f"{child.name}.{each.name}", each.text) for each in child.children]
        for field, text in parts or [(child.name, child.text)]:
            doubled = field if field in attributes else doubled
            attributes[field] = text.strip()
    name = attributes.pop(name_field, "")
    if doubled or not name:
        return name, ParseError(
            "field occurs twice" if name else "record without a name", field=doubled or name_field
        )
    return name, Record(name, attributes)
