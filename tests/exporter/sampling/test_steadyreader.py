"""A source that is read again and again: it fails, has a fault, answers again, and grows old."""

import logging
import threading

import pytest

from jobfeatures_exporter.sampling.steadyreader import SteadyReader

PATIENCE_SECS = 60


class Source(SteadyReader):
    kind = "source of the test"
    error: Exception | None = None
    closed = 0

    def _read(self):
        if self.error is not None:
            raise self.error

    def close(self):
        self.closed += 1


@pytest.mark.parametrize("error", [OSError("gone"), ZeroDivisionError("gone")])
def test_a_failure_is_told_once_closes_the_source_and_is_over_when_it_answers(clock, caplog, error):
    source = Source("x", clock, 10.0)
    source.error = error
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            source.read_once()
            assert not source.answered_within(10.0)
        source.error = None
        source.read_once()
    failed, again = [each for each in caplog.messages if "unexpectedly" not in each]
    assert failed.startswith("source of the test failed: ")
    assert failed.endswith("gone")
    assert again == "source of the test answers again"
    assert source.closed == 2
    assert source.answered_within(10.0)
    clock.advance(10.5)
    assert not source.answered_within(10.0)


def test_a_thread_reads_until_it_is_stopped_and_closes_the_source(clock):
    read = threading.Event()

    class Counting(Source):
        def _read(self):
            read.set()

    source = Counting("x", clock, 60.0)
    source.start()
    assert read.wait(PATIENCE_SECS)
    source.stop(PATIENCE_SECS)
    assert source.closed == 1
