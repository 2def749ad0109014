"""The records of `objects` → elements and text: pure. Reading the text gives equal records."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.formats.sss.objects import FIELDS, RECORDS, Environment, Property, Reference, Root, Scope
from jobfeatures.formats.sss.values import format_value
from jobfeatures.formats.sss.vocabulary import AWARENESS_POLICY
from jobfeatures.formats.sss.xml import DECLARATION, Element, format_element


def format_object(root: Root) -> str:
    """Return a document with a final newline. Raises ParseError for a text that XML does not allow."""
    name = root.name if isinstance(root, Reference) else _NAMES[type(root)]
    return f"{DECLARATION}\n{format_element(make_element(root, name))}\n"


def make_element(record: Scope | Reference, name: str) -> Element:
    """Return the element of a record under one of its names, such as Job or JobDefaults."""
    if isinstance(record, Reference):
        return Element(name, text=record.id)
    children = [_property(each) for each in record.properties]
    children += _category("Requested", record.requested)
    children += _category("Delivered", record.delivered)
    if record.environment is not None:
        children.append(_environment(record.environment))
    children += [make_element(each, inner) for inner, each in _inner(record)]
    return Element(name, _policy(record.policy), children=tuple(children))


_NAMES = {record: name for name, record in RECORDS.items() if not name.endswith("Defaults")}


def _inner(record: Scope) -> Iterator[tuple[str, Scope | Reference]]:
    """Yield the containers in a record, each with its element's name, defaults first."""
    for name, field in FIELDS.items():
        found = getattr(record, field, None)
        for each in found if isinstance(found, tuple) else filter(None, [found]):
            yield name, each


def _policy(policy: str | None) -> dict[str, str]:
    return {} if policy is None else {AWARENESS_POLICY: policy}


def _category(name: str, properties: tuple[Property, ...]) -> list[Element]:
    return [Element(name, children=tuple(map(_property, properties)))] if properties else []


def _environment(environment: Environment) -> Element:
    attributes = _policy(environment.policy)
    if environment.export is not None:
        attributes["export"] = format_value(environment.export)
    return Element("Environment", attributes, children=tuple(map(_property, environment.variables)))


def _property(each: Property) -> Element:
    attributes = {name: format_value(value) for name, value in each.attributes.items()}
    return Element(each.name, attributes, format_value(each.value))
