"""Run what failed once more, where JOBFEATURES_RETRY is set: continuous integration on machines that do much else.

That is done when all else has been run, and the machine may have come to rest; at once only where a
batch system stands for the tests of a file. A test that passes only then is no success to be silent about: the
summary names it with its first failure, and more than LIMIT of them in one run are a failure.

Of what passes in a process of pytest-xdist, one report is sent instead of three, and not that
it begins and ends: the one process that gathers them has to read them all.
"""

import os
from itertools import zip_longest

import pytest
from _pytest.runner import runtestprotocol

LIMIT = 3
PROPERTY = "unstable"
FIRST = pytest.StashKey[list[pytest.TestReport]]()
LATER = pytest.StashKey[list[pytest.Item]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Run a test, and run it again if it failed."""
    retries = "JOBFEATURES_RETRY" in os.environ
    options = item.config.option
    is_terse = hasattr(item.config, "workerinput") and options.durations is None and options.verbose <= 0
    if not retries and not is_terse:
        return None
    if not is_terse:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if retries and FIRST not in item.stash and any(each.failed for each in reports):
        item.stash[FIRST] = reports
        if item.get_closest_marker("integration"):
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
        else:
            item.config.stash.setdefault(LATER, []).append(item)
            reports = []
    if reports and (first := item.stash.get(FIRST, [])):
        if any(each.failed for each in reports):
            reports = first
        else:
            failures = "\n".join(each.longreprtext for each in first if each.failed)
            reports[-1].user_properties.append((PROPERTY, failures))
    for each in reports:
        if is_terse and each.passed:
            each.keywords = {}  # half of what would be sent
        if not is_terse or each.when == "call" or not each.passed or each.user_properties:
            item.ihook.pytest_runtest_logreport(report=each)
    if not is_terse:
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session):
    """Behind all tests, run those once more that have failed."""
    result = yield
    later = session.config.stash.get(LATER, [])
    for item, following in zip_longest(later, later[1:]):
        for worker in (
            each for each in session.config.pluginmanager.get_plugins() if hasattr(each, "item_index")
        ):
            worker.item_index = session.items.index(item)  # whose reports it sends
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
    return result


def _found(config):
    """Yield (test, its first failure)."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    for report in (each for each in reporter.getreports("") if each.when == "teardown"):
        for name, text in report.user_properties:
            if name == PROPERTY:
                yield report.nodeid, text


def pytest_terminal_summary(terminalreporter, config):
    """Name each test that failed first and passed then, with its first failure."""
    for test, failure in _found(config):
        terminalreporter.section(f"UNSTABLE, passed when it was run again: {test}", yellow=True)
        terminalreporter.write_line(failure)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Let a run fail that has more unstable tests than a loaded machine explains."""
    if hasattr(session.config, "workerinput") or session.exitstatus != 0:
        return
    if len(list(_found(session.config))) > LIMIT:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
