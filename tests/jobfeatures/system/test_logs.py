import gc
import io
import json
import logging
import weakref

import pytest

from jobfeatures.system.loglimits import DISTINCT, MAX_KINDS
from jobfeatures.system.logs import LimitedHandler, LineFormatter
from tests.held import count_held


@pytest.fixture
def logger(clock):
    """Return a logger that writes JSON to `handler.stream`, on a clock of the test."""
    handler = LimitedHandler(clock)
    handler.setStream(io.StringIO())
    handler.setFormatter(LineFormatter("json"))
    logger = logging.getLogger("test_logs")
    logger.propagate = False
    logger.setLevel("DEBUG")
    logger.addHandler(handler)
    logger.handler = handler
    yield logger
    logger.removeHandler(handler)
    handler.close()


@pytest.fixture
def lines(logger):
    """Return a function that takes the lines that were written since the last call."""

    def take():
        stream = logger.handler.stream
        taken = stream.getvalue().splitlines()
        stream.seek(0)
        stream.truncate()
        return [json.loads(line) for line in taken]

    return take


def said(lines):
    return [(line["msg"], line.get("repeated")) for line in lines]


def test_a_message_that_repeats_is_written_once_then_counted_once_a_minute(logger, lines, clock):
    for _ in range(1000):
        logger.error("the disk is full")
    assert said(lines()) == [("the disk is full", None)]
    clock.advance(61)
    logger.error("the disk is full")
    assert said(lines()) == [("the disk is full", 999)]
    clock.advance(61)
    logger.info("something else")
    assert said(lines()) == [("the disk is full", 1), ("something else", None)]
    clock.advance(61)
    logger.error("the disk is full")
    clock.advance(61)
    logger.error("the disk is full")
    assert said(lines()) == [("the disk is full", None)] * 2


def test_messages_of_one_kind_are_written_up_to_a_few_a_minute(logger, lines, clock):
    for number in range(160):
        logger.error("cannot publish: %s", f"job {number}", extra={"what": number})
    first = lines()
    assert [line["what"] for line in first] == list(range(DISTINCT))
    clock.advance(61)
    logger.handler.write_due()
    [count] = lines()
    assert (count["msg"], count["what"], count["repeated"]) == (
        "cannot publish: job 159", 159, 160 - DISTINCT,
    )  # fmt: skip


def test_what_differs_in_its_numbers_only_is_of_one_kind(logger, lines):
    for number in range(500):
        logger.error(f"Task exception was never retrieved: <Task-{number} at {number:#x}>")
    assert len(lines()) == DISTINCT


def test_other_levels_and_loggers_and_exceptions_are_written(logger, lines):
    for error in (OSError(5, "x"), OSError(5, "x"), ValueError("y")):
        logger.error("sampling failed", exc_info=error)
    logger.warning("sampling failed")
    written = lines()
    assert [line["level"] for line in written] == ["error", "error", "warning"]
    assert "ValueError" in written[1]["error"]


def test_debugging_shows_everything(logger, lines):
    for _ in range(30):
        logger.debug("looked")
    assert len(lines()) == 30


def test_counts_are_written_when_the_program_ends(logger, lines):
    for _ in range(3):
        logger.error("again")
    logger.handler.close()
    assert said(lines()) == [("again", None), ("again", 2)]


def test_a_message_whose_arguments_do_not_fit_raises_nothing(logger, lines, capsys):
    record = logging.LogRecord(logger.name, logging.WARNING, __file__, 1, "%d jobs", ("many",), None)
    logger.handler.handle(record)  # pytest's own handler would raise
    logger.warning("next")
    assert said(lines()) == [("next", None)]
    assert "many" in capsys.readouterr().err


def test_kinds_beyond_number_cost_no_memory(logger, lines):
    held = []
    for number in range(5 * MAX_KINDS):
        text = "".join(chr(ord("a") + int(digit)) for digit in str(number))
        for _ in range(2):
            logger.error(text)
        if number % MAX_KINDS == MAX_KINDS - 1:
            logger.handler.flush()
            held.append(count_held(logger.handler))
    assert held[-1] < 1.1 * held[0]
    logger.handler.close()
    told = lines()
    assert sum(line.get("repeated", 1) for line in told) == 10 * MAX_KINDS


def test_a_count_keeps_nothing_alive(logger, lines):
    class OurError(Exception):
        pass

    failures = []
    for _ in range(2):
        error = OurError("x")
        failures.append(weakref.ref(error))
        raised = type(error), error, None
        record = logging.LogRecord(logger.name, logging.ERROR, __file__, 1, "failed", (), raised)
        logger.handler.handle(record)  # pytest's own handler would keep it
    del error, raised, record
    gc.collect()
    assert [each() for each in failures] == [None, None]
    assert len(lines()) == 1
