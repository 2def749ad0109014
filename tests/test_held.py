import logging

from tests.held import count_held


class Growing:
    __slots__ = ("kept", "log", "other")

    def __init__(self):
        self.kept, self.log = {}, logging.getLogger()
        self.other = lambda: self.kept


def test_what_an_object_holds_is_counted_through_slots_and_closures_and_nothing_of_modules():
    thing = Growing()
    before = count_held(thing)
    assert before < 20
    for number in range(100):
        thing.kept[f"key {number}"] = (float(number),)
    assert count_held(thing) == before + 300
    thing.kept.clear()
    assert count_held(thing) == before
