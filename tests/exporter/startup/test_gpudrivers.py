"""What `doctor` says of GPUs: with drivers that are stand-ins, as their modules make them."""

import threading
from types import SimpleNamespace

import pytest

from jobfeatures_exporter.model.snapshot import GpuCard, GpuSample
from jobfeatures_exporter.sampling.gpu import DriverError
from jobfeatures_exporter.startup import gpudrivers
from jobfeatures_exporter.startup.findings import Mark
from jobfeatures_exporter.startup.gpudrivers import examine_gpus
from tests.configured import configured


def card(uuid, **values):
    failing = values.pop("failing", 0)
    return GpuSample(card=GpuCard(uuid=uuid, **values), taken_at_secs=0.0, failing=failing)


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Return a function that asks about one driver, which reads or fails as told."""

    def ask(read, drivers=("nvidia",)):
        closed = []

        def make_driver(paths, clock, unreadable):
            if isinstance(read, Exception):
                raise read
            return SimpleNamespace(read=lambda: read(unreadable), close=lambda: closed.append(1))

        module = SimpleNamespace(make_driver=make_driver)
        monkeypatch.setattr(gpudrivers.importlib, "import_module", lambda _: module)
        config = configured(path_procfs=str(tmp_path), path_sysfs=str(tmp_path), gpu_drivers=drivers)
        found = [(each.mark, each.what, each.words) for each in examine_gpus(config)]
        assert closed or isinstance(read, Exception) or not found or "no answer" in found[0][2]
        return found

    return ask


def test_the_cards_that_answer_are_counted_and_others_named(ask):
    cards = [
        card("GPU-1"), card("MIG-1", parent_uuid="GPU-1"), card("MIG-2", parent_uuid="GPU-1"),
        card("GPU-2", failing=15),
    ]  # fmt: skip

    def read(unreadable):
        unreadable.count("gpu_x_999")
        return iter(cards)

    assert ask(read) == [
        (Mark.GOOD, "GPUs of nvidia", "2 GPUs, 2 MIG instances"),
        (Mark.WRONG, "GPUs of nvidia", "GPU-2 does not answer: error 15"),
        (Mark.NOTE, "reading gpu_x_999", "failed 1 time"),
    ]
    assert ask(lambda _: iter(())) == [(Mark.NOTE, "GPUs of nvidia", "the driver works, but reports no card")]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (DriverError("nvidia-ml-py is not installed"), "nvidia-ml-py is not installed"),
        (DriverError("NVML: Driver Not Loaded"), "NVML: Driver Not Loaded"),
        (ZeroDivisionError("oops"), "ZeroDivisionError: oops"),
    ],
)
def test_a_driver_that_fails_is_wrong_in_its_own_words(ask, error, words):
    assert ask(error) == [(Mark.WRONG, "GPUs of nvidia", words)]


def test_a_driver_that_hangs_keeps_nobody_waiting(ask, monkeypatch):
    monkeypatch.setattr(gpudrivers, "DEADLINE_SECS", 0.01)
    gate = threading.Event()
    assert ask(lambda _: iter([gate.wait(30)])) == [(Mark.WRONG, "GPUs of nvidia", "no answer within 0.01 s")]
    gate.set()


def test_a_node_without_drivers_has_nothing_to_say(ask):
    for drivers in (("auto",), ("none",)):
        assert ask(lambda _: iter(()), drivers) == []
