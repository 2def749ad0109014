"""Evaluates requests as Boolean expressions: which candidates satisfy them, and which are preferred. Pure.

Source: SSS Job Object Specification 3.1.0, section 8.1. Where it leaves a choice:

- Properties are joined from left to right; only `group` gives precedence. The
  conj of a property that opens groups joins the outermost of them.
- In a group, the properties with positive preference are one alternative: one
  of them has to hold. Those with negative preference need not hold. A weight
  counts as a ratio to the sum of weights of its sign in its group; a
  candidate's score is the sum of the ratios that it satisfies.
- EQ means equal, for amounts too. LT, GT, LE and GE compare numbers.
- performanceFactor is a hint for a scheduler, which the specification attaches
  to no other property: it is passed on, and changes nothing.

A property that a candidate lacks is unknown, neither true nor false; so is any result that depends on it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from jobfeatures.formats.sss.amounts import amount_of
from jobfeatures.formats.sss.objects import Property
from jobfeatures.formats.sss.requests.names import expand_names, make_matcher

MAX_DEPTH: Final = 64
Number = int | Decimal | Fraction
# By property: amounts in bytes and seconds, texts, or several texts (the features of a node, the
# nodes of an allocation). A resource is "Resource NAME" or "Resource NAME TYPE".
Candidate = Mapping[str, Number | str | Collection[str] | None]
_COMPARE: Final[Mapping[str, Callable[[Fraction, Fraction], bool]]] = {
    "EQ": operator.eq,
    "Match": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "GT": operator.gt,
    "LE": operator.le,
    "GE": operator.ge,
}


@dataclass(frozen=True, slots=True)
class ExpressionPart:
    """One part of an expression: `what`, a property or a parenthesis, and how it joins the part before it.

    `conj` is the conjunction: And, Or, Nand or Nor.
    """

    conj: str
    what: Property | Parenthesis


@dataclass(frozen=True, slots=True)
class Parenthesis:
    """A group in parentheses, or the whole expression."""

    parts: tuple[ExpressionPart, ...] = ()


@dataclass(frozen=True, slots=True)
class CandidateVerdict:
    """Whether a candidate satisfies an expression (None: unknown), and how well (`score`).

    `by` holds the properties that it satisfies, except negated ones.
    """

    is_satisfied: bool | None
    score: Fraction = Fraction(0)
    by: tuple[Property, ...] = ()

    @property
    def performance_factors(self) -> tuple[Decimal, ...]:
        """Return the performance factors of the satisfied properties."""
        found = (each.attributes.get("performanceFactor") for each in self.by)
        return tuple(each for each in found if isinstance(each, Decimal))


_Weighed = tuple[int, CandidateVerdict]


def parse_expression(requests: Sequence[Property]) -> Parenthesis:
    """Parse the requested properties into a tree. Raises ParseError for unbalanced groups."""
    stack: list[tuple[str, list[ExpressionPart], Property | None]] = [("And", [], None)]
    for each in requests:
        conj, group = each.text("conj", "And"), each.number("group")
        if len(stack) + group > MAX_DEPTH:
            raise each.error(f"groups of properties (attribute group) nest deeper than {MAX_DEPTH}")
        for _ in range(group):
            stack.append((conj, [], each))
            conj = "And"
        stack[-1][1].append(ExpressionPart(conj, each))
        if -group >= len(stack):
            raise each.error("closes a group that is not open", str(group))
        for _ in range(-group):
            joined, parts, _ = stack.pop()
            stack[-1][1].append(ExpressionPart(joined, Parenthesis(tuple(parts))))
    opened = stack[-1][2]
    if opened is not None:
        raise opened.error("opens a group that is not closed")
    return Parenthesis(tuple(stack[0][1]))


def evaluate(
    expression: Parenthesis, candidate: Candidate, about: Container[str] | None = None
) -> CandidateVerdict:
    """Evaluate an expression for one candidate, such as a node.

    With `about`, only properties with these names are evaluated. Raises ParseError for an invalid pattern or
    comparison.
    """
    return _evaluate(expression, candidate, about) or CandidateVerdict(is_satisfied=True)


def rank(
    expression: Parenthesis, candidates: Iterable[Candidate], about: Container[str] | None = None
) -> list[tuple[int, CandidateVerdict]]:
    """Return the candidates that satisfy an expression, the preferred ones first, with their verdicts.

    The integer is the candidate's position in `candidates`. With `about`, only properties with these names
    are evaluated.
    """
    verdicts = ((place, evaluate(expression, each, about)) for place, each in enumerate(candidates))
    found = [(place, verdict) for place, verdict in verdicts if verdict.is_satisfied]
    return sorted(found, key=lambda each: -each[1].score)


def _evaluate(
    group: Parenthesis, candidate: Candidate, about: Container[str] | None
) -> CandidateVerdict | None:
    """Return the verdict of a group, None if nothing in it is evaluated."""
    required: list[tuple[str, CandidateVerdict]] = []
    choices: list[_Weighed] = []
    wishes: list[_Weighed] = []
    place_of_choices = 0
    for part in group.parts:
        verdict = _judge(part.what, candidate, about)
        if verdict is None:
            continue
        weight = part.what.number("preference") if isinstance(part.what, Property) else 0
        if weight < 0:
            wishes.append((-weight, verdict))
            continue
        if weight > 0:
            choices.append((weight, verdict))
            if len(choices) > 1:
                continue  # all of them are placed where the first is
            place_of_choices = len(required)
        required.append((part.conj, verdict))
    if choices:
        conj, _ = required[place_of_choices]
        truth = _any(each.is_satisfied for _, each in choices)
        required[place_of_choices] = (conj, CandidateVerdict(truth, *_weigh(choices)))
    elif not required and not wishes:
        return None
    truth, score, by = _join(required)
    if not truth:
        return CandidateVerdict(truth)
    extra, wished = _weigh(wishes)
    return CandidateVerdict(truth, score + extra, by + wished)


def _judge(
    what: Property | Parenthesis, candidate: Candidate, about: Container[str] | None
) -> CandidateVerdict | None:
    if isinstance(what, Parenthesis):
        return _evaluate(what, candidate, about)
    if about is not None and what.name not in about:
        return None
    holds = _holds(what, candidate)
    return CandidateVerdict(holds, Fraction(0), (what,) if holds else ())


def _weigh(weighed: list[_Weighed]) -> tuple[Fraction, tuple[Property, ...]]:
    """Return the satisfied fraction of the total weight, and the properties that satisfy it."""
    total = sum(weight for weight, _ in weighed)
    met = [(weight, each) for weight, each in weighed if each.is_satisfied]
    by = tuple(found for _, each in met for found in each.by)
    return Fraction(sum(weight for weight, _ in met), total or 1), by


def _join(judged: list[tuple[str, CandidateVerdict]]) -> tuple[bool | None, Fraction, tuple[Property, ...]]:
    """Join verdicts from left to right; no verdicts give true."""
    truth: bool | None = True
    score, by = Fraction(0), list[Property]()
    for place, (conj, verdict) in enumerate(judged):
        value = verdict.is_satisfied
        if conj in {"Nand", "Nor"}:
            value = None if value is None else not value
        elif value:
            score += verdict.score
            by += verdict.by
        if place == 0:
            truth = value
        else:
            truth = _any((truth, value)) if conj in {"Or", "Nor"} else _all((truth, value))
    return truth, score, tuple(by)


def _holds(each: Property, candidate: Candidate) -> bool | None:
    """Return whether a candidate satisfies one requested property; None if unknown."""
    value = candidate.get(" ".join(filter(None, each.key)))
    if value is None:
        return None
    op = each.text("op", "EQ")
    if isinstance(value, int | Decimal | Fraction):
        return _COMPARE[op](Fraction(value), amount_of(each))
    if op not in {"EQ", "NE", "Match"}:
        raise each.error(f"{op} compares numbers, not texts", str(each.value))
    if isinstance(value, str):
        has = make_matcher(each)(value) and each.number("count", 1) <= 1
    else:
        has = _has_many(each, value)
    return not has if op == "NE" else has


def _has_many(each: Property, values: Collection[str]) -> bool:
    """Return whether the values include all names of a list, or at least `count` of those described."""
    if each.text("aggregation") == "List" and "count" not in each.attributes and each.text("op") != "Match":
        return frozenset(expand_names(each)) <= frozenset(values)
    return sum(map(make_matcher(each), frozenset(values))) >= each.number("count", 1)


def _any(values: Iterable[bool | None]) -> bool | None:
    found = set(values)
    return True if True in found else None if None in found else False


def _all(values: Iterable[bool | None]) -> bool | None:
    found = set(values)
    return False if False in found else None if None in found else True
