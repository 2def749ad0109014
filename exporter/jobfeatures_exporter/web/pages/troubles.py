"""The notice of batch systems that do not say what they should, in their own words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from jobfeatures.model import JobTable
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.view.sources import SourceView
from jobfeatures_exporter.web.pages.markup import Child, Html, join, name, tag
from jobfeatures_exporter.web.pages.pieces import moment


def words_of(context: Context) -> dict[str, str]:
    """Return what each source says of its failure, or of what it could not tell."""
    return {
        each.name: each.last_error or (each.table.node_problem if isinstance(each.table, JobTable) else "")
        for each in context.sources
    }


def troubles_notice(
    troubles: Sequence[SourceView], now_secs: float, tz: tzinfo | None, *more: Html
) -> Html | None:
    """Return the notice, with `more` below; None where there is nothing to say."""
    found = [*(_trouble(each, now_secs, tz) for each in troubles), *more]
    return tag("div", *found, class_="notice", role="note") if found else None


def _trouble(each: SourceView, now_secs: float, tz: tzinfo | None) -> Html:
    since: Child = None
    if each.failing_secs is not None:
        since = join(" (since ", moment(now_secs - each.failing_secs, tz), ")")
    said = join(": ", name(each.words, 300)) if each.words else None
    advice = tag("p", each.advice[:1].upper() + each.advice[1:], class_="sub") if each.advice else None
    return join(tag("p", tag("strong", each.sentence), since, said), advice)
