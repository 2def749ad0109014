"""A tree of feature directories."""

import os

import pytest

from jobfeatures.publish.tree import FeatureTree


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """Stand in a directory that is gone: what is looked up by a name alone, not in a folder of ours, fails."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()


@pytest.fixture
def root(tmp_path):
    return tmp_path / "features"


@pytest.fixture
def tree(root):
    return FeatureTree(str(root))


@pytest.fixture
def precious(tmp_path):
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "file").write_text("1\n")
    return folder
