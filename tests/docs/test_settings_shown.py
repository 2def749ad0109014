"""Settings that a page shows are settings: blocks are loaded, names in sentences exist."""

import re

import pytest

from jobfeatures.config import Config
from jobfeatures.errors import ConfigurationError
from jobfeatures.settings.resolve import load_config, settings_of
from jobfeatures_exporter.config import ExporterConfig
from tests.docs.pages import NAMES, blocks_of, faults_by_page, text_of, words_in

SETTINGS = {each.key for each in settings_of(ExporterConfig)} | {each.key for each in settings_of(Config)}
VARIABLES = {each.variable for each in settings_of(ExporterConfig)}
SECTIONS = {key.partition(".")[0] for key in SETTINGS if "." in key}
OF_HOOKS = {  # of the hooks and of tests, each told of on a page
    "JOBFEATURES_LEFT_SECS",
    "JOBFEATURES_PID",
    "JOBFEATURES_COMMAND",
    "JOBFEATURES_HOOK_TIMEOUT",
    "JOBFEATURES_SETTINGS",
    "JOBFEATURES_CONFIG_FILE",
    "JOBFEATURES_DATA",
    "JOBFEATURES_LONG",
    "JOBFEATURES_WRITE_GOLDEN",
    "JOBFEATURES_SEED",
    "JOBFEATURES_SONAR",
    "JOBFEATURES_URL",  # what a job gets, features.form = "both"
}
ENDINGS = {
    "conf",
    "json",
    "html",
    "md",
    "png",
    "py",
    "service",
    "sh",
    "slice",
    "socket",
    "swf",
    "toml",
    "yml",
}


def load(text, tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(text)
    return load_config(ExporterConfig, environ={}, file=str(file))


def test_files_of_settings_can_be_loaded(tmp_path):
    def refused(block):
        try:
            load(block.text, tmp_path)
        except ConfigurationError as error:
            yield str(error)

    assert blocks_of("toml")
    assert faults_by_page(blocks_of("toml"), refused) == {}


def test_a_wrong_one_would_be_noticed(tmp_path):
    with pytest.raises(ConfigurationError, match="there is no such setting"):
        load("[web]\nlisten = ':1'\n", tmp_path)


def unknown_settings(name):
    """Names are taken for settings if they begin like one and could be one: `features.root`, `sonar.*`."""
    for word in words_in(text_of(name)):
        for found in re.findall(r"^([a-z_]+\.[a-z_]+)(?:$| = |=)", word):
            section, key = found.split(".")
            if section in SECTIONS and key not in ENDINGS and found not in SETTINGS:
                yield word


def test_a_setting_in_a_sentence_exists():
    assert faults_by_page(NAMES, unknown_settings) == {}


def unknown_variables(name):
    return set(re.findall(r"\bJOBFEATURES_[A-Z_]+\b", text_of(name))) - VARIABLES - OF_HOOKS


def test_a_variable_in_a_sentence_exists():
    assert faults_by_page(NAMES, unknown_variables) == {}


SCALES = {"": 1, "s": 1, "ms": 0.001, "minutes": 60, "min": 60, "hour": 3600, "hours": 3600, "h": 3600}
SCALES |= {"day": 86400, "days": 86400, "MiB": 2**20, "GiB": 2**30}
DEFAULT = re.compile(r"`([a-z_.]+)` \((?:default )?([0-9][0-9,]*)(?: ([A-Za-z]+))?[;,)]")


def defaults_in(text):
    """Return setting and value of each default in a sentence: `sample.interval` (10 s)."""
    for key, number, unit in DEFAULT.findall(text):
        if key in VALUES and unit in SCALES:
            yield key, int(number.replace(",", "")) * SCALES[unit]


VALUES = {each.key: each.default for each in settings_of(ExporterConfig)}


def wrong_defaults(name):
    return [(key, VALUES[key]) for key, value in defaults_in(text_of(name)) if VALUES[key] != value]


def test_a_default_in_a_sentence_is_the_default():
    assert faults_by_page(NAMES, wrong_defaults) == {}


def test_defaults_are_found_in_sentences():
    assert list(
        defaults_in("`sample.interval` (10 s), `jobs.retain` (2 min), `metrics.max_series` (20,000; 0: any)")
    ) == [
        ("sample.interval", 10),
        ("jobs.retain", 120),
        ("metrics.max_series", 20000),
    ]
