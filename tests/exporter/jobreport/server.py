"""A constructed Prometheus: it answers the questions of a report from a list of series, without a language of its own."""

import re

from jobfeatures.records.metrics import JOB_INFO
from jobfeatures.records.series import InstantAnswer, Series

INFO = JOB_INFO.sample_name
NOW = 1_800_000_000.0


def job_series(job_id="12", node="n1:9819", system="slurm", values=(), **info):
    """Return the info series of a job on a node, and others by (name, labels, value)."""
    same = {"batch_system": system, "job_id": job_id, "instance": node, "job": "batch_nodes"}
    found = [Series(INFO, {**same, **info}, 1.0)]
    return found + [Series(name, {**same, **labels}, float(value)) for name, labels, value in values]


class FakePrometheus:
    """`series` are last values, `highest` those of max_over_time by metric; `seen` when the jobs were seen last."""

    def __init__(
        self,
        series,
        *,
        highest=(),
        seen=None,
        is_current=False,
        firsts=None,
        resets=(),
        samples=(),
        steps=None,
        warnings=(),
        first_seen=None,
    ):
        self.series = list(series)
        self.highest = list(highest)
        self.seen = seen
        self.is_current = is_current
        self.firsts = firsts
        self.resets = list(resets)
        self.samples = list(samples)
        self.steps = steps
        self.warnings = warnings
        self.first_seen = first_seen
        self.asked = []
        self.before = None  # what was there when the latest run began
        self.long_ago = []  # series that only a range of a week holds

    def __call__(self, question, at_secs):
        self.asked.append((question, at_secs))
        return InstantAnswer(tuple(self._find(question)), self.warnings)

    def _matching(self, question, series):
        matchers = re.findall(r'(\w+)(=~|=)"((?:[^"\\]|\\.)*)"', question)
        for each in series:
            labels = {"__name__": each.name, **each.labels}
            if all(
                re.fullmatch(value.replace("\\\\", "\\"), labels.get(name, ""))
                if sign == "=~"
                else labels.get(name, "") == value
                for name, sign, value in matchers
            ):
                yield each

    def _find(self, question):
        name = re.search(r"(batch_\w+)\{", question)
        name = name[1] if name else None

        def named(series):
            return [each for each in self._matching(question, series) if name in {None, each.name}]

        def nameless(series, value_of=lambda each: each.value):
            return [Series("", each.labels, value_of(each)) for each in named(series)]

        if "(" not in question:
            return named(self.samples)
        function = question[: question.index("(")]
        if function == "last_over_time" and "[300s]" in question and self.before is not None:
            return named(self.before)
        if function == "last_over_time":
            return named(
                [*self.long_ago, *self.series, *self.long_ago] if "[604800s]" in question else self.series
            )
        if function == "timestamp":
            return nameless(self.series, lambda _: self.seen) if self.is_current else []
        if "timestamp(" in question:
            moment = self.first_seen if function == "min_over_time" else self.seen
            return [] if moment is None else nameless(self.series, lambda _: moment)
        if function == "min_over_time":
            first = self.firsts
            return nameless(self.series, lambda each: each.value if first is None else first)
        if function == "count_over_time":
            return [] if self.steps is None else nameless(self.series, lambda _: self.steps)
        if function in {"max_over_time", "avg_over_time"}:
            return nameless(self.highest)
        assert function == "resets", question
        return nameless(self.resets)
