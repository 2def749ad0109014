"""The style: colours that can be distinguished by everybody, and rules that have something to apply to."""

import re
from importlib.resources import files

import pytest

from tests.exporter.web.pages.drawn import PAGES

CSS = files("jobfeatures_exporter.web.pages").joinpath("page.css").read_text(encoding="utf-8")
JS = files("jobfeatures_exporter.web.pages").joinpath("page.js").read_text(encoding="utf-8")

TEXTS = [
    ("ink", "ground"),
    ("ink", "panel"),
    ("muted", "ground"),
    ("muted", "panel"),
    ("link", "ground"),
    ("link", "panel"),
    ("ink", "badge-ground"),
    ("good-ink", "good-ground"),
    ("warn-ink", "warn-ground"),
    ("bad-ink", "bad-ground"),
]
BARS = ["used", "time", "warn", "bad", "good"]


def variables(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block))


LIGHT = variables(CSS.split("@media")[0])
DARK = {**LIGHT, **variables(CSS.split("(prefers-color-scheme: dark)")[1].split("\n}\n")[0])}


def luminance(colour: str) -> float:
    """Return the relative luminance. Source: WCAG 2.1, definition of relative luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_measure_is_the_known_one():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXTS)
def test_text_can_be_read_on_its_ground(colours, text, ground):
    assert contrast(colours[text], colours[ground]) >= 4.5


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("bar", BARS)
def test_bars_stand_out_from_their_track_and_its_ground(colours, bar):
    assert contrast(colours[bar], colours["track"]) >= 3
    assert contrast(colours[bar], colours["panel"]) >= 3


def test_dark_has_a_colour_for_every_one_of_light():
    dark = variables(CSS.split("(prefers-color-scheme: dark)")[1].split("\n}\n")[0])
    assert dark.keys() == LIGHT.keys()


def test_colours_stand_in_variables_only():
    rules = re.sub(r":root \{[^}]*\}", "", CSS)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?![\w-])", rules.replace("#refresh", "")) == []
    assert set(re.findall(r"var\(--([a-z-]+)\)", CSS)) == LIGHT.keys()


def test_nothing_is_fetched_from_elsewhere():
    assert not re.search(r"url\(|@import|https?:|//[a-z]", CSS)
    assert not re.search(r"https?:|import\s*\(|eval|innerHTML|document\.write", JS)


def test_every_class_of_the_style_is_one_of_the_pages():
    used = set()
    for make in PAGES.values():
        for found in re.findall(r' class="([^"]*)"', make()):
            used |= set(found.split())
    used |= {"tools", "docs"}  # made by the script; of the documentation
    assert set(re.findall(r"\.([a-z][a-z-]*)(?=[\s,.:>{)\[])", CSS)) - used == set()


def test_motion_and_focus_and_paper_are_cared_for():
    assert ":focus-visible" in CSS
    assert "outline: none" not in CSS.replace("main:focus { outline: none; }", "")
    assert "prefers-reduced-motion" in CSS
    assert "@media print" in CSS
