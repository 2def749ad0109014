import re
from pathlib import Path

from jobfeatures.formats.sss.job import parse_document
from jobfeatures.records.model import Limits

PAGE = Path(__file__).parents[2] / "docs/spool.md"


def test_the_document_on_the_page_is_read_as_the_page_says():
    [text] = re.findall(r"^```xml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    document = parse_document(text.encode(), source="page")
    assert (document.rejected, document.warnings) == ((), ())
    [job] = document.jobs
    assert (job.key.job_id, job.user, job.account, job.partition) == ("render.17", "alice", "film", "farm")
    assert job.allocated_cpus == 4
    assert job.limits == Limits(wall_secs=3600, memory_bytes=2 * 2**30)
    assert job.processes == {4711}
