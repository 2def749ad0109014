"""Links lead somewhere: to files that are there, and to headings that are in them."""

import re
from pathlib import Path

from tests.docs.pages import (
    HISTORY,
    NAMES,
    PAGES,
    ROOT,
    anchors_in,
    blocks_of,
    faults_by_page,
    links_in,
    text_of,
    words_in,
)

FOLDERS = ("docs/", "packaging/", "grafana/", "tests/", "exporter/", "jobfeatures/", ".ci/")
READ = [*NAMES, *(str(page.relative_to(ROOT)) for page in HISTORY)]


def broken(name):
    page = ROOT / name
    for link in links_in(text_of(name)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{link}: no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors_in(target.read_text("utf-8")):
            yield f"{link}: no such heading"


def test_links_between_pages_lead_somewhere():
    assert faults_by_page(READ, broken) == {}


def incomplete(name):
    outside = [link for link in links_in(text_of(name)) if re.match(r"[a-z]+:", link)]
    return [link for link in outside if not re.fullmatch(r"https?://[\w.-]+\.[a-z]+(/\S*)?", link)]


def test_links_elsewhere_are_complete():
    assert faults_by_page(READ, incomplete) == {}


def test_headings_get_the_anchors_that_are_linked_to():
    text = "# A page\n## What `jobs.kinds` is, here\n## Twice\n## Twice\n"
    assert anchors_in(text) == {"a-page", "what-jobskinds-is-here", "twice", "twice-1"}


def missing_paths(name):
    """Return those in backquotes and in commands, seen from the top; a star, or what is in capitals, is others."""
    words = words_in(text_of(name))
    for block in blocks_of("sh", "bash", "console"):
        if block.page == name:
            words += re.findall(r"(?<![\w/.-])[\w./*-]+", block.text)
    words = [word.partition("::")[0] for word in words]  # of a test by its file and name
    paths = {word.rstrip("/.") for word in words if word.startswith(FOLDERS) and " " not in word}
    plain = {path for path in paths if not re.search(r"[A-Z…<>{}]", path.rsplit("/", 1)[-1].split(".")[0])}
    here = {Path(name).parent, Path()}
    return {path for path in plain if not any(list((ROOT / top).glob(path)) for top in here)}


def test_paths_of_this_project_exist():
    assert faults_by_page(NAMES, missing_paths) == {}


def missing_in_packages(name):
    found = set(re.findall(r"/opt/jobfeatures-exporter/(\w+)/([\w.]+)", text_of(name)))
    return {
        (folder, file)
        for folder, file in found
        if folder not in {"bin", "share"} and not (ROOT / "packaging" / folder / file).is_file()
    }


def test_installed_paths_are_those_that_packages_bring():
    assert faults_by_page(NAMES, missing_in_packages) == {}


def test_every_page_can_be_reached_from_the_index():
    """From docs/README.md, by links alone."""
    seen, to_see = {ROOT / "README.md"}, [ROOT / "docs/README.md"]
    while to_see:
        page = to_see.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        links = [link.partition("#")[0] for link in links_in(page.read_text(encoding="utf-8"))]
        to_see += [(page.parent / link).resolve() for link in links if link and ":" not in link]
    assert set(PAGES) - seen == set()
