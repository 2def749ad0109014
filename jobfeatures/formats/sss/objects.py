"""Defines records for the complete content of an SSS document, before defaults are filled in; no I/O.

`SssJobGroup` holds `SssJob`, which holds `SssTaskGroup`, which holds `SssTask`. JobDefaults,
TaskGroupDefaults and TaskDefaults use the same types. Each is a `Scope`, because job properties may occur in
all of them. Positions in the source are ignored when records are compared.

Times are seconds since the epoch, durations seconds. Amounts are in the units of their `units` attribute: see
`amounts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.values import Value, format_value
from jobfeatures.formats.sss.vocabulary import AWARENESS_POLICY
from jobfeatures.formats.sss.xml import DECLARATION, Element, format_element

REQUESTED: Final = "Requested"
DELIVERED: Final = "Delivered"
DIRECT: Final = ""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Property:
    """One property (an element that holds a value): its parsed value, attributes and position.

    A value is a `str`, `int`, `Decimal` or `bool`, a tuple of words (a list), or a tuple of tuples of numbers
    (the geometry of a TaskDistribution).
    """

    name: str
    value: Value
    attributes: Mapping[str, Value] = field(default_factory=dict)
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    def text(self, attribute: str, default: str = "") -> str:
        """Return the value of the attribute of this name, which must be of type String.

        Returns `default` if the attribute is absent.
        """
        value = self.attributes.get(attribute, default)
        return value if isinstance(value, str) else default

    def number(self, attribute: str, default: int = 0) -> int:
        """Return the value of the attribute of this name, which must be of type Integer.

        Returns `default` if the attribute is absent.
        """
        value = self.attributes.get(attribute, default)
        return value if isinstance(value, int) else default

    @property
    def key(self) -> tuple[str, ...]:
        """Return the key by which a property overrides a default.

        It consists of the element's name, and the own name of a limit, resource or extension.
        """
        if self.name in {"ResourceLimit", "Resource", "Extension"}:
            kind = "" if self.name == "ResourceLimit" else self.text("type")
            return (self.name, self.text("name"), kind)
        return (self.name,)

    def error(self, reason: str, text: str = "") -> ParseError:
        """Return a ParseError with this property's name and position."""
        placed = f"column {self.column}: {reason}" if self.column else reason
        return ParseError(placed, line=self.line, field=self.name, text=text)


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference by id to a group, job, task group or task that is defined elsewhere.

    `name` is the name of the element, such as Job.
    """

    name: str  # element name
    id: str


@dataclass(frozen=True, slots=True)
class Environment:
    """Environment variables in order, and whether the submission environment is exported as well.

    `export` is None if the document does not say.
    """

    variables: tuple[Property, ...] = ()  # Variable elements, with the name in an attribute
    export: bool | None = None
    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The common content of jobs, task groups and tasks: properties, by category, and an environment.

    `policy` is the scope's own awareness policy, if it has one.
    """

    properties: tuple[Property, ...] = ()
    requested: tuple[Property, ...] = ()
    delivered: tuple[Property, ...] = ()
    environment: Environment | None = None
    policy: str | None = None
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    def all(self, name: str, category: str = DIRECT) -> Iterator[Property]:
        """Return the properties with this name in a category: DIRECT, REQUESTED or DELIVERED."""
        found = {DIRECT: self.properties, REQUESTED: self.requested, DELIVERED: self.delivered}[category]
        return (each for each in found if each.name == name)

    def one(self, name: str) -> Property | None:
        """Return the only property with this name outside the categories Requested and Delivered.

        Returns None if there is none, or more than one.
        """
        found = list(self.all(name))
        return found[0] if len(found) == 1 else None

    def value(self, name: str, kind: type[T]) -> T | None:
        """Return the value of the property that `one` finds, if it is of this type, else None."""
        found = self.one(name)
        return found.value if found is not None and isinstance(found.value, kind) else None

    @property
    def has_properties(self) -> bool:
        """Return whether the job, task group or task has properties: requested, delivered, or others."""
        return bool(self.properties or self.requested or self.delivered)

    @property
    def id(self) -> str | None:
        """Return the Id of the job, task group or task, None without one."""
        return self.value("Id", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class SssTask(Scope):
    """A Task or TaskDefaults element of a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SssTaskGroup(Scope):
    """A TaskGroup or TaskGroupDefaults element of a document."""

    tasks: tuple[SssTask | Reference, ...] = ()
    task_defaults: SssTask | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SssJob(Scope):
    """A Job or JobDefaults element of a document; `group_id` is the Id of its JobGroup."""

    group_id: str | None = None  # of the enclosing JobGroup
    task_groups: tuple[SssTaskGroup | Reference, ...] = ()
    task_group_defaults: SssTaskGroup | None = None

    def scopes(self) -> Iterator[Scope]:
        """Yield the job and its task groups and tasks, except references."""
        yield self
        for group in self.task_groups:
            if isinstance(group, SssTaskGroup):
                yield group
                yield from (task for task in group.tasks if isinstance(task, Scope))


@dataclass(frozen=True, slots=True, kw_only=True)
class SssJobGroup(Scope):
    """A JobGroup element of a document. It has few properties of its own, and none requested or delivered."""

    jobs: tuple[SssJob | Reference, ...] = ()
    job_defaults: SssJob | None = None


Root = SssJobGroup | SssJob | Reference

# The record type of each container, and the field of each contained element that is not a property.
RECORDS: Final[Mapping[str, type[Scope]]] = {
    "JobGroup": SssJobGroup,
    "Job": SssJob,
    "JobDefaults": SssJob,
    "TaskGroup": SssTaskGroup,
    "TaskGroupDefaults": SssTaskGroup,
    "Task": SssTask,
    "TaskDefaults": SssTask,
}
FIELDS: Final[Mapping[str, str]] = {
    "JobDefaults": "job_defaults",
    "Job": "jobs",
    "TaskGroupDefaults": "task_group_defaults",
    "TaskGroup": "task_groups",
    "TaskDefaults": "task_defaults",
    "Task": "tasks",
}
Changes = dict[str, Any]


def format_object(root: Root) -> str:
    """Format a record as a document that ends with a newline; reading it gives equal records.

    Raises ParseError for a text that XML does not allow.
    """
    name = root.name if isinstance(root, Reference) else _NAMES[type(root)]
    return f"{DECLARATION}\n{format_element(make_element(root, name))}\n"


def make_element(record: Scope | Reference, name: str) -> Element:
    """Convert a record to an XML element; `name` is the element's name, such as Job or JobDefaults."""
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
    for name, attribute in FIELDS.items():
        found = getattr(record, attribute, None)
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
