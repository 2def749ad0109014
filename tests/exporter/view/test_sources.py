"""What may help where a batch system does not answer."""

import pytest

from jobfeatures_exporter.view.sources import SourceView

SETTINGS = "docs/reference/settings.md"


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("slurm", "batch.timeout"),
        ("slurm-queue", "controller.timeout"),
        ("slurm queue", "controller.timeout"),  # as `doctor` names it
    ],
)
def test_of_a_late_answer_the_setting_is_named_that_there_is(name, setting, pytestconfig):
    view = SourceView(name, has_answered=True, is_up=False, failures=1, words="scontrol: no end after 10 s")
    assert f"{setting} sets how long to wait" in view.advice
    assert f"- `{setting}`" in (pytestconfig.rootpath / SETTINGS).read_text()


@pytest.mark.parametrize("name", ["slurm", "slurm-queue", "slurm queue"])
def test_of_a_command_that_is_not_found_its_setting_is_named(name):
    words = "scontrol: No such file or directory"
    view = SourceView(name, has_answered=False, is_up=False, failures=1, words=words)
    assert "its full path in slurm.scontrol" in view.advice
