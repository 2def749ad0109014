import os
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ConfigurationError
from jobfeatures.settings.file import MAX_BYTES, MAX_FILES, flatten, read_settings, stamp_of, to_toml

GOOD = b'[web]\nlisten_address = ":1"\n[partition."a b"]\ngrace_secs = 7200\n'


def written(tmp_path, data):
    path = tmp_path / "config.toml"
    path.write_bytes(data)
    return str(path)


def test_tables_are_read_and_flattened(tmp_path):
    document = read_settings(written(tmp_path, GOOD))
    assert flatten(document.table) == [("web.listen_address", ":1"), ("partition.a b.grace_secs", 7200)]


@pytest.mark.parametrize("data", [b"# all defaults\n", b"[web]\n"])
def test_a_file_without_settings_is_a_file(tmp_path, data):
    assert flatten(read_settings(written(tmp_path, data)).table) == []


def test_no_file_at_all_can_be_named_by_its_device():
    assert read_settings(os.devnull).table == {}


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
        (
            "[web]\nlisten_address = 0x" + "f" * 5000,
            "web.listen_address: is a whole number that does not fit",
        ),
        ("web = [[1, 9223372036854775808]]", "web: is a whole number that does not fit"),
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


@pytest.fixture
def site(tmp_path):
    """Return a function that writes a file and its drop-ins, and returns the path of the file."""

    def write(main, **drop_ins):
        folder = tmp_path / "conf.d"
        folder.mkdir()
        for name, text in drop_ins.items():
            (folder / f"{name}.toml").write_text(text)
        return written(tmp_path, main.encode())

    return write


def told(path):
    with pytest.raises(ConfigurationError) as caught:
        read_settings(path)
    return str(caught.value)


def test_drop_ins_are_read_after_the_file_in_the_order_of_their_names(site, tmp_path):
    path = site("[web]\nport = 1\nname = 'n'\n", b="web.port = 3\n", a="web.port = 2\n[node]\nx = 1\n")
    (tmp_path / "conf.d/z.toml~").write_text("left by an editor")
    (tmp_path / "conf.d/.y.toml").write_text("hidden")
    document = read_settings(path)
    assert document.table == {"web": {"port": 3, "name": "n"}, "node": {"x": 1}}
    assert document.origin("web", "port") == f"{tmp_path}/conf.d/b.toml: web.port"
    assert document.place("web", "name") == f"{path}:3: web.name"
    assert document.place("node", "x") == f"{tmp_path}/conf.d/a.toml:3: node.x"


def test_another_files_drop_ins_lie_in_a_folder_of_its_name(tmp_path):
    (tmp_path / "controller.toml").write_text("a = 1\n")
    for folder in ("conf.d", "controller.d"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.toml").write_text(f"b = '{folder}'\n")
    assert read_settings(str(tmp_path / "controller.toml")).table == {"a": 1, "b": "controller.d"}


def test_drop_ins_are_enough_where_the_file_is_not_needed(tmp_path):
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/a.toml").write_text("a = 1\n")
    assert read_settings(str(tmp_path / "config.toml"), is_needed=False).table == {"a": 1}
    assert "there is no such file" in told(str(tmp_path / "config.toml"))


def test_a_table_is_not_replaced_by_a_value(site, tmp_path):
    path = site("[web]\nport = 1\n", a="\nweb = 3\n")
    assert told(path) == f"{tmp_path}/conf.d/a.toml:2: web: is a table in one file and a value in another"


@pytest.mark.parametrize("place", ["config.toml", "conf.d", "conf.d/a.toml"])
def test_what_others_may_write_to_is_refused(site, tmp_path, place):
    path = site("a = 1\n", a="b = 1\n")
    read_settings(path)
    (tmp_path / place).chmod(0o777)
    assert (
        told(path) == f"{tmp_path}/{place}: others may write to it (mode 777); chmod go-w {tmp_path}/{place}"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files are given away")
@pytest.mark.parametrize("place", ["config.toml", "conf.d", "conf.d/a.toml"])
def test_what_belongs_to_somebody_else_is_refused(site, tmp_path, place):
    path = site("a = 1\n", a="b = 1\n")
    os.chown(tmp_path / place, 65534, 0)
    assert "belongs to uid 65534, who could change it" in told(path)
    os.chown(tmp_path / place, 0, 65534)
    (tmp_path / place).chmod(0o775)
    assert "others may write to it (mode 775)" in told(path)


def test_a_pipe_among_drop_ins_is_refused_and_not_waited_for(site, tmp_path):
    path = site("a = 1\n")
    os.mkfifo(tmp_path / "conf.d/a.toml", 0o600)
    assert told(path) == f"{tmp_path}/conf.d/a.toml: is not a plain file"


def test_drop_ins_are_bounded_and_each_is_read_or_refused_like_the_file(site, tmp_path):
    path = site("a = 1\n", a="[web\n")
    assert told(path).startswith(f"{tmp_path}/conf.d/a.toml: is not TOML: ")
    assert "(at line 1, column 5)" in told(path)
    (tmp_path / "conf.d/a.toml").write_text("")
    assert "a.toml: is empty" in told(path)
    for number in range(MAX_FILES + 1):
        (tmp_path / f"conf.d/{number}.toml").write_text("")
    assert "has more than" in told(path)


def test_a_new_changed_or_removed_drop_in_is_noticed(site, tmp_path):
    path = site("a = 1\n")
    seen = [stamp_of(path)]
    drop_in = tmp_path / "conf.d/a.toml"
    for change in (
        lambda: drop_in.write_text("b = 1\n"),
        lambda: drop_in.write_text("b = 11\n"),
        drop_in.unlink,
    ):
        change()
        seen.append(stamp_of(path))
    assert len(set(seen[:-1])) == 3
    assert seen[-1] == seen[0]


@given(
    st.text(alphabet="a\n# ", max_size=20),
    st.sampled_from(["1", "[\n1,\n]", '"""\n[x]\nport = 1\n"""']),
    st.text(alphabet="\n", max_size=5),
    st.sampled_from([("utf-8", "\n"), ("utf-8-sig", "\r\n")]),
)
def test_the_line_of_a_setting_is_where_its_statement_begins(tmp_path, before, value, after, form):
    """Also in a file that an editor on Windows has saved."""
    encoding, line_end = form
    comment = "".join(f"#{each}\n" for each in before.split("\n"))
    text = f"{comment}[web]\n{after}port = {value}\nlast = 1\n"
    path = written(tmp_path, text.replace("\n", line_end).encode(encoding))
    line = before.count("\n") + 1 + 1 + len(after) + 1
    assert read_settings(path).place("web", "port") == f"{path}:{line}: web.port"


VALUES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=10), st.integers(-(2**63), 2**63 - 1), st.booleans(),
    st.floats(allow_nan=False), st.datetimes(), st.dates(), st.times(),
)  # fmt: skip
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)


@given(
    st.dictionaries(
        NAMES,
        st.recursive(
            VALUES,
            lambda each: st.lists(each, max_size=3) | st.dictionaries(NAMES, each, max_size=3),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_what_is_written_as_one_file_says_the_same(table):
    assert tomllib.loads(to_toml(table).decode()) == table
