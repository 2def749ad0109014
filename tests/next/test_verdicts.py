"""What is said of a line of docs/behaviour.toml when its tests have run with other versions."""

import pytest

from tests.next.verdicts import judge, named_by, read, wanted

PYPI = {"next": "pypi", "test": "tests/a.py::test_ours", "check": "tests/next/probes_pypi.py::test_theirs"}
SID = {"next": "sid", "test": "tests/a.py::test_ours", "check": "tests/next/probes_sid.py::test_theirs"}
GOOD = ("passed", "")


def test_of_pypi_the_probe_and_our_own_test_count_and_of_sid_the_probe_where_there_is_one():
    assert named_by(PYPI) == [PYPI["check"], PYPI["test"]]
    assert named_by(SID) == [SID["check"]]
    assert named_by({"next": "sid", "test": "tests/a.py::test_ours"}) == ["tests/a.py::test_ours"]
    assert wanted([PYPI, SID, PYPI], "pypi") == [PYPI["test"], PYPI["check"]]


@pytest.mark.parametrize(
    ("theirs", "ours", "verdict"),
    [
        ([GOOD], [GOOD], "holds"),
        ([GOOD, ("failure", "assert 1 == 2")], [GOOD], "CHANGED"),
        ([GOOD], [("error", "boom")], "CHANGED"),
        ([("skipped", "no root")], [("failure", "x")], "CHANGED"),
        ([("skipped", "no root")], [GOOD], "not tried"),
        ([GOOD], [], "not tried"),
    ],
)
def test_a_line_holds_only_if_all_of_its_tests_ran_and_passed(theirs, ours, verdict):
    found, why = judge(PYPI, {PYPI["check"]: theirs, PYPI["test"]: ours})
    assert found == verdict
    assert bool(why) == (verdict != "holds")


def test_a_report_of_pytest_is_read_by_test_whatever_its_parameters(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.a" name="test_ours[1]"/>'
        '<testcase classname="tests.a" name="test_ours[2]"><failure message="assert 1 == 2&#10;more"/></testcase>'
        '<testcase classname="a" name="test_theirs"><skipped message="no root"/></testcase></testsuite></testsuites>'
    )
    outcomes = {}
    read(report, [PYPI["test"], "tests/next/a.py::test_theirs"], outcomes)
    assert outcomes == {
        PYPI["test"]: [GOOD, ("failure", "assert 1 == 2")],
        "tests/next/a.py::test_theirs": [("skipped", "no root")],
    }
