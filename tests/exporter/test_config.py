"""The daemon's settings as a whole."""

import argparse

import pytest

from jobfeatures.settings.flags import add_flags
from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig

SWITCHES = {"features.hs23", "sonar.tree_fsync"}  # that were flags without a value


@pytest.mark.parametrize("key", ExporterConfig.RETIRED)
def test_a_setting_of_an_earlier_release_is_named_and_ignored(key, tmp_path, caplog):
    file = tmp_path / "config.toml"
    file.write_text(f'[{key.partition(".")[0]}]\n{key.partition(".")[2]} = "7"\n')
    variable = f"JOBFEATURES_{key.replace('.', '_').upper()}"
    assert load_config(ExporterConfig, file=str(file), environ={variable: "7"}) is not None
    parser = argparse.ArgumentParser()
    add_flags(parser, ExporterConfig)
    flag = f"--{key.replace('_', '-')}"
    flags = (flag, f"--no-{flag[2:]}") if key in SWITCHES else (flag,)
    parser.parse_args([*flags, *(["7"] if key not in SWITCHES else []), "--set", f"{key}=7"])
    origins = (f"{file}:2: {key}", variable, *flags, f"--set {key}")
    assert [each.getMessage() for each in caplog.records] == [
        f"{origin}: is no setting any more; it is ignored" for origin in origins
    ]
    assert flag not in parser.format_help()
