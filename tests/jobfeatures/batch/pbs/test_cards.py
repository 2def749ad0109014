"""Which cards a job has: as the kernel writes it of its control group, and as the cgroups hook does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.pbs.cards import parse_assigned, parse_devices, read_cards


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("c 1:3 rwm\nc 195:255 rwm\nc 195:254 rwm\nc 195:2 rwm\nc 195:5 rw\n", ("2", "5")),
        ("c 195:2 rw\nc 195:2 m\n", ("2",)),
        ("c 195:6 m\nb 195:9 rw\nc 226:128 rw\n", ()),
        ("a *:* rwm\n", ()),
        ("c *:* rwm\nc 195:2 rw\n", ()),
        ("c 195:* rw\nc 195:2 rw\n", ()),
        ("c *:* m\nc 195:2 rw\n", ("2",)),
        ("", ()),
    ],
)
def test_the_cards_are_those_that_may_be_opened(text: str, cards: tuple[str, ...]) -> None:
    assert parse_devices(text) == cards


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert all(number.isdecimal() for number in parse_devices(text))


def test_a_group_of_another_job_does_not_count(tmp_path) -> None:
    folder = tmp_path / "devices" / "pbs_jobs.service" / "jobid" / "123[4].head"
    folder.mkdir(parents=True)
    (folder / "devices.list").write_text("c 195:2 rw\n")
    assert read_cards(str(tmp_path), str(tmp_path), "123[4]") == ("2",)
    for other in ("123", "1234", "12", "*", "123[*]"):
        assert read_cards(str(tmp_path), str(tmp_path), other) == ()


@given(st.text() | st.sampled_from(["[]", '{"device_names": 3}', '{"device_names": [3]}', "{}", "null", "1"]))
def test_any_text_of_the_hook_is_read(text: str) -> None:
    assert all(number.isdecimal() for number in parse_assigned(text))


def test_two_servers_jobs_of_one_number_are_told_nothing(tmp_path) -> None:
    folder = tmp_path / "mom_priv" / "hooks" / "hook_data"
    folder.mkdir(parents=True)
    for server, card in (("a", 1), ("b", 2)):
        (folder / f"7.{server}").write_text(f'{{"device_names": ["nvidia{card}"]}}')
    assert read_cards("/nowhere", str(tmp_path), "7") == ()
    (folder / "7.a").unlink()
    assert read_cards("/nowhere", str(tmp_path), "7") == ("2",)
