import pickle
from dataclasses import dataclass, field, replace

import pytest

from jobfeatures.records.quickrecord import made_of_columns, quickly_made


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Some:
    number: int
    name: str = "none"
    labels: dict[str, str] = field(default_factory=dict)
    source: str = field(default="", compare=False)


def test_such_a_record_is_made_copied_and_compared_like_any_other():
    one = Some(number=1, source="here")
    assert (one.name, one.labels) == ("none", {})
    assert one.labels is not Some(number=1).labels
    assert one == Some(number=1) != replace(one, number=2)
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one) == "Some(number=1, name='none', labels={}, source='here')"


def test_what_has_no_value_of_its_own_has_to_be_given_by_name():
    with pytest.raises(TypeError, match="number"):
        Some(name="x")
    with pytest.raises(TypeError):
        Some(1)
    with pytest.raises(TypeError):
        Some(number=1, unknown=2)


def test_records_made_of_columns_are_those_that_calls_make():
    made = made_of_columns(Some, 2, {"name": "ab", "number": [1, 2], "labels": [{}, {}]})
    assert made == [Some(number=1, name="a"), Some(number=2, name="b")]
    assert made[0].source == ""
