"""Processes with descriptors of cards, in a made-up /proc."""

import os

import pytest

from jobfeatures_exporter.model.snapshot import GpuProcess
from jobfeatures_exporter.sampling.gpu.clients import MAX_CLIENTS, RESCAN_SECS, DrmClients

CARD = "0000:03:00.0"


def fdinfo(number, *, busy=0, memory=1, address=CARD):
    return (
        f"drm-driver:\tamdgpu\ndrm-client-id:\t{number}\ndrm-pdev:\t{address}\n"
        f"drm-memory-vram:\t{memory} KiB\ndrm-engine-gfx:\t{busy} ns\n"
    )


@pytest.fixture
def clients(tree, unreadable):
    return DrmClients(tree.paths.procfs, unreadable)


def test_a_process_uses_what_its_clients_use(tree, clients):
    tree.client(10, 3, "/dev/dri/renderD128", fdinfo(1, memory=4))
    tree.client(10, 4, "/dev/dri/card0", fdinfo(2, memory=2))
    assert clients.read(100) == {CARD: [GpuProcess(10, 6 * 1024, None)]}
    tree.client(10, 3, "/dev/dri/renderD128", fdinfo(1, memory=4, busy=10**9))
    tree.client(10, 4, "/dev/dri/card0", fdinfo(2, memory=2, busy=2 * 10**9))
    assert clients.read(110) == {CARD: [GpuProcess(10, 6 * 1024, 30.0)]}


def test_a_client_that_several_descriptors_and_processes_share_counts_once(tree, clients):
    for pid, descriptor in ((10, 3), (10, 5), (11, 3)):
        tree.client(pid, descriptor, "/dev/dri/renderD128", fdinfo(1, memory=4))
    assert clients.read(100) == {CARD: [GpuProcess(10, 4096, None)]}


def test_the_same_number_on_two_cards_is_two_clients(tree, clients):
    tree.client(10, 3, "/dev/dri/renderD128", fdinfo(1))
    tree.client(10, 4, "/dev/dri/renderD129", fdinfo(1, address="0000:04:00.0"))
    assert list(clients.read(100)) == [CARD, "0000:04:00.0"]


@pytest.mark.parametrize(
    "target",
    ["/tmp/x", "/dev/dri/renderD128 (deleted)", "/home/u/dev/dri/card0", "/dev/dri/../sda", "socket:[5]"],
)
def test_descriptors_of_anything_else_are_not_read(tree, clients, target):
    tree.client(10, 3, target, fdinfo(1))
    assert clients.read(100) == {}


def test_what_only_has_the_name_of_a_card_is_no_client(tree, clients, unreadable):
    tree.client(10, 3, "/dev/dri/renderD128", "pos:\t0\nflags:\t02\n")
    tree.client(11, 3, "/dev/dri/renderD128", "drm-driver: x\ndrm-client-id: many\n")
    assert clients.read(100) == {}
    assert unreadable.counts == {"gpu_fdinfo_garbage": 1}


def test_a_new_process_is_looked_at_at_once_and_an_old_one_again_after_a_while(tree, clients):
    tree.write("proc/10/fdinfo/0", "")
    assert clients.read(100) == {}
    tree.client(10, 3, "/dev/dri/renderD128", fdinfo(1))
    tree.client(11, 3, "/dev/dri/renderD128", fdinfo(2))
    assert [use.pid for use in clients.read(110)[CARD]] == [11]
    assert [use.pid for use in clients.read(100 + RESCAN_SECS)[CARD]] == [10, 11]


def test_a_process_that_has_ended_is_forgotten(tree, clients):
    tree.client(10, 3, "/dev/dri/renderD128", fdinfo(1))
    assert len(clients.read(100)) == 1
    (tree.top / "proc/10").rename(tree.top / "gone")
    assert clients.read(110) == {}


def test_one_process_with_very_many_clients_is_bounded(tree, clients):
    for number in range(MAX_CLIENTS + 5):
        tree.client(10, number, "/dev/dri/renderD128", fdinfo(number))
    assert clients.read(100) == {CARD: [GpuProcess(10, MAX_CLIENTS * 1024, None)]}
    assert not clients.is_whole


def test_beyond_the_limit_of_a_scan_known_clients_are_kept(tree, clients, unreadable, monkeypatch):
    for pid in (10, 11):
        tree.client(pid, 3, "/dev/dri/renderD128", fdinfo(pid))
    assert [use.pid for use in clients.read(100)[CARD]] == [10, 11]
    monkeypatch.setattr("jobfeatures_exporter.sampling.gpu.clients.MAX_LOOKS", 1)
    assert [use.pid for use in clients.read(100 + RESCAN_SECS)[CARD]] == [10, 11]
    assert not clients.is_whole
    assert unreadable.counts == {"gpu_descriptors_limit": 1}


def test_the_view_is_whole_where_every_process_could_be_looked_at(tree, clients, monkeypatch):
    tree.client(10, 3, "/dev/dri/renderD128", fdinfo(1))
    clients.read(100)
    assert clients.is_whole
    real = os.listdir

    def refused(path):
        if str(path).endswith("/fd"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr("os.listdir", refused)
    clients.read(100 + RESCAN_SECS)
    assert not clients.is_whole
