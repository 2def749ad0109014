import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = runpy.run_path(str(DOCS / "generate.py"))["PAGES"]


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_reference_page_says_what_the_code_says(name):
    assert (DOCS / "reference" / name).read_text(encoding="utf-8") == PAGES[name](), (
        "run: python docs/generate.py"
    )
