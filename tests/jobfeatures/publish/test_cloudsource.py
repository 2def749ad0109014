"""Machine features by a cloud's metadata service. What the two texts say stands beside each test."""

from __future__ import annotations

import pytest

from jobfeatures.drains.drain import NO_DRAINS, NOT_ANNOUNCED, Announced, compute_announced
from jobfeatures.errors import ConfigurationError, SourceError
from jobfeatures.features.machine import Machine
from jobfeatures.publish.cloudsource import MAX_BYTES, CloudSource, checked_address
from jobfeatures.publish.drainstore import DrainStore, with_announced
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.system import httpget

URL = "http://169.254.169.254/latest/meta-data"


class Metadata:
    """A metadata service as `httpget.Server` shows it."""

    def __init__(self) -> None:
        self.answer = httpget.Response(200, b"/none\n")
        self.asked: list[tuple[str, float]] = []

    def get(self, server, path="", *, timeout_secs=30.0, **_):
        self.asked.append((f"{server.name}{path}", timeout_secs))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def metadata(monkeypatch):
    service, begin = Metadata(), httpget.Server.__init__

    def bounded(server, url, *, max_bytes, **more):
        assert max_bytes == MAX_BYTES
        begin(server, url, max_bytes=max_bytes, **more)

    monkeypatch.setattr(httpget.Server, "__init__", bounded)
    monkeypatch.setattr(
        httpget.Server, "get", lambda server, path="", **more: service.get(server, path, **more)
    )
    return service


@pytest.fixture
def provided(tmp_path, metadata):
    """The provider's features; the metadata says where they are."""
    folder = tmp_path / "provided"
    folder.mkdir()
    for name, value in (
        ("hs06", "171.04"),
        ("total_cpu", "16"),
        ("grace_secs", "600"),
        ("shutdowntime", "1900000000"),
    ):
        (folder / name).write_text(f"{value}\n")
    metadata.answer = httpget.Response(200, f"{folder}\n".encode())
    return folder


def announced(source: CloudSource) -> Announced:
    return compute_announced(NOT_ANNOUNCED, [source.poll_jobs(())], now_secs=1000)


# "the virtual machine may discover the values to set for the environment variables from "machinefeatures" …
# metadata keys provided by resource provider via the cloud infrastructure."
def test_the_machine_s_keys_are_those_of_the_place_that_the_metadata_names(clock, provided):
    source = CloudSource(URL, clock, location=lambda: None)
    machine = with_announced(Machine(total_cpus=8), NO_DRAINS, announced(source))
    assert (machine.total_cpus, machine.hs06, machine.grace_secs) == (16, "171.04", 600)
    assert machine.shutdown_secs == 1_900_000_000
    assert machine.origins["hs06"] == machine.origins["total_cpu"] == "the cloud's machine features"
    assert machine.origins["shutdowntime"] == "drain: cloud"


def test_what_the_site_states_stays(clock, provided):
    site = Machine(total_cpus=8, hs06="100", grace_secs=5, origins={"total_cpu": "machine.total_cpu"})
    machine = with_announced(site, NO_DRAINS, announced(CloudSource(URL, clock, location=lambda: None)))
    assert (machine.total_cpus, machine.hs06, machine.grace_secs) == (8, "100", 5)


# "These metadata keys should only be accessed once in the lifetime of each virtual machine."; "Unlike metadata
# keys, the key/value files may be accessed multiple times to check for changes in value".
def test_the_metadata_is_asked_once_by_this_daemon_and_the_next_and_the_files_each_time(
    tmp_path, clock, provided, metadata
):
    store = DrainStore(FeatureTree(str(tmp_path / "features")))
    source = CloudSource(URL, clock, location=store.read_cloud_location)
    store.write_announced(announced(source))
    (provided / "shutdowntime").unlink()
    (provided / "hs06").write_text("180\n")
    assert announced(source).shutdowns == {}
    after = CloudSource(URL, clock, location=store.read_cloud_location)
    assert announced(after).features["hs06"] == "180"
    assert metadata.asked == [(f"{URL}/machinefeatures", 2.0)]


def test_a_place_that_cannot_be_read_yet_is_kept_for_the_next_daemon(tmp_path, clock, metadata):
    store = DrainStore(FeatureTree(str(tmp_path / "features")))
    table = CloudSource(URL, clock, location=store.read_cloud_location).poll_jobs(())
    assert [each.reason for each in table.rejected] == ["/none: there is no such directory"]
    store.write_announced(compute_announced(NOT_ANNOUNCED, [table], now_secs=1000))
    after = CloudSource(URL, clock, location=store.read_cloud_location)
    with pytest.raises(SourceError, match="no such directory"):
        after.poll_jobs(())
    assert len(metadata.asked) == 1


@pytest.mark.parametrize(
    "answer", [httpget.Response(404, b"<html>not found</html>"), httpget.Response(200, b"\n")]
)
def test_a_cloud_without_the_key_is_not_asked_again(clock, metadata, answer):
    metadata.answer = answer
    source = CloudSource(URL, clock, location=lambda: None)
    assert announced(source).features == announced(source).features == {"machinefeatures": ""}
    assert len(metadata.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        httpget.Response(200, b"ftp://elsewhere"),
        httpget.Response(200, b"/with\x07bell"),
        httpget.Response(302, b"/moved"),
        httpget.Response(500, b""),
        SourceError("no answer after 2 s"),
    ],
)
def test_another_answer_or_none_is_a_failure_and_the_question_is_put_again(clock, metadata, answer):
    metadata.answer = answer
    source = CloudSource(URL, clock, location=lambda: None)
    for _ in range(2):
        with pytest.raises(SourceError):
            source.poll_jobs(())
    assert len(metadata.asked) == 2


def test_a_place_that_is_not_there_is_a_failure_and_a_bad_value_is_left_out(clock, provided):
    (provided / "hs06").write_text("many\n")
    source = CloudSource(URL, clock, location=lambda: None)
    table = source.poll_jobs(())
    assert [each.field for each in table.rejected] == ["hs06"]
    assert "hs06" not in table.node.features
    for path in provided.iterdir():
        path.unlink()
    provided.rmdir()
    with pytest.raises(SourceError, match="no such directory"):
        source.poll_jobs(())


@pytest.mark.parametrize(
    "url",
    ["http://metadata.google.internal", "http://10.0.0.1/x", "https://169.254.169.254", "http://127.0.0.1", "http://[::1]"],
)  # fmt: skip
def test_only_a_link_local_address_is_asked(url):
    with pytest.raises(ConfigurationError, match=r"machine\.metadata_url"):
        checked_address(url)
    assert checked_address("http://[fe80::a9fe:a9fe]/x")
