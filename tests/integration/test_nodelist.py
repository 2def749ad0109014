"""Compressed node lists, against what Slurm's own command makes of them."""

import os
import random
import re
import subprocess

import pytest

from jobfeatures.errors import ParseError
from jobfeatures.records.nodelist import expand_nodes

LISTS = 20_000 if os.environ.get("JOBFEATURES_LONG") else 4_000
BATCH = 500  # asked of one scontrol, which reads lines
SEED = 20_000


@pytest.fixture(scope="module")
def expand_by_slurm(slurm_lab):
    """Return a function that asks scontrol for the names of each of some lists; () where it refuses one."""
    environ = {"SLURM_CONF": str(slurm_lab / "etc/slurm.conf"), "PATH": "/usr/bin:/bin"}

    def expand(lists):
        asked = [line for text in lists for line in (f"show hostnames {text}", "show hostnames zz-end")]
        done = subprocess.run(
            ["scontrol", "-Q"],
            input="\n".join(asked) + "\n",
            env=environ,
            capture_output=True,
            text=True,
            timeout=240,
        )
        found = [[]]
        for line in done.stdout.splitlines():
            if line == "zz-end":
                found.append([])
            elif re.fullmatch(r"[\w.-]+", line, re.ASCII):  # not the prompt, whose long lines begin with "<"
                found[-1].append(line)
        assert len(found) == len(lists) + 1, done.stderr[-300:]
        return [tuple(names) for names in found[:-1]]

    return expand


def draw_number(draw: random.Random) -> str:
    return str(draw.choice((draw.randrange(12), draw.randrange(130)))).zfill(draw.choice((1, 1, 2, 3)))


def draw_bracket(draw: random.Random) -> str:
    parts = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        low = draw_number(draw)
        high = int(low) + draw.randrange(14)
        parts.append(draw.choice((low, f"{low}-{high}", f"{low}-{high:0{len(low)}d}")))
    return f"[{','.join(parts)}]"


def draw_text(draw: random.Random) -> str:
    return draw.choice(("n", "c", "rack", "gpu-", "n1", "n0", "a-1-b", "x00", "node.0", "7", "N_"))


def draw_list(draw: random.Random) -> str:
    """Return a list as Slurm takes it: nothing stands behind a piece's last bracket."""
    pieces = []
    for _ in range(draw.choice((1, 1, 2, 4))):
        piece = draw_text(draw)
        for number in range(draw.choice((0, 1, 1, 2, 3))):
            piece += (draw.choice(("", "-", "x", "0", "12", ".e")) if number else "") + draw_bracket(draw)
        pieces.append(piece)
    return ",".join(pieces)


def expanded(text: str) -> tuple[str, ...] | None:
    try:
        return expand_nodes(text)
    except ParseError:
        return None


def test_random_lists_expand_as_slurm_expands_them(expand_by_slurm):
    draw = random.Random(SEED)
    lists = [draw_list(draw) for _ in range(LISTS)]
    names = 0
    for start in range(0, LISTS, BATCH):
        batch = lists[start : start + BATCH]
        for text, theirs in zip(batch, expand_by_slurm(batch), strict=True):
            assert theirs, text
            ours = expanded(text)
            names += len(theirs)
            if max(piece.count("[") for piece in text.replace("],", "] ").split()) < 3:
                assert ours == tuple(dict.fromkeys(theirs)), text
            else:  # of three brackets Slurm varies the first before the second
                assert sorted(ours or ()) == sorted(set(theirs)), text
    assert names > 10 * LISTS


def test_of_spoilt_lists_none_is_read_otherwise_than_slurm_reads_it(expand_by_slurm):
    draw = random.Random(SEED + 1)
    spoilt = []
    while len(spoilt) < LISTS // 4:
        text = list(draw_list(draw))
        for _ in range(draw.choice((1, 2))):
            place = draw.randrange(len(text) + 1)
            text[place : place + draw.randrange(2)] = draw.choice(("[", "]", ",", "-", "0", "x", ""))
        if text:
            spoilt.append("".join(text))
    both = 0
    for start in range(0, len(spoilt), BATCH):
        batch = spoilt[start : start + BATCH]
        for text, theirs in zip(batch, expand_by_slurm(batch), strict=True):
            ours = expanded(text)
            if ours is not None and theirs:
                both += 1
                assert sorted(ours) == sorted(set(theirs)), text
    assert both > len(spoilt) / 10
