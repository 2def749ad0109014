"""The page on schedules names every field of a result and every reason for which a job does not count.

Its pictures are there, and nobody waits for them.
"""

import re
from pathlib import Path

from jobfeatures.analysis.schedule.choosing import REASONS
from jobfeatures.analysis.schedule.document import make_document
from jobfeatures.analysis.schedule.jobarrays import from_records
from jobfeatures.analysis.schedule.result import Options
from jobfeatures.joblogs.loggedjob import JobRecord
from tests.jobfeatures.evaluated import summarise

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "schedule.md").read_text(encoding="utf-8")


JSON = (DOCS / "library.md").read_text(encoding="utf-8").partition("## JSON of `schedule`")[2]


def named_in(table, page=PAGE):
    """Return what stands in backquotes in the first column of a table, by a word in its first row."""
    rows = page[page.index(table) :].split("\n\n")[0].splitlines()
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_every_reason_is_named():
    assert named_in("| reason |") == set(REASONS)


def test_every_field_of_a_result_is_named():
    job = JobRecord(
        batch_system="pbs", job_id="1", user="a", total_cpus=1, submit_secs=0, start_secs=0, end_secs=5
    )
    document = make_document(summarise("log", [from_records([job], "log")], Options(), ["user"]), ["user"])
    assert named_in("| field |", JSON) == set(document) - {"log"}


def test_every_picture_is_there_has_words_and_is_small():
    shown = re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", PAGE)
    assert len(shown) >= 4
    for words, name in shown:
        picture = DOCS / name
        assert len(words) > 30
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size < 200_000
    there = {str(path.relative_to(DOCS)) for path in (DOCS / "pictures/schedule").rglob("*.png")}
    assert there == {name for _, name in shown}
