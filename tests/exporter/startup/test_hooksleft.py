"""Which hooks a removal of the package would take from under a batch system. Constructed."""

import pytest

from jobfeatures_exporter.startup import hooksites
from jobfeatures_exporter.startup.hooksleft import leads_to, main, systems_left
from tests.configured import configured


@pytest.fixture
def folder(tmp_path):
    """Return a folder of hooks with one of them."""
    (tmp_path / "opt/slurm").mkdir(parents=True)
    (tmp_path / "opt/slurm/prolog.sh").write_text("#!/bin/sh\n")
    return tmp_path / "opt"


def test_a_command_leads_to_the_folder_by_its_name_by_a_link_and_by_what_a_script_calls(folder, tmp_path):
    site = tmp_path / "prolog.d"
    site.mkdir()
    hook = f"{folder}/slurm/prolog.sh"
    assert leads_to(hook, str(folder))
    assert leads_to(f"root@{hook} -x", str(folder))
    assert leads_to(f"/bin/sh {folder}/slurm/lost.sh", str(folder))
    (site / "10-own").write_text("#!/bin/sh\nexec /opt-other/prolog.sh\n")
    assert not leads_to(f"{site}/*", str(folder))
    (site / "20-script").write_text(f"#!/bin/sh\nexec {hook}\n")
    assert leads_to(f"{site}/*", str(folder))
    (site / "20-script").unlink()
    (site / "30-link").symlink_to(hook)
    assert leads_to(f"{site}/*", str(folder))
    assert not leads_to("", str(folder))
    assert not leads_to("/no/such/script", str(folder))
    assert not leads_to(f"{folder}-of-another/prolog.sh", str(folder))


@pytest.fixture
def left(folder, tmp_path, monkeypatch):
    """Return what tells which systems are left, after what scontrol prints."""
    config = configured(batch_sources=("slurm",), slurm_scontrol=str(tmp_path / "scontrol"), node_name="n1")

    def find(text):
        (tmp_path / "scontrol").write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "scontrol").chmod(0o755)
        return dict(systems_left(config, str(folder)))

    for system in hooksites.SYSTEMS.values():
        monkeypatch.setattr(system, "is_here", lambda _config: False)
    return find


@pytest.mark.program
def test_the_settings_that_name_hooks_are_said_and_those_of_others_are_not(left, folder):
    prolog = f"{folder}/slurm/prolog.sh"
    said = (
        f"echo Prolog = {prolog}; echo Epilog = /site/epilog; echo TaskProlog = {folder}/slurm/taskprolog.sh"
    )
    assert left(said) == {"slurm": "its configuration still names hooks of the package (Prolog, TaskProlog)"}
    assert left("echo Prolog = /site/prolog; echo 'Epilog = (null)'") == {}


@pytest.mark.program
def test_a_batch_system_that_does_not_answer_may_name_hooks(left):
    [why] = left("echo 'slurm_load_ctl_conf error: Unable to contact slurm controller' >&2; exit 1").values()
    assert why.startswith("its hooks are not known (")
    assert "Unable to contact slurm controller" in why


def test_a_wrapper_of_jobs_counts_and_a_setting_that_is_no_program_does_not(folder, monkeypatch):
    config = configured(batch_sources=("htcondor",), htcondor_execute_directory=f"{folder}/execute")
    told = {
        "STARTER_JOB_ENVIRONMENT": '"JOBFEATURES=/run/jobfeatures/jobfeatures/starter.$(PID)"',
        "USER_JOB_WRAPPER": "Not defined",
        "EXECUTE": f"{folder}/execute",
    }
    monkeypatch.setattr(hooksites, "run_query", lambda _system, _command, name, **_: told[name])
    for system in hooksites.SYSTEMS.values():
        monkeypatch.setattr(system, "is_here", lambda _config: False)
    assert dict(systems_left(config, str(folder))) == {}
    told["USER_JOB_WRAPPER"] = f"{folder}/htcondor/jobwrapper.sh"
    assert list(dict(systems_left(config, str(folder)))) == ["htcondor"]


def test_settings_that_the_daemon_would_refuse_do_not_matter(tmp_path, monkeypatch, capsys):
    broken = tmp_path / "config.toml"
    broken.write_text("[nonsense")
    monkeypatch.setenv("JOBFEATURES_CONFIG_FILE", str(broken))
    for system in hooksites.SYSTEMS.values():
        monkeypatch.setattr(system, "is_here", lambda _config: False)
    assert main("/opt/none") == 0
    assert capsys.readouterr().out == ""
