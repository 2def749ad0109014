"""Five tasks, each done by nothing but the commands that README and the page it links to show for it.

A block with `<!-- task: NAME -->` above it belongs to a task. The commands run word for word on a node with a real
Slurm and the package, under systemd, in one boot of a virtual machine. What happens on a node between the tasks
stands here. What each task took, and where its commands are, is printed (pytest -s).
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import blocks_in, text_of
from tests.docs.test_runs import steps_of
from tests.integration.debian import WITH_SLURM, clean_debian

pytestmark = pytest.mark.timeout(1600)  # all of it happens in the first test that asks
ROOT = Path(__file__).parents[2]
TASKS = ("slurm", "waste", "source", "drain", "tls")
HEAD = """
export SLURM_LAB=/run/slurm-lab SLURM_LAB_NODES=1 SLURM_LAB_PREFIX=node SLURM_LAB_CPUS=4 SLURM_LAB_DB=0
task() { # NAME
  local began=$SECONDS
  echo "=== $1"
  (cd /root && bash -uo pipefail "/mnt/tasks/$1") 2>&1
  echo "=== end $1 $? $((SECONDS - began))"
}
"""
BETWEEN = {  # what happens on the node before each task
    "slurm": "rm -rf /etc/slurm; ln -s $SLURM_LAB/etc /etc/slurm; /mnt/labs/slurm/up.sh; cp /mnt/*.deb /root",
    "waste": """
sbatch -D /tmp -o /dev/null -t 20 -c 1 -J busy --wrap 'while :; do i=0; while [ $i -lt 99999 ]; do i=$((i+1)); done; sleep 1; done'
printf "=== lazy\n$(sbatch --parsable -D /tmp -o /dev/null -t 30 -c 3 --wrap 'sleep 1800')\n=== end lazy 0 0\n"
for i in $(seq 600); do [ "$(squeue -h -t R | wc -l)" = 2 ] && break; sleep 1; done
sleep 20
""",
    "source": "kill $(cat $SLURM_LAB/run/slurmctld.pid); sleep 5",
    "drain": "/mnt/labs/slurm/up.sh; sleep 10",
    "tls": "",
}


def commands_of(task: str) -> tuple[list[str], set[str]]:
    """Return what is typed for a task, block by block, and the pages that show it."""
    linked = re.findall(r"\]\((docs/[\w/-]+\.md)[#)]", text_of("README.md"))
    found, pages = [], set()
    for page in ("README.md", *dict.fromkeys(linked)):
        for block in blocks_in(text_of(page), page):
            if f"task: {task}" in block.marks:
                found += [command for command, _ in steps_of(block)]
                pages.add(page)
    return found, pages


def test_each_task_stands_on_readme_or_on_one_page_that_it_links_to():
    assert {task: len(commands_of(task)[1]) for task in TASKS} == dict.fromkeys(TASKS, 1)


@pytest.fixture(scope="module")
def done(packages, tmp_path_factory):
    """Return status, seconds and output of each task."""
    shared = tmp_path_factory.mktemp("shared")
    shared.chmod(0o755)
    shutil.copy(packages.deb, shared)
    shutil.copytree(ROOT / "tests/labs/slurm", shared / "labs/slurm")
    (shared / "tasks").mkdir()
    for task in TASKS:
        commands, _ = commands_of(task)
        if (
            task == "slurm"
        ):  # a job that starts in the first second may be told its limits by the next poll only
            *commands, last = commands
            commands.append(f"for try in 1 2 3 4 5 6; do sleep 5; if {last.strip()}; then break; fi; done\n")
        (shared / "tasks" / task).write_text("".join(commands))
    steps = [HEAD, *(f"{BETWEEN[task]}\ntask {task}" for task in TASKS)]
    steps += [
        "echo === after",
        "scontrol show node node1 | grep State",
        "cat /run/jobfeatures/machinefeatures/shutdowntime",
    ]
    steps += [
        "curl -s http://127.0.0.1:9819/metrics | head -1",
        "echo === end after 0 0",
        "/mnt/labs/slurm/down.sh",
    ]
    with clean_debian(tmp_path_factory.mktemp("debian"), WITH_SLURM) as system:
        (system.root / "etc/hostname").write_text("node1\n")
        (system.root / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.0.1 node1.example.org node1\n")
        said = system.boot("\n".join(steps), shared)
    found = re.findall(r"^=== (\w+)\n(.*?)^=== end \1 (\d+) (\d+)$", said, re.MULTILINE | re.DOTALL)
    told = {task: (int(status), int(secs), text) for task, text, status, secs in found}
    assert told.keys() == {*TASKS, "lazy", "after"}, said[-6000:]
    for task in TASKS:
        print(f"{task}: {told[task][1]} s, {commands_of(task)[1]}")
    return told


def test_a_job_has_its_features_on_slurm(done):
    _, _, said = done["slurm"]
    assert re.search(r"^\d+\n2\n420\n\Z", said, re.MULTILINE), said


def test_the_job_that_wastes_most_is_found(done):
    """The lazy one, which leaves three CPUs idle, is the first row, and named above it."""
    status, _, said = done["waste"]
    assert status == 0, said
    first = said.partition("\nJOB ")[2].splitlines()[1]
    lazy = done["lazy"][2].strip()
    assert first.split()[0] == lazy, said
    assert f"most waste now: {lazy} " in said


def test_why_a_source_fails_is_told_in_the_tools_own_words_with_a_remedy(done):
    status, _, said = done["source"]
    assert status == 1
    assert re.search(r"(?m)^WRONG  slurm: scontrol: .*\n +→ \S", said), said


def test_a_node_is_drained_at_the_cheapest_time(done):
    status, _, said = done["drain"]
    assert status == 0, said
    [cheapest] = re.findall(r"(?m)^\* cheapest: ([^,]*),", said)
    assert "shuts down at" in said
    assert "DRAIN" in done["after"][2]
    announced = re.search(r"(?m)^(\d{10})$", done["after"][2])
    date = subprocess.run(["date", "-d", cheapest, "+%s"], capture_output=True, text=True, check=True)
    assert announced[1] == date.stdout.strip()


def test_the_page_is_behind_tls_and_a_password(done):
    status, _, said = done["tls"]
    assert status == 0, said
    assert said.endswith("healthy\n")
    assert "batch_" not in done["after"][2]  # no answer without TLS
