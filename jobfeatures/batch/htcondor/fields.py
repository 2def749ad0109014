"""Reads attributes of an ad as ids, counts, times and texts. Pure.

An attribute that is absent, one that is zero and one that is malformed are told apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from jobfeatures.batch.basics import MAX_EPOCH_SECS, Note
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.classad.ad import MAX_INTEGER, ClassAd, Expression, Special, Value

NAME = "htcondor"
KIB = 1024
MIB = 1024**2

_NUMBER = r"[1-9][0-9]{0,18}\.(?:0|[1-9][0-9]{0,18})"
_ID = re.compile(rf"{_NUMBER}(?:@[^#\s]{{1,255}})?\Z")
# Source: HTCondor manual, "Job ClassAd Attributes": schedd's name, ClusterId.ProcId and QDate.
_GLOBAL = re.compile(rf"(?P<schedd>[^#\s]{{1,255}})#(?P<number>{_NUMBER})#[0-9]+\Z")
# Of numbers, as macros such as $(HOUR) make them: ``10 * 60`` is a default of HTCondor's own.
_PRODUCT = re.compile(r"[\s(]*[0-9]{1,9}[\s)]*(?:\*[\s(]*[0-9]{1,9}[\s)]*){1,8}", re.ASCII)

Evaluate = Callable[[Expression, ClassAd], Value]
SITE_LIMITS: Final = ("BatchRuntime", "MaxRuntime")  # by HTCondor-CE, and by some sites


class AdReadingOptions(NamedTuple):
    """The options for reading ads.

    `note` is called with each malformed value. `evaluate` evaluates expressions; without it only products of
    numbers have a value. `site_limits` names the job attributes that hold a site's own wall limits.
    """

    note: Note = lambda _: None
    evaluate: Evaluate | None = None
    site_limits: Sequence[str] = SITE_LIMITS


PLAINLY: Final = AdReadingOptions()


class Fields:
    """Reads attributes of one ad.

    An attribute without a value is None. A malformed one is None too, and is reported. `without_value`
    collects the names of attributes that were read and are expressions without a value.
    """

    def __init__(self, ad: ClassAd, source: str = "", options: AdReadingOptions = PLAINLY) -> None:
        self.ad = ad
        self.source = source
        self._note, self._evaluate, self.site_limits = options
        self.without_value: set[str] = set()

    def _value(self, name: str, is_valid: Callable[[Any], bool], reason: str) -> Any:
        """Return an attribute's value; None if it is not `is_valid`, which is reported with `reason`."""
        value = written = self.ad.value(name)
        if isinstance(value, Expression) and _PRODUCT.fullmatch(value.text):
            product = math.prod(map(int, re.findall("[0-9]+", value.text)))
            value = product if product <= MAX_INTEGER else Special.ERROR
        elif isinstance(value, Expression) and self._evaluate is not None:
            value = self._evaluate(value, self.ad)
        if value is Special.TOO_LONG:
            self._note(Rejected(self.source, "the value is too long", field=name, text="a long value"))
        if isinstance(value, Special | Expression):
            if isinstance(written, Expression) or value is Special.ERROR:
                self.without_value.add(name)
            return None
        if is_valid(value):
            return value
        self._note(Rejected(self.source, reason, field=name, text=str(value)))
        return None

    def text(self, name: str) -> str | None:
        """Return a string attribute; None if it is absent or empty."""
        return self._value(name, lambda value: isinstance(value, str), "not a string") or None

    def integer(self, name: str) -> int | None:
        """Return a numeric attribute as a whole number, reals rounded down; None if it has no value."""
        value = self._value(name, _is_number, "not a number")
        return None if value is None else int(value // 1)

    def whole(self, name: str) -> int | None:
        """Return a numeric attribute as a whole number; None if it has no value.

        A real number with a fraction is malformed.
        """
        value = self._value(name, lambda value: _is_number(value) and value % 1 == 0, "not a whole number")
        return None if value is None else int(value)

    def has(self, name: str) -> bool:
        """Return whether the ad has this attribute, even if its value is malformed."""
        return self.ad.value(name) is not Special.UNDEFINED

    def count(self, name: str, unit: int = 1) -> int | None:
        """Return a numeric attribute multiplied by `unit`, such as 1024 for KiB. A negative one is malformed.

        Reals are rounded down first.
        """
        value = self.integer(name)
        if value is not None and value < 0:
            self._note(Rejected(self.source, "negative", field=name, text=str(value)))
            return None
        return None if value is None else value * unit

    def epoch(self, name: str) -> int | None:
        """Return a time attribute in epoch seconds; None if it has no value, or is 0, which means not yet."""
        value = self.count(name) or None
        if value is not None and value >= MAX_EPOCH_SECS:
            self._note(Rejected(self.source, "not a time", field=name, text=str(value)))
            return None
        return value

    def seconds(self, name: str) -> int | float | None:
        """Return a duration attribute in seconds, with its fraction; None if it has no value."""
        value: int | float | None = self._value(
            name, lambda value: _is_number(value) and value >= 0, "not a duration"
        )
        return value

    def flag(self, name: str) -> bool | None:
        """Return a boolean attribute; None if it has no value."""
        value: bool | None = self._value(name, lambda value: isinstance(value, bool), "not a boolean")
        return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_plain_id(text: str) -> bool:
    """Return whether a text is a job id, such as ``12.0@schedd``, and not the name of a slot."""
    return _ID.match(text) is not None


def parse_job_id(ad: ClassAd) -> str | None:
    """Return ``ClusterId.ProcId@schedd`` of a job ad; None if a number is missing or invalid.

    Each schedd numbers from 1. Its name is the beginning of GlobalJobId, which the schedd sets whatever the
    user submits. Without GlobalJobId the id is ``ClusterId.ProcId`` alone.
    """
    cluster, proc = ad.integer("ClusterId"), ad.integer("ProcId")
    if cluster is None or proc is None or cluster <= 0 or proc < 0:
        return None
    number = f"{cluster}.{proc}"
    global_id = parse_global_id(ad)
    return global_id if global_id is not None and global_id.startswith(f"{number}@") else number


def parse_global_id(ad: ClassAd) -> str | None:
    """Return ``ClusterId.ProcId@schedd`` from an ad's GlobalJobId; None if it is absent or malformed.

    The ad may be that of a job or that of its slot: both have the attribute.
    """
    found = _GLOBAL.match(ad.text("GlobalJobId") or "")
    return found and f"{found['number']}@{found['schedd']}"


def required_job_id(ad: ClassAd, *, source: str, field: str = "ClusterId") -> str:
    """Return the id of a job ad. Raises ParseError if there is none."""
    job_id = parse_job_id(ad)
    if job_id is None:
        raise ParseError("the ClassAd has no job id (ClusterId, ProcId)", source=source, field=field)
    return job_id


def schedd_of(job_id: str) -> str | None:
    """Return the name of a job's schedd, None if its id has none."""
    return job_id.partition("@")[2] or None


def is_ad_of_slot(ad: ClassAd, slot: str) -> bool:
    """Return whether a machine ad can be that of `slot`: its Name is the slot's, or absent.

    `slot` is given with or without its host, as in ``slot1_1@host``.
    """
    name = ad.text("Name")
    return name is None or name == slot or ("@" not in slot and name.partition("@")[0] == slot)
