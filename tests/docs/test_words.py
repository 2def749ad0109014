"""Phrases that readers stumbled over stay out of pages, help texts, messages, docstrings and comments."""

import re

import pytest

from tests.docs.pages import NAMES, ROOT, faults_by_page, text_of, tokens_of
from tests.together import together

# What stood here once, as regular expressions, and what to write. That they begin with letters makes them fast.
INSTEAD = {
    r"asked for what (they|it) knows?": "queried",
    r"without hurting": "without loading the controller",
    r"told by field": "fields lost in conversion are listed",
    r"(tells?|told) of\b": "reports",
    r"for want of\b": "because … ran out, waiting for …, for lack of …",
    r"(never|nothing) falls?\b": "never decreases",
    r"false zero": "what cannot be read is left out",
    r"did at once": "all non-idle tasks were stalled",
    r"(to|may) be expected to end": "should end by",
    r"nobody could be asked": "no features can be read",
    r"whatever is broken": "name what may fail",
    r"a C loop that keeps": "16 times cheaper than psutil",
    r"on each compute node:? ```sh packaging/build": "build once",
    r"[Gg]raphics? cards?": "GPU",
    r"what (jobs|hooks|they|it) (is|are) told\b": "what jobs can read, the environment of hooks",
    r" is had\b": "exists, is read",
    r"goes unsaid": "what is unknown is left out",
    r"(takes?|after) (a|the) look at": "samples",
    r"which witness\b": "which source counts",
    r"it is told that": "it is notified",
    r"whoever (is|was) asked\b": "the server, the batch system",
    r"stand[s]? beside each other": "are compared",
    r"as it is asked": "as configured",
    r"found missing": "no longer there",
    r"more than their collector reads": "that several modules use",
}
MESSAGES = [
    *(ROOT / "jobfeatures").rglob("*.py"),
    *(ROOT / "exporter/jobfeatures_exporter").rglob("*.py"),
    *(ROOT / "grafana").rglob("*.yml"),
    *(ROOT / "grafana").rglob("*.json"),
    *(ROOT / "packaging").rglob("*.sh"),
]


# Between two parts of one string: the end of a line in the text, or where a line of code ends.
SEAM = re.compile(r"""\\n|["']\s*\n\s*[bfru]{0,2}["']""")


def texts_in(path):
    """Return what a file says, each text in one piece. Of Python it is all of it: to parse the code takes far longer."""
    text = path.read_text(encoding="utf-8")
    return " ".join((SEAM.sub(seam, text) if path.suffix == ".py" else text).split())


def seam(found):
    return " " if found[0] == "\\n" else ""


def hits(text):
    for pattern, better in INSTEAD.items():
        for found in re.finditer(pattern, text):
            yield f"{found[0]!r}: {better}"


@together((name,) for name in NAMES)
def test_a_page_has_none_of_the_phrases(name):
    assert list(hits(" ".join(text_of(name).split()))) == []


def test_messages_and_help_texts_have_none_of_the_phrases():
    found = {str(path.relative_to(ROOT)): list(hits(texts_in(path))) for path in MESSAGES}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def doubled(text):
    """Yield words that stand twice in a row in prose, code left out."""
    for token in tokens_of(text):
        if token.type == "inline":
            texts = {"text": None, "softbreak": " "}  # anything else parts them
            prose = "".join(texts.get(each.type, "·") or each.content for each in token.children)
            yield from re.findall(r"\b([A-Za-z]+) \1\b", prose)


def test_no_word_stands_twice_in_a_row():
    assert faults_by_page(NAMES, lambda name: doubled(text_of(name))) == {}
    assert list(doubled("Of the the\nkernel, `the` the code.\n")) == ["the"]


def test_a_phrase_is_found_over_the_ends_of_lines(tmp_path):
    code = tmp_path / "code.py"
    code.write_text(
        'print(\n    f"{name} was killed for "\n    "want of memory"\n)\n"""what is\nhad"""\nsay("false\\nzero")\n'
    )
    assert [each.split("'")[1] for each in hits(texts_in(code))] == ["for want of", "false zero", " is had"]


@pytest.mark.parametrize(
    "text", ["a job is told of once", "killed for want of memory", "it never falls", "graphics cards"]
)
def test_a_phrase_is_found(text):
    assert len(list(hits(text))) == 1
