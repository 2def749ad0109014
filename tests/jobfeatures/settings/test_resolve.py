import argparse

import pytest

from jobfeatures.config import Config
from jobfeatures.errors import ConfigurationError
from jobfeatures.settings.declare import ADDRESS, BOOLEAN, COUNT, DECIMAL, DURATION, PATH, PLAIN_PATH, words
from jobfeatures.settings.flags import add_flags
from jobfeatures.settings.grouppatterns import GROUP_PATTERNS
from jobfeatures.settings.resolve import load_config, settings_of


@pytest.fixture
def write(tmp_path):
    def make(text):
        path = tmp_path / "config.toml"
        path.write_text(text)
        return str(path)

    return make


def test_flag_beats_environment_beats_file_beats_default(write):
    file = write('[node]\nname = "of-file"\n')
    environ = {"JOBFEATURES_NODE_NAME": "of-environment"}
    flags = {"node.name": "of-flag"}
    assert load_config(Config, environ={}).node.name is None
    assert load_config(Config, environ={}, file=file).node.name == "of-file"
    assert load_config(Config, environ=environ, file=file).node.name == "of-environment"
    assert load_config(Config, flags=flags, environ=environ, file=file).node.name == "of-flag"


def test_the_file_may_be_named_by_the_environment(write):
    environ = {"JOBFEATURES_CONFIG_FILE": write("hook.timeout = '500ms'\n")}
    assert load_config(Config, environ=environ).hook.timeout_secs == 0.5


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("nodes.name = 'x'", "nodes.name"),
        ("node.name = 5", "node.name"),
        ("hook.timeout = 'soon'", "hook.timeout"),
        ("hook.timeout = 0", "hook.timeout"),
        ("features.root = 'run'", "features.root"),
        ("features.root = '/a b'", "features.root"),
        ("machine.hs06 = '1e3'", "machine.hs06"),
        ("machine.total_cpu = -1", "machine.total_cpu"),
        ("machine.total_cpu = true", "machine.total_cpu"),
        ("hook.ask = 'often'", "hook.ask"),
        ("not toml at all", "config.toml"),
    ],
)
def test_a_wrong_file_is_refused_with_its_key(write, text, named):
    with pytest.raises(ConfigurationError) as caught:
        load_config(Config, environ={}, file=write(text))
    assert named in str(caught.value)


def test_a_drop_in_beats_the_file_and_the_environment_beats_both(write, tmp_path):
    file = write('[node]\nname = "of-file"\n')
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/50-node.toml").write_text('[node]\nname = "of-drop-in"\n')
    assert load_config(Config, environ={}, file=file).node.name == "of-drop-in"
    assert load_config(Config, environ={"JOBFEATURES_NODE_NAME": "x"}, file=file).node.name == "x"


def test_a_wrong_drop_in_is_refused_with_its_line(write, tmp_path):
    file = write("node.name = 'n'\n")
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/a.toml").write_text("# nothing\nhook.timeout = 'soon'\n")
    with pytest.raises(ConfigurationError) as caught:
        load_config(Config, environ={}, file=file)
    assert str(caught.value).startswith(f"{tmp_path}/conf.d/a.toml:2: hook.timeout: must be a duration")


def test_a_hook_passes_over_settings_of_the_daemon(write):
    file = write("[web]\nlisten_address = ':1'\n[node]\nname = 'n1'\n")
    assert load_config(Config, environ={}, file=file, strict=False).node.name == "n1"


def test_an_absent_file_is_an_error_only_where_it_was_named(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_config(Config, environ={}, file=str(tmp_path / "absent"))


def test_a_wrong_flag_and_a_wrong_variable_are_named_as_written():
    with pytest.raises(ConfigurationError, match=r"--hook\.timeout"):
        load_config(Config, flags={"hook.timeout": "x"}, environ={})
    with pytest.raises(ConfigurationError, match="JOBFEATURES_HOOK_TIMEOUT"):
        load_config(Config, environ={"JOBFEATURES_HOOK_TIMEOUT": "x"})


def test_flags_variables_and_keys_are_unique():
    found = settings_of(Config)
    for names in zip(*((each.key, each.flag, each.variable, each.path) for each in found), strict=True):
        assert len(set(names)) == len(found)


def test_every_setting_has_a_flag():
    parser = argparse.ArgumentParser()
    add_flags(parser, Config)
    text = parser.format_help()
    assert all(each.flag in text for each in settings_of(Config))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (DURATION, "500ms", 0.5),
        (DURATION, "2m", 120.0),
        (DURATION, 10, 10.0),
        (BOOLEAN, "yes", True),
        (BOOLEAN, False, False),
        (COUNT, "7", 7),
        (DECIMAL, 171.04, "171.04"),
        (PATH, "/a/../b/", "/b"),
        (PLAIN_PATH, "/run/x", "/run/x"),
        (GROUP_PATTERNS, "/a.slice/, /b/*/c", ("/a.slice", "/b/*/c")),
        (GROUP_PATTERNS, ["/a.slice", " /a.slice/ "], ("/a.slice",)),
        (GROUP_PATTERNS, "", ()),
        (ADDRESS, "[::1]:9", "[::1]:9"),
        (ADDRESS, ":9819", ":9819"),
        (words("a", "b"), "b, a,b", ("b", "a")),
        (words("a", "b"), ["a"], ("a",)),
    ],
)
def test_values_are_read_from_text_and_from_toml(kind, text, value):
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (DURATION, "-1s"),
        (DURATION, True),
        (BOOLEAN, "maybe"),
        (COUNT, "1.5"),
        (PATH, "x"),
        (PATH, "/a\0b"),
        (ADDRESS, "9819"),
        (ADDRESS, "host:99999"),
        (ADDRESS, "a b:1"),
        (words("a"), "c"),
        (words("a"), 3),
        *((GROUP_PATTERNS, text) for text in ("a.slice", "/", "/a//b", "/a/../b", "/**/b", [3], 3)),
        # What no group can ever match, or each does.
        *((GROUP_PATTERNS, text) for text in ("/sys/fs/cgroup/x", "/*", "/*/*", "/user.slice/x", "/a\0")),
    ],
)
def test_other_values_are_refused(kind, text):
    with pytest.raises(ValueError):  # noqa: PT011  # each kind has its own words
        kind.parse(text)


@pytest.mark.parametrize("root", ["/tmp/with space", "/srv/a'b", "/srv/$HOME", "/srv/a;b", "/srv/ü"])
def test_a_root_that_the_shell_of_a_job_would_misread_is_refused_in_words(root):
    with pytest.raises(ConfigurationError, match=r"features\.root: must contain only letters") as caught:
        load_config(Config, flags={"features.root": root}, environ={})
    assert root in str(caught.value)


def test_a_program_is_one_word_whatever_blanks_are_in_its_path():
    config = load_config(Config, flags={"slurm.scontrol": "/opt/my slurm/bin/scontrol"}, environ={})
    assert config.batch.slurm.scontrol == "/opt/my slurm/bin/scontrol"
