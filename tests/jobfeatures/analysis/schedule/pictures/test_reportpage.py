import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from jobfeatures.analysis.schedule.document import compare
from jobfeatures.analysis.schedule.eligibility import REASONS
from jobfeatures.analysis.schedule.pictures.draw import draw_pictures
from jobfeatures.analysis.schedule.pictures.reportpage import Report, to_inline
from jobfeatures.analysis.schedule.tables import comparison_table, make_tables
from jobfeatures.errors import shown_name
from tests.jobfeatures.analysis.schedule.pictures.hostile import HOSTILE

VOID = {"meta", "link", "br", "img"}


class Page(HTMLParser):
    """What a page holds; raises where an element is not closed, or closed twice."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((tuple(self.open), data))


def page_of(views):
    report = Report(views)
    for picture in draw_pictures(views):
        report.add(picture)
    return report.page()


def page_without_pictures(views):
    """For what stands beside them: to draw them takes much longer than the rest."""
    return Report(views).page()


@pytest.fixture(scope="module")
def hostile_page(make_views, make_jobs):
    """The page of two schedules with names that would do it harm, drawn once."""
    views = make_views(("<b>fifo.swf", make_jobs(HOSTILE, delay=20)), ("$title<i>", make_jobs(HOSTILE)))
    return page_of(views)


def test_the_page_is_well_formed_and_asks_for_nothing_from_outside(hostile_page):
    text = hostile_page
    page = Page(text)
    assert not {"script", "iframe", "object", "embed", "form", "base", "foreignobject"} & set(page.tags)
    for tag, name, value in page.attributes:
        assert not name.startswith("on")
        if name in {"src", "srcset", "action", "formaction", "data", "poster"} or name.endswith("href"):
            assert value.startswith(("#", "data:")), (tag, name, value)
        for reference in re.findall(r"url\(([^)]*)\)", value or ""):
            assert reference.startswith("#")
    styles = [data for where, data in page.texts if where and where[-1] == "style"]
    assert styles
    assert not any("url(" in style or "@import" in style for style in styles)
    assert "http://" not in text
    assert "https://" not in text
    assert "default-src 'none'" in text


def test_names_stand_in_the_page_as_they_are(hostile_page):
    page = Page(hostile_page)
    cells = {data for where, data in page.texts if where[-1:] == ("th",)}
    for name in HOSTILE:
        assert shown_name(name) in cells
    headings = [data for where, data in page.texts if where[-1:] == ("h3",)]
    assert headings[:2] == ["<b>fifo", "$title<i>"]


def test_names_of_parts_are_unique_and_those_that_are_used_exist(hostile_page):
    page = Page(hostile_page)
    found = [value for _, name, value in page.attributes if name == "id"]
    assert len(found) == len(set(found))
    for _, name, value in page.attributes:
        used = re.findall(r"url\(#([^)]*)\)", value or "")
        if name.endswith("href") and value.startswith("#"):
            used.append(value[1:])
        assert set(used) <= set(found)


def test_no_head_of_a_table_is_empty(hostile_page):
    heads = re.findall(r"<th scope='col'>(.*?)</th>", hostile_page)
    assert len(heads) > 10
    assert [each for each in heads if not each.strip()] == []


@pytest.mark.parametrize("scheme", [0, 1])
def test_text_can_be_told_from_its_ground(scheme):
    """In light and dark, 4.5:1 or more."""
    style = files("jobfeatures.analysis.schedule.pictures").joinpath("report.html").read_text()
    colours = dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", style.split(":root {")[scheme + 1]))
    for text in ("ink", "faint", "mark"):
        for ground in ("paper", "page"):
            light, dark = sorted((luminance(colours[each]) for each in (text, ground)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)


def luminance(colour):
    """Return the relative luminance. Source: WCAG 2.1, definition of relative luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_every_picture_says_what_it_shows(hostile_page):
    page = Page(hostile_page)
    assert page.tags.count("svg") == 2 + 1
    said = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    assert len(said) == page.tags.count("svg")
    assert said[0].startswith("Heatmap of <b>fifo, users against time")
    assert all(len(each) > 60 for each in said)
    assert page.attributes.count(("svg", "role", "img")) == len(said)
    assert ("html", "lang", "en") in page.attributes


def test_tables_are_those_of_the_text_and_their_figures_those_of_the_document(make_views, make_jobs):
    from lxml import html

    users = [f"u{number}" for number in range(30)]
    views = make_views(("fifo", make_jobs(users, delay=9)), ("easy", make_jobs(users)))
    tree = html.fromstring(page_without_pictures(views))
    tables = [
        [[cell.text_content() for cell in row.iter("th", "td")] for row in table.iter("tr")]
        for table in tree.iter("table")
    ]
    documents = [view.document for view in views]
    first, *others = make_tables(documents)
    expected = [first.rows, comparison_table(compare(documents)).rows, *(each.rows for each in others)]
    for rows in expected:
        rows[0][0] = rows[0][0] or "Figure"  # no head is empty here
    assert tables == expected
    assert "… and 10 more" in tree.text_content()
    side = {row[0]: row[1:] for row in tables[0]}
    for label, key in (("jobs", "jobs"), ("violated", "violated"), ("sum of expected ends, s", "sum_eet"),
                       ("total weighted tardiness, CPU s", "total_weighted_tardiness")):  # fmt: skip
        assert [int(cell.replace(",", "")) for cell in side[label]] == [each[key] for each in documents]
    by_user = {row[0]: row for row in tables[2][1:]}
    for name, row in by_user.items():
        group = documents[0]["by"]["user"][name]
        assert (int(row[1]), int(row[3])) == (group["jobs"], group["violated"])
        assert float(row[4]) == pytest.approx(group["veet"], abs=5e-4)


def test_mode_share_skipped_jobs_and_warnings_are_stated(make_views, make_jobs):
    from dataclasses import replace

    jobs = make_jobs(["ann", "bob"])
    jobs.append(replace(jobs[0], job_id="x", user=None, uid=None))
    (view,) = make_views(("log", jobs))
    page = Page(page_without_pictures([view]))
    text = " ".join(data for where, data in page.texts if "style" not in where and "svg" not in where)
    assert "mode literal" in text
    assert f"Skipped: 1 × {REASONS['no_user']}." in text
    assert "CPU a user" in text
    for warning in view.document["warnings"]:
        assert f"Note: {warning}." in text
    for words in REASONS.values():
        assert words in text


def test_only_tags_of_a_picture_are_changed():
    svg = (
        '<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="9pt" viewBox="0 0 9 9">'
        '<g id="a" style="fill: #21252b; clip-path: url(#b)"><text id="t"> id="a" #21252b url(#b) </text>'
        '<use xlink:href="#a"/></g></svg>'
    )
    assert to_inline(svg, "f1-", "it's <so>") == (
        '<svg viewBox="0 0 9 9" role="img" aria-label="it&#x27;s &lt;so&gt;">'
        '<g id="f1-a" style="fill: var(--ink); clip-path: url(#f1-b)">'
        '<text id="f1-t"> id="a" #21252b url(#b) </text><use href="#f1-a"/></g></svg>'
    )
