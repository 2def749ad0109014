"""Each module has its test file where the name says: jobfeatures/a/b.py is tested by tests/jobfeatures/a/test_b.py.

`python -m tests.test_mirror` lists the modules that are tested elsewhere. Their number only falls.
"""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST = 178


def modules_tested_elsewhere() -> Iterator[str]:
    """Yield the modules that have no test file of their name; what only a package says of itself needs none."""
    for tests, package in (("jobfeatures", "jobfeatures"), ("exporter", "exporter/jobfeatures_exporter")):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.stem in ("__init__", "__main__"):
                continue
            module = tests / path.relative_to(ROOT / package)
            folder, name = ROOT / "tests" / module.parent, f"test_{path.stem}.py"
            above = path.parents[1] / path.name  # of rooms that are all alike, as batch/system.py
            if not ((folder / name).exists() or (above.exists() and (folder.parent / name).exists())):
                yield str(module)


def test_no_more_modules_are_tested_elsewhere_than_before():
    found = list(modules_tested_elsewhere())
    assert len(found) <= MOST, "a new module wants its test file:\n" + "\n".join(found)
    assert len(found) > MOST - 25, f"lower MOST to {len(found)}"


if __name__ == "__main__":
    print(*modules_tested_elsewhere(), sep="\n")
