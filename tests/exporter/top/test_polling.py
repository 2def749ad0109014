"""What is shown when looks succeed and fail."""

import threading

from jobfeatures.errors import SourceError
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import ProcessSample, Snapshot
from jobfeatures_exporter.top.pages import parse_page
from jobfeatures_exporter.top.polling import PagePoller
from tests.running import PATIENCE_SECS

KEY = JobKey("slurm", "1")
PROCESS = ProcessSample(7, 1, 7, 7, 5, "run", "S", 0, 0, 0, 0, 1, 4096, 8192)


class Pages:
    name = "constructed"
    without_processes = "none"

    def __init__(self):
        self.error = None
        self.found = Snapshot(
            taken_at_secs=0, duration_secs=0, node=None, jobs={}, processes={7: PROCESS}, keys={7: KEY}
        )

    def read(self):
        if self.error:
            raise self.error
        return parse_page(
            'batch_node_sample_timestamp_seconds 8\nbatch_job_info{batch_system="slurm",job_id="1"} 1\n'
        )

    def processes(self):
        return self.found

    def close(self):
        pass


def test_what_fails_is_told_beside_what_was_seen_last():
    pages = Pages()
    looker = PagePoller(pages, 1.0, show=print, give_up=print)
    assert looker.take().node.running == 1
    pages.error = SourceError("503")
    assert (looker.take().fault, looker.take().node.running) == ("503", 1)
    pages.error = None
    assert looker.take().fault == ""


def test_processes_are_read_only_of_jobs_that_are_expanded():
    pages = Pages()
    looker = PagePoller(pages, 1.0, show=print, give_up=print)
    assert looker.take().processes == {}
    other = JobKey("slurm", "2")
    looker.expanded = frozenset({KEY, other})
    found = looker.take().processes
    assert [each.process.pid for each in found[KEY]] == [7]
    assert found[other] == "none"
    pages.found = "elsewhere"
    assert looker.take().processes == {KEY: "elsewhere", other: "elsewhere"}


def test_a_fault_of_ours_is_handed_over_and_ends_it():
    pages, told = Pages(), []
    pages.error = ZeroDivisionError()
    over = threading.Event()
    PagePoller(pages, 1.0, show=print, give_up=lambda error: (told.append(error), over.set())).start()
    assert over.wait(PATIENCE_SECS)
    assert told == [pages.error]
