"""`jobfeatures sss`."""

from pathlib import Path

import pytest

from jobfeatures.cli import main

ROOT = Path(__file__).parents[3]

GROUP = """<JobGroup><Id>g</Id><JobDefaults><User>ada</User></JobDefaults>
<Job><Id>1</Id><Requested><Processors op="GE">4</Processors><Memory units="GB">2</Memory></Requested></Job>
<Job><Id>2</Id>{}</Job></JobGroup>"""


@pytest.fixture
def check(tmp_path, capsys):
    path = tmp_path / "jobs.xml"

    def checked(text: str, *flags: str) -> tuple[int, str]:
        path.write_text(text)
        command = ["check", "--as", "sss"] if set(flags) <= {"--lenient"} else ["sss", "explain"]
        status = main([*command, *(each for each in flags if each != "--explain"), str(path)])
        return status, capsys.readouterr().out.replace(str(path), "F")

    return checked


def test_a_good_group_has_no_errors(check):
    assert check(GROUP.format("")) == (0, "F: 2 jobs, no errors\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("<Telescope/>", "F:3:Telescope: column 16: unknown element here\n"),
        (
            "<Processors>four</Processors>",
            "F:3:Processors: column 16: must be of type Integer, not negative: 'four'\n",
        ),
        (
            '<Requested><Memory group="1">1</Memory></Requested>',
            "F:3:Memory: column 27: opens a group that is not closed\n",
        ),
        ("<Dependency>2</Dependency>", "F:Dependency: jobs wait for each other: 2\n"),
        ("<Dependency>2</Dependency><Id>1</Id>", "F:3:Id: column 42: occurs twice in one element\n"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(check, content, said):
    assert check(GROUP.format(content)) == (1, said)


def test_a_job_from_before_may_be_waited_for(check):
    assert check(GROUP.format("<Dependency>0</Dependency>")) == (
        0,
        "F: 2: waits for 0, which is not in the document\nF: 2 jobs, no errors\n",
    )


def test_a_job_to_which_the_group_refers_is_one_of_its_jobs(check):
    text = "<JobGroup><Id>g</Id><Job>9</Job><Job><Id>2</Id><Dependency>9</Dependency></Job></JobGroup>"
    assert check(text) == (0, "F: 1 job, no errors\n")
    assert check(text, "--explain") == (0, "F: can run in this order: 9, 2\nF: 1 job, no errors\n")
    circle = text.replace("<Job>9</Job>", "<Job>9</Job><Job><Id>9</Id></Job>")
    assert check(circle) == (1, "F:Id: two jobs have this Id: '9'\n")


# "a set of job properties to be assumed by all jobs within the job group unless overridden within the job";
# "Jobs within a job group form a DAG (directed acyclic graph)": section 3.0.
def test_inheritance_requests_dependencies_and_order_are_explained(check):
    first = "<State>Completed</State><ExitCode>0</ExitCode>"
    text = GROUP.format('<User>bob</User><Dependency condition="OnFailure">1</Dependency>')
    text = text.replace("<Id>1</Id>", f"<Id>1</Id>{first}")
    assert check(text, "--explain") == (
        0,
        (
            "F: 1: inherits User ada\n"
            "F: 1: requests Processors GE 4 and Memory 2 GB\n"
            "F: 2: after 1 (OnFailure): never, it ended with 0\n"
            "F: can run in this order: 1, 2\n"
            "F: 2 jobs, no errors\n"
        ),
    )


# The document's own examples are in typographic quotes.
def test_typographic_quotes_are_taken_where_that_is_asked_for(check):
    text = GROUP.format("").replace('"', "”")
    assert check(text)[0] == 1
    assert check(text, "--lenient") == (0, "F: 2 jobs, no errors\n")


@pytest.fixture
def match(tmp_path, capsys):
    def matched(text: str, nodes: str) -> tuple[int, str]:
        (tmp_path / "jobs.xml").write_text(text)
        (tmp_path / "nodes.json").write_text(nodes)
        status = main(["sss", "match", str(tmp_path / "jobs.xml"), str(tmp_path / "nodes.json")])
        told = capsys.readouterr()
        return status, (told.out + told.err).replace(f"{tmp_path}/", "")

    return matched


NODES = """{"Node": "small", "Processors": 4, "Memory": 1073741824}
{"Node": "large", "Processors": 64, "Memory": 2147483648, "Feature": ["fast"]}
{"Node": "odd", "Processors": 64}
"""


# "If a group of positive valued preference alternatives are specified, at least one of the preferences must
# be satisfied for the job to run": section 8.1.
def test_nodes_are_told_in_order_of_preference(match):
    text = (
        '<Job><Id>1</Id><Requested><Memory preference="2" performanceFactor="1.5" units="GB">2</Memory>'
        '<Memory preference="1" units="GB">1</Memory></Requested></Job>'
    )
    assert match(text, NODES) == (
        0,
        (
            "jobs.xml: 1: 1. large, score 1, performance factor 1.5\n"
            "jobs.xml: 1: 2. small, score 1/3\n"
            "jobs.xml: 1: unknown for odd\n"
        ),
    )


def test_a_job_that_does_not_find_its_nodes_is_told_with_the_status(match):
    text = "<Job><Id>1</Id><NodeCount>2</NodeCount><Feature>fast</Feature></Job>"
    assert match(text, NODES) == (
        1,
        "jobs.xml: 1: 1. large\njobs.xml: 1: unknown for small, odd\njobs.xml: 1: 1 of 2 nodes found\n",
    )


def test_what_is_wrong_with_nodes_or_requests_is_told_with_its_file(match, tmp_path, capsys):
    assert match("<Job><Id>1</Id></Job>", "{") == (
        1,
        "nodes.json:1: not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\n",
    )
    assert match('<Job><Id>1</Id><Requested><Memory group="1">1</Memory></Requested></Job>', NODES) == (
        1,
        "jobs.xml:1:Memory: column 27: opens a group that is not closed\n",
    )
    assert main(["sss", "match", str(tmp_path / "jobs.xml"), str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.endswith("none: No such file or directory\n")


def test_jobs_are_printed_with_their_defaults(check):
    status, said = check(GROUP.format("<User>bob</User>"), "--resolved")
    assert status == 0
    assert said.count("<User>ada</User>") == 1
    assert said.count("<User>bob</User>") == 1
    assert said.count("<Task") > 0


def test_a_file_that_cannot_be_read_is_told_apart_from_an_error(tmp_path, capsys):
    assert main(["check", "--as", "sss", str(tmp_path / "none.xml")]) == 2
    assert capsys.readouterr().err.endswith("none.xml: No such file or directory\n")


def test_the_schema_is_printed(capsys):
    assert main(["sss", "schema"]) == 0
    assert capsys.readouterr().out == (ROOT / "jobfeatures/formats/sss/sss.rng").read_text()
