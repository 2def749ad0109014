"""Any records of jobs, for property tests of what reads and writes them."""

from __future__ import annotations

from hypothesis import strategies as st

from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.records.model import UNLIMITED, JobState

WORDS = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
TIMES = st.integers(10**9, 2 * 10**9)
COUNTS = st.integers(1, 10**5)
MIB = st.integers(1, 10**6).map(lambda count: count * 2**20)
FINISHED = st.sampled_from([state for state in JobState if state.is_finished])
FIELDS = {
    **dict.fromkeys(
        ("name", "user", "group", "account", "queue", "partition", "executable", "reservation", "qos", "cluster",
         "workflow_id"),
        WORDS,
    ),
    **dict.fromkeys(("uid", "gid", "priority"), st.integers(0, 10**6)),
    **dict.fromkeys(("submit_secs", "eligible_secs", "start_secs", "end_secs"), TIMES),
    **dict.fromkeys(("suspended_secs", "think_secs", "used_cpu_secs", "run_secs"), COUNTS),
    **dict.fromkeys(("user_cpu_secs", "system_cpu_secs", "energy_joules"), COUNTS),
    "is_interactive": st.booleans(),
    "more": st.just((("distribution", "block"), ("max_virtual_bytes", 2**20))),
    **dict.fromkeys(("restarts", "exit_status"), st.integers(0, 100)),
    "exit_signal": st.integers(1, 31),
    **dict.fromkeys(
        ("total_cpus", "requested_cpus", "total_gpus", "requested_gpus", "requested_nodes"), COUNTS
    ),
    "requested_memory_bytes": MIB,
    "used_memory_bytes": MIB,
    "wall_limit_secs": st.integers(1, 10**5).map(lambda minutes: minutes * 60) | st.just(UNLIMITED),
    "cpu_limit_secs": COUNTS | st.just(UNLIMITED),
    "preceding_job_id": COUNTS.map(str),
}  # fmt: skip


NUMBERS = COUNTS.map(str)
NOTHING = st.none()


@st.composite
def any_records(draw, *, state=FINISHED, job_id=NUMBERS, step=NOTHING, **fields):
    """Return a record with some of its fields set; nodes, arrays and heterogeneous jobs as a whole.

    `fields` replace how a field is made; None leaves it out.
    """
    made = {}
    for name, strategy in {**FIELDS, **fields}.items():
        if strategy is not None and draw(st.booleans()):
            made[name] = draw(strategy)
    if draw(st.booleans()):
        made["nodes"] = tuple(f"c{number}" for number in range(1, draw(st.integers(1, 12)) + 1))
        made["total_nodes"] = len(made["nodes"])
    kind = draw(st.sampled_from(["plain", "array", "het"]))
    number = draw(job_id)
    if kind == "array":
        made |= {"array_job_id": draw(COUNTS.map(str)), "array_task_id": str(draw(st.integers(0, 999)))}
    elif kind == "het":
        made |= {"het_job_id": draw(COUNTS.map(str)), "het_offset": draw(st.integers(0, 9))}
    return JobRecord(batch_system="slurm", job_id=number, state=draw(state), step=draw(step), **made)
