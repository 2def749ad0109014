"""The files of dcgm-exporter: their names and texts are constructed after its README."""

import os

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import GpuCard, JobGpu
from jobfeatures_exporter.sampling.gpu.jobmap import JobMap, map_jobs
from tests.running import own_folder

CARDS = [
    GpuCard(uuid="GPU-a", index=0),
    GpuCard(uuid="GPU-b", index=1),
    GpuCard(uuid="MIG-1", parent_uuid="GPU-b", instance_id=2),
    GpuCard(uuid="MIG-2", parent_uuid="GPU-b"),  # the driver did not tell
    GpuCard(uuid="MIG-3", parent_uuid="GPU-gone", instance_id=1),
    GpuCard(uuid="amd"),  # of no index
]


def use(job_id, uuid):
    return JobGpu(key=JobKey("slurm", job_id), uuid=uuid, allocated=True)


def contents(path):
    return {each.name: each.read_text() for each in path.iterdir()}


def test_a_card_has_a_file_with_its_jobs_and_a_part_has_one_of_its_own():
    uses = [use("12", "GPU-a"), use("100", "GPU-a"), use("12", "GPU-a"), use("13_4", "MIG-1")]
    assert map_jobs(CARDS, uses) == {"0": "100\n12\n", "1.2": "13_4\n"}


def test_what_cannot_be_named_and_what_is_no_job_is_left_out():
    others = [use("1", each) for each in ("MIG-2", "MIG-3", "amd", "GPU-unknown")]
    assert map_jobs(CARDS, others) == {}
    assert map_jobs(CARDS, [JobGpu(key="user.slice", uuid="GPU-a")]) == {}


def test_files_follow_the_jobs_and_what_stays_is_not_written_again(tmp_path):
    jobs = JobMap(str(tmp_path))
    jobs.write({"0": "1\n", "1": "2\n"})
    assert contents(tmp_path) == {"0": "1\n", "1": "2\n"}
    before = (tmp_path / "1").stat().st_ino
    jobs.write({"0": "3\n", "1": "2\n", "2.1": "4\n"})
    assert contents(tmp_path) == {"0": "3\n", "1": "2\n", "2.1": "4\n"}
    assert (tmp_path / "1").stat().st_ino == before
    assert (tmp_path / "0").stat().st_mode & 0o777 == 0o644
    jobs.write({})
    assert contents(tmp_path) == {}


def test_what_a_daemon_that_was_killed_left_goes_and_other_names_stay(tmp_path):
    for name in ("0", "3.7", ".new", "README"):
        (tmp_path / name).write_text("old\n")
    JobMap(str(tmp_path)).write({"1": "2\n"})
    assert contents(tmp_path) == {"1": "2\n", "README": "old\n"}


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path):
    own_folder(tmp_path / "map")
    (tmp_path / "precious").write_text("kept\n")
    for name in ("0", ".new"):
        (tmp_path / "map" / name).symlink_to(tmp_path / "precious")
    JobMap(str(tmp_path / "map")).write({"0": "1\n"})
    assert (tmp_path / "precious").read_text() == "kept\n"
    assert contents(tmp_path / "map") == {"0": "1\n"}


@pytest.mark.parametrize("mode", [None, 0o777])
def test_a_directory_that_is_missing_or_that_others_write_is_told_once_and_tried_again(
    tmp_path, caplog, mode
):
    path = tmp_path / "map"
    if mode is not None:
        own_folder(path)
        path.chmod(mode)
    jobs = JobMap(str(path))
    jobs.write({"0": "1\n"})
    jobs.write({"0": "1\n"})
    [message] = caplog.messages
    assert str(path) in message
    own_folder(path)
    os.chmod(path, 0o755)
    jobs.write({"0": "1\n"})
    assert contents(path) == {"0": "1\n"}
