import io
import json

import pytest

from jobfeatures_exporter.cli import main

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
    assert main(["validate", file(GOOD, GOOD)]) == 0
    assert capsys.readouterr().out == ""


def test_each_fault_is_named_with_file_document_path_and_reason(file, capsys):
    path = file(GOOD, BAD, '{"data": NaN}')
    assert main(["validate", path]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{path}:2: data.attributes.jobs[0].job: is negative: -1",
        f"{path}:3: envelope: has NaN, which is no JSON",
    ]


def test_strict_asks_more(file, capsys):
    assert main(["validate", "--strict", file(GOOD)]) == 1
    assert "data.attributes.time: is missing" in capsys.readouterr().out


def test_standard_input_is_read(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(BAD).encode())))
    assert main(["validate", "-"]) == 1
    assert capsys.readouterr().out.startswith("-:1: data.attributes")


def test_what_is_not_utf8_is_a_fault(tmp_path, capsys):
    path = tmp_path / "latin"
    path.write_bytes(json.dumps(GOOD).replace('"n"', '"\xfc"').encode("latin-1"))
    assert main(["validate", str(path)]) == 1
    assert "is not a host name" in capsys.readouterr().out


def test_a_file_that_cannot_be_read_does_not_hide_the_others(file, capsys):
    assert main(["validate", "/no/such/file", file(BAD)]) == 2
    said = capsys.readouterr()
    assert "is negative" in said.out
    assert "No such file" in said.err


def test_a_file_without_envelopes_is_no_good(file, capsys):
    assert main(["validate", file("")]) == 1
    assert "there is none" in capsys.readouterr().out
