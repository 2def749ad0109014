"""Groups of a sample, and removed ones sorted to the jobs that had them."""

from types import SimpleNamespace

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.groups.cgroup import GroupList, JobFigures
from jobfeatures_exporter.sampling.groups.grouplist import list_groups
from jobfeatures_exporter.sampling.values import LastLook
from jobfeatures_exporter.snapshot import MemoryBytes

KEY = JobKey("slurm", "7")
READING = JobFigures(MemoryBytes())


def group(source):
    return SimpleNamespace(directory=SimpleNamespace(cpu_source=source))


def list_with(heard, *, gone, living=(), last=None):
    groups = GroupList((), [group(each).directory for each in living], tuple(map(group, gone)))
    return list_groups(groups, heard, LastLook({"/a": KEY, "/s": None} if last is None else last))


def gone_of(listed):
    return {key: [each.directory.cpu_source for each in those] for key, those in listed.gone.items()}


def test_a_removed_group_that_was_read_before_is_its_jobs():
    listed = list_with({"/a": READING}, gone=["/a"])
    assert (gone_of(listed), listed.heard) == ({KEY: ["/a"]}, {"/a": READING})


def test_one_that_was_not_read_or_a_strangers_or_never_sampled_is_nobodys():
    assert gone_of(list_with({}, gone=["/a"])) == {}
    assert gone_of(list_with({"/s": READING, "/new": READING}, gone=["/s", "/new"])) == {}


def test_where_the_path_is_used_again_the_reading_may_be_of_the_next_job():
    assert gone_of(list_with({"/a": READING}, gone=["/a"], living=["/a"])) == {}


def test_without_a_reader_between_samples_there_are_no_readings():
    groups = GroupList(gone=(group("/a"),))
    assert list_groups(groups, {}, LastLook({"/a": KEY})) == (groups, {}, {})
