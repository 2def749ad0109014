"""The table of what logs hold says what they do: there and back, every field is equal or named."""

import runpy
from pathlib import Path

import pytest

from jobfeatures.joblogs.folding import fold_jobs
from jobfeatures.logkinds import KINDS, WRITABLE
from tests.together import together

TABLE = runpy.run_path(str(Path(__file__).parents[2] / "docs/logtable.py"))
LOGS = [(name, kind, text) for name, kind, text in TABLE["fixtures"]()]
by_id = lambda each: (each.cluster or "", each.step or "", each.job_id)  # noqa: E731


def compared(records, kind):
    """Return the fields that were lost on the way to a kind and back, and not told of."""
    if KINDS[kind].jobs_only:
        records = list(fold_jobs(records, lambda name: None))
    hidden = set()
    for record in records:
        after, notes = TABLE["there_and_back"]([record], kind)
        if not after:
            assert any(name == "step" or name.startswith("job ") for name in notes.lost), record
            continue
        hidden |= {
            (record.job_id, name)
            for name in TABLE["differences"](record, after[0], kind)
            if not TABLE["is_reported"](name, record, notes)
        }
    return hidden


@pytest.mark.parametrize("kind", WRITABLE)
def test_a_record_with_every_field_comes_back_or_each_loss_is_named(kind):
    assert compared(list(TABLE["VARIANTS"]), kind) == set()


def test_the_records_have_every_field():
    assert all(
        any(getattr(record, name) not in (None, ()) for record in TABLE["VARIANTS"])
        for name in TABLE["FIELDS"]
    )


@together((name, kind) for name, _, _ in LOGS for kind in WRITABLE)
def test_every_pair_of_kinds_there_and_back(name, kind):
    [(from_kind, text)] = [(from_kind, text) for each, from_kind, text in LOGS if each == name]
    assert compared(TABLE["records_of"](from_kind, text), kind) == set()
