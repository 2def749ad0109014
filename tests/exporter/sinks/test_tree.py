"""Documents in a tree of folders, and on standard output."""

import json
import os
import threading

import pytest

from jobfeatures.errors import ConfigurationError, SinkError
from jobfeatures_exporter.sinks import make_sink, tree
from jobfeatures_exporter.sinks.config import SinksSettings
from jobfeatures_exporter.sinks.stdout import StdoutSink
from jobfeatures_exporter.sinks.tree import TreeSink, file_name


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data/sonar"


def test_documents_are_appended_to_the_file_of_their_day_and_node(folder, make_message):
    sink = TreeSink(str(folder))
    for number in range(3):
        sink.send(make_message(number))
    lines = (folder / "2027/01/15/0+sample-n1.json").read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [0, 1, 2]


def test_the_day_is_that_of_utc(folder, make_message, monkeypatch):
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    TreeSink(str(folder)).send(make_message(made_at_secs=1_800_057_599.9))
    assert (folder / "2027/01/15/0+sample-n1.json").exists()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("sample", "0+sample-n1.json"),
        ("sysinfo", "0+sysinfo-n1.json"),
        ("job", "0+job-slurm.json"),
        ("cluster", "0+cluzter-slurm.json"),
    ],
)
def test_each_type_has_its_file(kind, name):
    assert file_name(kind, "n1") == name


@pytest.mark.parametrize("node", ["", ".", "..", "a/b", "-x", ".hidden", "a\0b", "ü", "x" * 300])
def test_a_name_that_is_no_file_name_is_refused_for_good(folder, make_message, node):
    with pytest.raises(SinkError) as raised:
        TreeSink(str(folder)).send(make_message(node=node))
    assert raised.value.is_final
    assert not [name for _, _, names in os.walk(folder) for name in names]


@pytest.mark.parametrize("place", ["2027", "2027/01", "2027/01/15", "2027/01/15/0+sample-n1.json"])
def test_no_link_is_followed(folder, make_message, tmp_path, place):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = folder / place
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere if not place.endswith("json") else elsewhere / "victim")
    with pytest.raises(SinkError):
        TreeSink(str(folder)).send(make_message())
    assert list(elsewhere.iterdir()) == []


def test_a_fifo_in_the_place_of_a_file_keeps_nobody_waiting(folder, make_message):
    (folder / "2027/01/15").mkdir(parents=True)
    os.mkfifo(folder / "2027/01/15/0+sample-n1.json")
    with pytest.raises(SinkError):
        TreeSink(str(folder)).send(make_message())


def test_a_disk_that_takes_half_a_document_keeps_none_of_it(folder, make_message, monkeypatch):
    sink = TreeSink(str(folder))
    sink.send(make_message(1))
    original = os.write
    monkeypatch.setattr(tree.os, "write", lambda file, data: original(file, data[:3]))
    with pytest.raises(SinkError, match="only 3 of"):
        sink.send(make_message(2))
    monkeypatch.undo()
    sink.send(make_message(3))
    lines = (folder / "2027/01/15/0+sample-n1.json").read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1, 3]


def test_a_folder_that_cannot_be_made_is_an_error_for_now(make_message):
    with pytest.raises(SinkError) as raised:
        TreeSink("/proc/no/such/place").send(make_message())
    assert not raised.value.is_final


def test_many_writers_mix_no_documents(folder, make_message):
    def write(start):
        sink = TreeSink(str(folder))
        for number in range(start, start + 50):
            sink.send(make_message(body=json.dumps([number] * 3000).encode()))

    writers = [threading.Thread(target=write, args=(100 * each,)) for each in range(4)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    lines = (folder / "2027/01/15/0+sample-n1.json").read_text().splitlines()
    assert sorted(json.loads(line)[0] for line in lines) == [
        number for start in (0, 100, 200, 300) for number in range(start, start + 50)
    ]


def test_the_tree_needs_its_folder():
    with pytest.raises(ConfigurationError, match=r"sonar\.tree_directory"):
        make_sink("tree", SinksSettings())


def test_standard_output_gets_a_line_a_document(make_message):
    read, write = os.pipe()
    sink = StdoutSink(write)
    for number in range(2):
        sink.send(make_message(number))
    os.close(write)
    with os.fdopen(read) as pipe:
        assert pipe.read() == '{"number": 0}\n{"number": 1}\n'


def test_a_reader_that_has_gone_is_an_error_for_now(make_message):
    read, write = os.pipe()
    os.close(read)
    with pytest.raises(SinkError, match="Broken pipe"):
        StdoutSink(write).send(make_message())
    os.close(write)
