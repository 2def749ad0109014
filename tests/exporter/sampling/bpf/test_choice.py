"""Which reader a daemon has, and that a node without the kernel's sums is as well off as before."""

from __future__ import annotations

import errno
import threading

import pytest

from jobfeatures.errors import ConfigurationError
from jobfeatures_exporter.model.snapshot import ProcessReader
from jobfeatures_exporter.sampling import PathsSettings
from jobfeatures_exporter.sampling.bpf import ReaderSettings, choice, library
from jobfeatures_exporter.sampling.bpf.choice import begin_choice, choose_reader
from jobfeatures_exporter.sampling.bpf.rights import CAP_NET_ADMIN, CAP_PERFMON


@pytest.fixture(autouse=True)
def keeps_rights(monkeypatch):
    """The tests' own process goes on to make more of them."""
    monkeypatch.setattr(choice, "give_up_rights", lambda _use, _also, _keep: None)


def test_who_asks_for_proc_gets_it():
    found = choose_reader(ReaderSettings(processes="procfs"), PathsSettings())
    assert found.process_reader == ProcessReader("procfs", "asked for")
    assert str(found) == "processes are read by procfs: asked for"


@pytest.mark.parametrize(
    ("hindrance", "reason"),
    [
        (
            OSError(errno.EPERM, "Operation not permitted", "bpf_object__load"),
            "bpf_object__load: Operation not permitted",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "sums.bpf.o"),
            "sums.bpf.o: No such file or directory",
        ),
        (
            OSError(errno.ENOSYS, "libbpf has no function bpf_iter_create"),
            "libbpf has no function bpf_iter_create",
        ),
    ],
)
def test_whatever_hinders_the_sums_proc_is_read_and_one_line_says_why(hindrance, reason, monkeypatch):
    def fail(_cgroup, **_more):
        raise hindrance

    monkeypatch.setattr(choice, "KernelSums", fail)
    monkeypatch.setattr(choice, "digest_of", lambda: "0123")
    found = choose_reader(ReaderSettings(), PathsSettings())
    assert (found.kernel, found.process_reader) == (None, ProcessReader("procfs", reason))
    assert str(found) == f"processes are read by procfs: {reason}"


def test_who_insists_on_the_sums_is_told_that_they_cannot_be_had(monkeypatch):
    monkeypatch.setattr(library, "NAMES", ("libnothere.so.1",))
    monkeypatch.setattr("jobfeatures_exporter.sampling.bpf.reader.check_owner", lambda _path: None)
    monkeypatch.setattr(choice, "digest_of", lambda: "0123")
    with pytest.raises(ConfigurationError, match=r"sampling\.processes.*cannot load libnothere\.so\.1"):
        choose_reader(ReaderSettings(processes="bpf"), PathsSettings())


def test_another_machines_proc_is_read_as_it_is(tmp_path):
    found = choose_reader(ReaderSettings(), PathsSettings(procfs=str(tmp_path)))
    assert found.process_reader == ProcessReader(
        "procfs", f"path.procfs is {tmp_path}, not this machine's own /proc"
    )


def test_a_node_without_control_groups_reads_proc(tmp_path):
    assert choose_reader(ReaderSettings(), PathsSettings(cgroup=str(tmp_path))).kernel is None


def test_the_kernels_sums_are_begun_by_a_thread_that_has_ended_before_rights_are_given_up(monkeypatch):
    begun, alive = [], []

    def fail(_cgroup, *, kept, **_more):
        begun.append((threading.current_thread().name, kept))
        raise OSError(errno.EPERM, "Operation not permitted")

    def give_up(_use, _also, _keep):
        alive.extend(each.name for each in threading.enumerate())

    monkeypatch.setattr(choice, "KernelSums", fail)
    monkeypatch.setattr(choice, "digest_of", lambda: "0123")
    monkeypatch.setattr(choice, "give_up_rights", give_up)
    choose = begin_choice(ReaderSettings(), PathsSettings(), {"0123-groups": 7}, counts_work=False)
    assert choose().process_reader == ProcessReader("procfs", "Operation not permitted")
    assert begun == [("loading", {"groups": 7})]
    assert "loading" not in alive


@pytest.mark.parametrize("wanted", ["procfs", "auto"])
def test_the_rights_are_given_up_where_the_sums_cannot_be_had_too(wanted, monkeypatch, tmp_path):
    given_up = []
    monkeypatch.setattr(choice, "give_up_rights", lambda _use, also, _keep: given_up.append(also))
    choose_reader(ReaderSettings(processes=wanted), PathsSettings(cgroup=str(tmp_path)))
    assert len(given_up) == 1


@pytest.mark.parametrize(
    ("settings", "also"),
    [
        ({}, ()),
        ({"network": True}, (CAP_NET_ADMIN,)),
    ],
)
def test_the_right_that_packets_take_is_given_up_by_whom_it_was_given_for(settings, also, monkeypatch):
    given_up = []
    monkeypatch.setattr(choice, "give_up_rights", lambda _use, also, _keep: given_up.append(also))
    choose_reader(ReaderSettings(processes="procfs", **settings), PathsSettings())
    assert given_up == [also]


def test_who_asks_for_packets_without_sums_is_told_why_there_are_none(caplog):
    found = choose_reader(ReaderSettings(processes="procfs", network=True), PathsSettings())
    assert found.no_network == "processes are read by procfs: asked for"
    assert "bytes and packets of jobs are not counted: processes are read by procfs" in caplog.text
    assert choose_reader(ReaderSettings(processes="procfs"), PathsSettings()).no_network is None


@pytest.mark.parametrize(("wants", "kept"), [(False, ()), (True, (CAP_PERFMON,))])
def test_the_right_to_count_is_kept_where_the_site_wants_counters(wants, kept, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(choice, "give_up_rights", lambda _use, _also, keep: asked.append(keep))
    choose_reader(ReaderSettings(), PathsSettings(cgroup=str(tmp_path)), counts_work=wants)
    assert asked == [kept]
