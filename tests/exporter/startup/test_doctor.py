"""`doctor` on nodes and controllers that are well, and that lack one thing each. Constructed."""

import http.server
import ipaddress
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey, JobTable
from jobfeatures_exporter.cli import main
from jobfeatures_exporter.startup import doctor
from jobfeatures_exporter.startup.doctor import examine
from jobfeatures_exporter.startup.findings import DoctorFinding, Mark
from jobfeatures_exporter.view.sources import advise_ebpf
from tests.configured import changed, configured
from tests.exporter.sampling.fakenode import FakeNode
from tests.exporter.web.authority import Authority

SLURM = """#!/bin/sh
[ "$*" = "show config" ] || exit 1
echo 'Prolog                  = {prolog}'
echo 'Epilog                  = (null)'
"""


@pytest.fixture
def node(tmp_path):
    return FakeNode(tmp_path)


@pytest.fixture
def config(node, tmp_path):
    """Return the settings of a node where nothing is."""
    (node.cgroup / "cgroup.controllers").write_text("cpu\n")
    (node.proc / "pressure").mkdir()
    (node.proc / "pressure/cpu").touch()
    node.process(1)
    return configured(
        path_procfs=str(node.proc),
        path_cgroup=str(node.cgroup),
        features_root=str(tmp_path / "features"),
        batch_sources=("spool",),
        spool_directory=str(tmp_path),
        web_listen_address="127.0.0.1:1",
        node_name="n1",
    )


@pytest.fixture
def daemon():
    """Yield the address of a daemon, and what it answers: the status and body of /-/ready, the body of /metrics."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = (200, answer[2]) if self.path == "/metrics" else answer[:2]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    answer = [200, b"ready\n", b"batch_exporter_series_over_budget 0\n"]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}", answer
        server.shutdown()
        thread.join()


@pytest.fixture
def answer(monkeypatch):
    """Return a function that lets batch systems answer without jobs."""

    def answer(source, *, complete=True):
        table = JobTable(source=source, jobs={}, taken_at_secs=1.0, complete=complete)
        made = SimpleNamespace(poll_jobs=lambda *_: table)
        monkeypatch.setattr(doctor, "make_source", lambda *_: made)

    return answer


def found(config, what):
    return [each for each in examine(config) if each.what.startswith(what)]


def test_a_node_that_is_well_has_nothing_wrong(config, daemon, monkeypatch):
    address, _ = daemon
    tree = FeatureTree(config.shared.batch.common.root)
    tree.prepare()
    tree.write_machine({"total_cpu": "4", "hs06": "40", "grace_secs": "60", "shutdowntime": "1999999999"})
    monkeypatch.setattr(doctor, "_clock", lambda: DoctorFinding(Mark.GOOD, "clock", "is kept right"))
    findings = list(examine(changed(config, web_listen_address=address)))
    wrong = [each for each in findings if each.mark is Mark.WRONG]
    assert [
        each for each in wrong if "only its owner may enter" not in each.words
    ] == []  # pytest's own folder
    assert {each.what for each in findings if each.mark is Mark.GOOD} >= {
        "settings",
        "features",
        "spool",
        "clock",
        f"daemon at {address}",
    }


def test_jobs_are_looked_for_where_the_settings_say_that_a_batch_system_keeps_them(config, node, tmp_path):
    """A slot of HTCondor's is told whose it is by its EXECUTE directory."""
    group, scratch = "htcondor/condor_x_slot1_1@h", tmp_path / "execute/dir_600"
    node.job_v2(group)
    node.process(600, name=b"condor_starter")
    node.process(601, ppid=600, cgroup=f"0::/{group}\n")
    scratch.mkdir(parents=True)
    scratch.parent.chmod(0o755)
    (scratch / ".job.ad").write_text("ClusterId = 12\nProcId = 0\n")
    (scratch / ".machine.ad").write_text('Name = "slot1_1@h"\n')
    FeatureTree(config.shared.batch.common.root).prepare()
    FeatureTree(config.shared.batch.common.root).write_machine({"total_cpu": "4"})
    elsewhere = changed(config, htcondor_execute_directory=str(scratch.parent))
    assert [each.words for each in found(elsewhere, "features") if "no feature directory" in each.words] == [
        "htcondor job 12.0 runs here, but has no feature directory"
    ]


def test_settings_that_contradict_each_other_are_named_and_the_rest_is_looked_at(config):
    wrong = changed(config, features_form="http")
    assert "features.form" in found(wrong, "settings")[0].words
    assert found(wrong, "clock")


@pytest.mark.program
def test_a_batch_system_that_does_not_answer_is_quoted_with_what_may_help(config, tmp_path):
    command = tmp_path / "scontrol"
    command.write_text(
        "#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact slurm controller' >&2\nexit 1\n"
    )
    command.chmod(0o755)
    wrong = changed(config, batch_sources=("slurm",), slurm_scontrol=str(command))
    (finding,) = found(wrong, "slurm")
    assert finding.mark is Mark.WRONG
    assert "Unable to contact slurm controller" in finding.words
    assert finding.remedy == "check that its server runs and can be reached from here"
    (missing,) = found(changed(wrong, slurm_scontrol="/no/scontrol"), "slurm")
    assert "slurm.scontrol" in missing.remedy


@pytest.mark.program
def test_a_hook_that_slurm_calls_and_that_is_not_here_is_named(config, tmp_path, answer):
    answer(source="slurm")
    command = tmp_path / "scontrol"
    for prolog, mark in (("/no/prolog.sh", Mark.WRONG), ("/bin/true", Mark.NOTE), ("(null)", Mark.NOTE)):
        command.write_text(SLURM.replace("{prolog}", prolog))
        command.chmod(0o755)
        asked = changed(config, batch_sources=("slurm",), slurm_scontrol=str(command))
        hooks = found(asked, "slurm hooks")
        assert [each.mark for each in hooks] == [mark, Mark.NOTE, Mark.NOTE]
        assert "Prolog" in hooks[0].words


def test_without_a_batch_system_that_is_a_note_unless_jobs_are_here(config, node):
    alone = changed(config, batch_sources=())
    assert [each.mark for each in found(alone, "batch system")] == [Mark.NOTE]
    node.job_v2("job_7")
    assert [each.mark for each in found(alone, "batch system")] == [Mark.NOTE]  # an empty group is no job
    node.process(10, cgroup="0::/system.slice/slurmstepd.scope/job_7\n")
    assert [each.mark for each in found(alone, "batch system")] == [Mark.WRONG]


def test_control_groups_are_told_by_version_and_a_mount_that_is_not_there_by_its_path(config, tmp_path):
    assert found(config, "control groups")[0].words == "v2, 0 jobs"
    (lost,) = found(changed(config, path_cgroup=str(tmp_path / "none")), "control groups")
    assert (lost.mark, str(tmp_path / "none") in lost.words) == (Mark.WRONG, True)


@pytest.mark.parametrize("unread", [lambda file: file.unlink(), lambda file: (file.unlink(), file.mkdir())])
def test_a_kernel_that_does_not_count_pressure_is_told_though_the_file_may_be_there(config, node, unread):
    """As on RHEL 8, where the file is there and cannot be read; here a directory stands in for it."""
    unread(node.proc / "pressure/cpu")
    (finding,) = found(config, "control groups")
    assert (finding.mark, finding.words) == (
        Mark.NOTE,
        "v2, 0 jobs; the kernel does not report pressure (PSI)",
    )


def test_a_job_that_is_here_without_a_directory_is_named(config, node):
    tree = FeatureTree(config.shared.batch.common.root)
    tree.prepare()
    tree.write_machine({"total_cpu": "4"})
    node.job_v2("job_9")
    for number in (7, 8):
        node.process(number, cgroup=f"0::/system.slice/slurmstepd.scope/job_{number}\n")
    tree.write_job(JobKey("slurm", "8"), {"job_id": "8"})
    wrong = [each.words for each in found(config, "features") if "has no feature directory" in each.words]
    assert wrong == ["slurm job 7 runs here, but has no feature directory"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root publishes for others")
def test_folders_that_a_job_s_user_cannot_enter_are_named(config):
    root = Path(config.shared.batch.common.root)
    root.mkdir(mode=0o700)
    root.chmod(0o700)
    words = {each.words for each in examine(config) if each.what == "features" and each.mark is Mark.NOTE}
    assert f"not every user can enter {root} (mode 700), so jobs may not find their features" in words
    root.chmod(0o755)
    assert not [each for each in examine(config) if f"enter {root} " in each.words]


@pytest.mark.parametrize("full", [{"f_bavail": 0}, {"f_favail": 0}])
def test_a_full_file_system_below_the_features_is_wrong(config, monkeypatch, full):
    root = config.shared.batch.common.root
    os.mkdir(root)
    os.chmod(root, 0o755)
    space = SimpleNamespace(**{"f_bavail": 1, "f_files": 9, "f_favail": 1, "f_flag": 0, **full})
    monkeypatch.setattr("os.statvfs", lambda _: space)
    [found] = [each for each in examine(config) if each.mark is Mark.WRONG and each.what == "features"]
    assert (found.words, found.remedy) == (
        f"{root}: no space or no inodes are left",
        f"free space or inodes: df {root}; df -i {root}",
    )


def test_a_tree_that_others_may_change_and_a_value_that_is_none_are_wrong(config):
    tree = FeatureTree(config.shared.batch.common.root)
    assert [each.mark for each in found(config, "features")] == [Mark.NOTE]
    tree.prepare()
    tree.write_machine({"total_cpu": "many"})
    assert any("total_cpu" in each.words for each in found(config, "features") if each.mark is Mark.WRONG)
    os.chmod(tree.root, 0o777)
    (finding,) = found(config, "features")
    assert "chmod go-w" in finding.words


@pytest.mark.parametrize(
    ("name", "days", "mark", "said"),
    [
        ("n1", 90, Mark.GOOD, "n1, until"),
        ("other.example.org", 90, Mark.WRONG, "is for other.example.org, but this machine is"),
        ("127.0.0.1", 90, Mark.GOOD, "127.0.0.1, until"),
        ("192.0.2.7", 90, Mark.WRONG, "is for 192.0.2.7, but this machine is"),
        ("n1", 3, Mark.NOTE, "expires"),
        ("n1", -1, Mark.WRONG, "expired"),
    ],
)
def test_a_certificate_is_judged_by_its_names_and_its_end(
    config, tmp_path, monkeypatch, name, days, mark, said
):
    from cryptography import x509

    is_address = name[0].isdigit()  # as Prometheus connects to where controller.sd_host says so
    named = x509.IPAddress(ipaddress.ip_address(name)) if is_address else x509.DNSName(name)
    certificate, key = Authority(tmp_path).make("node", named)
    file = tmp_path / "web.yml"
    file.write_text(f"tls_server_config:\n  cert_file: {certificate}\n  key_file: {key}\n")
    ends = x509.load_pem_x509_certificate(Path(certificate).read_bytes()).not_valid_after_utc
    end_secs = ends.timestamp()
    monkeypatch.setattr(doctor.time, "time", lambda: end_secs - days * 86_400.0)
    monkeypatch.setattr(doctor.socket, "getfqdn", lambda: "node.example.org")
    (first, *_) = found(changed(config, web_config_file=str(file)), "certificate")
    assert (first.mark, said in first.words) == (mark, True)


def test_a_certificate_written_into_the_web_configuration_is_not_judged(config, tmp_path):
    from cryptography import x509

    certificate, key = Authority(tmp_path).make("node", x509.DNSName("n1"))
    file = tmp_path / "web.yml"
    texts = {"cert": Path(certificate).read_text(), "key": Path(key).read_text()}
    file.write_text(f"tls_server_config: {json.dumps(texts)}\n")
    (finding,) = found(changed(config, web_config_file=str(file)), "certificate")
    assert (finding.mark, finding.words) == (
        Mark.NOTE,
        "not checked, because the web configuration contains its text, not its file",
    )


def test_what_the_daemon_says_of_itself_is_repeated(config, daemon):
    address, answer = daemon
    asked = changed(config, web_listen_address=address)
    assert found(asked, "daemon")[0].mark is Mark.GOOD
    answer[2] = b"# TYPE x gauge\nbatch_exporter_series_over_budget 2843\n"
    (finding,) = found(asked, "daemon")
    assert (finding.mark, "/metrics leaves out 2843 series" in finding.words) == (Mark.NOTE, True)
    answer[:2] = 503, b"not ready\nslurm: never answered\n"
    (finding,) = found(asked, "daemon")
    assert (finding.mark, finding.words) == (Mark.WRONG, "not ready; slurm: never answered")
    (away,) = found(config, "daemon")
    assert away.words == "Connection refused"


def test_processes_that_are_read_one_by_one_are_noted_unless_that_is_asked_for(config):
    (finding,) = found(config, "processes")
    reason = f"path.procfs is {config.path.procfs}, not this machine's own /proc"
    assert (finding.mark, finding.remedy) == (Mark.NOTE, advise_ebpf(reason))
    assert finding.words.startswith("are read without eBPF, one by one")
    assert finding.words.endswith(f": {reason}")
    assert found(changed(config, sampling_processes="procfs"), "processes") == []


def test_an_answer_that_hides_jobs_names_what_lets_them_be_seen(config, answer):
    asked = changed(config, batch_sources=("pbs",), pbs_home=str(config.path.procfs))
    answer(source="pbs", complete=False)
    answers, hidden = (each for each in examine(asked) if each.what == "pbs")
    assert (answers.mark, hidden.mark) == (Mark.GOOD, Mark.NOTE)
    assert "query_other_jobs" in hidden.remedy
    answer(source="pbs")
    assert len([each for each in examine(asked) if each.what == "pbs"]) == 1


def test_a_daemon_that_no_other_machine_can_scrape_says_so(config, daemon):
    address, _ = daemon
    (finding,) = found(changed(config, web_listen_address=address), "daemon")
    assert (finding.mark, finding.words.partition("; ")[0]) == (Mark.GOOD, "ready")
    assert "web.listen_address" in finding.words


@pytest.mark.parametrize(("state", "mark"), [(0, Mark.GOOD), (5, Mark.NOTE)])
def test_the_kernel_says_whether_somebody_keeps_the_clock_right(config, monkeypatch, state, mark):
    class Library:
        def adjtimex(self, _structure):
            return state

    monkeypatch.setattr(doctor.ctypes, "CDLL", lambda _: Library())
    assert [each.mark for each in found(config, "clock")] == [mark]


@pytest.mark.program
def test_the_controller_role_asks_for_queue_and_nodes(config, tmp_path):
    for name, text in (("scontrol", "exit 1"), ("squeue", "exit 0"), ("sacct", "exit 0")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    role = changed(
        config, role="controller", batch_sources=("slurm",), slurm_scontrol=str(tmp_path / "scontrol")
    )
    findings = {each.what: each.mark for each in examine(role)}
    assert (findings["slurm queue"], findings["slurm nodes"]) == (Mark.GOOD, Mark.WRONG)
    assert "control groups" not in findings
    (nobody,) = found(changed(role, batch_sources=("spool",)), "batch system")
    assert nobody.mark is Mark.WRONG


def test_the_command_prints_what_is_found_and_what_may_help_and_its_status_tells(capsys, tmp_path):
    flags = [
        "--batch.sources",
        "spool",
        "--spool.directory",
        str(tmp_path),
        "--web.listen-address",
        "127.0.0.1:1",
    ]
    assert main(["doctor", *flags, "--features.root", str(tmp_path / "features")]) == 1
    out = capsys.readouterr().out
    assert (
        "WRONG  daemon at 127.0.0.1:1: Connection refused\n       → see systemctl status jobfeatures-exporter"
        in out
    )
    assert "ok     spool: answers: 0 jobs on this node" in out


def test_where_slurm_does_not_list_its_jobs_it_is_unknown_whether_all_are_seen(config, answer, tmp_path):
    answer("slurm")
    config = changed(config, batch_sources=("slurm",), slurm_scontrol=f"{tmp_path}/scontrol")
    (finding,) = found(config, "slurm jobs")
    assert finding.mark is Mark.NOTE
    assert (
        finding.words
        == f"other jobs may run here, but the list of jobs cannot be read: {tmp_path}/squeue: No such file or directory"
    )
