"""Metric families as text: the Prometheus format 0.0.4 and OpenMetrics 1.0.

A sample is a tuple of label values, in the order that its metric declares, and a value.
Only this module turns labels into text; the text is cached from one page to the next.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeGuard

from jobfeatures.records.metrics import Metric

# Lone surrogates, as JSON may hold them, except those that stand for undecodable bytes.
_LONE_HALF = re.compile("[\ud800-\udc7f\udd00-\udfff]")
# Elements of a header and their parameters, which a quoted text may be part of; a quality.
_ELEMENT, _PART = (re.compile(rf'(?:[^{end}"]|"(?:[^"\\]|\\.)*"?)+') for end in ",;")
_QUALITY = re.compile(r"[01](?:\.[0-9]{0,3})?\Z")

Number = int | float
Values = tuple[str, ...]  # of labels
Sample = tuple[Values, Number]

SUM, COUNT = "sum", "count"  # take the place of `le` on a histogram's samples that are not buckets
MAX_HEADS = 2048  # cached, of both formats
SPARE_TEXTS = 1024  # label texts that may be cached besides those in use


def _is_known(sample: tuple[Values, Number | None]) -> TypeGuard[Sample]:
    return sample[1] is not None


class Family(NamedTuple):
    """A metric with its samples of one scrape; a sample is a pair (label values, value).

    The samples of a histogram are made by `histogram_samples`.
    """

    metric: Metric
    samples: Sequence[Sample]

    @classmethod
    def single(cls, metric: Metric, value: Number | None) -> Family:
        """Return a family of one sample without labels, or of no sample if the value is unknown."""
        return cls(metric, () if value is None else (((), value),))

    @classmethod
    def known(cls, metric: Metric, values: Iterable[tuple[Values, Number | None]]) -> Family:
        """Return a family of the (label values, value) pairs in `values` whose value is not None."""
        return cls(metric, [sample for sample in values if _is_known(sample)])

    @classmethod
    def by_label(cls, metric: Metric, values: Mapping[str, Number]) -> Family:
        """Return a family of a metric with one label; `values` maps label values to samples' values."""
        return cls(metric, [((word,), value) for word, value in values.items()])

    @classmethod
    def counted(cls, metric: Metric, counts: Iterable[tuple[Values, int]]) -> Family:
        """Return a family of the counts above 0, sorted by label values.

        As counts of 0 are left out, callers show a total in a second family, which has a sample even if it is
        0.
        """
        return cls(metric, [each for each in sorted(counts) if each[1]])


Block = tuple[Metric, str]  # lines of samples


class _Texts(dict[Values, str]):
    """The text of labels by their values, for one set of names; made on first use."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, values: Values) -> str:
        text = self[values] = label_text(self._names, values)
        return text


class LabelTexts:
    """Caches labels as text from one page to the next, and is emptied when most of its texts are unused."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], _Texts] = {}

    def of(self, names: tuple[str, ...]) -> _Texts:
        """Return a mapping from values of the labels `names` to their text, which it makes on first use."""
        found = self._kept.get(names)
        if found is None:
            found = self._kept[names] = _Texts(names)
        return found

    def forget_unused(self, series: int) -> None:
        """Empty the cache if it holds far more texts than `series`, the number of series on the last page."""
        if sum(map(len, self._kept.values())) > 2 * series + SPARE_TEXTS:
            self._kept = {}


def label_text(names: Iterable[str], values: Iterable[str]) -> str:
    """Return labels as they stand on a line, such as ``{job_id="12",mode="user"}``; "" without labels."""
    text = ",".join([f'{name}="{escape(value)}"' for name, value in zip(names, values, strict=True)])
    return f"{{{text}}}" if text else ""


def escape(value: str) -> str:
    """Return a label value escaped as both text formats require; bytes that are not UTF-8 become U+FFFD."""
    if not value.isascii():
        value = _LONE_HALF.sub("\ufffd", value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if "\\" in value or '"' in value or "\n" in value:
        value = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return value


def format_value(value: Number) -> str:
    """Return a number as text that is valid in both formats: Prometheus' text and OpenMetrics."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    return repr(value)


def histogram_samples(
    values: Values, bounds: Sequence[Number], counts: Sequence[int], total: Number
) -> list[Sample]:
    """Return the samples of a histogram with the label values `values`.

    `counts` has the cumulative number of observations up to each bound in `bounds`, and last up to +Inf;
    `total` is the sum of the observed values.
    """
    limits = [*(float(each) for each in bounds), math.inf]
    classes = [((*values, format_value(limit)), count) for limit, count in zip(limits, counts, strict=True)]
    return [*classes, ((*values, SUM), total), ((*values, COUNT), counts[-1])]


class Range(NamedTuple):
    """One element of an Accept or Accept-Encoding header: a media type or coding, its version and quality."""

    name: str
    version: str  # empty: any
    quality: float


def parse_accept(header: str) -> list[Range]:
    """Return the elements of an Accept or Accept-Encoding header (RFC 9110, 12.4.2, 12.5.1).

    Names are in lower case. An invalid quality counts as 1.
    """
    found = []
    for element in _ELEMENT.findall(header.lower()):
        name, *rest = [each.strip() for each in _PART.findall(element)] or [""]
        given = dict(each.replace(" ", "").replace('"', "").partition("=")[::2] for each in rest)
        quality = given.get("q", "1")
        found.append(
            Range(name, given.get("version", ""), float(quality) if _QUALITY.match(quality) else 1.0)
        )
    return found


@lru_cache(16)  # scrapers repeat their headers
def choose_format(accept: str) -> tuple[bool, str]:
    """Return (whether the answer is OpenMetrics, its content type) for a request's Accept header.

    The format with the higher quality is chosen. If both have the same, it is OpenMetrics if the header names
    that format, otherwise Prometheus' text. If the header accepts neither, it is Prometheus' text.
    """
    ranges = parse_accept(accept)
    openmetrics, is_named = _quality(ranges, "application/openmetrics-text", {"1.0.0", "0.0.1"})
    text, _ = _quality(ranges, "text/plain", {"0.0.4"})
    if openmetrics > text or (openmetrics == text > 0 and is_named):
        return True, "application/openmetrics-text; version=1.0.0; charset=utf-8"
    return False, "text/plain; version=0.0.4; charset=utf-8"


def _quality(ranges: Iterable[Range], name: str, versions: Collection[str]) -> tuple[float, bool]:
    """Return a format's quality by the most specific range, and whether that names the format."""
    ranks = [
        [each.quality for each in ranges if each.name == name and each.version in versions],
        [each.quality for each in ranges if each.name == name and not each.version],
        [each.quality for each in ranges if each.name == name],  # of another version: the closest there is
        [each.quality for each in ranges if each.name == f"{name.partition('/')[0]}/*"],
        [each.quality for each in ranges if each.name == "*/*"],
    ]
    rank = next((number for number, each in enumerate(ranks) if each), None)
    return (0.0, False) if rank is None else (max(ranks[rank]), rank < 3)


def takes(header: str, coding: str) -> bool:
    """Return whether an Accept-Encoding header accepts `coding`, at a quality not below `identity`'s."""
    liked = {each.name: each.quality for each in parse_accept(header)}
    return liked.get(coding, 0.0) > 0 and liked[coding] >= liked.get("identity", 0.0)


def render(families: Iterable[Family], *, openmetrics: bool, texts: LabelTexts | None = None) -> bytes:
    """Return the metrics page of all families that have samples, encoded in UTF-8.

    If several families have the same name, the declaration (HELP, TYPE) of the first is used.
    """
    texts = LabelTexts() if texts is None else texts
    sized = [(family, len(family.samples)) for family in families]
    blocks = [block_of(family, texts) for family, size in sized if size]
    texts.forget_unused(sum([size for _, size in sized]))
    return render_blocks(blocks, openmetrics=openmetrics)


def block_of(family: Family, texts: LabelTexts) -> Block:
    """Return a family's block: the pair of its metric and the text of all its sample lines."""
    metric, samples = family
    lines = getattr(samples, "lines", None)  # of `rows.SampleColumn`, which caches them
    return metric, "".join(sample_lines(metric, samples, texts) if lines is None else lines(texts))


def render_blocks(blocks: Iterable[Block], *, openmetrics: bool) -> bytes:
    """Return the metrics page made of these blocks; blocks with the same name share one declaration."""
    parts: dict[str, list[str]] = {}
    for metric, lines in blocks:
        found = parts.get(metric.name)
        if found is None:
            parts[metric.name] = [head(metric, openmetrics=openmetrics), lines]
        else:
            found.append(lines)
    text = "".join([part for found in parts.values() for part in found])
    return f"{text}# EOF\n".encode() if openmetrics else text.encode()


def sample_lines(metric: Metric, samples: Sequence[Sample], texts: LabelTexts) -> list[str]:
    """Return the lines of a metric's samples as they stand on the page, each with its line break."""
    if metric.kind == "histogram":
        return [_histogram_line(metric, values, value, texts) for values, value in samples]
    name, made = metric.sample_name, texts.of(metric.label_names)
    if len(samples) == 1:  # of most families
        [(values, value)] = samples
        return [f"{name}{made[values]} {format_value(value)}\n"]
    try:
        finite = math.isfinite(sum([value for _, value in samples]))
    except OverflowError:  # an integer beyond the range of a float
        finite = False
    if finite:
        return [f"{name}{made[values]} {value!r}\n" for values, value in samples]
    return [f"{name}{made[values]} {format_value(value)}\n" for values, value in samples]


def _histogram_line(metric: Metric, values: Values, value: Number, texts: LabelTexts) -> str:
    *own, limit = values
    if limit in {SUM, COUNT}:
        return f"{metric.name}_{limit}{texts.of(metric.label_names[:-1])[tuple(own)]} {format_value(value)}\n"
    return f"{metric.name}_bucket{texts.of(metric.label_names)[values]} {format_value(value)}\n"


@lru_cache(MAX_HEADS)
def head(metric: Metric, *, openmetrics: bool) -> str:
    """Return the declaration of a metric in the page's text: its lines ``# HELP`` and ``# TYPE``."""
    if openmetrics:
        return _head_openmetrics(metric)
    kind = metric.kind if metric.kind in {"counter", "histogram", "summary"} else "gauge"
    meaning = metric.meaning.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {metric.sample_name} {meaning}\n# TYPE {metric.sample_name} {kind}\n"


def _head_openmetrics(metric: Metric) -> str:
    name, kind = metric.name, metric.kind
    if metric.verbatim and kind == "counter":
        # Counters' samples need a suffix in this format; a counter without it is of unknown type.
        name, kind = (name[: -len("_total")], kind) if name.endswith("_total") else (name, "unknown")
    unit = f"# UNIT {name} {metric.unit}\n" if metric.unit and kind != "info" else ""
    return f"# TYPE {name} {kind}\n{unit}# HELP {name} {escape(metric.meaning)}\n"
