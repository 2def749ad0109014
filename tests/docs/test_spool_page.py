import re
from pathlib import Path

from jobfeatures.formats.sss.job import parse_jobs
from jobfeatures.model import Limits

PAGE = Path(__file__).parents[2] / "docs/spool.md"


def test_the_document_on_the_page_is_read_as_the_page_says():
    [text] = re.findall(r"^```xml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    [job], rejected = parse_jobs(text.encode(), source="page")
    assert rejected == []
    assert (job.key.job_id, job.user, job.account, job.partition) == ("render.17", "alice", "film", "farm")
    assert job.allocated_cpus == 4
    assert job.limits == Limits(wall_secs=3600, memory_bytes=2 * 2**30)
    assert job.processes == {4711}
