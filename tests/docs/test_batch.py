import re
from pathlib import Path

from jobfeatures.batch import SYSTEMS

REFERENCE = Path(__file__).parents[2] / "docs/reference"


def test_every_batch_system_has_a_page_that_is_there():
    text = (REFERENCE / "batch.md").read_text(encoding="utf-8")
    pages = re.findall(r"^### \[\w+\]\((\S+)\)$", text, re.MULTILINE)
    assert len(pages) == len(SYSTEMS)
    assert all((REFERENCE / page).is_file() for page in pages)
