"""Which of several files are read: the longest unread of those that may have changed."""

from jobfeatures_exporter.sampling.groups.turns import PER_SAMPLE, Turns


class File:
    is_known = True
    waits = False

    def wait(self, *, waits):
        self.waits = waits


def test_a_few_are_read_at_each_sample_and_each_has_its_turn():
    files = [File() for _ in range(5)]
    turns, read = Turns(files), []
    for _ in range(3):
        turns.choose([1] * 5 if not read else ())
        read.append([number for number, each in enumerate(files) if not each.waits])
    assert [len(each) for each in read] == [PER_SAMPLE, PER_SAMPLE, 1]
    assert sorted(number for those in read for number in those) == [0, 1, 2, 3, 4]
    assert not turns.waiting


def test_the_first_is_read_at_once_where_it_may_be_about_a_kill():
    files = [File() for _ in range(5)]
    turns = Turns(files)
    turns.choose([1] * 5)
    turns.choose((), at_once=True)
    assert not files[0].waits
