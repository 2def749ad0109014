import pytest

from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.host.hugepages import name_size, read_huge_pages


@pytest.fixture
def pool(tmp_path):
    """Return a function that makes the pool of one size of page; constructed as Linux 6.1 has it."""

    def make(kib, whole, free):
        folder = tmp_path / f"kernel/mm/hugepages/hugepages-{kib}kB"
        folder.mkdir(parents=True)
        (folder / "nr_hugepages").write_text(f"{whole}\n")
        (folder / "free_hugepages").write_text(f"{free}\n")

    return make


def test_pages_in_use_are_those_of_each_pool_that_are_not_free(pool, tmp_path):
    unreadable = Unreadable()
    pool(2048, 20, 10)
    pool(1048576, 2, 2)
    pool(64, 0, 0)
    assert read_huge_pages(str(tmp_path), {"Hugetlb": 2**31}, unreadable) == {2**21: 10 * 2**21, 2**30: 0}
    assert read_huge_pages(str(tmp_path), {}, unreadable) == {2**21: 10 * 2**21, 2**30: 0}, "before 4.17"
    assert read_huge_pages(str(tmp_path), {"Hugetlb": 0}, unreadable) is None
    assert unreadable.counts == {}


def test_a_node_without_huge_pages_has_none(pool, tmp_path):
    unreadable = Unreadable()
    assert read_huge_pages(str(tmp_path), {}, unreadable) is None
    pool(2048, 0, 0)
    assert read_huge_pages(str(tmp_path), {}, unreadable) is None
    assert unreadable.counts == {}


def test_a_count_that_cannot_be_read_is_unknown_and_counted(pool, tmp_path):
    unreadable = Unreadable()
    pool(2048, 20, "x")
    assert read_huge_pages(str(tmp_path), {}, unreadable) is None
    assert unreadable.counts == {"node_hugepages_garbage": 1}


def test_sizes_are_named_as_the_controller_s_files_are():
    assert [name_size(each) for each in (2**16, 2**21, 2**30, 2**34)] == ["64KB", "2MB", "1GB", "16GB"]
