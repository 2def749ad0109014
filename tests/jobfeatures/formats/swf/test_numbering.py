from jobfeatures.formats.swf.fields import UNKNOWN
from jobfeatures.formats.swf.numbering import Numbers


def test_new_names_come_after_all_numbers_and_stay():
    numbers = Numbers({7: "alice"}, are_numbers=True)
    assert [numbers.of(name) for name in ("bob", "12", "carol", "bob", "alice")] == [8, 12, 13, 8, 7]
    assert numbers.added == {"bob": 8, "carol": 13}


def test_no_name_gets_the_number_that_says_unknown():
    numbers = Numbers({-2: "alice"})
    assert [numbers.of(name) for name in ("bob", None, "alice")] == [1, UNKNOWN, -2]
