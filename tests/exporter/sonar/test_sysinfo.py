import base64
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from jobfeatures.errors import ConfigurationError
from jobfeatures.formats.sonar import CURRENT, SEED
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures_exporter.model.hardware import Software, SysinfoSample
from jobfeatures_exporter.sinks.config import SinksSettings
from jobfeatures_exporter.sonar.config import SonarSettings
from jobfeatures_exporter.sonar.node import make_origin
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


def test_the_first_card_has_the_index_0(origin, sysinfo):
    cards = tuple(replace(card, index=0) for card in sysinfo.cards)
    found = sysinfo_envelope(origin, replace(sysinfo, cards=cards))["data"]["attributes"]
    assert [each["index"] for each in found["cards"]] == [0] * len(cards)


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


# "Per-software-package information": of the text's form only.
def test_software_is_of_the_texts_form_only(origin, sysinfo):
    told = replace(sysinfo, software=(Software("cuda", "CUDA SDK", "12.2"), Software("rocm", "", "6.0")))
    seed = sysinfo_envelope(replace(origin, profile=SEED), told)
    assert seed["data"]["attributes"]["software"] == [
        {"key": "cuda", "name": "CUDA SDK", "version": "12.2"},
        {"key": "rocm", "version": "6.0"},
    ]
    assert validate_envelope(seed, profile=SEED, strict=True) == []
    assert "software" not in sysinfo_envelope(origin, told)["data"]["attributes"]


# "An API token to be used with Envelope.Data.Attributes.Cluster, it proves that the producer of the datum was
# authorized to produce data for that cluster name."
@pytest.mark.parametrize("profile", [CURRENT, SEED])
def test_a_token_stands_in_every_document_where_a_file_holds_one(sysinfo, tmp_path, profile):
    path = tmp_path / "token"
    path.write_text("s3cret\n")
    path.chmod(0o600)
    sinks = SinksSettings(cluster="hpc.example.org")
    config = SonarSettings(sinks=sinks, profile=profile, token_file=str(path))
    document = sysinfo_envelope(make_origin(config, "n1"), sysinfo)
    assert document["meta"]["token"] == "s3cret"
    assert validate_envelope(document, profile=profile, strict=True) == []
    bare = make_origin(replace(config, token_file=None), "n1")
    assert "token" not in sysinfo_envelope(bare, sysinfo)["meta"]
    assert "s3cret" not in repr(make_origin(config, "n1"))


@pytest.mark.parametrize(("content", "mode"), [("s3cret", 0o644), ("", 0o600), ("a\nb", 0o600), (None, 0)])
def test_a_token_that_others_can_read_or_that_is_none_is_a_wrong_setting(tmp_path, content, mode):
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    config = SonarSettings(sinks=SinksSettings(cluster="hpc.example.org"), token_file=str(path))
    with pytest.raises(ConfigurationError, match=r"sonar\.token_file"):
        make_origin(config, "n1")
