import os
import re
import signal
import subprocess
import sys
import time

import pytest

from jobfeatures import client
from jobfeatures.cli import COMMANDS, build_parser, main

PROLOG = {
    "SLURMD_NODENAME": "n1",
    "SLURM_JOB_ID": "777",
    "SLURM_JOB_UID": str(os.getuid()),
    "SLURM_JOB_USER": "alice",
    "SLURM_JOB_ACCOUNT": "physics",
    "SLURM_JOB_PARTITION": "batch",
    "SLURM_JOB_CPUS_PER_NODE": "2",
    "SLURM_NODELIST": "n1",
}
RECORD = (
    f"JobId=777 JobName=x UserId=alice({os.getuid()}) GroupId=alice(6001) MCS_label=N/A Account=physics QOS=normal "
    "JobState=CONFIGURING Reason=None Requeue=1 Restarts=0 ExitCode=0:0 RunTime=00:00:00 TimeLimit=00:07:00 "
    "SubmitTime=1795246159 EligibleTime=1795246159 StartTime=1795246160 EndTime=1795246580 Partition=batch "
    "NodeList=n1 BatchHost=n1 NumNodes=1 NumCPUs=2 NumTasks=1 TRES=cpu=2 JOB_GRES=(null)   Nodes=n1 CPU_IDs=0-1 "
    "Mem=120 GRES= MinCPUsNode=1 MinMemoryNode=120M MinTmpDiskNode=0 Features=(null) Command=(null) WorkDir=/ "
)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A prolog's environment, a feature root, and a controller that answers about job 777."""
    for name, value in PROLOG.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("JOBFEATURES_FEATURES_ROOT", str(tmp_path / "features"))
    monkeypatch.setenv("JOBFEATURES_SLURM_SCONTROL", str(tmp_path / "scontrol"))
    monkeypatch.setenv("JOBFEATURES_MACHINE_TOTAL_CPU", "16")
    monkeypatch.delenv("JOBFEATURES_CONFIG_FILE", raising=False)
    for name in ("MACHINEFEATURES", "JOBFEATURES", "JOBSTATUS"):
        monkeypatch.delenv(name, raising=False)

    def controller(script):
        path = tmp_path / "scontrol"
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    controller(
        "while read -r verb what name; do case $what in"
        f" hostnames) echo $name;; job) echo '{RECORD}';; esac; done"
    )
    return type("Site", (), {"features": tmp_path / "features", "controller": staticmethod(controller)})


def job_files(site):
    folder = site.features / "jobfeatures/slurm-777"
    return {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else None


def test_publish_tells_what_environment_and_controller_know(site):
    assert main(["publish", "--batch", "slurm", "--strict"]) == 0
    assert job_files(site) == {
        "allocated_cpu": "2\n",
        "job_id": "777\n",
        "jobstart_secs": "1795246160\n",
        "wall_limit_secs": "420\n",
        "cpu_limit_secs": "840\n",
        "max_rss_bytes": f"{120 * 2**20}\n",
    }
    assert (site.features / "machinefeatures/total_cpu").read_text() == "16\n"
    assert (site.features / "jobstatus/slurm-777").is_dir()


@pytest.mark.parametrize(
    "script",
    [
        "exit 1",
        "echo nonsense",
        "echo 'Unable to contact slurm controller' >&2; exit 1",
        "exec sleep 60",
        "exec yes",
    ],
)
def test_publish_tells_what_the_environment_knows_when_the_controller_does_not_answer(
    site, script, monkeypatch
):
    monkeypatch.setenv("JOBFEATURES_HOOK_TIMEOUT", "400ms")
    site.controller(script)
    assert main(["publish"]) == 0
    assert job_files(site) == {"allocated_cpu": "2\n", "job_id": "777\n"}


def test_publish_does_not_ask_where_it_must_not(site, monkeypatch, tmp_path):
    site.controller(f"touch {tmp_path}/asked")
    monkeypatch.setenv("JOBFEATURES_HOOK_ASK", "never")
    assert main(["publish", "--strict"]) == 0
    monkeypatch.setenv("JOBFEATURES_HOOK_ASK", "auto")
    monkeypatch.setattr("jobfeatures.batch.slurm.site.ASK_MAX_NODES", 0)
    assert main(["publish", "--strict"]) == 0
    assert not (tmp_path / "asked").exists()


def test_publish_asks_for_what_the_environment_of_slurm_23_lacks_and_tells_what_it_has(
    site, monkeypatch, tmp_path
):
    site.controller(f"touch {tmp_path}/asked; exit 1")
    monkeypatch.setenv("SLURM_JOB_START_TIME", "1795246160")
    monkeypatch.setenv("SLURM_JOB_END_TIME", "1795246580")
    assert main(["publish"]) == 0
    assert (tmp_path / "asked").exists()
    assert job_files(site)["wall_limit_secs"] == "420\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JOBFEATURES_FEATURES_ROOT", "/proc/no/such/place"),
        ("JOBFEATURES_FEATURES_ROOT", "relative"),
        ("SLURM_JOB_ID", "not a number"),
        ("SLURM_JOB_ID", "../../etc"),
    ],
)
@pytest.mark.parametrize("command", ["publish", "remove"])
def test_a_hook_that_cannot_work_exits_with_0_and_a_line_in_the_log(
    site, monkeypatch, capfd, command, name, value
):
    monkeypatch.setenv(name, value)
    assert main([command, "--batch", "slurm"]) == 0
    if not (command == "remove" and name == "SLURM_JOB_ID"):  # an unknown job has nothing to remove
        assert main([command, "--batch", "slurm", "--strict"]) == 1
        assert "level=error" in capfd.readouterr().err


def test_a_hook_is_ended_by_its_deadline_wherever_it_hangs(site, monkeypatch, capfd):
    def hang(*_arguments, **_keywords):
        time.sleep(60)

    monkeypatch.setattr("jobfeatures.hooks.actions.write_job", hang)
    monkeypatch.setenv("JOBFEATURES_HOOK_TIMEOUT", "200ms")
    assert main(["publish", "--strict"]) == 1
    assert "stopped at the time limit hook.timeout" in capfd.readouterr().err
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_remove_takes_everything_away_and_may_be_repeated(site):
    main(["publish"])
    assert main(["remove", "--strict"]) == 0
    assert [path for path in site.features.rglob("*") if "777" in path.name] == []
    assert main(["remove", "--strict"]) == 0


def test_env_prints_lines_for_a_task_prolog(site, capsys):
    main(["publish"])
    capsys.readouterr()
    assert main(["env"]) == 0
    assert capsys.readouterr().out == (
        f"export MACHINEFEATURES={site.features}/machinefeatures\n"
        f"export JOBFEATURES={site.features}/jobfeatures/slurm-777\n"
        f"export JOBSTATUS={site.features}/jobstatus/slurm-777\n"
    )
    assert (site.features / "exports/slurm-777").read_text().startswith("export MACHINEFEATURES=")


@pytest.mark.parametrize("form", [[], ["--local"]])
def test_env_appends_what_containers_see_to_what_the_job_binds(site, capsys, monkeypatch, form):
    monkeypatch.setenv("JOBFEATURES_FEATURES_BIND", "apptainer,singularity")
    main(["publish"])
    root = site.features
    ours = ",".join(
        f"{path}:{path}:ro" for path in (root / "machinefeatures", root / "jobfeatures/slurm-777")
    )
    ours += f",{root}/jobstatus/slurm-777:{root}/jobstatus/slurm-777"
    for old, bound in {
        "": ours,
        "/data:/d": f"/data:/d,{ours}",
        f"/data,{ours}": None,
        f"/data,{ours},/x".replace(
            "slurm-777", "slurm-3"
        ): f"/data,/x,{ours}",  # of the job that submitted it
        "/a b": None,  # for a shell it wants quotes, for a task prolog none: it stays as it is
    }.items():
        monkeypatch.setenv("APPTAINER_BIND", old)
        capsys.readouterr()
        assert main(["env", *form]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == (4 if bound is None else 5)
        assert (f"export APPTAINER_BIND={bound}" in lines) == (bound is not None)
        assert f"export SINGULARITY_BIND={ours}" in lines
    main(["env", "--batch", "slurm", "--job", "5"])
    assert (
        "BIND" not in capsys.readouterr().out
    )  # a container with a bind of what is not there does not start


def test_env_prints_where_features_are_to_be_of_a_job_that_has_none_yet(site, capsys):
    assert main(["env", "--batch", "slurm", "--job", "5"]) == 0
    captured = capsys.readouterr()
    assert captured.out == (
        f"export MACHINEFEATURES={site.features}/machinefeatures\n"
        f"export JOBFEATURES={site.features}/jobfeatures/slurm-5\n"
        f"export JOBSTATUS={site.features}/jobstatus/slurm-5\n"
    )
    assert "nothing is published for this job" in captured.err


def test_env_finds_the_component_of_a_heterogeneous_job_that_is_on_this_node(site, capsys, monkeypatch):
    main(["publish"])
    capsys.readouterr()
    monkeypatch.setenv("SLURM_JOB_ID", "775")
    monkeypatch.setenv("SLURM_HET_SIZE", "3")
    assert main(["env"]) == 0
    assert f"export JOBFEATURES={site.features}/jobfeatures/slurm-777\n" in capsys.readouterr().out
    monkeypatch.setenv("SLURM_HET_SIZE", "2")  # 777 is another job
    assert main(["env"]) == 0
    assert f"export JOBFEATURES={site.features}/jobfeatures/slurm-775\n" in capsys.readouterr().out


@pytest.fixture
def in_job(site, monkeypatch):
    """The environment of the job that was published."""
    main(["publish"])
    monkeypatch.setenv("MACHINEFEATURES", f"{site.features}/machinefeatures")
    monkeypatch.setenv("JOBFEATURES", f"{site.features}/jobfeatures/slurm-777")
    return site.features / "jobfeatures/slurm-777"


def test_get_prints_a_value_of_the_job_or_the_machine(in_job, capsys):
    assert main(["get", "wall_limit_secs"]) == 0
    assert main(["get", "total_cpu"]) == 0
    assert capsys.readouterr().out == "420\n16\n"


def test_get_says_where_a_value_is_not_known(in_job, capsys):
    assert main(["get", "hs06"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hs06" in captured.err


def test_get_names_the_other_spelling_that_has_a_value(in_job, capsys):
    (in_job / "allocated_cpu").unlink()
    (in_job / "allocated_CPU").write_text("2\n")
    assert main(["get", "allocated_cpu"]) == 1
    assert "but allocated_CPU of the other specification is: '2'" in capsys.readouterr().err


def test_remaining_prints_whole_seconds_and_its_bases(in_job, capsys):
    (in_job / "jobstart_secs").write_text(f"{int(time.time()) - 20}\n")
    (in_job / "cpu_limit_secs").unlink()
    assert main(["remaining"]) == 0
    assert 398 <= int(capsys.readouterr().out) <= 400
    assert main(["remaining", "--explain"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert second == f"wall_limit {first}"


def test_remaining_knows_the_cpu_limit_and_says_what_it_rests_on(in_job, capsys):
    for name, value in (
        ("jobstart_secs", int(time.time()) - 20),
        ("cpu_limit_secs", 800),
        ("allocated_cpu", 4),
    ):
        (in_job / name).write_text(f"{value}\n")
    assert main(["remaining", "--explain"]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert int(first) <= 200
    assert second.startswith(f"cpu_limit {first} (")
    assert third.startswith("wall_limit ")


# "The job needs to calculate the remaining time it is allowed to run": what is used beside this session's
# processes is not seen, so the least that can be left stands beside what is likely.
def test_the_pessimistic_bound_of_the_cpu_limit_stands_beside_it(in_job, capsys, monkeypatch):
    monkeypatch.setattr(client, "_used_cpu_secs", lambda *_: (40.0, "a session"))
    for name, value in (
        ("jobstart_secs", int(time.time()) - 20),
        ("cpu_limit_secs", 800),
        ("allocated_cpu", 4),
    ):
        (in_job / name).write_text(f"{value}\n")
    assert main(["remaining", "--explain"]) == 0
    bound = capsys.readouterr().out.splitlines()[1]
    assert re.fullmatch(
        r"cpu_limit 190 \(40 s used by a session; 4 CPUs busy from now on; 1(79|80) if since the start\)",
        bound,
    )


def test_a_limit_that_has_passed_is_negative(in_job, capsys):
    (in_job / "cpu_limit_secs").unlink()
    assert main(["remaining", "--explain"]) == 0  # the record's start is long past
    first, second = capsys.readouterr().out.splitlines()
    assert int(first) < 0
    assert second == f"wall_limit {first}"


def test_remaining_says_when_nothing_is_known(in_job, capsys):
    (in_job / "wall_limit_secs").unlink()
    (in_job / "cpu_limit_secs").unlink()
    assert main(["remaining"]) == 1
    assert "no limit" in capsys.readouterr().err


def test_show_prints_this_job_or_any_or_all(in_job, capsys, monkeypatch):
    assert main(["show"]) == 0
    this_job = capsys.readouterr().out
    assert "  wall_limit_secs 420\n" in this_job
    assert "  total_cpu 16\n" in this_job
    monkeypatch.delenv("JOBFEATURES")
    assert main(["show", "777"]) == 0
    assert capsys.readouterr().out == this_job
    assert main(["show"]) == 0
    assert capsys.readouterr().out == this_job
    assert main(["show", "778"]) == 1
    assert "778" in capsys.readouterr().err


def test_show_prints_all_other_jobs_where_one_cannot_be_read(in_job, capsys, monkeypatch):
    monkeypatch.delenv("JOBFEATURES")
    odd = in_job.parent / "slurm-1"  # comes before the other
    odd.mkdir()
    (odd / "a folder of the user's").mkdir()
    assert main(["show"]) == 1
    output = capsys.readouterr()
    assert "  wall_limit_secs 420\n" in output.out
    assert "a folder of the user's" in output.err


def test_show_takes_empty_variables_for_none_and_names_the_folder_without_the_job(
    in_job, capsys, monkeypatch, tmp_path
):
    monkeypatch.setenv("JOBFEATURES", "")
    monkeypatch.setenv("MACHINEFEATURES", "")
    assert main(["show"]) == 0
    assert "job_id" in capsys.readouterr().out
    elsewhere = str(tmp_path / "elsewhere")
    assert main(["show", "--features.root", elsewhere]) == 1
    assert capsys.readouterr().err == f"jobfeatures: {elsewhere}/machinefeatures: No such file or directory\n"
    assert main(["show", "4711", "--features.root", elsewhere]) == 1
    assert (
        capsys.readouterr().err
        == f"jobfeatures: nothing is published for job 4711 in {elsewhere}; jobfeatures show lists others\n"
    )


def test_show_tells_where_each_value_came_from(site, capsys, monkeypatch, tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("machine.hs06 = 160\n[partition.batch]\nscratch_bytes_per_cpu = '10GB'\n")
    monkeypatch.setenv("JOBFEATURES_CONFIG_FILE", str(file))
    main(["publish", "--strict"])
    capsys.readouterr()
    assert main(["show", "777", "--origin"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "total_cpu 16  (JOBFEATURES_MACHINE_TOTAL_CPU)" in lines
    assert f"hs06 160  ({file}: machine.hs06)" in lines
    assert "hs06_job 20  (derived: hs06 * allocated_cpu / total_cpu)" in lines
    scratch = f"({file}: partition.batch.scratch_bytes_per_cpu * allocated_cpu)"
    assert f"scratch_limit_bytes 20000000000  {scratch}" in lines
    assert any(line.startswith("wall_limit_secs 420  (slurm: TimeLimit (scontrol)") for line in lines)


def test_show_tells_origins_to_a_job_that_knows_its_directory_by_a_link(in_job, site, capsys, monkeypatch):
    link = site.features / "jobfeatures" / "starter.4711"
    link.symlink_to("slurm-777")
    monkeypatch.setenv("JOBFEATURES", str(link))
    assert main(["show", "--origin"]) == 0
    told = capsys.readouterr().out
    assert f"{link}\n" in told
    assert "wall_limit_secs 420  (slurm: " in told


def test_show_says_so_where_an_origin_was_not_recorded(in_job, site, capsys):
    (site.features / "origins/slurm-777").unlink()
    assert main(["show", "777", "--origin"]) == 0
    assert "wall_limit_secs 420  (not recorded)" in capsys.readouterr().out
    (site.features / "origins/slurm-777").write_text("nonsense")
    assert main(["show", "777", "--origin"]) == 1
    assert "no tab" in capsys.readouterr().err


def test_a_hook_takes_the_cores_that_the_daemon_has_counted(site, monkeypatch):
    monkeypatch.setenv("JOBFEATURES_FEATURES_PROFILE", "both")
    main(["publish", "--strict"])
    monkeypatch.setattr(os, "cpu_count", lambda: 5)  # else they were counted before some went off line
    (site.features / "machinefeatures/phys_cores").write_text("3\n")
    (site.features / "machinefeatures/log_cores").write_text("5\n")
    main(["publish", "--strict"])
    assert (site.features / "machinefeatures/phys_cores").read_text() == "3\n"
    assert (site.features / "machinefeatures/log_cores").read_text() == "5\n"
    assert "allocated_CPU" in job_files(site)


def test_show_escapes_what_it_prints(in_job, capsys):
    (in_job / "job_id").write_text("x\x1b[31m\n")
    assert main(["show"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_that_nobody_could_be_asked_is_not_that_nothing_is_known(monkeypatch, capsys):
    monkeypatch.delenv("MACHINEFEATURES", raising=False)
    monkeypatch.delenv("JOBFEATURES", raising=False)
    assert main(["get", "job_id"]) == 3
    assert main(["remaining"]) == 3
    assert capsys.readouterr().err.count("no features can be read") == 2


@pytest.mark.parametrize("arguments", [[], *([name] for name in COMMANDS)])
def test_help_is_everywhere(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--help"])
    assert ended.value.code == 0
    assert "usage:" in capsys.readouterr().out


@pytest.mark.program
def test_the_command_also_runs_as_a_module_and_tells_its_version():
    done = subprocess.run(
        [sys.executable, "-m", "jobfeatures", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("jobfeatures, version ")


@pytest.mark.parametrize("called", COMMANDS)
def test_a_command_in_haste_is_parsed_like_any_other(called):
    hasty, whole = (build_parser(called, in_haste=each) for each in (True, False))
    words = {"get": [called, "x"]}.get(called, [called])
    outcomes = []
    for parser in (hasty, whole):
        try:
            outcomes.append(vars(parser.parse_args(words)))
        except SystemExit as ended:  # it needs more words
            outcomes.append(ended.code)
    assert outcomes[0] == outcomes[1]


@pytest.mark.program
def test_the_process_ends_with_the_command_s_status_and_all_it_printed(in_job):
    for words, status, text in ((["get", "job_id"], 0, "777\n"), (["get", "absent"], 1, ""), ([], 2, "")):
        done = subprocess.run([sys.executable, "-m", "jobfeatures", *words], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (status, text)


def test_a_closed_pipe_is_no_traceback(in_job):
    done = subprocess.run(
        f"{sys.executable} -m jobfeatures show | true",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
