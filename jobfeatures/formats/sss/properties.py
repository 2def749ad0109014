"""Finds the values that a job states, and which value counts if there are several. Pure.

A document gives a property in the category Requested, in Delivered, or outside both. These rules choose:

- What a job is or has: the Delivered value, else the one outside both
  categories, else the Requested one. A Requested value counts only with op EQ,
  which is the default. Several values in the category chosen leave the
  property unknown.
- A limit: the lowest ResourceLimit, else the lowest Requested value with op
  EQ, LE or LT. For LT, the value itself is taken. GE, GT, NE and Match set no
  upper bound. Without any of these, the value outside both categories counts,
  unless it is a measurement: context "Used", or a metric other than "Total".
- Alternatives among Requested values are marked by a conj other than And, or
  by a preference. They leave the property unknown. If they join different
  properties, no Requested value of the job is used.
- A property that the job does not state is summed over the job's task groups.
  The value of each task group is multiplied by its TaskCount. A task group
  that does not state the property has the sum over its tasks.
- Processors stated nowhere are one per task ("a job that requests 3 nodes and
  4 processors will have 4 tasks", section 3.0), unless a TaskDistribution
  gives another number.
- A sum with an unknown part is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss import extensions, values
from jobfeatures.formats.sss.amounts import amount_of
from jobfeatures.formats.sss.objects import (
    DELIVERED,
    DIRECT,
    REQUESTED,
    Property,
    Scope,
    SssJob,
    SssTask,
    SssTaskGroup,
)
from jobfeatures.formats.sss.values import parse_value
from jobfeatures.formats.sss.vocabulary import Type
from jobfeatures.records.model import UNLIMITED, JobState, Limit, Unlimited

_LIMITING: Final = frozenset({"EQ", "LE", "LT"})
_MEGABYTES: Final = frozenset({"MaxMemory", "MaxMemorySize", "MaxDisk", "Swap"})


class JobProperties:
    """The properties of a job, task group or task, by category and name ("Resource GPU" for a resource).

    `used` collects the `id()` of each property that has given a value.
    """

    def __init__(self, job: Scope, used: set[int] | None = None) -> None:
        self._scope = job
        self.used: set[int] = set() if used is None else used
        self._found: dict[tuple[str, str], list[Property]] = {}
        self._alternatives = _alternatives(job.requested)  # None: all requested properties
        self._extended: dict[str, Property] = {}
        categories = ((DIRECT, job.properties), (DELIVERED, job.delivered), (REQUESTED, job.requested))
        for category, properties in categories:
            for each in properties:
                name = each.name
                if name in {"Resource", "ResourceLimit"}:
                    name += f" {each.text('name')}"
                elif name == "Extension" and each.text("type") == extensions.TYPE:
                    self._extended[each.text("name")] = each
                self._found.setdefault((category, name), []).append(each)

    def all(self, name: str, category: str = DIRECT) -> list[Property]:
        """Return all properties with this name in a category; DIRECT means outside the named categories."""
        return self._found.get((category, name), [])

    def actual(self, name: str) -> Property | None:
        """Return the Delivered property of this name, else the one outside any category, else the Requested.

        Returns None if there is none or more than one, if its op is not EQ, or if it is an alternative.
        """
        for category in (DELIVERED, DIRECT, REQUESTED):
            found = self.all(name, category)
            if found:
                is_stated = len(found) == 1 and found[0].text("op", "EQ") == "EQ"
                is_choice = category == REQUESTED and self._is_alternative(name)
                return self.mark_used(found[0]) if is_stated and not is_choice else None
        return None

    def mark_used(self, each: Property) -> Property:
        """Record in `used` that a property was looked up and gave a value; return the property."""
        self.used.add(id(each))
        return each

    def _is_alternative(self, name: str) -> bool:
        return self._alternatives is None or name.partition(" ")[0] in self._alternatives

    def first(self, *names: str) -> Property | None:
        """Look up `names` in order by `actual`; return the first property that has a value, or None."""
        return next((each for name in names if (each := self.actual(name)) and each.value), None)

    def text(self, *names: str) -> str | None:
        """Return the text of the property that `first` finds; None if it finds none."""
        found = self.first(*names)
        return None if found is None else str(found.value)

    def direct_number(self, name: str) -> int | None:
        """Return the integer value of a property that is neither in Requested nor in Delivered.

        Returns None if the property is absent, stated several times, or no integer.
        """
        found = self.all(name)
        value = self.mark_used(found[0]).value if len(found) == 1 else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def direct_flag(self, name: str) -> bool | None:
        """Return the Boolean value of a property that is neither in Requested nor in Delivered.

        Returns None if the property is absent or stated several times.
        """
        found = self.all(name)
        return self.mark_used(found[0]).value is True if len(found) == 1 else None

    def extension(self, name: str) -> Property | None:
        """Return the Extension of this name and of type "jobfeatures", even an empty one; None if absent."""
        return self._extended.get(name)

    def extension_value(self, name: str) -> Any:
        """Return the value of the Extension that `extension` finds; None if it is absent or empty.

        Raises ParseError if the value is not of the type of its field.
        """
        found = self._extended.get(name)
        if found is None or not found.value:
            return None
        try:
            return parse_value(extensions.FIELDS[name], str(self.mark_used(found).value))
        except ParseError as error:
            raise found.error(error.reason, error.text) from None

    def state(self) -> JobState:
        """Return the job's state; UNKNOWN if its word is not a known state."""
        word = self.text("State")
        state = extensions.STATES.get(word or "", JobState.UNKNOWN)
        return extensions.exact_state(word, self.extension_value("state")) or state

    def quantity(self, name: str) -> int | None:
        """Return the value of the property that `actual` finds, as an integer; None if it finds none.

        Memory is in bytes, time in seconds.
        """
        found = self.actual(name)
        return None if found is None else whole_amount(found)

    def amount(self, name: str, *categories: str) -> int | None:
        """Return the amount in the first of `categories` that has the property; None if none has.

        Requests count if their op is EQ or GE. The amount is in bytes, in seconds, or a plain number.
        """
        for category in categories:
            found = self.all(name, category)
            if not found:
                continue
            is_least = all(each.text("op", "EQ") in {"EQ", "GE"} for each in found)
            if is_least and (len(found) == 1 or (category == REQUESTED and self._is_choice(found))):
                return min(whole_amount(self.mark_used(each)) for each in found)
        return None

    def _is_choice(self, found: Sequence[Property]) -> bool:
        """Return whether these requests of one property are alternatives: any one of them suffices."""
        rest = all(each.text("conj") == "Or" for each in found[1:])
        weighed = all(each.number("preference") > 0 for each in found)
        return self._alternatives is not None and (rest or weighed)

    def memory_limit(self) -> Limit:
        """Return the job's memory limit in bytes: its own limit, or the sum of its task groups' limits."""
        names = ("MaxMemory", "MaxMemorySize")
        return self._total("Memory", lambda each: each.limit("Memory", *names), by_tasks=False)

    def memory_wanted(self) -> int | None:
        """Return the bytes of memory requested with op GE, by the job or summed over its task groups."""

        def least(each: JobProperties) -> int | None:
            is_least = all(request.text("op") == "GE" for request in each.all("Memory", REQUESTED))
            return each.amount("Memory", REQUESTED) if is_least else None

        found = self._total("Memory", least, by_tasks=False)
        return found if isinstance(found, int) else None

    def processors(self, amount: Callable[[JobProperties], Limit], *, by_tasks: bool = True) -> int | None:
        """Return a job's number of processors; None if unknown.

        `amount` reads the number from the properties of a job, a task group or a task. If the job has none,
        the numbers of its task groups are summed. If these have none either, each task counts as one
        processor (`by_tasks`).
        """
        found = self._total("Processors", amount, by_tasks=by_tasks)
        return found if isinstance(found, int) else None

    def _total(self, name: str, amount: Callable[[JobProperties], Limit], *, by_tasks: bool) -> Limit:
        own = amount(self)
        scope = self._scope
        if own is not None or self.mentions(name) or not isinstance(scope, SssJob) or _is_implicit(scope):
            return own
        used: set[int] = set()
        found = _sum(
            _of_group(each, name, amount, used, by_tasks=by_tasks) if isinstance(each, SssTaskGroup) else None
            for each in scope.task_groups
        )
        if isinstance(found, int) and found > values.MAX_NUMBER:
            raise ParseError("the sum over all task groups is too large", field=name, text=str(found))
        if found is not None:
            self.used |= used
        return found

    def mentions(self, name: str) -> bool:
        """Return whether the job states a property with this name, in any category or outside of them."""
        return any(self.all(name, category) for category in (DIRECT, REQUESTED, DELIVERED))

    def limit(self, name: str, *limits: str, is_used: bool = False) -> Limit:
        """Return the first of the ResourceLimits named `limits`, else the limit that property `name` sets.

        A Soft limit counts only if there is no other of its name. With `is_used`, a value of the property
        outside any category is the amount used, not a limit.
        """
        for each in limits:
            found = self.all(f"ResourceLimit {each}")
            if hard := [limit for limit in found if limit.text("type") != "Soft"] or found:
                amounts = [_resource_limit(self.mark_used(limit)) for limit in hard]
                return min((each for each in amounts if not isinstance(each, Unlimited)), default=UNLIMITED)
        requests = [each for each in self.all(name, REQUESTED) if each.text("op", "EQ") in _LIMITING]
        if requests:
            if self._is_alternative(name):
                return None
            return min(whole_amount(self.mark_used(each)) for each in requests)
        direct = self.all(name)
        if len(direct) != 1 or is_used or direct[0].text("context") == "Used":
            return None
        is_total = direct[0].text("metric", "Total") == "Total"
        return whole_amount(self.mark_used(direct[0])) if is_total else None


def _is_implicit(job: SssJob) -> bool:
    """Return whether a job has only the implicit task group and task, as most jobs in logs do."""
    group = job.task_groups[0] if len(job.task_groups) == 1 else None
    return (
        isinstance(group, SssTaskGroup)
        and not group.has_properties
        and len(group.tasks) == 1
        and (isinstance(group.tasks[0], SssTask) and not group.tasks[0].has_properties)
    )


def _of_group(
    group: SssTaskGroup,
    name: str,
    amount: Callable[[JobProperties], Limit],
    used: set[int],
    *,
    by_tasks: bool,
) -> Limit:
    stated = JobProperties(group, used)
    count = stated.direct_number("TaskCount")
    if stated.mentions(name):
        return _times(amount(stated), count)
    tasks = [JobProperties(each, used) for each in group.tasks if isinstance(each, SssTask)]
    if any(each.mentions(name) for each in tasks):
        return _times(_sum(map(amount, tasks)), count if len(tasks) == 1 else None)
    if not by_tasks or count is None:
        return None
    distribution = group.one("TaskDistribution")
    per_task = distribution.value if distribution is not None else None
    if distribution is None or distribution.text("type") != "ProcessorsPerTask":
        return count
    stated.mark_used(distribution)
    return _times(per_task if isinstance(per_task, int) else None, count)


def _times(amount: Limit, count: int | None) -> Limit:
    return amount * count if isinstance(amount, int) and count is not None else amount


def _sum(amounts: Iterable[Limit]) -> Limit:
    found = list(amounts)
    numbers = [each for each in found if isinstance(each, int)]
    if None in found or not found:
        return None
    return sum(numbers) if len(numbers) == len(found) else UNLIMITED


def whole_amount(each: Property) -> int:
    """Return a property's value as an integer, rounded down: memory in bytes, time in seconds.

    Raises ParseError if the number has more than 63 bits.
    """
    amount = int(amount_of(each))
    if amount > values.MAX_NUMBER:
        raise each.error("number too large", str(each.value))
    return amount


def _resource_limit(each: Property) -> int | Unlimited:
    """Return the value of a ResourceLimit; memory, swap and disk are in megabytes. Raises ParseError."""
    text, name = str(each.value), each.text("name")
    if text.lower() == "unlimited":
        return UNLIMITED
    is_size = name in _MEGABYTES
    try:
        value = parse_value(Type.AMOUNT if is_size else Type.COUNT, text)
    except ParseError as error:
        raise each.error(error.reason, error.text) from None
    return whole_amount(Property("Memory" if is_size else name, value, line=each.line, column=each.column))


def _alternatives(requests: Sequence[Property]) -> frozenset[str] | None:
    """Return the names requested as alternatives, None if the entire request is one expression."""
    for before, each in zip((None, *requests), requests, strict=False):
        if _is_joined(each) and (before is None or before.name != each.name):
            return None
    return frozenset(each.name for each in requests if "preference" in each.attributes or _is_joined(each))


def _is_joined(each: Property) -> bool:
    return each.text("conj", "And") != "And"
