"""Classes of the reasons why nodes start no jobs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.cluster import parse_node
from jobfeatures.batch.slurm.reasons import CLASSES, OTHER, classify_reason


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Not responding [slurm@2026-11-21T07:32:21]", "not_responding"),
        ("Node unexpectedly rebooted [slurm@1795395775]", "rebooted"),
        ("Kill task failed [root@1795395775]", "kill_failed"),
        ("Low RealMemory (reported:1900 < 100.00% of configured:2000) [slurm@1]", "configuration"),
        ("gres/gpu count reported lower than configured (1 < 2) [slurm@1]", "configuration"),
        ("Prolog error [slurm@1]", "prolog"),
        ("batch job complete failure [slurm@1]", "kill_failed"),
        ("NHC: check_fs_mount /scratch not mounted by alice [root@1]", "health_check"),
        ("GPU 3 fell off the bus, Xid 79", "gpu"),
        ("ib0 link flapping: INFINIBAND", "network"),
        ("kernel update [root@1]", "maintenance"),
        ("ask alice [storage@1]", OTHER),  # the author does not count
        ("", ""),
        ("none", ""),
    ],
)
def test_a_reason_is_one_of_a_few_words(text, found):
    assert classify_reason(text) == found


@given(st.text())
def test_no_text_becomes_a_label(text):
    assert classify_reason(text) in {*CLASSES, OTHER, ""}


def test_a_node_has_the_class_of_its_reason_and_its_active_features():
    node = parse_node(
        "NodeName=n1 AvailableFeatures=a,b,c ActiveFeatures=avx512,ib,we|ird State=IDLE+DRAIN"
        "  Comment=State=DOWN ActiveFeatures=x Reason=disk full, call bob [root@1795395775]"
    )
    assert (node.features, node.reason, node.states) == (("avx512", "ib"), "storage", ("IDLE", "DRAIN"))
    assert parse_node("NodeName=n1 ActiveFeatures=(null) State=IDLE").features == ()
