"""The properties of one job, with the defaults of its group, by category: pure.

Which of several values counts:

- What a job is or has: the Delivered value, else the one outside any category,
  else the Requested one. What was requested says what the job has only with
  op EQ, which is the default. Several delivered values leave it unknown.
- A limit: the Requested value with op EQ, LE or LT (for LT the value itself is
  taken); GE, GT, NE and Match say nothing about an upper end. Of several the
  lowest counts. Without one, the value outside any category, unless that is a
  measurement: context "Used", or a metric other than "Total".
- Alternatives leave the property unknown: a conj other than And, or a
  preference. A conj other than And that joins different properties makes the
  whole Requested element an expression, of which no value is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jobfeatures.formats.sss.extensions import TYPE
from jobfeatures.formats.sss.values import error_at
from jobfeatures.formats.sss.xml import Element

DIRECT: Final = ""
REQUESTED: Final = "Requested"
DELIVERED: Final = "Delivered"
_LIMITING: Final = frozenset({"EQ", "LE", "LT"})


class Properties:
    """The elements of a job by category and name; its defaults' where the job has none of that name."""

    def __init__(self, job: Element, defaults: Element | None) -> None:
        self._found = _group(job)
        if defaults is not None:
            inherited = _group(defaults)
            inherited.pop((DIRECT, "Id"), None)  # a name for all jobs of a group would be none
            self._found = {**inherited, **self._found}
        self._has_extensions = any(name.startswith("Extension ") for _, name in self._found)

    def all(self, name: str, category: str = DIRECT) -> list[Element]:
        """Return all elements of a name in a category."""
        return self._found.get((category, name), [])

    def one(self, name: str) -> Element | None:
        """Return an element outside any category. Raises ParseError if it stands there twice."""
        found = self._found.get((DIRECT, name))
        if found is None:
            return None
        if len(found) > 1:
            raise error_at(found[1], "stands here twice", found[1].text.strip())
        return found[0]

    @property
    def has_extensions(self) -> bool:
        """Tell whether an Extension of our own type is there."""
        return self._has_extensions

    def actual(self, name: str) -> Element | None:
        """Return what the job is or has; see the module. Raises ParseError as `one` does."""
        delivered = self.all(name, DELIVERED)
        if delivered:
            return delivered[0] if len(delivered) == 1 else None
        direct = self.one(name)
        if direct is not None:
            return direct
        requested = self.all(name, REQUESTED)
        return requested[0] if len(requested) == 1 and _op(requested[0]) == "EQ" else None

    def limits(self, name: str) -> list[Element]:
        """Return what limits the job, in any order; see the module. Raises ParseError as `one` does."""
        limiting = [element for element in self.all(name, REQUESTED) if _op(element) in _LIMITING]
        if limiting:
            return limiting
        direct = self.one(name)
        return [] if direct is None or _is_measurement(direct) else [direct]


def _group(job: Element) -> dict[tuple[str, str], list[Element]]:
    found: dict[tuple[str, str], list[Element]] = {}
    for element in job.children:
        if element.name == DELIVERED:
            for each in element.children:
                found.setdefault((DELIVERED, _name_of(each)), []).append(each)
        elif element.name == REQUESTED:
            for each in _plain_requests(element.children):
                found.setdefault((REQUESTED, _name_of(each)), []).append(each)
        elif element.name == "ResourceLimit":  # several limits of different names: each overrides its own
            name = element.attributes.get("name", "")
            found.setdefault((DIRECT, f"ResourceLimit {name}"), []).append(element)
        elif element.name == "Extension" and element.attributes.get("type") == TYPE:
            found.setdefault((DIRECT, f"Extension {element.attributes.get('name', '')}"), []).append(element)
        else:
            found.setdefault((DIRECT, _name_of(element)), []).append(element)
    return found


def _name_of(element: Element) -> str:
    """Return what a property is known by: resources by their own names."""
    return f"Resource {element.attributes.get('name', '')}" if element.name == "Resource" else element.name


def _plain_requests(requests: Sequence[Element]) -> Sequence[Element]:
    """Return the requested properties that are no alternatives; see the module."""
    alternatives = {each.name for each in requests if "preference" in each.attributes or _is_joined(each)}
    if not alternatives:
        return requests
    for before, each in zip((None, *requests), requests, strict=False):
        if _is_joined(each) and (before is None or before.name != each.name):
            return ()
    return [each for each in requests if each.name not in alternatives]


def _is_joined(element: Element) -> bool:
    return element.attributes.get("conj", "And") != "And"


def _is_measurement(element: Element) -> bool:
    return element.attributes.get("context") == "Used" or element.attributes.get("metric", "Total") != "Total"


def _op(element: Element) -> str:
    return element.attributes.get("op", "EQ")
