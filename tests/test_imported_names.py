"""What no unit test runs imports names that there are: benchmarks, scripts, and the examples of the docs."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = {"jobfeatures", "jobfeatures_exporter", "tests"}
FOLDERS = ("tests/benchmarks", "tests/soak", "tests/labs", "docs", "grafana", "packaging")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PAGES = sorted(
    path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if "```python" in path.read_text()
)


def imported(source: str) -> Iterator[tuple[str, str]]:
    """Yield the modules of ours and the names that a program takes from them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in OURS:
            yield from ((node.module, each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.partition(".")[0] in OURS)


def is_there(module: str, name: str) -> bool:
    try:
        if not name or hasattr(importlib.import_module(module), name):
            return importlib.import_module(module) is not None
        return importlib.import_module(f"{module}.{name}") is not None
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OURS:
            pytest.skip(f"no {error.name}")
        return False


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_program_imports_names_that_there_are(path):
    assert [each for each in imported(path.read_text(encoding="utf-8")) if not is_there(*each)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_example_of_the_docs_imports_names_that_there_are(path):
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    assert [each for block in blocks for each in imported(block) if not is_there(*each)] == []


def test_a_name_that_is_gone_is_found():
    gone = "import jobfeatures.nowhere\nfrom jobfeatures.errors import Rejected, nobody\n"
    assert [each for each in imported(gone) if not is_there(*each)] == [
        ("jobfeatures.nowhere", ""),
        ("jobfeatures.errors", "nobody"),
    ]
