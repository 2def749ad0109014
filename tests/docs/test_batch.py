import re
from pathlib import Path

from jobfeatures.batch import SYSTEMS

REFERENCE = Path(__file__).parents[2] / "docs/reference"


def test_every_batch_system_has_a_page_that_is_there():
    text = (REFERENCE / "batch.md").read_text(encoding="utf-8")
    pages = re.findall(r"More: \[its page\]\((\S+)\)", text)
    assert len(pages) == len(SYSTEMS)
    assert all((REFERENCE / page).is_file() for page in pages)


def test_what_is_unavailable_is_said_for_each_key_of_each_system():
    text = (REFERENCE / "batch.md").read_text(encoding="utf-8")
    sections = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    keys = [re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE) for section in sections]
    assert len({tuple(name for name, _ in rows) for rows in keys}) == 1
    assert all(source and source != "–" for rows in keys for _, source in rows)
