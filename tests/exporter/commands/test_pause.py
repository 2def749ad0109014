"""Waiting for a signal: it ends the wait wherever it comes."""

import queue
import signal
import sys
import threading

import pytest

from jobfeatures.commands.common import time_limit
from jobfeatures_exporter.commands import common
from jobfeatures_exporter.commands.common import pause_until_signal

WATCHED = {common.__file__, threading.__file__, queue.__file__}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_between_any_two_lines(handlers, number):
    """Also of the library that it waits by: what the main thread holds there, a handler waits for in vain."""
    for line in range(1, 40):
        pause, left = pause_until_signal(), [line]

        def trace(frame, event, _value, left=left):
            if event == "line" and frame.f_code.co_filename in WATCHED:
                left[0] -= 1
                if left[0] == 0:
                    signal.raise_signal(number)
            return trace

        with time_limit(10):
            sys.settrace(trace)
            try:
                while not pause(0.0001):
                    pass
            finally:
                sys.settrace(None)
        assert pause(0.0)  # from then on


def test_without_a_signal_it_waits(handlers):
    pause = pause_until_signal()
    assert not pause(0.0001)


def test_a_signal_that_nohup_has_ignored_stays_ignored(handlers):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    pause = pause_until_signal()
    signal.raise_signal(signal.SIGHUP)
    assert not pause(0)
