import re
from pathlib import Path

from jobfeatures.logkinds import KINDS, WRITABLE

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "convert.md").read_text(encoding="utf-8")
NOTES = (
    (DOCS / "coverage.md").read_text(encoding="utf-8").partition("## What each kind of log cannot hold")[2]
)


def test_the_table_on_the_page_has_the_kinds_there_are():
    rows = re.findall(r"^\| `(\w+)` \|.*\| (?:`(\S+)` )?\|$", PAGE, re.MULTILINE)
    assert rows == [(name, kind.endings[0] if kind.endings else "") for name, kind in KINDS.items()]


def test_each_kind_that_is_written_is_told_of():
    told = re.findall(r"^- (?:\*\*\w+\*\*(?: and )?)+", NOTES.partition("\n#")[0], re.MULTILINE)
    assert set(re.findall(r"\w{3,}", "".join(told))) - {"and"} == set(WRITABLE)
