import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import islice

import pytest

from jobfeatures.analysis.schedule.pictures import draw
from jobfeatures.analysis.schedule.pictures.boxes import draw_boxes
from jobfeatures.analysis.schedule.pictures.draw import count_pictures, draw_pictures, render, write_picture
from jobfeatures.analysis.schedule.pictures.heat import are_alike, compute_heats, make_norm
from jobfeatures.analysis.schedule.pictures.style import brief, duration, power, styled
from jobfeatures.joblogs.loggedjob import JobRecord
from tests.jobfeatures.analysis.schedule.pictures.hostile import HOSTILE

JOB = {
    "batch_system": "slurm",
    "job_id": "1",
    "user": "ann",
    "submit_secs": 0,
    "start_secs": 0,
    "total_cpus": 1,
}


def texts_of(svg):
    return ["".join(each.itertext()) for each in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture(scope="module")
def two_logs(make_views, make_jobs):
    """The pictures of two schedules of one workload, and their files by name, drawn once."""
    users = ["ann", "bob"]
    views = make_views(("fifo", make_jobs(users)), ("easy", make_jobs(users, delay=0.1)))
    files = {
        f"{each.name}.{form}": render(each, form) for each in draw_pictures(views) for form in ("svg", "png")
    }
    return views, files


def test_every_picture_is_valid_as_png_and_svg_and_asks_for_nothing(two_logs):
    views, files = two_logs
    names = ["heatmap-1-fifo", "heatmap-2-easy", "users"]
    assert count_pictures(views) == len(names)
    assert list(files) == [f"{name}.{form}" for name in names for form in ("svg", "png")]
    for name in names:
        assert files[f"{name}.png"].startswith(b"\x89PNG\r\n")
        svg = files[f"{name}.svg"]
        assert b"<!DOCTYPE" not in svg
        for element in ET.fromstring(svg).iter():
            for attribute, value in element.attrib.items():
                if attribute.endswith(("href", "src")):
                    assert value.startswith(("#", "data:image/png;base64,"))
                assert "url(" not in value or "url(#" in value


def test_the_same_data_gives_the_same_bytes(two_logs, tmp_path):
    views, files = two_logs
    for picture in islice(draw_pictures(views), 1, 3):  # a heatmap and the box-plots
        write_picture(picture, str(tmp_path))
        for form in ("png", "svg"):
            name = f"{picture.name}.{form}"
            assert (tmp_path / name).read_bytes() == files[name], name


def test_hostile_names_stand_in_a_picture_as_they_are(make_views, make_jobs):
    (view,) = make_views(("$log$.swf", make_jobs(HOSTILE, each=8, delay=50)))
    heat, *_ = draw_pictures([view])
    svg = render(heat, "svg")
    texts = texts_of(svg)
    for name in ("$x^{2$", "_hidden", "]]>", "日本語", "&amp;&lt;", "'\\u202eevil'", "'new\\nline'", "$log$"):
        assert name in texts
    assert b"<script" not in svg
    assert render(heat, "png").startswith(b"\x89PNG")


FEW = [
    [(0, 0, 0)], [(0, 0, 10)], [(0, 5, 10)], [(0, 5, 10), (7, 7, 7)], [(0, 2**40, 2**40 + 5)], [(0, 0.25, 0.5)],
]  # fmt: skip


@pytest.fixture(scope="module")
def make_few(make_views):
    """Return a function: times of a job or two → the view of their schedule."""

    def make(times):
        jobs = [
            JobRecord(
                **{**JOB, "job_id": str(number), "submit_secs": submit, "start_secs": start, "end_secs": end}
            )
            for number, (submit, start, end) in enumerate(times)
        ]
        return make_views((f"log of {times}", jobs))[0]

    return make


@pytest.mark.parametrize("times", FEW, ids=str)
def test_a_heatmap_of_a_job_or_two_is_drawn_too(make_few, times):
    heat = next(draw_pictures([make_few(times)]))
    assert render(heat, "png")


def test_so_are_box_plots(make_few, monkeypatch):
    monkeypatch.setattr(draw, "draw_heat", lambda *_: None)  # not looked at here
    views = [make_few(times) for times in FEW]
    *_, boxes = draw_pictures(views)
    assert render(boxes, "png")


def test_names_of_users_are_drawn_where_they_fit_and_places_where_not(make_views, make_jobs):
    few = make_views(("log", make_jobs([f"user{number}" for number in range(40)], delay=50)))
    many = make_views(("log", make_jobs([f"user{number}" for number in range(1500)], delay=50)))
    heat = next(draw_pictures(few))
    texts = texts_of(render(heat, "svg"))
    assert sum(text.startswith("user") for text in texts) >= 40
    heat = next(draw_pictures(many))
    texts = texts_of(render(heat, "svg"))
    assert not any(re.fullmatch(r"user\d+", text) for text in texts)
    assert {"1", "200", "1,000"} <= set(texts)
    (found,) = compute_heats(many)
    assert len(found.cells) <= 600
    assert found.users_per_row == -(-len(found.ranked) // 600)


def test_schedules_of_one_workload_share_users_time_and_colours(make_views, make_jobs):
    users = ["ann", "bob", "cid"]
    same = make_views(("fifo", make_jobs(users)), ("easy", make_jobs(users, delay=3)))
    other = make_views(("a", make_jobs(users)), ("b", make_jobs(["zoe"])))
    assert are_alike(same)
    first, second = compute_heats(same)
    assert (first.grid, first.ranked, first.span) == (second.grid, second.ranked, second.span)
    assert not are_alike(other)
    first, second = compute_heats(other)
    assert first.ranked != second.ranked
    norm = make_norm([first, second])
    assert norm.vmax == max(1.0, first.cells.max(), second.cells.max())


def test_the_median_line_and_the_box_are_those_of_the_document(make_views, make_jobs):
    (view,) = make_views(("log", make_jobs([f"u{number}" for number in range(30)], delay=20)))
    with styled():
        left, right = draw_boxes([view], ["log"]).axes[:2]
    for axes, name in ((left, "veet"), (right, "weighted_tardiness")):
        spread = view.document["over_users"][name]
        (box,) = axes.patches
        assert box.get_x() == pytest.approx(spread["p25"])
        assert box.get_x() + box.get_width() == pytest.approx(spread["p75"])
        assert any(list(line.get_xdata()) == pytest.approx([spread["p50"]] * 2) for line in axes.lines)


def whiskers_and_dots(view):
    """Return the ends of the whiskers of VEET, and the values of the dots."""
    with styled():
        left = draw_boxes([view], ["log"]).axes[0]
    low, _, high, _, middle = left.lines
    assert len(left.patches) == 1
    assert low.get_xdata()[1] <= middle.get_xdata()[0] <= high.get_xdata()[1]
    dots = [float(place[0]) for each in left.collections for place in each.get_offsets()]
    return low.get_xdata()[0], high.get_xdata()[0], dots


@pytest.mark.parametrize("users", [1, 2, 5, 30])
def test_whiskers_and_outliers_tell_minimum_and_maximum_from_one_user_on(make_views, make_jobs, users):
    """The paper: "minimum, lower quartile, median, upper quartile and the maximum, plus possible extreme outliers"."""
    (view,) = make_views(("log", make_jobs([f"u{number}" for number in range(users)])))
    least, most, dots = whiskers_and_dots(view)
    spread = view.document["over_users"]["veet"]
    assert min([least, *dots]) == pytest.approx(spread["min"])
    assert max([most, *dots]) == pytest.approx(spread["max"])
    length = spread["p75"] - spread["p25"]
    outliers = [
        value
        for value in view.document["veet"].values()
        if not spread["p25"] - 1.5 * length <= value <= spread["p75"] + 1.5 * length
    ]
    assert dots == pytest.approx(sorted(outliers))


def test_a_user_far_from_all_others_is_a_dot_beyond_the_whisker(make_views, make_jobs):
    calm = make_jobs([f"u{number}" for number in range(9)], delay=0)
    late = [
        replace(each, start_secs=each.start_secs + 10**6, end_secs=each.end_secs + 10**6) for each in calm
    ]
    jobs = [theirs if each.user == "u0" else each for each, theirs in zip(calm, late, strict=True)]
    (view,) = make_views(("log", jobs))
    assert view.document["veet"]["u0"] == 100
    least, most, dots = whiskers_and_dots(view)
    assert (least, most, dots) == (0, 0, [100])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (-0.0, "0"), (1, "1"), (0.25, "0.25"), (-1.5, "−1.5"), (99.96, "100"), (999.6, "1,000"), (1234.4, "1,234"),
     (1e7, "1·10⁷"), (2.5e-5, "2.5·10⁻⁵"), (float("nan"), "–")],
)  # fmt: skip
def test_numbers_are_told_in_few_characters(value, text):
    assert brief(value) == text


def test_powers_and_durations():
    assert [power(each) for each in (0, 0.01, 1, 1000, 10**4, 10**12)] == [
        "0",
        "0.01",
        "1",
        "1,000",
        "10⁴",
        "10¹²",
    ]
    assert [duration(each) for each in (0, 59, 600, 7200, 10**6)] == [
        "0 s",
        "59 s",
        "10 min",
        "2 h",
        "11.6 d",
    ]
