"""What no unit test runs uses names that there are: benchmarks, scripts, tests of servers, examples of the docs."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = {"jobfeatures", "jobfeatures_exporter"}
FOLDERS = (
    *(f"tests/{name}" for name in ("benchmarks", "faults", "fuzz", "integration", "labs", "soak")),
    "docs",
    "grafana",
    "packaging",
)
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PAGES = sorted(
    path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if "```python" in path.read_text()
)


def used(source: str) -> Iterator[tuple[str, str]]:
    """Yield the modules of ours and the names that a program takes from them, by import or with a dot."""
    modules = {}
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in OURS:
            yield from ((node.module, each.name) for each in node.names)
            modules.update({each.asname or each.name: f"{node.module}.{each.name}" for each in node.names})
        elif isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.partition(".")[0] in OURS)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            if module is not None and is_there(module, ""):
                yield module, node.attr


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
def test_a_program_uses_names_that_there_are(path):
    assert [each for each in used(path.read_text(encoding="utf-8")) if not is_there(*each)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_example_of_the_docs_uses_names_that_there_are(path):
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    assert [each for block in blocks for each in used(block) if not is_there(*each)] == []


def test_a_name_that_is_gone_is_found():
    gone = "import jobfeatures.nowhere\nfrom jobfeatures import errors, version\nfrom jobfeatures.errors import nobody\n"
    gone += "errors.shown(version.nothing)\n"
    assert [each for each in used(gone) if not is_there(*each)] == [
        ("jobfeatures.nowhere", ""),
        ("jobfeatures.errors", "nobody"),
        ("jobfeatures.version", "nothing"),
    ]
