"""Software for cards. What Sonar's text says stands beside each test; the files are constructed after real ones."""

import json

import pytest

from jobfeatures.errors import ParseError
from jobfeatures_exporter.model.hardware import Software
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.host import software
from jobfeatures_exporter.sampling.host.software import parse_cuda_versions, read_software

CUDA = {
    "cuda": {"name": "CUDA SDK", "version": "12.2.20230823"},
    "cuda_cudart": {"name": "CUDA Runtime (cudart)", "version": "12.2.140"},
    "odd": "12",
    "none": {"name": "without"},
}


@pytest.fixture
def roots(tmp_path):
    cuda, rocm = tmp_path / "cuda", tmp_path / "rocm"
    cuda.mkdir()
    (cuda / "version.json").write_text(json.dumps(CUDA))
    (rocm / ".info").mkdir(parents=True)
    for name, version in (
        (".version-hip", "6.0.1\n"),
        ("version", "6.0.2-115\n"),
        ("other", "9"),
        ("version-x", ""),
    ):
        (rocm / ".info" / name).write_text(version)
    return {"CUDA_ROOT": str(cuda), "ROCm_ROOT": str(rocm)}


# "On NVIDIA systems, one can look in $CUDA_ROOT/version.json, where the key/name/version values are encoded
# directly. On AMD systems, one can look in $ROCm_ROOT/.info/.version*, where the file name encodes the
# component key and the file stores the version number."
def test_keys_names_and_versions_are_those_of_the_two_folders(roots):
    unreadable = Unreadable()
    assert read_software(roots, unreadable) == (
        Software("cuda", "CUDA SDK", "12.2.20230823"),
        Software("cuda_cudart", "CUDA Runtime (cudart)", "12.2.140"),
        Software("hip", "ROCm hip", "6.0.1"),
        Software("rocm", "ROCm", "6.0.2-115"),
    )
    assert unreadable.counts == {}


def test_what_is_not_named_or_not_there_is_nothing(tmp_path):
    unreadable = Unreadable()
    assert read_software({}, unreadable) == ()
    assert read_software({"CUDA_ROOT": "cuda", "ROCm_ROOT": str(tmp_path / "none")}, unreadable) == ()
    assert unreadable.counts == {}


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '"x"'])
def test_a_file_of_another_form_is_left_out_and_counted(roots, tmp_path, text):
    with pytest.raises(ParseError):
        list(parse_cuda_versions(text))
    (tmp_path / "cuda/version.json").write_text(text)
    unreadable = Unreadable()
    assert [each.key for each in read_software(roots, unreadable)] == ["hip", "rocm"]
    assert unreadable.counts == {"software_garbage": 1}


def test_a_file_that_is_too_long_is_left_out_and_counted(roots, monkeypatch):
    monkeypatch.setattr(software, "MAX_BYTES", 16)
    unreadable = Unreadable()
    assert [each.key for each in read_software(roots, unreadable)] == ["hip", "rocm"]
    assert unreadable.counts == {"software_garbage": 1}
