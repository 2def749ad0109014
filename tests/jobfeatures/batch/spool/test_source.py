"""A spool folder, from its first document to its last, and what can be wrong with what they say."""

from __future__ import annotations

import os
import threading

import pytest

from jobfeatures.batch.spool import source as spool
from jobfeatures.batch.spool.source import SpoolSource, is_document_name
from jobfeatures.errors import ConfigurationError, SourceError
from jobfeatures.records.model import JobState
from jobfeatures.system import lookups
from tests.configured import settings_for
from tests.jobfeatures.batch.spool.conftest import document, key, poll, reasons
from tests.running import until

# --- the life of a job ---------------------------------------------------------------


def test_an_empty_folder_is_a_complete_table_without_jobs(source, clock):
    table = poll(source)
    assert (table.source, dict(table.jobs), table.complete, table.rejected) == ("spool", {}, True, ())
    assert table.taken_at_secs == clock.now_secs()


def test_a_job_comes_changes_ends_and_goes(source, put, folder):
    put("7.xml", document("7", "Idle", "<User>ada</User>"))
    job = poll(source).jobs[key("7")]
    assert (job.state, job.user, job.uid) == (JobState.PENDING, "ada", 6001)
    put("7.xml", document("7", "Running", "<StartTime>5</StartTime>"))
    job = poll(source).jobs[key("7")]
    assert (job.state, job.start_secs, job.user) == (JobState.RUNNING, 5, None)
    put("7.xml", document("7", "Completed", "<EndTime>9</EndTime>"))
    job = poll(source).jobs[key("7")]
    assert (job.state, job.end_secs) == (JobState.COMPLETED, 9)
    (folder / "7.xml").unlink()
    table = poll(source)
    assert (dict(table.jobs), table.complete) == ({}, True)


def test_a_file_may_hold_a_group_of_jobs(source, put):
    put("all.xml", f"<JobGroup><Id>g</Id>{document('1')}{document('2')}</JobGroup>")
    table = poll(source)
    assert (set(table.jobs), table.complete) == ({key("1"), key("2")}, True)


def test_a_bad_file_is_named_whole_and_escaped(source, put, folder):
    name = "x\n" * 60 + ".xml"
    put(name, "<Job>")
    assert [each.source for each in poll(source).rejected] == [f"{folder}/{name!r}"]


def test_only_files_with_the_right_names_are_looked_at(source, put, folder):
    for name in (".7.xml", "7.xml.new", "7.txt", "xml"):
        (folder / name).write_text(document("7"))
    table = poll(source)
    assert (dict(table.jobs), table.complete, table.rejected) == ({}, True, ())
    assert is_document_name("7.xml")
    assert not is_document_name(".xml")


def test_only_new_and_changed_files_are_parsed(source, put, count_parses):
    for number in range(5):
        put(f"{number}.xml", document(str(number)))
    poll(source)
    assert count_parses == [f"{number}.xml" for number in range(5)]
    count_parses.clear()
    put("3.xml", document("3", "Suspended"))
    table = poll(source)
    assert count_parses == ["3.xml"]
    assert len(table.jobs) == 5
    assert table.jobs[key("3")].state is JobState.SUSPENDED


def test_a_file_that_has_just_changed_is_read_again(source, put, clock, folder, monkeypatch, count_parses):
    """It may change once more within the same tick of the file system's clock."""
    reads: list[str] = []
    original = spool.read_document

    def counting(folder, name):
        reads.append(name)
        return original(folder, name)

    monkeypatch.setattr(spool, "read_document", counting)
    put("7.xml", document("7"))
    clock.now = os.stat(folder / "7.xml").st_ctime + 0.5
    poll(source)
    poll(source)
    assert reads == ["7.xml", "7.xml"]
    clock.advance(10)
    poll(source)
    poll(source)
    assert reads == ["7.xml"] * 3
    assert count_parses == ["7.xml"]  # its content was the same


def test_a_change_within_the_same_tick_is_parsed(source, put, clock, folder):
    put("7.xml", document("7", "Running"))
    clock.now = os.stat(folder / "7.xml").st_ctime + 0.5
    poll(source)
    with (folder / "7.xml").open("r+b") as stream:  # in place: the same inode and size
        stream.write(document("8", "Running").encode())
    assert set(poll(source).jobs) == {key("8")}


def test_a_file_that_was_broken_and_is_as_before_is_parsed(source, put, clock, count_parses):
    for content in (document("7"), "<Job>", document("7")):
        put("7.xml", content)
        table = poll(source)
    assert count_parses == ["7.xml"] * 3
    assert (set(table.jobs), table.complete, table.rejected) == ({key("7")}, True, ())
    put("7.xml", "<Job>")
    assert reasons(poll(source)) != []  # a new problem, told


def test_a_change_that_keeps_size_and_modification_time_is_seen(source, put, folder):
    put("7.xml", document("7", "Running"))
    poll(source)
    status = os.stat(folder / "7.xml")
    put("7.xml", document("8", "Running"))
    os.utime(folder / "7.xml", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert set(poll(source).jobs) == {key("8")}


def test_the_same_job_in_two_files_is_that_of_the_last_name(source, put):
    put("b.xml", document("7", "Suspended"))
    put("a.xml", document("7", "Running"))
    table = poll(source)
    assert table.jobs[key("7")].state is JobState.SUSPENDED
    assert [(note.field, note.text) for note in table.rejected] == [("Id", "7")]
    assert "in b.xml or" in table.rejected[0].reason
    assert table.complete


# --- users -----------------------------------------------------------------------------


def test_each_user_is_looked_up_once(folder, clock, put, monkeypatch):
    asked = []

    def lookup(user):
        asked.append(user)
        return 6001

    monkeypatch.setattr(spool, "find_uid", lookup)
    source = SpoolSource(settings_for("spool", spool_directory=str(folder)), clock, "n1")
    for number in range(3):
        put(f"{number}.xml", document(str(number), more="<User>ada</User>"))
    put("3.xml", document("3"))
    poll(source)
    table = poll(source)
    assert asked == ["ada"]
    assert [table.jobs[key(str(number))].uid for number in range(4)] == [6001, 6001, 6001, None]


def test_an_unknown_user_is_looked_up_again_after_a_while(folder, clock, put, monkeypatch):
    users: dict[str, int] = {}
    monkeypatch.setattr(spool, "find_uid", users.get)
    source = SpoolSource(settings_for("spool", spool_directory=str(folder)), clock, "n1")
    put("7.xml", document("7", more="<User>new</User>"))
    assert poll(source).jobs[key("7")].uid is None
    users["new"] = 6002
    clock.advance(10)
    assert poll(source).jobs[key("7")].uid is None
    clock.advance(300)
    assert poll(source).jobs[key("7")].uid == 6002


def test_a_slow_directory_service_keeps_no_job_waiting(folder, clock, put, monkeypatch):
    """Four jobs of four users, of whom the directory answers late, one after the other or not at all."""
    answers, noticed = threading.Event(), threading.Event()
    monkeypatch.setattr(lookups, "PATIENCE_SECS", 0.0)
    monkeypatch.setattr(spool, "find_uid", lambda user: answers.wait() and {"u1": 1, "u2": 2}.get(user))
    source = SpoolSource(settings_for("spool", spool_directory=str(folder)), clock, "n1")
    with source.watch(noticed.set):
        for number in range(4):
            put(f"{number}.xml", document(str(number), more=f"<User>u{number}</User>"))
        table = poll(source)
        assert ([job.uid for job in table.jobs.values()], table.complete) == ([None] * 4, True)
        assert [job.user for job in table.jobs.values()] == ["u0", "u1", "u2", "u3"]
        noticed.clear()
        answers.set()
        assert noticed.wait(60)  # by an answer that came late
        until(lambda: [job.uid for job in poll(source).jobs.values()] == [None, 1, 2, None])


# --- bad content -------------------------------------------------------------------------


def test_a_broken_rewrite_keeps_the_job_for_as_long_as_the_file_exists(source, put, folder):
    put("7.xml", document("7"))
    before = poll(source).jobs
    put("7.xml", "<Job><Id>7</Id>\n<State>Compl")
    table = poll(source)
    assert (table.jobs, table.complete) == (before, True)
    assert [(note.source, note.line) for note in table.rejected] == [(str(folder / "7.xml"), 2)]
    put("7.xml", "")
    assert poll(source).jobs == before
    put("7.xml", document("7", "Completed"))
    table = poll(source)
    assert (table.jobs[key("7")].state, table.complete, table.rejected) == (JobState.COMPLETED, True, ())
    (folder / "7.xml").unlink()
    assert dict(poll(source).jobs) == {}


def test_a_refused_rewrite_keeps_the_job_too(source, put):
    put("7.xml", document("7"))
    before = poll(source).jobs
    put("7.xml", document("7", more="<Memory>much</Memory>"))
    table = poll(source)
    assert (table.jobs, table.complete) == (before, True)
    assert [note.field for note in table.rejected] == ["Memory"]


def test_a_refused_job_of_a_group_keeps_what_was_known_and_the_others_change(source, put):
    put("all.xml", f"<JobGroup>{document('1')}{document('2')}</JobGroup>")
    poll(source)
    put("all.xml", f"<JobGroup>{document('1', 'Suspended')}{document('2', more='<Odd/>')}</JobGroup>")
    table = poll(source)
    assert {each.job_id: job.state for each, job in table.jobs.items()} == {
        "1": JobState.SUSPENDED,
        "2": JobState.RUNNING,
    }
    assert table.complete


@pytest.mark.parametrize("content", ["", "<Job><Id>7</Id>", "\x00\x01", "<Job><Name>n</Name></Job>"])
def test_without_a_good_version_absence_proves_nothing(source, put, content):
    put("6.xml", document("6"))
    put("7.xml", content)
    table = poll(source)
    assert (set(table.jobs), table.complete, len(table.rejected)) == ({key("6")}, False, 1)


def test_a_warning_leaves_the_table_complete(source, put):
    put("7.xml", '<Job awarenessPolicy="Warn"><Id>7</Id><Odd/></Job>')
    table = poll(source)
    assert (set(table.jobs), table.complete, len(table.rejected)) == ({key("7")}, True, 1)


def test_a_problem_is_told_as_long_as_it_lasts(source, put):
    put("7.xml", "<Job>")
    told = poll(source).rejected
    table = poll(source)
    assert (len(told), table.rejected, table.complete) == (1, told, False)
    put("7.xml", document("7"))
    table = poll(source)
    assert (table.rejected, table.complete) == ((), True)
    put("7.xml", "<Job>")
    assert len(poll(source).rejected) == 1


def test_a_bad_file_is_not_parsed_again_before_it_changes(source, put, count_parses):
    put("7.xml", "<Job>")
    poll(source)
    poll(source)
    assert count_parses == ["7.xml"]


def test_many_problems_are_summed_up(source, put, monkeypatch):
    monkeypatch.setattr(spool, "MAX_REPORTED", 3)
    for number in range(5):
        put(f"{number}.xml", "<Job>")
    told = reasons(poll(source))
    assert len(told) == 4
    assert told[-1] == "2 more problems"


def test_problems_of_one_file_are_summed_up(source, put):
    put("all.xml", "<JobGroup>" + "<Job/>" * 500 + "</JobGroup>")
    told = reasons(poll(source))
    assert len(told) == 21
    assert told[-1] == "480 more problems"


def test_process_ids_are_those_of_this_node(folder, clock, put):
    source = SpoolSource(settings_for("spool", spool_directory=str(folder)), clock, "n1")
    tasks = "".join(f"<Task><Node>n{n}</Node><Process>1{n}</Process></Task>" for n in (1, 2))
    put("7.xml", document("7", more=f"<TaskGroup>{tasks}</TaskGroup>"))
    assert poll(source).jobs[key("7")].processes == {11}


# --- in the daemon -----------------------------------------------------------------------------


def test_a_source_is_made_from_the_configuration(folder, clock, put):
    put("7.xml", document("7"))
    source = SpoolSource(settings_for("spool", spool_directory=str(folder)), clock, "n1")
    assert (source.name, set(poll(source).jobs)) == ("spool", {key("7")})
    with pytest.raises(ConfigurationError, match=r"spool\.directory"):
        SpoolSource(settings_for("spool"), clock, "n1")


def test_a_new_document_is_noticed_and_polling_is_not(source, put):
    """Polls come before the last document, whose notification is the only one."""
    noticed = threading.Semaphore(0)
    put("6.xml", document("6"))
    with source.watch(noticed.release):
        for _ in range(5):
            poll(source)
        put("7.xml", document("7"))
        assert noticed.acquire(timeout=60)
        assert set(poll(source).jobs) == {key("6"), key("7")}
    assert not noticed.acquire(blocking=False)


def test_an_empty_folder_in_the_place_of_one_with_jobs_ends_none(source, put, folder):
    """That is what an unmounted file system looks like."""
    put("7.xml", document("7"))
    poll(source)
    folder.rename(folder.with_name("mounted"))
    folder.mkdir()
    for _ in range(2):
        with pytest.raises(SourceError, match="the folder is empty and was replaced"):
            poll(source)
    folder.rmdir()
    folder.with_name("mounted").rename(folder)
    assert key("7") in poll(source).jobs


def test_another_folder_with_documents_is_believed(source, put, folder):
    put("7.xml", document("7"))
    poll(source)
    folder.rename(folder.with_name("old"))
    folder.mkdir()
    put("8.xml", document("8"))
    assert list(poll(source).jobs) == [key("8")]
