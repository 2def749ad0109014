import os

import pytest

from jobfeatures.system.privatefile import read_owned


def test_a_file_that_takes_the_place_of_the_one_that_was_checked_is_refused(tmp_path, monkeypatch):
    file, foreign = tmp_path / "ad", tmp_path / "foreign"
    for each in (file, foreign):
        each.write_text(each.name)
        each.chmod(0o644)
    assert read_owned(str(file), {os.getuid()}, 100) == (b"ad", os.getuid())
    before = os.lstat(file)
    foreign.chmod(0o666)
    os.replace(foreign, file)
    monkeypatch.setattr(os, "lstat", lambda _path: before)
    with pytest.raises(PermissionError):
        read_owned(str(file), {os.getuid()}, 100)
