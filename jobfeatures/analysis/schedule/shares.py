"""Defines shares: how much of each resource a user may expect. Pure functions.

A configured share of processors or GPUs may be a fraction, down to a thousandth; one of memory is in whole
KiB. A share configured for a user takes precedence. Next comes the share of a group of the user: the largest
one, if several of the user's groups have shares. Else the default applies: the configured one, or exactly the
machine's total divided by the number of its users.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Final

from jobfeatures.errors import ConfigurationError, ParseError, shown
from jobfeatures.records.quantities import parse_binary_size

CPU: Final = "cpu"
MEMORY: Final = "memory"
GPU: Final = "gpu"
RESOURCES: Final = (CPU, MEMORY, GPU)
FIELDS: Final = ("user", "group", "queue", "partition")  # by which jobs are grouped and filtered
# Steps per unit of a share: thousandths of a processor, whole KiB.
STEPS: Final = {CPU: 1000, MEMORY: 1, GPU: 1000}
KIB: Final = 1024
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?\Z", re.ASCII)
_GROUP = "group:"
_USER = "user:"

Amounts = dict[str, int]  # by resource, in steps


@dataclass(frozen=True, slots=True)
class ShareRules:
    """The configured shares and machine totals, by resource.

    Amounts are in steps: a step is a thousandth of a CPU or GPU, or a KiB of memory.
    """

    default: Amounts = field(default_factory=dict)
    users: dict[str, Amounts] = field(default_factory=dict)
    groups: dict[str, Amounts] = field(default_factory=dict)
    totals: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The users' shares of one resource in one log.

    Amounts are in steps: a step is a thousandth of a CPU or GPU, or a KiB of memory. `users` holds the shares
    that differ from the default, `groups` the configured shares of groups. `total_from` and `default_from`
    say where these values come from.
    """

    resource: str
    default: int | Fraction
    total: int
    total_from: str  # "given", "log", "most in use"
    default_from: str  # "given", "total / users"
    users: Amounts = field(default_factory=dict)  # by user, where not the default
    groups: Amounts = field(default_factory=dict)  # as given

    def of(self, user: str) -> int | Fraction:
        """Return a user's share, in steps: thousandths of a CPU or GPU, or KiB."""
        return self.users.get(user, self.default)

    def scaled_share(self, user: str, scale: int) -> int:
        """Return a user's share in processors, GPUs or KiB, multiplied by `scale`.

        It is exact if the argument is a multiple of the property `scale`, else rounded down.
        """
        return int(self.of(user) * scale / Fraction(STEPS[self.resource]))

    @property
    def scale(self) -> int:
        """Return the least factor that makes all shares, in processors, GPUs or KiB, whole numbers."""
        step = STEPS[self.resource]
        return math.lcm(*(Fraction(each, step).denominator for each in (self.default, *self.users.values())))


def make_shares(
    resource: str,
    rules: ShareRules,
    *,
    total: int,
    total_from: str,
    all_users: int,
    groups_of: Mapping[str, Iterable[str]],
) -> Shares:
    """Compute the users' shares of a resource by the configured rules.

    `total` is the machine's amount (thousandths of a CPU or GPU, or KiB), unless the rules give one;
    `total_from` says where it comes from. If the rules have no default share, the default is the total ÷
    `all_users`, the number of users. `groups_of` holds the groups of each user; it may be empty if no group
    has a share.
    """
    if resource in rules.totals:
        total, total_from = rules.totals[resource], "given"
    default = rules.default.get(resource)
    equal = Fraction(total, max(1, all_users))
    of_groups = {name: each[resource] for name, each in rules.groups.items() if resource in each}
    users: Amounts = {}
    for user, groups in groups_of.items():
        found = [of_groups[group] for group in groups if group in of_groups]
        if found:
            users[user] = max(found)
    users.update({name: each[resource] for name, each in rules.users.items() if resource in each})
    return Shares(
        resource=resource,
        default=equal if default is None else default,
        total=total,
        total_from=total_from,
        default_from="total / users" if default is None else "given",
        users=users,
        groups=of_groups,
    )


def plain(resource: str, amount: int | Fraction) -> int | float:
    """Convert thousandths of a CPU or GPU to CPUs or GPUs, such as 1.5; memory remains in KiB.

    A whole number becomes an int.
    """
    found = Fraction(amount, STEPS[resource])
    return found.numerator if found.denominator == 1 else float(found)


def split_list(text: str) -> list[tuple[str, list[str]]]:
    """Split a list of settings: ``a=1,b=2,3`` → [("a", ["1"]), ("b", ["2", "3"])].

    Values before the first name have the name "".
    """
    found: list[tuple[str, list[str]]] = []
    for piece in text.split(","):
        name, is_named, value = piece.partition("=")
        if is_named:
            found.append((name.strip(), [value.strip()]))
        elif found:
            found[-1][1].append(piece.strip())
        else:
            found.append(("", [piece.strip()]))
    return found


def parse_amounts(key: str, text: str, resources: Sequence[str]) -> Amounts:
    """Parse amounts such as ``cpu=4,memory=16GiB``; return a dictionary from resource to amount.

    Amounts are returned in thousandths of a CPU or GPU, or in KiB of memory. A number without a name is an
    amount of the first of `resources`. Raises ConfigurationError, which names the setting `key`, for a
    malformed amount or a resource that is not in `resources`.
    """
    found: Amounts = {}
    for name, values in split_list(text):
        resource = name or resources[0]
        if len(values) != 1:
            raise ConfigurationError(key, f"must be one amount, not {shown(','.join(values))}")
        _check_known(key, resource, resources)
        found[resource] = parse_amount(key, values[0], resource)
    return found


def parse_shares_of(
    key: str, texts: Iterable[str], resources: Sequence[str]
) -> tuple[dict[str, Amounts], ...]:
    """Parse shares of users and groups, such as ``alice=4,group:staff=20,bob=cpu:2``.

    Returns the amounts of users, and those of groups, by name; an amount is as `parse_amount` returns it.
    Raises ConfigurationError, which names the setting `key`, for anything malformed.
    """
    users: dict[str, Amounts] = {}
    groups: dict[str, Amounts] = {}
    for text in texts:
        for name, values in split_list(text):
            where = groups if name.startswith(_GROUP) else users
            bare = name.removeprefix(_GROUP) if where is groups else name.removeprefix(_USER)
            if not bare:
                raise ConfigurationError(key, f"must be USER=AMOUNT, not {shown(text)}")
            mine = where.setdefault(bare, {})
            for value in values:
                first, is_named, second = value.partition(":")
                resource, amount = (first, second) if is_named else (resources[0], first)
                _check_known(key, resource, resources)
                mine[resource] = parse_amount(key, amount, resource)
    return users, groups


def parse_filters(texts: list[str]) -> dict[tuple[str, bool], set[str]]:
    """Parse filters such as ``queue=long,short`` or ``user!=bob``.

    Returns a dictionary. A key is a pair of the field and whether its values are excluded; a value is the set
    of the field's values. Raises ConfigurationError for an unknown field.
    """
    found: dict[tuple[str, bool], set[str]] = {}
    for text in texts:
        for name, values in split_list(text):
            field = name.removesuffix("!")
            if field not in FIELDS:
                raise ConfigurationError("--filter", f"{shown(field)} is not one of {', '.join(FIELDS)}")
            found.setdefault((field, name.endswith("!")), set()).update(values)
    return found


def parse_words(key: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Parse a comma-separated list of words; repeated words are dropped.

    Raises ConfigurationError, which names the setting `key`, for a word that is not in `known`.
    """
    found = dict.fromkeys(word.strip() for word in text.split(","))
    for word in found:
        if word not in known:
            raise ConfigurationError(key, f"{shown(word)} is not one of {', '.join(known)}")
    return tuple(found)


def parse_amount(key: str, text: str, resource: str) -> int:
    """Parse one amount of a resource; return thousandths of a CPU or GPU, or KiB of memory, rounded down.

    An amount is a number with at most three decimals, or, of memory, a size with a unit: without one it could
    be in kibibytes or bytes. Raises ConfigurationError, which names the setting `key`, for any other text.
    """
    if resource == MEMORY:
        if text.isdigit() and text.strip("0"):
            raise ConfigurationError(key, f"needs a unit, KiB or GiB: {shown(text)}")
        try:
            return parse_binary_size(text.removesuffix("iB"), bare_unit="K") // KIB
        except ParseError as error:
            raise ConfigurationError(key, str(error)) from None
    if not _NUMBER.match(text):
        raise ConfigurationError(key, f"must be a number, 0 or more, not {shown(text)}")
    steps = Decimal(text) * STEPS[resource]
    if steps != int(steps):
        raise ConfigurationError(key, f"has more than 3 decimals: {shown(text)}")
    return int(steps)


def _check_known(key: str, resource: str, resources: Sequence[str]) -> None:
    if resource not in resources:
        raise ConfigurationError(
            key, f"{shown(resource)} is not one of the resources: {', '.join(resources)}"
        )
