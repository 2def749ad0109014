"""Both pages, of constructed nodes and a constructed cluster: as they are, accessible, and like /metrics."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from jobfeatures_exporter.web import pages
from tests.exporter.web.pages import showcase
from tests.exporter.web.pages.drawn import NODES, controller_page, node_page, samples_of, text_of
from tests.exporter.web.pages.reading import read_page

GOLDEN = Path(__file__).parents[3] / "fixtures" / "golden"


OWN = re.compile(
    r"job/[A-Za-z0-9_.~%-]+\?system=[A-Za-z0-9_.~%-]+|\./(\?(view=dense|view=full|sort=wasted|&)+)?"
)


@pytest.mark.parametrize("name", ["node-draining", "controller"])
def test_the_pages_are_as_they_were(name):
    path = GOLDEN / f"page-{name}.html"
    # The version changes with each release, and lines make differences readable.
    made = re.sub(r"jobfeatures-exporter [0-9.]+\S*\.", "jobfeatures-exporter VERSION.", text_of(name))
    made = re.sub(r"(</(?:tr|p|div|dl|h2|section|thead|head|header)>)", r"\1\n", made)
    if os.environ.get("JOBFEATURES_WRITE_GOLDEN"):
        path.write_text(made)
    assert made == path.read_text()


def test_a_page_explains_itself_only_where_the_documentation_is_installed(monkeypatch):
    assert 'href="docs/page.md"' in node_page(showcase.make_idle_node())
    monkeypatch.setattr(pages, "DOCUMENTATION", "/no/such/folder")
    assert "docs/page.md" not in node_page(showcase.make_idle_node())


def test_words_stay_apart_where_no_style_is_read(text):
    inline = "(?:span|strong|a|bdi|code|time)"
    assert not re.findall(rf"[^<>]*\S</{inline}><{inline}[^>]*>\S[^<]*", text)


def test_a_page_is_well_formed_and_in_a_language(text, page):
    assert text.startswith("<!DOCTYPE html>\n")
    (html,) = page.all("html")
    assert html.attributes["lang"] == "en"
    assert len(page.all("title")[0].text) > 3
    assert page.all("meta", name="viewport")


def test_a_page_has_one_main_heading_and_no_level_is_left_out(page):
    levels = [int(each.tag[1]) for each in page.within if re.fullmatch("h[1-6]", each.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert set(levels) <= {1, 2}


def test_ids_are_unique_and_references_lead_somewhere(page):
    ids = [each.attributes["id"] for each in page.within if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    for each in page.within:
        if "aria-labelledby" in each.attributes:
            assert each.attributes["aria-labelledby"] in ids
        if (each.attributes.get("href") or "").startswith("#"):
            assert each.attributes["href"][1:] in ids


def test_every_drawing_says_in_words_what_it_shows(page):
    for each in page.all("svg"):
        assert each.attributes["role"] == "img"
        assert re.search(r"[a-z]", each.attributes["aria-label"])
        assert "None" not in each.attributes["aria-label"]


def test_every_table_has_a_caption_and_its_headings_a_scope(page):
    for table in page.all("table"):
        assert table.children[0].tag == "caption"
        assert table.children[0].text
        assert all(each.attributes.get("scope") in {"col", "row"} for each in table.all("th"))
        heads = len(table.all("th", scope="col"))
        for row in table.all("tbody")[0].children:
            assert len(row.children) == heads
            assert row.children[0].attributes.get("scope") == "row"


def test_no_column_is_empty(page):
    """A heading without a word stands nowhere, nor one above cells that are all empty."""
    for table in page.all("table"):
        rows = [row.children for row in table.all("tbody")[0].children]
        for at, head in enumerate(table.all("th", scope="col")):
            assert head.text
            assert not rows or any(row[at].text or row[at].children for row in rows), head.text


def test_what_scrolls_can_be_reached_by_keyboard_and_has_a_name(page):
    for each in page.all("div", class_="scroll"):
        assert each.attributes["tabindex"] == "0"
        assert each.attributes["role"] == "region"
        assert each.attributes["aria-label"]


def test_nothing_stands_inline_and_nothing_comes_from_elsewhere(text, page):
    for each in page.within:
        assert not {"style", "onclick", "onload", "onerror"} & each.attributes.keys()
        for name in ("src", "href"):
            address = (each.attributes.get(name) or "x").removeprefix("../") or "x"
            assert address is None or (
                re.fullmatch(r"#?[a-z-][a-z./-]*", address) or re.fullmatch(OWN, address)
            ), address
    assert page.all("style") == []
    assert [each.text for each in page.all("script")] == [""]
    assert "None" not in re.sub(r"<[^>]*>", " ", text)


def test_a_link_of_a_page_is_one_that_its_listener_answers(page):
    links = {each.attributes["href"].removeprefix("../") for each in page.all("a")} - {""}
    links -= {each for each in links if OWN.fullmatch(each)}
    assert {"metrics", "-/healthy", "-/ready"} <= links
    assert links <= {"#content", "metrics", "-/healthy", "-/ready", "sd", "docs/page.md"}
    assert "docs/page.md" in links


@pytest.mark.parametrize("name", [*NODES, "controller"])
def test_every_figure_of_a_page_is_a_sample_of_its_metric(name):
    if name == "controller":
        context, _ = showcase.make_cluster_context()
        page, role = read_page(controller_page()), "controller"
    else:
        context = NODES[name]()
        page, role = read_page(node_page(context)), "node"
    samples = samples_of(showcase.families_of(context, role))
    figures = page.all("data")
    assert len(figures) > (1 if name == "nothing" else 15)
    for each in figures:
        values = [value for _, value in samples[each.attributes["title"]]]
        assert float(each.attributes["value"]) in values
