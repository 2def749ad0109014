"""What a module offers that reads or writes a log format."""

import inspect
import re
from pathlib import Path

import pytest

from jobfeatures.logkinds import KINDS, WRITABLE

ROOT = Path(__file__).parents[3]


def functions_of(path):
    return set(re.findall(r"(?m)^def (\w+)\(", path.read_text()))


def test_every_module_that_reads_or_writes_records_is_registered():
    found = {"read_records": set(), "write_records": set()}
    for path in (ROOT / "jobfeatures").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for function in found.keys() & functions_of(path):
            found[function].add(name)
    assert found["read_records"] == {kind.reader().__name__ for kind in KINDS.values()}
    assert found["write_records"] == {kind.writer().__name__ for kind in WRITABLE.values()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_takes_a_zone_where_its_kind_says_so(kind):
    reader = KINDS[kind].reader()
    assert ("zone" in inspect.signature(reader.read_records).parameters) == KINDS[kind].is_zoned
    assert ("folds_steps" in inspect.signature(reader.read_records).parameters) == KINDS[kind].has_steps
