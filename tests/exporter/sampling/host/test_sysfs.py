"""One value a file: what is a number, what is none, and what is counted."""

from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.host.sysfs import Sysfs


def test_the_first_file_that_has_a_number_tells_it(tmp_path):
    (tmp_path / "b").write_text("-7\n")
    (tmp_path / "c").write_text("8\n")
    read = Sysfs(unreadable := Unreadable())
    assert read.first(*(f"{tmp_path}/{name}" for name in "abc")) == -7
    assert read.scaled(f"{tmp_path}/c", 0.5) == 4
    assert read.names(str(tmp_path)) == ["b", "c"]
    assert unreadable.counts == {}  # what is not there is no failure


def test_what_is_no_number_or_no_plain_file_is_counted(tmp_path):
    (tmp_path / "a").write_text("7 apples\n")
    (tmp_path / "link").symlink_to("a")
    read = Sysfs(unreadable := Unreadable())
    assert read.number(f"{tmp_path}/a") is None
    assert read.text(f"{tmp_path}/link") is None
    assert unreadable.counts == {"gpu_sysfs_garbage": 1, "gpu_sysfs_eloop": 1}
