import io
import json

import pytest

from jobfeatures.cli import main

GOOD = {"data": {"type": "sample", "attributes": {"cluster": "c", "node": "n", "jobs": []}}}
BAD = {"data": {"type": "sample", "attributes": {"cluster": "c", "node": "n", "jobs": [{"job": -1}]}}}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "f.json"

    def write(*documents):
        path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in documents))
        return str(path)

    return write


def test_a_file_without_faults_is_silent(file, capsys):
    assert main(["check", "--as", "sonar", file(GOOD, GOOD)]) == 0
    assert capsys.readouterr().out == ""


def test_each_fault_is_named_with_file_document_path_and_reason(file, capsys):
    path = file(GOOD, BAD, '{"data": NaN}')
    assert main(["check", "--as", "sonar", path]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{path}:2: data.attributes.jobs[0].job: is negative: -1",
        f"{path}:3: envelope: has NaN, which JSON does not allow",
    ]


def test_strict_asks_more(file, capsys):
    assert main(["check", "--as", "sonar", "--strict", file(GOOD)]) == 1
    assert "data.attributes.time: is missing" in capsys.readouterr().out


def test_standard_input_is_read(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(BAD).encode())))
    assert main(["check", "--as", "sonar", "-"]) == 1
    assert capsys.readouterr().out.startswith("-:1: data.attributes")


@pytest.mark.parametrize(("text", "status"), [("<Job><Id>1</Id></Job>", 0), ("<Job><Id>1</Id>", 1)])
def test_a_document_of_sss_is_read_from_standard_input(monkeypatch, capsys, text, status):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["check", "--as", "sss", "-"]) == status
    assert capsys.readouterr().out.startswith("-:")


def test_what_is_not_utf8_is_a_fault(tmp_path, capsys):
    path = tmp_path / "latin"
    path.write_bytes(json.dumps(GOOD).replace('"n"', '"\xfc"').encode("latin-1"))
    assert main(["check", "--as", "sonar", str(path)]) == 1
    assert "is not a host name" in capsys.readouterr().out


def test_a_file_that_cannot_be_read_does_not_hide_the_others(file, capsys):
    assert main(["check", "--as", "sonar", "/no/such/file", file(BAD)]) == 2
    said = capsys.readouterr()
    assert "is negative" in said.out
    assert "No such file" in said.err


def test_a_file_without_envelopes_is_no_good(file, capsys):
    assert main(["check", "--as", "sonar", file("")]) == 1
    assert "no document" in capsys.readouterr().out


SWF = "; Version: 2.2\n1 0 0 10 1 -1 -1 1 20 -1 1 1 1 -1 1 1 -1 -1\n"
SSS = "<Job><Id>1</Id></Job>"
SACCT = "JobID|JobName|State|Start|End\n1|a|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:01:00\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [(SWF, "0 errors, 3 warnings"), (SSS, "1 job, no errors"), (json.dumps(GOOD), "")],
    ids=["swf", "sss", "sonar"],
)
def test_what_a_file_is_shows_by_its_beginning(file, capsys, text, said):
    path = file(text)
    assert main(["check", path]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert said in told.out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SACCT, "is a log of kind sacct, which only jobfeatures convert can read"),
        ("hello\n", "is not recognised as a log: if you know its kind, give it with --as"),
        ("", "is empty, so its kind is unknown: give it with --as"),
    ],
)
def test_what_no_check_is_for_is_not_said_to_be_good(file, capsys, text, said):
    path = file(text)
    assert main(["check", path]) == 2
    assert capsys.readouterr().err == f"jobfeatures: {path}: {said}\n"


def test_standard_input_has_to_be_named(capsys):
    assert main(["check", "-"]) == 2
    assert capsys.readouterr().err == "jobfeatures: standard input: give its kind with --as\n"


def test_directories_and_files_are_checked_together_and_the_worst_counts(file, tmp_path, capsys):
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine/total_cpu").write_text("8")
    (tmp_path / "machine/hs06").write_text("80.5")
    bad = file(BAD)
    assert main(["check", str(tmp_path / "machine"), bad]) == 1
    told = capsys.readouterr().out
    assert f"{bad}:1: data.attributes.jobs[0].job: is negative" in told
    assert f"{tmp_path}/machine (machine)" in told


@pytest.mark.parametrize(
    ("text", "kind"), [(SSS.replace("</Id>", ""), "sss"), (json.dumps(BAD), "sonar"), (SWF + "1 2\n", "swf")]
)
def test_each_fault_can_be_had_as_an_object_a_line(file, capsys, text, kind):
    path = file(text)
    assert main(["check", "--as", kind, "--format", "json", path]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {each["file"] for each in found} == {path}
    assert all(each["message"] for each in found)


def test_a_profile_of_another_specification_is_refused(file, capsys):
    assert main(["check", "--as", "sonar", "--profile", "2016", file(GOOD)]) == 2
    assert "--profile: 2016 is not a profile of sonar" in capsys.readouterr().err
