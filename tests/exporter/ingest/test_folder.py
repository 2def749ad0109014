from __future__ import annotations

import json
import os

import pytest

from jobfeatures_exporter.ingest import folder as directory
from jobfeatures_exporter.ingest.folder import SonarDirectory

MAX_BYTES = 4000


@pytest.fixture
def folder(site, tmp_path):
    """Return a reader of a folder with a day in it."""

    class Folder:
        root = tmp_path / "sonar"
        day = root / "2027" / "01" / "15"

        def __init__(self):
            self.day.mkdir(parents=True)
            self.reader = SonarDirectory(
                str(self.root), site.intake, site.clock, max_document_bytes=MAX_BYTES
            )

        def append(self, text, path="0+sample-c1-7.json", day=None):
            file = (day or self.day) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a") as opened:
                opened.write(text if isinstance(text, str) else json.dumps(text) + "\n")
            return file

        def counts(self):
            self.reader.read()
            return {kind: n for kind, n in site.nodes.counts().items() if n}

    return Folder()


def test_a_file_is_read_on_from_where_it_was_left(folder, make):
    folder.append(make.sample(ago=20))
    assert folder.counts() == {"sample": 1}
    assert folder.counts() == {"sample": 1}
    folder.append(make.sample(ago=10))
    assert folder.counts() == {"sample": 2}


def test_a_document_that_is_being_written_is_waited_for(folder, make):
    text = json.dumps(make.sample())
    folder.append(text[:50])
    assert folder.counts() == {}
    folder.append(text[50:])
    assert folder.counts() == {"sample": 1}


def test_a_document_that_was_never_finished_costs_itself_only(folder, make):
    folder.append(json.dumps(make.sample())[:50] + "\n")
    folder.append(make.sample())
    assert folder.counts() == {"rejected": 1, "sample": 1}


def test_documents_in_any_layout_and_beyond_ascii(folder, make):
    jobs = [{"job": 5, "user": "jörg", "processes": []}]
    for ago in (30, 20):
        folder.append(json.dumps(make.sample(ago=ago, jobs=jobs), ensure_ascii=False, indent=2))
    assert folder.counts() == {"sample": 2}
    folder.append("\n" + json.dumps(make.sample(ago=10)))
    assert folder.counts() == {"sample": 3}


def test_the_folders_of_several_clusters_are_read(folder, make):
    folder.append(make.sample("c1"), day=folder.root / "one.example.org/2027/01/15")
    folder.append(make.sample("c2"), day=folder.root / "two/2027/01/15")
    assert folder.counts() == {"sample": 2}


def test_only_the_newest_two_days_are_read(folder, make):
    for number, day in enumerate(("2026/12/31", "2027/01/14", "2025/06/01")):
        folder.append(make.sample(f"c{number}"), day=folder.root / day)
    folder.append(make.sample("c9"))
    assert folder.counts() == {"sample": 2}


def test_a_node_whose_clock_is_years_ahead_hides_no_other_node(site, folder, make):
    for number, day in enumerate(("2027/01/14", "2036/02/07", "2099/01/01", "2099/12/30", "2099/12/31")):
        folder.append(make.sample(f"c{number}"), day=folder.root / day)
    folder.append(make.sample("c9"))
    assert folder.counts() == {"sample": 4}
    assert sorted(name for _, name in site.nodes.nodes()) == ["c0", "c3", "c4", "c9"]


def test_a_file_that_was_replaced_or_cut_is_read_again(folder, make):
    file = folder.append(make.sample(ago=40))
    folder.append(make.sample(ago=30))
    assert folder.counts() == {"sample": 2}
    file.write_text(json.dumps(make.sample(ago=20)))
    assert folder.counts() == {"sample": 3}
    new = file.with_name("new")
    new.write_text(json.dumps(make.sample(ago=10)) + "\n" + " " * 2000)
    new.rename(file)
    assert folder.counts() == {"sample": 4}


def test_links_pipes_folders_and_other_names_are_passed_over(folder, make, tmp_path):
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps(make.sample()))
    (folder.day / "link.json").symlink_to(outside)
    (folder.day / "folder.json").mkdir()
    os.mkfifo(folder.day / "pipe.json")
    folder.append(make.sample(), path="sample.txt")
    (folder.root / "2027" / "02").symlink_to(tmp_path)
    (folder.root / "2028").symlink_to(folder.root / "2027")
    assert folder.counts() == {}


def test_a_document_that_is_too_long_is_passed_over(folder, make):
    folder.append('{"a":"' + "x" * 3 * MAX_BYTES)
    folder.append("\n")
    folder.append(make.sample())
    counts = folder.counts()
    assert counts["sample"] == 1


def test_many_documents_are_read_in_pieces(folder, make):
    for ago in range(100, 0, -1):
        folder.append(make.sample(ago=ago))
    assert folder.counts() == {"sample": 100}


def test_of_a_days_samples_that_are_there_at_the_start_only_the_last_are_read(folder, make, monkeypatch):
    for ago in range(100, 0, -1):
        folder.append(make.sample(ago=ago))
        folder.append(make.sample("c2", ago=ago), path="other.json")
    size = len(json.dumps(make.sample())) + 1
    monkeypatch.setattr(directory, "TAIL_BYTES", 3 * size)
    assert folder.counts() == {"sample": 103 - 1}  # the first of the three is cut
    folder.append(make.sample())
    assert folder.counts() == {"sample": 103}


def test_a_folder_that_is_not_there_yet_is_waited_for(site, tmp_path, make):
    reader = SonarDirectory(str(tmp_path / "later"), site.intake, site.clock, max_document_bytes=MAX_BYTES)
    reader.read()
    day = tmp_path / "later" / "2027" / "01" / "15"
    day.mkdir(parents=True)
    (day / "a.json").write_text(json.dumps(make.sample()))
    reader.read()
    assert site.nodes.counts()["sample"] == 1
