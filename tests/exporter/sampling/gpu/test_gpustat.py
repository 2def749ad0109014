import os

from jobfeatures_exporter.sampling.gpu.gpustat import read_gpustat


def test_only_plain_files_of_the_owner_count(tmp_path, unreadable):
    (tmp_path / "0").write_text("12 6001\n")
    (tmp_path / "GPU-1").write_text("13 6001\n")
    (tmp_path / "1").write_text("")
    (tmp_path / "2").write_text("rm -rf\n")
    (tmp_path / "3").symlink_to(tmp_path / "0")
    os.mkfifo(tmp_path / "4")
    (tmp_path / "5").mkdir()
    assert read_gpustat(str(tmp_path), unreadable, owner=os.getuid()) == {"0": "12", "GPU-1": "13"}
    assert unreadable.counts["gpustat_garbage"] == 3  # words, a FIFO and a directory
    assert unreadable.counts["gpustat_eloop"] == 1


def test_what_somebody_else_wrote_does_not_count(tmp_path, unreadable):
    (tmp_path / "0").write_text("12 6001\n")
    assert read_gpustat(str(tmp_path), unreadable, owner=os.getuid() + 1) == {}


def test_where_no_prolog_leaves_anything_nothing_is_known(tmp_path, unreadable):
    assert read_gpustat(str(tmp_path / "none"), unreadable) == {}
    assert unreadable.counts == {}
