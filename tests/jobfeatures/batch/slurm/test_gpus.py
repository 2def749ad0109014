"""GPUs in Slurm's texts; the samples of GRES are constructed."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.gpus import is_shared, parse_gpu_list, parse_gres, parse_tres_gpus
from jobfeatures.errors import ParseError

likely = st.from_regex(r"[gpu:shard0-9IDX(),/=-]{0,30}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu:a100:2(IDX:0-1)", ("0", "1")),
        ("gpu:2(IDX:0,3)", ("0", "3")),
        ("gpu:47gb:0(IDX:),gpu:24gb:1(IDX:5),gpu:a100:2(IDX:0-1)", ("5", "0", "1")),
        ("craynetwork:1,gpu:1(IDX:7)", ("7",)),
        ("gpu:2", ()),
        ("mygpu:2(IDX:0-1)", ()),
        ("", ()),
        ("(null)", ()),
    ],
)
def test_the_indices_of_gpus(text, expected):
    assert parse_gres(text) == expected


def test_a_range_without_end_is_not_unfolded():
    with pytest.raises(ParseError, match="not a range of GPUs"):
        parse_gpu_list("0-999999999999")


def test_shared_gpus_are_recognised():
    assert is_shared("shard:a100:4(0/4,4/4)")
    assert is_shared("gpu:1(IDX:0),mps:50")
    assert not is_shared("gpu:shard:2(IDX:0-1)")


def test_no_gpus_and_untracked_gpus_are_both_unknown():
    assert parse_tres_gpus("cpu=2,mem=200M,node=1") is None
    assert parse_tres_gpus("cpu=2,gres/gpu=0") is None


@given(st.text() | likely)
def test_any_text_gives_numbers_or_a_parse_error(text):
    for parse in (parse_gres, parse_gpu_list):
        try:
            found = parse(text)
        except ParseError:
            continue
        assert len(set(found)) == len(found)
        assert all(re.fullmatch(r"[0-9]+|(GPU|MIG)-\S+", each) for each in found)
    assert parse_tres_gpus(text) is None or parse_tres_gpus(text) > 0


def test_gpus_without_a_type_have_their_indices():
    assert parse_gres("gpu:(null):3(IDX:0,4-5)") == ("0", "4", "5")
