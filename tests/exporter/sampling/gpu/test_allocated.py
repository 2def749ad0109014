import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import GpuCard
from jobfeatures_exporter.sampling.gpu.allocated import (
    compute_allocations,
    parse_gpustat,
    read_gpustat,
    resolve_card,
)

# Minor numbers and indices differ, as on machines whose slots are not in the order of their buses.
NVIDIA = [
    GpuCard(uuid="GPU-aaaa", index=0, minor=2, manufacturer="NVIDIA"),
    GpuCard(uuid="GPU-abbb", index=1, minor=0, manufacturer="NVIDIA"),
    GpuCard(uuid="GPU-cccc", index=2, minor=1, manufacturer="NVIDIA"),
]
# card0 is the board's own graphics: minors begin at 1, Slurm counts from 0.
AMD = [GpuCard(uuid=f"GPU-{index}", index=index, minor=index + 1, manufacturer="AMD") for index in range(2)]
MIG = [
    GpuCard(uuid="GPU-dddd", index=0, minor=0, manufacturer="NVIDIA"),
    GpuCard(uuid="MIG-1", parent_uuid="GPU-dddd", manufacturer="NVIDIA"),
]


# The first whole, the second in two instances; and the other way round.
MIXED = [
    GpuCard(uuid="GPU-w", index=0, minor=0, manufacturer="NVIDIA"),
    GpuCard(uuid="GPU-m", index=1, minor=1, manufacturer="NVIDIA"),
    GpuCard(uuid="MIG-1", parent_uuid="GPU-m", manufacturer="NVIDIA"),
    GpuCard(uuid="MIG-2", parent_uuid="GPU-m", manufacturer="NVIDIA"),
]
TURNED = [
    GpuCard(uuid="GPU-m", index=0, minor=0, manufacturer="NVIDIA"),
    *MIXED[2:],
    GpuCard(uuid="GPU-w", index=1, minor=1, manufacturer="NVIDIA"),
]
# Whole cards between divided ones.
BETWEEN = [
    *TURNED,
    GpuCard(uuid="GPU-m2", index=2, minor=2, manufacturer="NVIDIA"),
    GpuCard(uuid="MIG-3", parent_uuid="GPU-m2", manufacturer="NVIDIA"),
    GpuCard(uuid="GPU-w2", index=3, minor=3, manufacturer="NVIDIA"),
]
# Without what the kernel says of their render nodes.
RENDERS = [GpuCard(uuid=f"GPU-{i}", index=i, minor=8 - i, manufacturer="Intel") for i in range(8)]


@pytest.mark.parametrize(
    ("name", "cards", "expected"),
    [
        ("0", NVIDIA, "GPU-abbb"),
        ("2", NVIDIA, "GPU-aaaa"),
        ("3", NVIDIA, None),
        ("0", AMD, "GPU-0"),
        ("GPU-cccc", NVIDIA, "GPU-cccc"),
        ("GPU-c", NVIDIA, "GPU-cccc"),
        ("GPU-a", NVIDIA, None),
        ("MIG-1", MIG, "MIG-1"),
        ("0", MIG, None),
        ("0", MIXED, "GPU-w"),
        ("1", MIXED, None),  # its card as a whole, or the first instance
        ("2", MIXED, None),  # an instance, in an order that is not told
        ("3", MIXED, None),
        ("0", TURNED, None),
        ("1", TURNED, None),  # the whole card by its file, an instance by position
        ("2", TURNED, "GPU-w"),
        ("2", BETWEEN, None),  # a divided card by its file, a whole one by position
        ("3", BETWEEN, None),
        ("4", BETWEEN, "GPU-w2"),
        ("128", RENDERS, "GPU-7"),
        ("135", RENDERS, "GPU-0"),
        ("136", RENDERS, None),
        ("128", NVIDIA, None),
        ("", NVIDIA, None),
        ("²", NVIDIA, None),
        ("9" * 5000, NVIDIA, None),
    ],
)
def test_a_card_by_the_name_that_somebody_gives_it(name, cards, expected):
    assert resolve_card(name, cards) == expected


def test_where_minor_numbers_are_not_known_the_index_counts():
    cards = [GpuCard(uuid="GPU-1", index=1, manufacturer="NVIDIA")]
    assert resolve_card("1", cards) == "GPU-1"


def test_a_job_has_the_cards_that_its_batch_system_names(make_job):
    jobs = {
        job.key: job for job in (make_job("1", gpus=("0", "1")), make_job("2", gpus=("7",)), make_job("3"))
    }
    assert compute_allocations(jobs, NVIDIA, {}) == {JobKey("slurm", "1"): {"GPU-abbb", "GPU-cccc"}}


def test_a_job_that_has_as_many_cards_as_there_are_has_them_all(make_job):
    jobs = {job.key: job for job in (make_job("1", allocated_gpus=3), make_job("2", allocated_gpus=2))}
    assert compute_allocations(jobs, NVIDIA, {}) == {
        JobKey("slurm", "1"): {"GPU-aaaa", "GPU-abbb", "GPU-cccc"}
    }


def test_who_has_all_of_a_node_has_its_instances_and_not_their_card(make_job):
    jobs = {job.key: job for job in (make_job("1", allocated_gpus=3), make_job("2", allocated_gpus=2))}
    assert compute_allocations(jobs, MIXED, {}) == {JobKey("slurm", "1"): {"GPU-w", "MIG-1", "MIG-2"}}


def test_a_whole_card_beside_instances_is_allocated(make_job):
    job = make_job("1", gpus=("0",), gpu_devices=("0",), allocated_gpus=1)
    assert compute_allocations({job.key: job}, MIXED, {"0": "1", "1": "1"}) == {job.key: {"GPU-w"}}


@pytest.mark.parametrize("name", ["", "x", "-1", "9" * 5000, "²"])
def test_a_number_of_a_device_file_that_is_none_is_no_card(make_job, name):
    job = make_job("1", gpu_devices=(name,))
    assert compute_allocations({job.key: job}, RENDERS, {}) == {}


def test_what_a_prolog_left_counts_by_nvmls_order_and_only_for_jobs_that_are_here(make_job):
    jobs = {JobKey("slurm", "1"): make_job("1")}
    assert compute_allocations(jobs, NVIDIA, {"0": "1", "GPU-cccc": "1", "1": "99"}) == {
        JobKey("slurm", "1"): {"GPU-aaaa", "GPU-cccc"}
    }


@pytest.mark.parametrize(
    ("text", "expected"), [("1234 6001\n", "1234"), ("1234", "1234"), ("", None), ("0 0\n", None)]
)
def test_the_file_of_a_card(text, expected):
    assert parse_gpustat(text) == expected


@given(st.text() | st.from_regex(r"[0-9 \n-]{0,20}", fullmatch=True))
def test_any_text_is_a_job_id_or_none_or_a_parse_error(text):
    try:
        job_id = parse_gpustat(text)
    except ParseError:
        return
    assert job_id is None or int(job_id) > 0


@given(st.text(max_size=12), st.sampled_from([NVIDIA, AMD, MIG, []]))
def test_any_name_is_a_card_that_is_there_or_none(name, cards):
    assert resolve_card(name, cards) in {None, *(card.uuid for card in cards)}


def test_only_plain_files_of_the_owner_count(tmp_path, unreadable):
    (tmp_path / "0").write_text("12 6001\n")
    (tmp_path / "GPU-1").write_text("13 6001\n")
    (tmp_path / "1").write_text("")
    (tmp_path / "2").write_text("rm -rf\n")
    (tmp_path / "3").symlink_to(tmp_path / "0")
    os.mkfifo(tmp_path / "4")
    (tmp_path / "5").mkdir()
    assert read_gpustat(str(tmp_path), unreadable, owner=os.getuid()) == {"0": "12", "GPU-1": "13"}
    assert unreadable.counts["gpustat_garbage"] == 3  # words, a FIFO and a directory
    assert unreadable.counts["gpustat_eloop"] == 1


def test_what_somebody_else_wrote_does_not_count(tmp_path, unreadable):
    (tmp_path / "0").write_text("12 6001\n")
    assert read_gpustat(str(tmp_path), unreadable, owner=os.getuid() + 1) == {}


def test_where_no_prolog_leaves_anything_nothing_is_known(tmp_path, unreadable):
    assert read_gpustat(str(tmp_path / "none"), unreadable) == {}
    assert unreadable.counts == {}


@pytest.mark.parametrize(
    ("name", "uuid"),
    [
        ("1:1/0", "MIG-1"),
        ("1:2/0", None),  # two compute instances on one GPU instance
        ("0:1/0", "MIG-4"),
        ("1:3/0", None),
        ("2:1/0", None),
        ("1:1/", None),
    ],
)
def test_lsf_s_instances_are_those_of_the_card_with_this_number(name, uuid):
    cards = [
        GpuCard(uuid="GPU-a", minor=0, index=1, manufacturer="NVIDIA"),
        GpuCard(uuid="GPU-b", minor=1, index=0, manufacturer="NVIDIA"),
        GpuCard(uuid="MIG-1", parent_uuid="GPU-b", instance_id=1, manufacturer="NVIDIA"),
        GpuCard(uuid="MIG-2", parent_uuid="GPU-b", instance_id=2, manufacturer="NVIDIA"),
        GpuCard(uuid="MIG-3", parent_uuid="GPU-b", instance_id=2, manufacturer="NVIDIA"),
        GpuCard(uuid="MIG-4", parent_uuid="GPU-a", instance_id=1, manufacturer="NVIDIA"),
    ]
    assert resolve_card(name, cards) == uuid
