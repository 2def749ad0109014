import base64
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from jobfeatures.formats.sonar.envelopes import CURRENT, SEED
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures_exporter.snapshot import SysinfoSample
from jobfeatures_exporter.sonar.sysinfo import sysinfo_envelope

GOLDEN = Path(__file__).parents[2] / "fixtures/golden"


@pytest.fixture
def sysinfo(context, snapshot):
    return replace(
        context.sysinfo,
        topology_svg="<svg>ü</svg>",
        topology_text="Machine\n",
        cards=tuple(gpu.card for gpu in snapshot.gpus),
    )


@pytest.mark.parametrize("profile", [CURRENT, SEED])
def test_the_document_is_the_golden_one(origin, sysinfo, profile):
    origin = replace(origin, profile=profile, attributes={"exporter_version": "0"})
    document = sysinfo_envelope(origin, sysinfo)
    assert validate_envelope(document, profile=profile, strict=True) == []
    text = json.dumps(document, indent=1) + "\n"
    path = GOLDEN / f"sonar-sysinfo-{profile}.json"
    if os.environ.get("JOBFEATURES_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_pictures_are_base64_of_their_text(origin, sysinfo):
    found = sysinfo_envelope(origin, sysinfo)["data"]["attributes"]
    assert base64.b64decode(found["topo_svg"]).decode() == "<svg>ü</svg>"
    assert base64.b64decode(found["topo_text"]).decode() == "Machine\n"


def test_numa_nodes_and_distances_are_of_the_current_form_only(origin, sysinfo):
    current = sysinfo_envelope(origin, sysinfo)["data"]["attributes"]
    assert (current["numa_nodes"], current["distances"]) == (2, [[10, 21], [21, 10]])
    seed = sysinfo_envelope(replace(origin, profile=SEED), sysinfo)["data"]["attributes"]
    assert current.keys() - seed.keys() == {"numa_nodes", "distances", "topo_text"}


@pytest.mark.parametrize("name", ["sockets", "cores_per_socket", "threads_per_core", "memory_bytes"])
def test_a_number_that_may_not_be_missing_makes_it_an_error(origin, sysinfo, name):
    document = sysinfo_envelope(origin, replace(sysinfo, **{name: None}))
    assert document.keys() == {"meta", "errors"}
    assert validate_envelope(document, profile=CURRENT, strict=True) == []


def test_what_else_is_unknown_is_left_out(origin):
    bare = SysinfoSample(
        taken_at_secs=1.8e9, os_name="Linux", os_release="6.1", architecture="aarch64", sockets=1,
        cores_per_socket=64, threads_per_core=1, memory_bytes=2**30,
    )  # fmt: skip
    document = sysinfo_envelope(origin, bare)
    assert validate_envelope(document, profile=CURRENT, strict=True) == []
    assert document["data"]["attributes"].keys() & {"cpu_model", "cards", "distances", "numa_nodes"} == set()
