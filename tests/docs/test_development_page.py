"""The picture of packages shows each once, and each imports only from lines below its own."""

import itertools
import re

from tests.docs.pages import ROOT, blocks_in, text_of
from tests.test_structure import PACKAGES, is_within, name_of, named

[PICTURE] = [
    block for block in blocks_in(text_of("docs/development.md")) if "picture of packages" in block.marks
]


def levels():
    """Return the line of each package, from the top."""
    found, program = {}, ""
    for number, line in enumerate(PICTURE.text.splitlines()):
        program = line.split()[0] if not line.startswith(" ") else program
        for name in re.sub(r"^\S+", "", line).split():
            assert f"{program}.{name}" not in found
            found[f"{program}.{name}"] = number
    return found


def upward():
    """Return the imports from a package to one that is not on a line below."""
    place = levels()
    return {
        (one, other)
        for name, imported in named().items()
        for one in place
        if is_within(name, one)
        for other in place.keys() - {one}
        if place[other] <= place[one] and any(is_within(each, other) for each in imported)
    }


def test_the_picture_shows_every_package():
    assert levels().keys() == {
        name_of(path) for package in PACKAGES.values() for path in package.glob("*/__init__.py")
    }


def test_imports_lead_downwards():
    assert upward() == set()


def ways():
    """Return the files of each way, in order."""
    text = text_of("docs/development.md").split("<!-- ways -->")[1].split("\n\n")[0]
    found = re.split(r"(?m)^- \*\*", text)[1:]
    return {way.partition(":")[0]: re.findall(r"`([^`]+\.py)`", way) for way in found}


def test_the_ways_through_the_house_go_from_file_to_file_that_knows_it():
    lists = ways()
    assert len(lists) == 5
    broken = []
    for way, files in lists.items():
        names = [name_of(ROOT / file) for file in files]
        for one, other in itertools.pairwise(names):
            if other not in named()[one] and one not in named()[other]:
                broken.append((way, one, other))
    assert broken == []
