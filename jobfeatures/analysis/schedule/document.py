"""Turns the figures of a schedule into plain values, for JSON and for rows of a table.

Names of figures contain their unit; a time without a unit in its name is in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jobfeatures.analysis.schedule.measures import QUANTILES, Distribution, describe
from jobfeatures.analysis.schedule.result import GroupResult
from jobfeatures.analysis.schedule.runs import Array
from jobfeatures.analysis.schedule.shares import CPU, Shares, plain
from jobfeatures.analysis.schedule.whole import Whole

Values = dict[str, Any]

# What a job is measured by: the name in a result, and the measure.
MEASURES = {
    "wait": "wait_secs",
    "response": "response_secs",
    "slowdown": "slowdown",
    "bounded_slowdown": "bounded_slowdown",
}
BAGS = ("count", "jobs", "violated")
# What is compared with the first log as a ratio.
COMPARED = (
    "violated", "total_tardiness", "total_weighted_tardiness", "mean_wait", "mean_response", "mean_slowdown",
)  # fmt: skip


def make_document(whole: Whole, by: Sequence[str] = ()) -> Values:
    """Return all figures of one log as a dictionary that can be written as JSON.

    `by` names fields (user, queue …): for each value of such a field, the figures of its jobs are added.
    """
    options, sums, violated = whole.options, whole.sums, sum(whole.violated)
    first = whole.shares[0]
    document: Values = {
        "log": whole.log.name,
        "jobs": sums.jobs,
        "skipped": whole.skipped,
        "folded": whole.log.folded,
        "filtered": whole.filtered,
        "users": len(whole.users),
        "mode": options.mode.value,
        "arrival": options.arrival.value,
        "waited_for_another": sums.waited_for_another,
        "joined": [each.value for each in options.join],
        "bags": None if sums.bags is None else dict(zip(BAGS, sums.bags, strict=True)),
        "resources": list(options.resources),
        "share": plain(first.resource, first.default),
        "shares": {each.resource: describe_shares(whole, each) for each in whole.shares},
        "sum_eet": sums.expected,
        "violated": violated,
        "violated_percent": 100 * violated / sums.jobs,
        "total_tardiness": sums.tardiness,
        "total_weighted_tardiness": sums.weighted_tardiness,
        "veet": dict(zip(whole.users, whole.veet, strict=True)),
        "weighted_tardiness": dict(zip(whole.users, whole.weighted_by_user, strict=True)),
        "over_users": {
            "veet": spread(describe(np.array(whole.veet))),
            "weighted_tardiness": spread(describe(np.array(whole.weighted_by_user, dtype=float))),
        },
    }
    for name, measure in MEASURES.items():
        document[f"mean_{name}"] = whole.distributions[measure].mean
    for name, measure in MEASURES.items():
        document[name] = spread(whole.distributions[measure])
    document.update(_over_time(whole))
    if by:
        document["by"] = {
            field: {name: describe_group(whole, each) for name, each in whole.groups(field).items()}
            for field in by
        }
    document["warnings"] = list(warnings_of(whole))
    return document


def compare(documents: Sequence[Values]) -> Values:
    """Compare the logs' documents with the first one; return a comparison for each other log.

    It has the number of users with a lower, equal or higher VEET (the percentage of a user's jobs that ended
    after their expected end), and the ratios of other figures to those of the first log.
    """
    base, *others = documents
    return {"base": base["log"], "others": [_against(base, each) for each in others]}


def _against(base: Values, other: Values) -> Values:
    both = base["veet"].keys() & other["veet"].keys()
    changes = [other["veet"][user] - base["veet"][user] for user in both]
    ratios = {
        f"{key}_ratio": other[key] / base[key] if base[key] and other[key] is not None else None
        for key in COMPARED
    }
    return {
        "log": other["log"],
        "users_in_both": len(both),
        "lower_veet": sum(change < 0 for change in changes),
        "equal_veet": sum(change == 0 for change in changes),
        "higher_veet": sum(change > 0 for change in changes),
        **ratios,
    }


def describe_shares(whole: Whole, shares: Shares) -> Values:
    """Return the total and the shares of one resource: the default, those of users and groups, the source.

    "unknown_requests" counts the jobs whose request of the resource is unknown.
    """
    present = set(whole.users)
    return {
        "default": plain(shares.resource, shares.default),
        "default_from": shares.default_from,
        "total": plain(shares.resource, shares.total),
        "total_from": shares.total_from,
        "unit": "KiB" if shares.resource == "memory" else shares.resource,
        "users": {
            user: plain(shares.resource, amount) for user, amount in shares.users.items() if user in present
        },
        "groups": {group: plain(shares.resource, amount) for group, amount in shares.groups.items()},
        "unknown_requests": whole.sums.unknown_requests[shares.resource],
    }


def describe_group(whole: Whole, group: GroupResult) -> Values:
    """Return all figures of the jobs of one user, group, queue or partition."""
    use, span_secs = whole.use[CPU], float(whole.edges[-1] - whole.edges[0])
    return {
        "jobs": group.jobs,
        "violated": group.violated,
        "veet": group.veet,
        "tardiness": group.tardiness,
        "weighted_tardiness": group.weighted_tardiness,
        "cpu_secs": group.cpu_secs,
        "mean_utilisation": _part(group.cpu_secs / span_secs, use.total),
        "mean_queue_length": group.waited_secs / span_secs,
        **{name: spread(group.measures[measure]) for name, measure in MEASURES.items()},
    }


def spread(found: Distribution) -> Values:
    """Return the figures of a distribution by name: count, mean, min, max and quantiles (p50: median)."""
    quantiles = found.quantiles or (None,) * len(QUANTILES)
    return {
        "count": found.size,
        "mean": found.mean,
        "min": found.least,
        **{f"p{round(100 * at)}": value for at, value in zip(QUANTILES, quantiles, strict=True)},
        "max": found.most,
    }


def warnings_of(whole: Whole) -> list[str]:
    """Return warnings about properties of a log that may make its figures misleading."""
    found = list(whole.log.warnings)
    if not whole.is_in_order:
        found.append("jobs do not stand in order of arrival: they were sorted")
    for shares in whole.shares:
        unknown = whole.sums.unknown_requests[shares.resource]
        if unknown:
            found.append(f"{unknown} jobs do not say what {shares.resource} they asked for: taken as none")
        absent = sorted(set(whole.options.rules.users) - set(whole.log.user.names))
        if absent and shares is whole.shares[0]:
            found.append(f"shares of users who are not in the log: {', '.join(absent)}")
    return found


def _over_time(whole: Whole) -> Values:
    most, waiting = whole.queue
    return {
        "utilisation": {
            resource: {
                "total": use.total,
                "total_from": use.total_from,
                "mean": _part(_mean(use.over_time), use.total),
                "most_in_use": use.peak,
                "over_time": [_part(value, use.total) for value in _rounded(use.over_time)],
            }
            for resource, use in whole.use.items()
        },
        "queue_length": {"mean": _mean(waiting), "most": most, "over_time": _rounded(waiting)},
        "over_time": {
            "start_secs": whole.edges[0].item(),
            "interval_secs": (whole.edges[1] - whole.edges[0]).item(),
            "intervals": len(whole.edges) - 1,
        },
    }


def _mean(means: Array) -> float:
    return float(means.mean())


def _rounded(means: Array) -> list[float]:
    """Return the means, with rounding errors near 0 as 0."""
    return [round(value, 9) + 0.0 for value in means.tolist()]


def _part(value: float, whole: float) -> float | None:
    return value / whole if whole and math.isfinite(value) else None
