"""The vocabulary of SSS job objects as a schema in RELAX NG: what their reader takes, for other programs.

It stands in ``jobfeatures/formats/sss/sss.rng``, and describes documents of
which nothing has to be passed over: awareness policies that let unknown parts
pass are beyond a schema. It does not bound sizes and numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from jobfeatures.formats.sss.vocabulary import (
    CONTENT,
    DISTRIBUTIONS,
    FORMS,
    REQUIRED,
    ROOTS,
    Slot,
    Type,
    type_of,
    words_of,
)
from jobfeatures.formats.sss.xml import DECLARATION, Element, format_element

NAMESPACE: Final = "http://relaxng.org/ns/structure/1.0"
DATATYPES: Final = "http://www.w3.org/2001/XMLSchema-datatypes"
_CATEGORIES: Final = frozenset({"Requested", "Delivered"})
_COMMON: Final = "job-properties"  # of Job, TaskGroup and Task alike


def format_schema() -> str:
    """Return the schema of a document."""
    defines: dict[str, Element] = {}
    common = {
        name
        for name in CONTENT["Task"]
        if len({CONTENT[each][name] for each in ("Job", "TaskGroup", "Task") if name in CONTENT[each]}) == 1
        and all(name in CONTENT[each] for each in ("Job", "TaskGroup"))
    }
    properties = (
        _repeated("Task", slot, defines) for name, slot in CONTENT["Task"].items() if name in common
    )
    defines[_COMMON] = _node("interleave", *properties)
    for name in CONTENT:
        defines[name] = _container(name, common, defines)
    start = _node("start", _choice(_ref(name) for name in ROOTS))
    written = [_node("define", element, name=name) for name, element in sorted(defines.items())]
    grammar = Element(
        "grammar", {"xmlns": NAMESPACE, "datatypeLibrary": DATATYPES}, children=(start, *written)
    )
    return f"{DECLARATION}\n{format_element(grammar)}\n"


def _container(name: str, common: set[str], defines: dict[str, Element]) -> Element:
    """Return a container: its properties in any order, or the id of another."""
    slots = CONTENT[name]
    if name in _CATEGORIES or name == "Environment":
        inside = _node("zeroOrMore", _choice(_element(slot, name, defines) for slot in slots.values()))
    else:
        shared = common if common <= slots.keys() else set()
        own = [_repeated(name, slot, defines) for each, slot in slots.items() if each not in shared]
        own += [_ref(_COMMON)] if shared else []
        inside = own[0] if len(own) == 1 else _node("interleave", *own)
        if not name.endswith("Defaults"):
            inside = _choice([inside, _not_empty()])
    # Its attributes are the same wherever it stands.
    slot = next(found[name] for found in (ROOTS, *CONTENT.values()) if name in found)
    return _node("element", *_attributes(slot, defines), inside, name=name)


def _repeated(container: str, slot: Slot, defines: dict[str, Element]) -> Element:
    is_required = slot.term.name in REQUIRED.get(container, ())
    element = _element(slot, container, defines)
    if slot.term.many:
        return _node("oneOrMore" if is_required else "zeroOrMore", element)
    return element if is_required else _node("optional", element)


def _element(slot: Slot, container: str, defines: dict[str, Element]) -> Element:
    """Return a reference to an element's definition, which is made if it is the first."""
    term = slot.term
    if term.type is Type.CONTAINER:
        return _ref(term.name)
    name = f"{container}.{term.name}" if container in _CATEGORIES else term.name
    if name not in defines:
        defines[name] = _node("element", *_attributes(slot, defines), *_contents(slot), name=term.name)
    return _ref(name)


def _contents(slot: Slot) -> list[Element]:
    name = slot.term.name
    if name == "Id":
        return [_not_empty()]
    if name != "TaskDistribution":
        return [_content(slot.term.type)]
    rule = _node("group", _node("optional", _node("attribute", _value("Rule"), name="type")), _node("text"))
    others = [
        _node("group", _node("attribute", _value(kind), name="type"), _content(content))
        for kind, content in DISTRIBUTIONS.items()
    ]
    return [_choice([rule, *others])]


def _attributes(slot: Slot, defines: dict[str, Element]) -> Iterator[Element]:
    term = slot.term
    for name in sorted(slot.attributes):
        if term.name == "TaskDistribution" and name == "type":
            continue  # goes with its contents
        words, kind = words_of(term.name, name), type_of(name)
        if name in term.needs:
            element = _node("attribute", _not_empty(), name=name)
            label = f"{name}.needed"
        else:
            element = _node("optional", _node("attribute", _attribute_value(words, kind), name=name))
            is_special = words != words_of("", name)
            label = f"{name}.{term.name}" if is_special else f"{name}.attribute"
        defines[label] = element
        yield _ref(label)


def _attribute_value(words: frozenset[str] | None, kind: Type) -> Element:
    if words is None:
        return _content(kind)
    if kind is Type.LIST:
        word = f"({'|'.join(sorted(words))})"
        return _form(f"({word}( ?, ?{word})*)?")
    return _choice(_value(word) for word in sorted(words)) if words else _node("notAllowed")


def _content(kind: Type) -> Element:
    return _form(FORMS[kind]) if kind in FORMS else _node("text")


def _form(pattern: str) -> Element:
    """Return what matches a pattern once the blanks around it are gone."""
    return Element("data", {"type": "token"}, children=(Element("param", {"name": "pattern"}, pattern),))


def _not_empty() -> Element:
    return Element("data", {"type": "token"}, children=(Element("param", {"name": "minLength"}, "1"),))


def _value(word: str) -> Element:
    return Element("value", {"type": "string"}, word)


def _ref(name: str) -> Element:
    return _node("ref", name=name)


def _choice(elements: Iterable[Element]) -> Element:
    each = tuple(elements)
    return each[0] if len(each) == 1 else _node("choice", *each)


def _node(tag: str, /, *children: Element, name: str = "") -> Element:
    return Element(tag, {"name": name} if name else {}, children=children)
