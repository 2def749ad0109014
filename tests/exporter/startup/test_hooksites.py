"""The hooks of each batch system as `doctor` finds them: files and answers are constructed, some of them hostile."""

import os
import shutil
from types import SimpleNamespace

import pytest

from jobfeatures.batch import SYSTEMS
from jobfeatures.records.model import JobTable
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.startup import doctor, hooksites
from jobfeatures_exporter.startup.doctor import examine
from jobfeatures_exporter.startup.findings import Mark
from jobfeatures_exporter.startup.hooksites import HOOK_SITES, mentions_us, named_hooks, program_of
from tests.configured import changed, configured
from tests.exporter.sampling.fakenode import FakeNode
from tests.running import own_folder

OURS, LOST = "/opt/jobfeatures-exporter/x.sh", "/no/such/hook.sh"


@pytest.fixture
def script(tmp_path):
    """Return what makes an executable file."""

    def make(name, text, mode=0o755):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    return make


@pytest.fixture
def found(tmp_path, script, monkeypatch):
    """Return what finds the hooks of a system: marks by what is said, from a text that its tool prints."""
    monkeypatch.setattr(hooksites, "OAR_CONFIGURATION", str(tmp_path / "oar.conf"))
    monkeypatch.setattr(hooksites, "LSF_SUDOERS", str(tmp_path / "lsf.sudoers"))
    monkeypatch.setattr(hooksites, "PROFILE", str(tmp_path / "profile.d"))
    table = JobTable(source="", jobs={}, taken_at_secs=1.0, complete=True)
    monkeypatch.setattr(doctor, "make_source", lambda *_: SimpleNamespace(poll_jobs=lambda *_: table))
    node = FakeNode(own_folder(tmp_path / "node"))
    config = configured(
        path_procfs=str(node.proc),
        path_cgroup=str(node.cgroup),
        features_root=str(tmp_path / "features"),
        web_listen_address="127.0.0.1:1",
        slurm_scontrol=str(tmp_path / "scontrol"),
        gridengine_qstat=str(tmp_path / "qstat"),
        htcondor_condor_status=str(tmp_path / "condor_status"),
        lsf_bjobs=str(tmp_path / "bjobs"),
        torque_home=str(tmp_path / "torque"),
        pbs_home=str(tmp_path / "pbs"),
        node_name="n1",
    )

    def find(system, **printed):
        for name, text in printed.items():
            script(name, text if text.startswith("#!") else f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        asked = changed(config, batch_sources=(system,))
        return [(each.mark, each.words) for each in examine(asked) if each.what == f"{system} hooks"]

    return find


def test_every_batch_system_with_hooks_has_a_line():
    assert HOOK_SITES.keys() == {name for name, each in SYSTEMS.items() if each.job_variable}


@pytest.fixture
def ours(script):
    return script("ours.sh", "#!/bin/sh\nexec /opt/jobfeatures-exporter/slurm/prolog.sh\n")


@pytest.fixture
def theirs(script):
    return script("theirs.sh", "#!/bin/sh\n")


# --- one system after the other -----------------------------------------------------


@pytest.mark.program
def test_slurm_may_have_several_scripts_of_a_kind(found, ours, theirs):
    said = (
        f"Prolog[0] = {ours}\nProlog[1] = {theirs}\nPrologFlags = Alloc\nEpilog = (null)\nTaskProlog = {LOST}"
    )
    assert found("slurm", scontrol=said) == [
        (Mark.GOOD, f"Prolog={ours}"),
        (Mark.NOTE, f"Prolog={theirs} does not mention jobfeatures"),
        (Mark.WRONG, f"TaskProlog={LOST} cannot be run on this node"),
        (Mark.NOTE, "Epilog is not set"),
    ]


@pytest.mark.program
def test_a_pattern_of_slurms_is_right_only_if_a_script_that_it_matches_is_ours(found, script, tmp_path):
    def said():
        ((mark, words), *_) = found("slurm", scontrol=f"Prolog[0] = {tmp_path}/prolog.d/*\n")
        return mark, words.removeprefix(f"Prolog={tmp_path}/prolog.d/*")

    assert said() == (Mark.NOTE, " does not mention jobfeatures")
    script("prolog.d/10-site", "#!/bin/sh\n")
    assert said() == (Mark.NOTE, " does not mention jobfeatures")
    script("opt/prolog.sh", "#!/bin/sh\n# jobfeatures\n")
    (tmp_path / "prolog.d/90-features").symlink_to(tmp_path / "opt/prolog.sh")
    assert said() == (Mark.GOOD, "")
    (tmp_path / "opt/prolog.sh").chmod(0o644)
    assert said() == (Mark.WRONG, f": {tmp_path}/prolog.d/90-features cannot be run on this node")


@pytest.mark.program
@pytest.mark.parametrize(
    ("kind", "mark"), [("proctrack/cgroup", Mark.GOOD), ("proctrack/linuxproc", Mark.WRONG)]
)
def test_without_control_groups_slurm_lets_nothing_be_told_of_its_jobs(found, kind, mark):
    assert found("slurm", scontrol=f"ProctrackType           = {kind}\n")[-1] == (
        mark,
        f"ProctrackType={kind}",
    )


def test_torques_are_files_of_its_daemon(found, script, tmp_path):
    prologue = script("torque/mom_priv/prologue", "#!/bin/sh\n. hook.sh; jobfeatures\n")
    script("torque/mom_priv/epilogue", "#!/bin/sh\n", mode=0o644)
    profile = script("profile.d/jobfeatures.sh", "# jobfeatures\n", mode=0o644)
    assert found("torque") == [
        (Mark.GOOD, f"prologue={prologue}"),
        (Mark.WRONG, f"epilogue={tmp_path}/torque/mom_priv/epilogue cannot be run on this node"),
        (Mark.GOOD, f"{tmp_path}/profile.d={profile}"),
    ]
    os.unlink(profile)
    os.unlink(prologue)
    assert [words for _, words in found("torque")][::2] == [
        "prologue is not set",
        f"{tmp_path}/profile.d is not set",
    ]
    shutil.rmtree(tmp_path / "torque")
    ((mark, words),) = found("torque")
    assert (mark, "No such file" in words) == (Mark.NOTE, True)


def test_pbs_has_copies_of_its_servers_hooks(found, script, tmp_path):
    script("pbs/mom_priv/hooks/pbs_cgroups.PY", "import pbs\n", mode=0o600)
    folder = tmp_path / "pbs/mom_priv/hooks"
    assert found("pbs") == [(Mark.NOTE, f"hook in {folder} is not set")]
    own = script("pbs/mom_priv/hooks/site.PY", "COMMAND = '/usr/bin/jobfeatures'\n", mode=0o600)
    script("pbs/mom_priv/hooks/site.HK", "jobfeatures", mode=0o600)
    assert found("pbs") == [(Mark.GOOD, f"hook in {folder}={own}")]


QCONF = """#!/bin/sh
case "$*" in
  -sconf) printf 'prolog     none\\nepilog     root@{ours}\\n' ;;
  "-sconf n1") echo 'configuration n1 not defined' >&2; exit 1 ;;
  -sq*) printf 'qname   all.q\\nprolog   root@{ours}\\nepilog  NONE\\n\\nqname   long\\nprolog   {ours}\\nepilog  NONE\\n'
     echo 'No cluster queue or queue instance matches the phrase "*@n1.*"' >&2; exit 1 ;;
esac
"""


@pytest.mark.program
def test_a_queue_of_grid_engine_has_its_own_or_the_one_for_all(found, ours):
    assert found("gridengine", qconf=QCONF.replace("{ours}", ours)) == [
        (Mark.GOOD, f"prolog=root@{ours} (all.q)"),
        (Mark.WRONG, f"prolog={ours} does not run as root (long)"),
        (Mark.GOOD, f"epilog=root@{ours} (all.q, long)"),
    ]


@pytest.mark.program
def test_a_node_of_grid_engine_without_a_queue_has_the_one_for_all(found):
    nowhere = "#!/bin/sh\ncase $1 in -sconf) exit 0 ;; esac\necho 'No cluster queue or queue instance matches'; exit 1"
    assert found("gridengine", qconf=nowhere) == [
        (Mark.NOTE, "prolog is not set"),
        (Mark.NOTE, "epilog is not set"),
    ]


@pytest.mark.program
def test_htcondor_has_an_environment_for_jobs_and_a_wrapper_of_ours_costs_holds(found, ours, theirs):
    here = "/var/lib/condor/execute"

    def said(environment="", wrapper="", execute=here):
        return found(
            "htcondor",
            condor_config_val=f"#!/bin/sh\ncase $1 in EXECUTE) echo {execute} ;; STARTER*) echo '{environment}' ;;"
            f" *) [ '{wrapper}' ] && echo {wrapper} || {{ echo Not defined: $1 >&2; exit 1; }} ;; esac",
        )

    variables = '"JOBFEATURES=/run/jobfeatures/jobfeatures/starter.$(PID)"'
    assert said(variables) == [
        (Mark.GOOD, f"STARTER_JOB_ENVIRONMENT={variables}"),
        (Mark.GOOD, f"EXECUTE={here}"),
    ]
    assert said('"A=1"', ours, "/scratch") == [
        (Mark.NOTE, 'STARTER_JOB_ENVIRONMENT="A=1" does not mention jobfeatures'),
        (Mark.NOTE, f"USER_JOB_WRAPPER={ours}: a job that cannot be started ends, and is not held"),
        (Mark.WRONG, "EXECUTE=/scratch"),
    ]
    assert said("", theirs)[:2] == [
        (Mark.NOTE, "STARTER_JOB_ENVIRONMENT is not set"),
        (Mark.GOOD, f"USER_JOB_WRAPPER={theirs}"),
    ]
    broken = "#!/bin/sh\necho 'ERROR: cannot read /etc/condor' >&2\nexit 1\n"
    ((mark, words),) = found("htcondor", condor_config_val=broken)
    assert (mark, "cannot read /etc/condor" in words) == (Mark.WRONG, True)


@pytest.mark.program
def test_queues_of_lsf_with_the_same_hook_are_named_together(found, ours, theirs, tmp_path):
    queue = "QUEUE: {}\n  -- A queue\n\nPRE_EXEC:  /other\nHOST_PRE_EXEC:  {}\nHOST_POST_EXEC:  {}\n"
    text = queue.format("normal", ours, ours) + f"JOB_STARTER:  {ours} /site/starter.sh\n"
    text += "-" * 40 + "\n\n" + queue.format("short", ours, theirs)
    assert found("lsf", bqueues=text) == [
        (Mark.GOOD, f"HOST_PRE_EXEC={ours} (normal, short)"),
        (Mark.GOOD, f"HOST_POST_EXEC={ours} (normal)"),
        (
            Mark.NOTE,
            f"JOB_STARTER={ours} /site/starter.sh: a command that begins with a shell's word, as cd, fails (normal)",
        ),
        (Mark.NOTE, f"HOST_POST_EXEC={theirs} does not mention jobfeatures (short)"),
        (Mark.WRONG, "LSB_PRE_POST_EXEC_USER="),
    ]
    (tmp_path / "lsf.sudoers").write_text("# LSB_PRE_POST_EXEC_USER=no\nLSB_PRE_POST_EXEC_USER=root\n")
    assert found("lsf", bqueues=text)[-1] == (Mark.GOOD, "LSB_PRE_POST_EXEC_USER=root")
    assert [mark for mark, _ in found("lsf", bqueues="QUEUE: normal\n")] == [Mark.NOTE] * 2  # metrics only


def test_oars_are_in_its_configuration(found, tmp_path, ours):
    ((mark, words),) = found("oar")
    assert (mark, "oar.conf" in words) == (Mark.NOTE, True)
    (tmp_path / "oar.conf").write_text(
        f'# EPILOGUE_EXEC_FILE="/no"\nPROLOGUE_EXEC_FILE="/early"\nPROLOGUE_EXEC_FILE="{ours}"\n'
    )
    assert found("oar") == [
        (Mark.GOOD, f"PROLOGUE_EXEC_FILE={ours}"),
        (Mark.NOTE, "EPILOGUE_EXEC_FILE is not set"),
    ]


# --- what may stand there --------------------------------------------------------------


@pytest.mark.program
def test_a_hook_that_anybody_may_change_is_wrong(found, script):
    hook = script("hook.sh", "jobfeatures", mode=0o757)
    assert found("htcondor", condor_config_val=hook)[1] == (
        Mark.WRONG,
        f"USER_JOB_WRAPPER={hook}: others may write to it",
    )


@pytest.mark.program
@pytest.mark.parametrize("kind", ["pipe", "folder", "endless"])
def test_what_is_no_script_is_named_and_waited_for_by_nobody(found, tmp_path, kind):
    path = tmp_path / "odd"
    {
        "pipe": lambda: os.mkfifo(path, 0o700),
        "folder": path.mkdir,
        "endless": lambda: path.write_bytes(b"\0" * 2**21),
    }[kind]()
    path.chmod(0o700)
    mark, words = found("htcondor", condor_config_val=str(path))[0]
    assert mark is Mark.NOTE
    assert words.startswith(f"STARTER_JOB_ENVIRONMENT={path}")


@pytest.mark.program
@pytest.mark.parametrize(
    "text",
    ["", "\0\x1b[31m = \n", "Prolog" * 9999, "Prolog = \n" * 99, "Prolog[] = 7", "=" * 2**19, "Prolog = '"],
)
def test_any_answer_gives_findings(found, script, text):
    said = "#!/bin/sh\ncat " + script("answer", text)
    assert all(isinstance(mark, Mark) for mark, _ in found("slurm", scontrol=said))


@pytest.mark.program
def test_an_answer_without_end_is_cut(found):
    ((mark, words),) = found("slurm", scontrol="#!/bin/sh\nexec cat /dev/zero\n")
    assert mark is Mark.WRONG
    assert "scontrol" in words


@pytest.mark.parametrize(
    ("command", "program"),
    [("root@/a/b c", "/a/b"), ('"/a/b" c', "/a/b"), ("", ""), ("env X=1 /a", "env"), ("/a@/b", "/a@/b")],
)
def test_what_a_command_runs(command, program):
    assert program_of(command) == program


def test_a_command_of_a_shell_is_ours_if_it_names_us(tmp_path):
    assert mentions_us("env X=1 /opt/jobfeatures-exporter/lsf/preexec.sh")
    assert not mentions_us("env X=1 /site/preexec.sh")
    (tmp_path / "site").write_text("call jobfeatures")
    (tmp_path / "link").symlink_to(tmp_path / "site")
    assert mentions_us(f"root@{tmp_path}/link x")


def test_queues_are_told_once_each(monkeypatch):
    hook = hooksites.NamedHook("prolog", OURS)
    hooks = [hook._replace(queue=each) for each in "ba"]
    monkeypatch.setitem(hooksites.HOOK_SITES, "slurm", lambda _config, _node: iter(hooks))
    assert list(named_hooks("slurm", ExporterConfig(), "n1")) == [hook._replace(queue="a, b")]
