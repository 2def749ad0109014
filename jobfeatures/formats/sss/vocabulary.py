"""Defines the vocabulary of SSS job objects in one table: every element with its type, places and attributes.

Source: Scalable Systems Software Job Object Specification, draft 3.1.0, 26 April 2011. Its published tables
lack the name column; the names here are inferred from the order of the rows, the examples and the prose. All
code that reads or writes SSS documents uses `TABLE`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class Type(enum.Enum):
    """The types of an element's content (section 2.2 of the specification).

    CONTAINER holds other elements.
    """

    STRING = "String"  # surrounding blanks are ignored
    TEXT = "String, blanks included"
    LIST = "String, a list with commas"
    INTEGER = "Integer"
    COUNT = "Integer, not negative"
    FLOAT = "Float"
    AMOUNT = "Float, not negative"
    BOOLEAN = "Boolean"
    GEOMETRY = "String, sets of numbers in braces"
    DATE_TIME = "DateTime"  # seconds since the epoch
    DURATION = "Duration"  # seconds
    CONTAINER = "container"


class ElementPlace(enum.Flag):
    """The elements that another element may be in: JOB means in a Job.

    JOB, TASK_GROUP and TASK also mean in the element that gives defaults for these, such as JobDefaults. The
    outermost element has the place DOCUMENT.
    """

    DOCUMENT = enum.auto()
    JOB_GROUP = enum.auto()
    JOB = enum.auto()
    TASK_GROUP = enum.auto()
    TASK = enum.auto()
    ENVIRONMENT = enum.auto()
    REQUESTED = enum.auto()
    DELIVERED = enum.auto()


# Task groups and tasks may hold any job property: sections 6.0 and 7.0.
_JOB_PROPERTY = ElementPlace.JOB | ElementPlace.TASK_GROUP | ElementPlace.TASK
_CATEGORIZED = _JOB_PROPERTY | ElementPlace.REQUESTED | ElementPlace.DELIVERED

# The forms of contents and attribute values by type, after surrounding blanks are stripped: regular
# expressions that mean the same in Python and in a schema. Types not listed are free text.
_FLOAT = r"([0-9]{1,32}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+\-]?[0-9]{1,2})?"
FORMS: Final[Mapping[Type, str]] = {
    Type.INTEGER: r"[+\-]?[0-9]{1,19}",
    Type.COUNT: r"\+?[0-9]{1,19}",
    Type.DATE_TIME: r"\+?[0-9]{1,19}",
    Type.DURATION: r"\+?[0-9]{1,19}",
    Type.FLOAT: rf"[+\-]?{_FLOAT}",
    Type.AMOUNT: _FLOAT,
    Type.BOOLEAN: "[Tt]rue|[Ff]alse",
    Type.GEOMETRY: r"( ?\{ ?[0-9]{1,9}( ?, ?[0-9]{1,9})* ?\})+",
}

_NAMED = ("name", "type")
_LISTED = ("aggregation", "delimiter")
_CONSUMABLE = ("context", "units", "metric", "duration", "consumptionRate", "dynamic")

AWARENESS_POLICY: Final = "awarenessPolicy"
EVERYWHERE: Final = (AWARENESS_POLICY,)  # section 9.0
INHERITED: Final[Mapping[ElementPlace, tuple[str, ...]]] = {
    ElementPlace.REQUESTED: ("op", "conj", "group", "preference", "performanceFactor"),  # section 8.1
    ElementPlace.DELIVERED: ("group",),  # section 8.2
}


@dataclass(frozen=True, slots=True)
class Term:
    """One row of the vocabulary: an element, its type, its possible parents and its attributes.

    `section` is the section of the specification. `many` says that a container may hold several such elements
    (Requested and Delivered may hold several of any element). `needs` are the required attributes.
    """

    section: str
    name: str
    type: Type
    places: ElementPlace = _JOB_PROPERTY
    attributes: tuple[str, ...] = ()
    many: bool = False
    needs: tuple[str, ...] = ()


_S, _I, _N, _F, _B = Type.STRING, Type.INTEGER, Type.COUNT, Type.AMOUNT, Type.BOOLEAN
_TIME, _SECS, _HOLDS = Type.DATE_TIME, Type.DURATION, Type.CONTAINER

TABLE: Final[tuple[Term, ...]] = (
    # Containers
    Term("4.0", "JobGroup", _HOLDS, ElementPlace.DOCUMENT),
    Term("5.0", "Job", _HOLDS, ElementPlace.DOCUMENT | ElementPlace.JOB_GROUP, many=True),
    Term("5.0", "JobDefaults", _HOLDS, ElementPlace.JOB_GROUP),
    Term("6.0", "TaskGroup", _HOLDS, ElementPlace.JOB, many=True),
    Term("6.0", "TaskGroupDefaults", _HOLDS, ElementPlace.JOB),
    Term("7.0", "Task", _HOLDS, ElementPlace.TASK_GROUP, many=True),
    Term("7.0", "TaskDefaults", _HOLDS, ElementPlace.TASK_GROUP),
    Term("8.1", "Requested", _HOLDS, many=True),
    Term("8.2", "Delivered", _HOLDS, many=True),
    Term("5.1", "Environment", _HOLDS, attributes=("export",)),
    Term(
        "5.1",
        "Variable",
        Type.TEXT,
        ElementPlace.ENVIRONMENT,
        attributes=("name",),
        many=True,
        needs=("name",),
    ),
    # Simple job group properties
    Term("4.1", "CreationTime", _TIME, ElementPlace.JOB_GROUP),
    Term("4.1", "Description", _S, ElementPlace.JOB_GROUP),
    Term("4.1", "Id", _S, ElementPlace.JOB_GROUP),
    Term("4.1", "Name", _S, ElementPlace.JOB_GROUP),
    Term("4.1", "State", _S, ElementPlace.JOB_GROUP),
    # Simple job properties
    Term("5.1", "Application", _S),
    Term("5.1", "Architecture", _S, _CATEGORIZED),
    Term("5.1", "Arguments", _S),
    Term("5.1", "Charge", Type.FLOAT, attributes=("units",)),  # units: as in the elaborate example
    Term("5.1", "Checkpointable", _B),
    Term("5.1", "CpuDuration", _SECS),
    Term("5.1", "DeadlineTime", _TIME),
    Term("5.1", "EligibleTime", _TIME),
    Term("5.1", "EndTime", _TIME),
    Term("5.1", "Executable", _S),
    Term("5.1", "ExitCode", _I),
    Term("5.1", "GlobalId", _S),
    Term("5.1", "Hold", _S, many=True),
    Term("5.1", "InitialWorkingDirectory", _S),
    Term("5.1", "Interactive", _B),
    Term("5.1", "Id", _S, ElementPlace.JOB),
    Term("5.1", "Name", _S, ElementPlace.JOB | ElementPlace.TASK),
    Term("5.1", "State", _S),
    Term("5.1", "Type", _S),
    Term("5.1", "Machine", _S, _CATEGORIZED),
    Term("5.1", "NetworkType", _S, _CATEGORIZED),
    Term("5.1", "NodeCount", _N, _CATEGORIZED),
    Term("5.1", "OperatingSystem", _S, _CATEGORIZED),
    Term("5.1", "Partition", _S, _CATEGORIZED),
    Term("5.1", "Priority", _I),
    Term("5.1", "QualityOfService", _S, _CATEGORIZED),
    Term("5.1", "Queue", _S, _CATEGORIZED),
    Term("5.1", "Quote", _S),
    Term("5.1", "Reservation", _S, _CATEGORIZED),
    Term("5.1", "ReservationTime", _TIME),
    Term("5.1", "ResourceManagerType", _S, _CATEGORIZED),
    Term("5.1", "Restartable", _B),
    Term("5.1", "Shell", _S),
    Term("5.1", "StagedTime", _TIME),
    Term("5.1", "StartCount", _N),
    Term("5.1", "StartTime", _TIME),
    Term("5.1", "StatusMessage", _S),
    Term("5.1", "SubmitTime", _TIME),
    Term("5.1", "SubmitHost", _S),
    Term("5.1", "Suspendable", _B),
    Term("5.1", "SuspendDuration", _N),
    Term("5.1", "TimeCategory", _S),
    Term("5.1", "Duration", _SECS, _CATEGORIZED, attributes=("units",)),  # units: an addition, see UNITS
    # Other job properties
    Term("5.1", "Feature", _S, _CATEGORIZED, attributes=_LISTED),
    Term("5.1", "OutputFile", _S, attributes=("redirectList",)),
    Term("5.1", "ErrorFile", _S, attributes=("redirectList",)),
    Term("5.1", "InputFile", _S, attributes=("redirectList",)),
    Term("5.1", "NotificationList", Type.LIST, attributes=("uri",), many=True),
    Term("5.1", "ResourceLimit", _S, attributes=_NAMED, many=True, needs=("name",)),
    Term("5.1", "Node", _S, _CATEGORIZED, attributes=(*_LISTED, "count")),
    Term("5.1", "TaskDistribution", _S, attributes=("type",)),
    Term("5.1", "Dependency", _S, attributes=("condition", "code", "designator"), many=True),
    Term("5.1", "Extension", _S, attributes=_NAMED, many=True, needs=("name",)),
    # Credentials
    Term("5.1", "Project", _S, _CATEGORIZED),
    Term("5.1", "Account", _S, _CATEGORIZED),  # another name of Project, in the examples of section 8
    Term("5.1", "GlobalUser", _S, _CATEGORIZED),
    Term("5.1", "Group", _S, _CATEGORIZED),
    Term("5.1", "User", _S, _CATEGORIZED),
    # Consumable resources
    Term("5.1", "Disk", _F, _CATEGORIZED, attributes=_CONSUMABLE),
    Term("5.1", "Memory", _F, _CATEGORIZED, attributes=_CONSUMABLE),
    Term("5.1", "Network", _F, _CATEGORIZED, attributes=_CONSUMABLE),
    Term("5.1", "Processors", _N, _CATEGORIZED, attributes=_CONSUMABLE),
    Term("5.1", "Swap", _F, _CATEGORIZED, attributes=_CONSUMABLE),
    Term("5.1", "Resource", _F, _CATEGORIZED, (*_NAMED, *_CONSUMABLE), many=True, needs=("name",)),
    # Task group properties
    Term("6.1", "TaskCount", _N, ElementPlace.TASK_GROUP),
    Term("6.1", "Id", _S, ElementPlace.TASK_GROUP),
    Term("6.1", "Name", _S, ElementPlace.TASK_GROUP),
    # Task properties
    Term("7.1", "Session", _N, many=True),  # "session id for the task group or job": these may hold it, too
    Term("7.1", "Id", _S, ElementPlace.TASK),
    Term("1.3", "Process", _N, ElementPlace.TASK, many=True),  # in the elaborate example only
)

CONSUMABLES: Final = frozenset(each.name for each in TABLE if each.attributes[-6:] == _CONSUMABLE)

_PLACE_INSIDE: Final[Mapping[str, ElementPlace]] = {
    "JobGroup": ElementPlace.JOB_GROUP,
    "Job": ElementPlace.JOB,
    "JobDefaults": ElementPlace.JOB,
    "TaskGroup": ElementPlace.TASK_GROUP,
    "TaskGroupDefaults": ElementPlace.TASK_GROUP,
    "Task": ElementPlace.TASK,
    "TaskDefaults": ElementPlace.TASK,
    "Requested": ElementPlace.REQUESTED,
    "Delivered": ElementPlace.DELIVERED,
    "Environment": ElementPlace.ENVIRONMENT,
}


@dataclass(frozen=True, slots=True)
class Slot:
    """An element at one of its possible places: its row of the vocabulary, and the attributes it may have."""

    term: Term
    attributes: frozenset[str]


def _slots(place: ElementPlace) -> Mapping[str, Slot]:
    inherited = (*EVERYWHERE, *INHERITED.get(place, ()))
    return {
        term.name: Slot(term, frozenset((*term.attributes, *inherited)))
        for term in TABLE
        if place in term.places
    }


CONTENT: Final[Mapping[str, Mapping[str, Slot]]] = {
    container: _slots(place) for container, place in _PLACE_INSIDE.items()
}
ROOTS: Final[Mapping[str, Slot]] = _slots(ElementPlace.DOCUMENT)

# The elements that the specification requires, by container. For groups: "one or more jobs".
REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {"Job": ("Id",), "JobGroup": ("Id", "Job")}

SIZE_UNITS: Final[Mapping[str, int]] = {  # appendix A
    unit: 1024**power
    for power, unit in enumerate(("B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB", "NB", "DB"))
}
# The specification gives durations in seconds and names no units of time; these are accepted in addition.
TIME_UNITS: Final[Mapping[str, int]] = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
UNITS: Final[Mapping[str, tuple[Mapping[str, int], str]]] = {  # units and default unit, by element
    "Memory": (SIZE_UNITS, "MB"),
    "Swap": (SIZE_UNITS, "MB"),
    "Disk": (SIZE_UNITS, "MB"),
    "Duration": (TIME_UNITS, "seconds"),
    "Processors": ({}, ""),  # a count, without units
}

ATTRIBUTE_TYPES: Final[Mapping[str, Type]] = {
    "duration": Type.DURATION,
    "consumptionRate": Type.AMOUNT,
    "dynamic": Type.BOOLEAN,
    "export": Type.BOOLEAN,
    "count": Type.COUNT,
    "code": Type.INTEGER,
    "group": Type.INTEGER,
    "preference": Type.INTEGER,
    "performanceFactor": Type.FLOAT,
    "delimiter": Type.TEXT,
    "redirectList": Type.LIST,
}  # all others are String
_STREAM = frozenset({"Append", "Close", "Flush", "Keep", "Merge"})
VALUES: Final[Mapping[str, frozenset[str]]] = {  # of attributes with listed values; for lists, of each word
    "op": frozenset({"EQ", "NE", "LT", "GT", "LE", "GE", "Match"}),
    "conj": frozenset({"And", "Or", "Nand", "Nor"}),
    "context": frozenset({"Configured", "Available", "Used", "Dedicated"}),
    "aggregation": frozenset({"List", "Pattern", "Range"}),
    "Feature@aggregation": frozenset({"List", "Pattern"}),
    "condition": frozenset({"OnSuccess", "OnFailure", "OnExit"}),
    "designator": frozenset({"JobId", "JobName"}),
    "ResourceLimit@type": frozenset({"Hard", "Soft"}),
    "TaskDistribution@type": frozenset({"Rule", "TasksPerNode", "ProcessorsPerTask", "Geometry"}),
    "InputFile@redirectList": frozenset({"Close"}),
    "OutputFile@redirectList": _STREAM,
    "ErrorFile@redirectList": _STREAM,
    AWARENESS_POLICY: frozenset({"Reject", "Warn", "Ignore"}),
}
DISTRIBUTIONS: Final[Mapping[str, Type]] = {  # what a TaskDistribution of a type contains
    "TasksPerNode": Type.COUNT,
    "ProcessorsPerTask": Type.COUNT,
    "Geometry": Type.GEOMETRY,
}


def words_of(element: str, attribute: str) -> frozenset[str] | None:
    """Return the allowed values of an element's attribute; None if the specification does not list them."""
    if attribute == "units" and element in UNITS:
        return frozenset(UNITS[element][0])
    return VALUES.get(f"{element}@{attribute}", VALUES.get(attribute))


def type_of(attribute: str) -> Type:
    """Return the type of an attribute's value."""
    return ATTRIBUTE_TYPES.get(attribute, Type.STRING)
