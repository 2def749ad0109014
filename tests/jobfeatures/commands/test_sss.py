"""`jobfeatures sss`."""

import pytest

from jobfeatures.cli import main
from jobfeatures.formats.sss.schema import format_schema

GROUP = """<JobGroup><Id>g</Id><JobDefaults><User>ada</User></JobDefaults>
<Job><Id>1</Id><Requested><Processors op="GE">4</Processors><Memory units="GB">2</Memory></Requested></Job>
<Job><Id>2</Id>{}</Job></JobGroup>"""


@pytest.fixture
def check(tmp_path, capsys):
    path = tmp_path / "jobs.xml"

    def checked(text: str, *flags: str) -> tuple[int, str]:
        path.write_text(text)
        status = main(["sss", "check", *flags, str(path)])
        return status, capsys.readouterr().out.replace(str(path), "F")

    return checked


def test_a_good_group_has_no_errors(check):
    assert check(GROUP.format("")) == (0, "F: 2 jobs, no errors\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("<Telescope/>", "F:3:Telescope: column 16: element is not known here\n"),
        (
            "<Processors>four</Processors>",
            "F:3:Processors: column 16: not of type Integer, not negative: 'four'\n",
        ),
        (
            '<Requested><Memory group="1">1</Memory></Requested>',
            "F:3:Memory: column 27: opens a group that is not closed\n",
        ),
        ("<Dependency>2</Dependency>", "F:Dependency: jobs wait for each other: 2\n"),
        ("<Dependency>2</Dependency><Id>1</Id>", "F:3:Id: column 42: stands here twice\n"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(check, content, said):
    assert check(GROUP.format(content)) == (1, said)


def test_a_job_from_before_may_be_waited_for(check):
    assert check(GROUP.format("<Dependency>0</Dependency>")) == (
        0,
        "F: 2: waits for 0, which is not here\nF: 2 jobs, no errors\n",
    )


def test_a_request_is_evaluated_for_a_node(check):
    enough = check(GROUP.format(""), "--have", "Processors=8", "--have", "Memory=2147483648")
    assert enough == (0, "F: 1: satisfied, score 0\nF: 2: satisfied, score 0\nF: 2 jobs, no errors\n")
    assert "F: 1: not satisfied\n" in check(GROUP.format(""), "--have", "Processors=2")[1]
    assert "F: 1: not known\n" in check(GROUP.format(""), "--have", "Processors=4")[1]


def test_jobs_are_printed_with_their_defaults(check):
    status, said = check(GROUP.format("<User>bob</User>"), "--resolved")
    assert status == 0
    assert said.count("<User>ada</User>") == 1
    assert said.count("<User>bob</User>") == 1
    assert said.count("<Task") > 0


def test_a_file_that_cannot_be_read_is_told_apart_from_an_error(tmp_path, capsys):
    assert main(["sss", "check", str(tmp_path / "none.xml")]) == 2
    assert capsys.readouterr().err.endswith("none.xml: No such file or directory\n")


def test_what_a_node_has_is_a_name_and_a_value(capsys):
    assert main(["sss", "check", "--have", "Memory", "F"]) == 2
    assert "--have: must be NAME=VALUE" in capsys.readouterr().err


def test_the_schema_is_printed(capsys):
    assert main(["sss", "schema"]) == 0
    assert capsys.readouterr().out == format_schema()
