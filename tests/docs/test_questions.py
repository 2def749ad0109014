"""Seven questions that every site asks are answered within three links from the README: the links are followed."""

import os.path
import re

import pytest

from tests.docs.pages import anchors_in, links_in, text_of

MOST_LINKS = 3
ANSWERS = {
    "how do I scrape 200 nodes?": (
        ["docs/200-nodes.md#6-scrape"],
        "The controller lists the nodes at `/sd`.",
    ),
    "how do I hide names?": (
        ["docs/security.md#privacy"],
        "`--privacy` hides names in `/metrics`",
    ),
    "why is my GPU not shown?": (
        ["docs/troubleshooting.md#gpus"],
        "no driver or library (`nvidia-ml-py is not installed`)",
    ),
    "which metric is CPU efficiency?": (
        ["docs/figures.md#cpu-efficiency-and-waste-of-an-allocation"],
        "the recording rule `job:batch_cpu_efficiency:ratio_rate5m`",
    ),
    "how do I uninstall it?": (
        ["docs/install.md#remove"],
        "First take the hooks out of the batch system's configuration",
    ),
    "which dashboard do I import?": (
        ["docs/grafana.md"],
        "| `cluster.json` | How full are partitions and nodes?",
    ),
    "what do I do when a limit is not shown?": (
        ["docs/troubleshooting.md#jobs-find-no-features"],
        "its value is unknown or unlimited: `jobfeatures show --origin`",
    ),
}


def section(page, anchor):
    """Return a page from a heading to the next of its level or above, or the whole of it."""
    lines, level = text_of(page).splitlines(), 0
    found = []
    for line in lines:
        heading = re.match(r"(#+) ", line)
        if heading and level and len(heading[1]) <= level:
            break
        if heading and not level and anchors_in(line) == {anchor}:
            level = len(heading[1])
        if level or not anchor:
            found.append(line)
    return " ".join(" ".join(found).split())


def follow(links):
    """Return what stands where the last link leads, each link being on the page that the one before leads to."""
    page, anchor = "README.md", ""
    for link in links:
        assert link in links_in(text_of(page)), f"{page} has no link to {link}"
        path, _, anchor = link.partition("#")
        page = os.path.normpath(os.path.join(os.path.dirname(page), path))
    return section(page, anchor)


@pytest.mark.parametrize("question", ANSWERS)
def test_a_question_is_answered_where_the_links_lead(question):
    links, sentence = ANSWERS[question]
    assert len(links) <= MOST_LINKS
    assert sentence in follow(links)


def test_a_missing_link_and_another_section_would_be_noticed():
    with pytest.raises(AssertionError, match="has no link"):
        follow(["docs/security.md#nowhere"])
    assert "`--privacy` hides" not in section("docs/security.md", "limits")
