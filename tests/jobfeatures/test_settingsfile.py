import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ConfigurationError
from jobfeatures.settingsfile import MAX_BYTES, flatten, nearest, read_settings

GOOD = b'[web]\nlisten_address = ":1"\n[partition."a b"]\ngrace_secs = 7200\n'


def written(tmp_path, data):
    path = tmp_path / "config.toml"
    path.write_bytes(data)
    return str(path)


def test_tables_are_read_and_flattened(tmp_path):
    document = read_settings(written(tmp_path, GOOD))
    assert flatten(document) == [("web.listen_address", ":1"), ("partition.a b.grace_secs", 7200)]


@pytest.mark.parametrize("data", [b"# all defaults\n", b"[web]\n"])
def test_a_file_without_settings_is_a_file(tmp_path, data):
    assert flatten(read_settings(written(tmp_path, data))) == []


def test_no_file_at_all_can_be_named_by_its_device():
    assert read_settings(os.devnull) == {}


def test_an_endless_file_is_not_read_to_its_end(tmp_path):
    with pytest.raises(ConfigurationError, match="is larger than"):
        read_settings("/dev/zero")
    with pytest.raises(ConfigurationError, match="is larger than"):
        read_settings(written(tmp_path, b"#" * (MAX_BYTES + 1)))


def refusal(tmp_path, data):
    """Return what is said of a file, None if it is read."""
    try:
        read_settings(written(tmp_path, data))
    except ConfigurationError as error:
        return str(error)
    return None


@given(st.binary(max_size=200))
def test_any_bytes_are_settings_or_refused_in_one_line(tmp_path, data):
    said = refusal(tmp_path, data)
    assert said is None or (len(said.splitlines()) == 1 and said.startswith(str(tmp_path)))


@given(st.integers(0, len(GOOD)), st.text(max_size=20))
def test_a_file_that_was_cut_off_or_written_into_is_settings_or_refused_in_one_line(tmp_path, place, text):
    for data in (GOOD[:place], GOOD[:place] + text.encode("utf-8", "surrogatepass") + GOOD[place:]):
        said = refusal(tmp_path, data)
        assert said is None or len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("[web]\nlisten_address = " + "9" * 5000, "is not TOML: a number is too long"),
        ("[web]\nlisten_address = 0x" + "f" * 5000, "web.listen_address: is a whole number that 64 bits"),
        ("web = [[1, 9223372036854775808]]", "web: is a whole number that 64 bits"),
        ("x = " + "[" * 1000 + "]" * 1000, "is nested too deeply"),
        ("x = " + "{a=" * 1000 + "1" + "}" * 1000, "is nested too deeply"),
        ("x = " + "[" * 17 + "]" * 17, "x: is nested too deeply"),
        ("[" + "a." * 3000 + "a]\nx = 1", "is nested too deeply"),
        ("a" + ".a" * 5_000 + " = 1", "is nested too deeply"),
    ],
)
def test_what_is_deeper_or_longer_than_any_setting_is_refused_in_one_line(tmp_path, data, reason):
    said = refusal(tmp_path, data.encode())
    assert reason in said
    assert len(said.splitlines()) == 1
    assert len(said) < 400


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("web.listen_addres", "; did you mean web.listen_address?"),
        ("listen_address", "; did you mean web.listen_address?"),
        ("sonar.interval", "; did you mean sample.interval?"),
        ("quite_different", ""),
        ("", ""),
    ],
)
def test_the_nearest_word_is_told_where_one_is_near(word, hint):
    assert nearest(word, ["web.listen_address", "sample.interval"]) == hint
