"""Collector in the controller role: fair shares of accounts and users."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jobfeatures.records.administration import FairShare, FairShares
from jobfeatures.records.metrics import Metric, gauge
from jobfeatures_exporter.families.exposition import Family, Number
from jobfeatures_exporter.model.context import Context

_LABELS = ("batch_system", "account", "user")

SHARES = gauge(
    "batch_fairshare_shares_ratio",
    "Part of the cluster that an account, or a user of it, is entitled to; user is empty of accounts.",
    _LABELS,
)
USAGE = gauge(
    "batch_fairshare_usage_ratio", "Part of the cluster's decayed usage that counts as theirs.", _LABELS
)
USAGE_SECS = gauge(
    "batch_fairshare_usage_seconds",
    "Their decayed usage in weighted resource seconds, in Slurm billing units.",
    _LABELS,
)
FACTOR = gauge(
    "batch_fairshare_factor_ratio",
    "What their jobs' priority gets, 0 (used most) to 1 (used least).",
    _LABELS,
)
_VALUES: dict[Metric, Callable[[FairShare], Number | None]] = {
    SHARES: lambda share: share.shares_ratio,
    USAGE: lambda share: share.usage_ratio,
    USAGE_SECS: lambda share: share.usage_secs,
    FACTOR: lambda share: share.factor,
}
METRICS = tuple(_VALUES)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about shares: of all accounts, and of the users with the most usage."""
    shown = [
        ((reported.source, each.account, each.user), each)
        for reported in context.administration
        if isinstance(reported, FairShares)
        for each in _shown(reported, context.top_users)
    ]
    for metric, value in _VALUES.items():
        yield Family.known(metric, [(values, value(each)) for values, each in shown])


def _shown(reported: FairShares, most: int) -> list[FairShare]:
    users = sorted(
        (each for each in reported.shares if each.user),
        key=lambda each: (-(each.usage_secs or 0), each.account, each.user),
    )
    return [each for each in reported.shares if not each.user] + users[:most]
