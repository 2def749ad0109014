"""What may help where a batch system does not answer, and where eBPF cannot be had."""

import pytest

from jobfeatures_exporter.view.sources import SourceView, advise_ebpf

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
    view = SourceView(
        name, has_answered=True, is_up=False, failures=1, words="scontrol: not finished after 10 s"
    )
    assert f"{setting} sets how long to wait" in view.advice
    assert f"- `{setting}`" in (pytestconfig.rootpath / SETTINGS).read_text()


@pytest.mark.parametrize("name", ["slurm", "slurm-queue", "slurm queue"])
def test_of_a_command_that_is_not_found_its_setting_is_named(name):
    words = "scontrol: No such file or directory"
    view = SourceView(name, has_answered=False, is_up=False, failures=1, words=words)
    assert "its full path in slurm.scontrol" in view.advice


@pytest.mark.parametrize(
    ("reason", "helps"),
    [
        ("no libbpf.so.1 or libbpf.so.0", "Install libbpf"),
        ("libbpf has no function bpf_map_lookup_batch", "or a newer one"),
        ("bpf_object__load: Operation not permitted", "as root, or with CAP_BPF"),
        ("/opt/x/sums.bpf.o: writable by others", "Let only its owner write"),
        ("path.procfs is /host/proc, not this machine's own /proc", "In a container"),
        ("bpf_object__load: No such process", "with BTF"),  # a kernel without
        ("/sys/fs/cgroup: no hierarchy of control groups counts CPU time", "and control groups"),
    ],
)
def test_of_each_reason_why_there_is_no_ebpf_it_is_said_what_helps(reason, helps):
    advice = advise_ebpf(reason)
    assert helps in advice
    assert advice.endswith('; to go without eBPF, set sampling.processes = "procfs"')
