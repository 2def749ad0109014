"""What an SSS document says, wholly: frozen records, as they were written; no I/O.

`SssJobGroup` holds `SssJob`, that `SssTaskGroup`, that `SssTask`; JobDefaults,
TaskGroupDefaults and TaskDefaults are records of the same kinds. Each is a
`Scope`: job properties may stand in all of them. Places are not compared.

Times are seconds since the epoch, durations seconds; amounts are in the units
that stand beside them: see `amounts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.values import Value

REQUESTED: Final = "Requested"
DELIVERED: Final = "Delivered"
DIRECT: Final = ""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Property:
    """One property: its value as its type has it, and what its attributes say.

    Values are `str`, `int`, `Decimal`, `bool`, a tuple of words (lists) or of
    tuples of numbers (the geometry of a TaskDistribution).
    """

    name: str
    value: Value
    attributes: Mapping[str, Value] = field(default_factory=dict)
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    def text(self, attribute: str, default: str = "") -> str:
        """Return an attribute of type String."""
        value = self.attributes.get(attribute, default)
        return value if isinstance(value, str) else default

    def number(self, attribute: str, default: int = 0) -> int:
        """Return an attribute of type Integer."""
        value = self.attributes.get(attribute, default)
        return value if isinstance(value, int) else default

    @property
    def key(self) -> tuple[str, ...]:
        """Return what tells it from others of its name: limits, resources and extensions have names."""
        if self.name in {"ResourceLimit", "Resource", "Extension"}:
            kind = "" if self.name == "ResourceLimit" else self.text("type")
            return (self.name, self.text("name"), kind)
        return (self.name,)

    def error(self, reason: str, text: str = "") -> ParseError:
        """Return an error at this property's place."""
        placed = f"column {self.column}: {reason}" if self.column else reason
        return ParseError(placed, line=self.line, field=self.name, text=text)


@dataclass(frozen=True, slots=True)
class Reference:
    """A group, job, task group or task that is defined elsewhere, by its id."""

    name: str  # of the element
    id: str


@dataclass(frozen=True, slots=True)
class Environment:
    """Environment variables in their order. `export`: those of the submission as well; None: not said."""

    variables: tuple[Property, ...] = ()  # Variable, its name in an attribute
    export: bool | None = None
    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What may stand in a job, a task group and a task. `policy`: its own awarenessPolicy, if it has one."""

    properties: tuple[Property, ...] = ()
    requested: tuple[Property, ...] = ()
    delivered: tuple[Property, ...] = ()
    environment: Environment | None = None
    policy: str | None = None
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    def all(self, name: str, category: str = DIRECT) -> Iterator[Property]:
        """Return the properties of a name: outside any category, requested, or delivered."""
        found = {DIRECT: self.properties, REQUESTED: self.requested, DELIVERED: self.delivered}[category]
        return (each for each in found if each.name == name)

    def one(self, name: str) -> Property | None:
        """Return the property of a name outside any category, None without one or with several."""
        found = list(self.all(name))
        return found[0] if len(found) == 1 else None

    def value(self, name: str, kind: type[T]) -> T | None:
        """Return the value of a property if it has one, of this type."""
        found = self.one(name)
        return found.value if found is not None and isinstance(found.value, kind) else None

    @property
    def says_anything(self) -> bool:
        """Return whether it has properties."""
        return bool(self.properties or self.requested or self.delivered)

    @property
    def id(self) -> str | None:
        """Return its own id."""
        return self.value("Id", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class SssTask(Scope):
    """A Task or TaskDefaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SssTaskGroup(Scope):
    """A TaskGroup or TaskGroupDefaults."""

    tasks: tuple[SssTask | Reference, ...] = ()
    task_defaults: SssTask | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SssJob(Scope):
    """A Job or JobDefaults."""

    group_id: str | None = None  # of the JobGroup that it stands in
    task_groups: tuple[SssTaskGroup | Reference, ...] = ()
    task_group_defaults: SssTaskGroup | None = None

    def scopes(self) -> Iterator[Scope]:
        """Yield the job, and its task groups and tasks that are no references."""
        yield self
        for group in self.task_groups:
            if isinstance(group, SssTaskGroup):
                yield group
                yield from (task for task in group.tasks if isinstance(task, Scope))


@dataclass(frozen=True, slots=True, kw_only=True)
class SssJobGroup(Scope):
    """A JobGroup: of the properties only its own few, nothing requested or delivered."""

    jobs: tuple[SssJob | Reference, ...] = ()
    job_defaults: SssJob | None = None


Root = SssJobGroup | SssJob | Reference

# The records of the containers, and the fields of what they contain besides properties.
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
