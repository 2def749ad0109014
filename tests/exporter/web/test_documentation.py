"""The documentation as the listener serves it."""

import posixpath
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from makepackages.layout import COPIES

from jobfeatures_exporter.web import pages
from jobfeatures_exporter.web.app import make_app
from jobfeatures_exporter.web.documentation import ABSENT
from jobfeatures_exporter.web.pages import DOCUMENTATION
from tests.exporter.web.pages.reading import read_page
from tests.yamltext import read_yaml

ROOT = Path(__file__).parents[3]
PAGES = sorted(str(each.relative_to(ROOT / "docs")) for each in (ROOT / "docs").rglob("*.md"))


@pytest.fixture
async def client(aiohttp_client, monkeypatch):
    monkeypatch.setattr(pages, "DOCUMENTATION", str(ROOT / "docs"))
    return await aiohttp_client(make_app(SimpleNamespace(exposition=None)))  # of both roles


async def test_every_page_is_served_and_every_link_in_it_leads_to_a_page_and_a_heading(client):
    anchors, links = {}, []
    for name in PAGES:
        answer = await client.get(f"/docs/{name}")
        assert (answer.status, answer.content_type) == (200, "text/html"), name
        page = read_page(await answer.text())
        anchors[f"/docs/{name}"] = {
            each.attributes["id"]
            for level in "123456"
            for each in page.all(f"h{level}")
            if "id" in each.attributes
        }
        for each in [*page.all("a"), *page.all("img")]:
            address = each.attributes.get("href") or each.attributes.get("src")
            if address and "://" not in address:
                path, _, anchor = address.partition("#")
                links.append(
                    (
                        posixpath.normpath(
                            posixpath.join(
                                f"/docs/{posixpath.dirname(name)}", path or posixpath.basename(name)
                            )
                        ),
                        anchor,
                    )
                )
    assert len(links) > 300
    for path in sorted({path for path, _ in links} - anchors.keys()):
        assert (await client.get(path)).status == 200, path
    for path, anchor in sorted(set(links)):
        assert not anchor or anchor in anchors[path], (path, anchor)


def test_packages_put_the_pages_where_they_are_served_from():
    assert COPIES["docs"] == DOCUMENTATION


async def test_alerts_lead_to_headings_of_the_runbook_that_is_served(client):
    text = await (await client.get("/docs/runbook.md")).text()
    ids = set(re.findall(r'<h[1-6] id="([^"]+)"', text))
    for file in (ROOT / "grafana/rules").glob("alerts-*.yml"):
        for group in read_yaml(file.read_text())["groups"]:
            for rule in group["rules"]:
                page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
                assert page == "docs/runbook.md"
                assert anchor in ids


async def test_the_folder_itself_leads_to_its_first_page(client):
    for path in ("/docs", "/docs/"):
        answer = await client.get(path)
        assert (answer.status, answer.url.path) == (200, "/docs/README.md")


@pytest.mark.parametrize(
    "path",
    [
        "/docs/nothing.md",
        "/docs/generate.py",
        "/docs/..%2fpyproject.md",
        "/docs/../pyproject.toml",
        "/docs/%2e%2e/README.md",
        "/docs//etc/passwd",
        "/docs/.hidden.md",
    ],
)
async def test_nothing_else_is_served(client, path):
    assert (await client.get(path)).status == 404


async def test_where_no_pages_are_installed_it_says_so(client, monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "DOCUMENTATION", str(tmp_path / "docs"))
    answer = await client.get("/docs/page.md")
    assert (answer.status, await answer.text()) == (404, ABSENT)


async def test_without_the_extra_pages_are_markdown(client, monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "markdown_it", None)
    monkeypatch.setattr(pages, "DOCUMENTATION", str(tmp_path))
    (tmp_path / "another.md").write_text("# Another\n")
    answer = await client.get("/docs/another.md")
    assert (answer.status, answer.content_type) == (200, "text/plain")
    assert (await answer.text()).startswith("# ")


async def test_a_page_that_has_changed_is_read_again(client, monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "DOCUMENTATION", str(tmp_path))
    page = tmp_path / "page.md"
    page.write_text("# Old\n")
    assert "Old" in await (await client.get("/docs/page.md")).text()
    page.write_text("# New <b>\n\n# New\n")
    text = await (await client.get("/docs/page.md")).text()
    assert 'id="new"' in text
    assert "<title>New" in text
