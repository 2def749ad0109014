"""Converts XML elements to the records of `objects`. Pure.

Source: SSS Job Object Specification 3.1.0. Records hold what the document states; `inherit` fills in
defaults. Only parts that the awareness policies Warn and Ignore allow to be skipped are left out (section
9.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sss.awareness import REJECT, understood
from jobfeatures.formats.sss.objects import (
    FIELDS,
    RECORDS,
    Changes,
    Environment,
    Property,
    Reference,
    Root,
    Scope,
)
from jobfeatures.formats.sss.values import BLANKS, Value, error_at, parse_value, refuse_text
from jobfeatures.formats.sss.vocabulary import (
    AWARENESS_POLICY,
    CONTENT,
    DISTRIBUTIONS,
    REQUIRED,
    ROOTS,
    Slot,
    Type,
    type_of,
)
from jobfeatures.formats.sss.xml import Element, parse_element

MAX_WARNINGS: Final = 100
_CATEGORIES: Final = {"Requested": "requested", "Delivered": "delivered"}


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document's root record, the parts skipped under the awareness policy Warn, and its root element."""

    root: Root
    warnings: tuple[Rejected, ...] = ()
    element: Element | None = None


def parse_object(data: bytes, *, source: str = "", lenient: bool = False) -> Parsed:
    """Parse a document; `lenient` repairs typographic quotes around attribute values.

    Raises ParseError, with line, column and element, for what the specification does not allow.
    """
    root = parse_element(data, source=source, lenient=lenient)
    warnings: list[Rejected] = []
    try:
        record = read_root(root, warnings)
    except ParseError as error:
        raise error.at(source) from None
    return Parsed(record, tuple(replace(each, source=source) for each in warnings), root)


def read_root(root: Element, warnings: list[Rejected]) -> Root:
    """Convert the root element of a document: a Job, a JobGroup, or a reference.

    Parts that are skipped under the awareness policy Warn are added to `warnings`. Raises ParseError for
    anything that the specification does not allow.
    """
    slot = ROOTS.get(root.name)
    if slot is None:
        raise error_at(root, "the root must be a Job or a JobGroup")
    record = read_container(root, slot, REJECT, warnings)
    if record is None:
        raise error_at(root, "has an attribute whose value is unknown")
    return record  # type: ignore[return-value]  # ROOTS has Job and JobGroup


def read_container(
    element: Element, slot: Slot, inherited: str, warnings: list[Rejected]
) -> Scope | Reference | None:
    """Convert an element that holds other elements to a record; None if it has to be skipped.

    `slot` is its place in the vocabulary, `inherited` the awareness policy of the enclosing element. Parts
    that are skipped under the policy Warn are added to `warnings`. Raises ParseError as `read_root` does.
    """

    def warn(note: Rejected) -> None:
        if len(warnings) < MAX_WARNINGS:
            warnings.append(note)

    kept = understood(element, slot, inherited, warn)
    return None if kept is None else _scope(kept)


def _scope(element: Element) -> Scope | Reference:
    """Return the record of a container from which unknown parts have been removed, or a reference by id."""
    if not element.children and (text := parse_value(Type.STRING, element.text)):
        return Reference(element.name, str(text))
    content = CONTENT[element.name]
    found: Changes = {"properties": [], "requested": [], "delivered": []}
    for child in element.children:
        name = child.name
        if name in _CATEGORIES:
            found[_CATEGORIES[name]] += _category(child)
        elif name == "Environment":
            _once(found, "environment", child)
            found["environment"] = _environment(child)
        elif name in FIELDS:
            if content[name].term.many:
                found.setdefault(FIELDS[name], []).append(_scope(child))
                continue
            _once(found, FIELDS[name], child)
            found[FIELDS[name]] = defaults = _scope(child)
            if isinstance(defaults, Reference):
                raise error_at(child, "defaults cannot be a reference", defaults.id)
        else:
            found["properties"].append(_property(child, content[name]))
    _check_properties(element, found["properties"], content)
    fields: Changes = {
        name: tuple(value) if isinstance(value, list) else value for name, value in found.items()
    }
    policy = element.attributes.get(AWARENESS_POLICY)
    return RECORDS[element.name](policy=policy, line=element.line, column=element.column, **fields)


def _category(element: Element) -> list[Property]:
    """Return the properties of a Requested or Delivered; those without a policy inherit its policy."""
    refuse_text(element)
    content = CONTENT[element.name]
    policy = element.attributes.get(AWARENESS_POLICY)
    inherited: dict[str, Value] = {} if policy is None else {AWARENESS_POLICY: policy}
    properties = [_property(each, content[each.name]) for each in element.children]
    return [replace(each, attributes={**inherited, **each.attributes}) for each in properties]


def _once(found: Changes, name: str, element: Element) -> None:
    if name in found:
        raise error_at(element, "occurs twice in one element")


def _check_properties(element: Element, properties: list[Property], content: Mapping[str, Slot]) -> None:
    """Raise ParseError for a repeated property that may occur only once, and for a missing one."""
    seen: set[str] = set()
    for each in properties:
        if each.name in seen and not content[each.name].term.many:
            raise each.error("occurs twice in one element")
        seen.add(each.name)
    seen.update(child.name for child in element.children)
    for name in REQUIRED.get(element.name, ()):
        if name not in seen:
            instead = "" if element.children else ", and does not refer to another"
            raise error_at(element, f"has no {name}{instead}")


def _environment(element: Element) -> Environment:
    refuse_text(element)
    export = element.attributes.get("export")
    return Environment(
        tuple(_property(child, CONTENT["Environment"][child.name]) for child in element.children),
        None if export is None else bool(parse_value(Type.BOOLEAN, export)),
        element.attributes.get(AWARENESS_POLICY),
    )


def _property(element: Element, slot: Slot) -> Property:
    missing = [name for name in slot.term.needs if not element.attributes.get(name, "").strip(BLANKS)]
    if missing:
        raise error_at(element, f"attribute {missing[0]} is missing")
    kind = slot.term.type
    if element.name == "TaskDistribution":
        kind = DISTRIBUTIONS.get(element.attributes.get("type", ""), kind)
    try:
        attributes: dict[str, Value] = {
            name: parse_value(type_of(name), value)
            for name, value in element.attributes.items()
            if name in slot.attributes  # unknown ones are skipped
        }
        value = parse_value(kind, element.text)
    except ParseError as error:
        raise error_at(element, error.reason, error.text) from None
    if element.name == "Id" and not value:
        raise error_at(element, "is empty")
    return Property(element.name, value, attributes, element.line, element.column)
