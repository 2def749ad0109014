"""The sample envelope of a constructed node."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from jobfeatures.formats.sonar import CURRENT, SEED
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures_exporter.model.snapshot import CpuSecs, NodeSample, Snapshot
from jobfeatures_exporter.sonar.config import SonarSettings
from jobfeatures_exporter.sonar.sample import (
    SampleInput,
    attributes_of,
    compute_core_secs,
    compute_used_memory,
    sample_envelope,
)

GOLDEN = Path(__file__).parents[2] / "fixtures/golden"
ALL = SonarSettings(exclude_system_jobs=False)


def made(origin, given, options=ALL):
    document = sample_envelope(origin, given, options, now_secs=1_800_000_000.0)
    assert validate_envelope(document, profile=origin.profile, strict=True) == []
    return document


def attributes(origin, given, options=ALL):
    return made(origin, given, options)["data"]["attributes"]


def jobs_of(origin, given, options=ALL):
    return attributes(origin, given, options)["jobs"]


def processes_of(jobs):
    return {each["cmd"]: each for job in jobs for each in job["processes"]}


@pytest.mark.parametrize("profile", [CURRENT, SEED])
@pytest.mark.parametrize("rollup", [False, True])
def test_the_document_is_the_golden_one(origin, given_input, profile, rollup):
    options = SonarSettings(exclude_system_jobs=False, rollup=rollup)
    origin = replace(origin, profile=profile, attributes={**attributes_of(options), "exporter_version": "0"})
    text = json.dumps(made(origin, given_input, options), indent=1) + "\n"
    path = GOLDEN / f"sonar-sample-{profile}{'-rollup' if rollup else ''}.json"
    if os.environ.get("JOBFEATURES_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_times_and_names_stand_in_the_document(origin, given_input):
    found = attributes(origin, given_input)
    assert (found["cluster"], found["node"]) == ("hpc.example.org", "n1")
    assert found["time"] == "2027-01-15T08:59:59+01:00"
    assert found["system"]["boot"] == "2027-01-03T19:13:20+01:00"


def test_an_idle_node_sends_an_empty_list_of_jobs(origin):
    core = CpuSecs(1, 0, 0, 0, 0, 0, 0, 0)
    idle = Snapshot(
        taken_at_secs=1.8e9, duration_secs=0, node=NodeSample(cores={0: core}), jobs={}, epoch=216_000_000
    )
    found = attributes(origin, SampleInput(snapshot=idle, now_secs=1.8e9))
    assert found["jobs"] == []
    assert "errors" not in found


def test_a_node_that_could_not_be_read_sends_an_error_and_no_data(origin):
    document = made(origin, None)
    assert document.keys() == {"meta", "errors"}
    assert document["errors"][0]["detail"] == "the node could not be read"


def test_old_figures_and_an_unknown_boot_time_are_told_beside_the_data(origin, given_input):
    late = replace(
        given_input,
        now_secs=given_input.now_secs + 600,
        snapshot=replace(given_input.snapshot, epoch=None, node=NodeSample(load1=1.0)),
    )
    found = attributes(origin, late)
    assert len(found["errors"]) == 2
    assert "600 s" in found["errors"][0]["detail"]
    assert {job["job"] for job in found["jobs"]} == {12}


def test_core_seconds_leave_out_waiting_and_idle_and_a_core_that_is_offline_has_none():
    node = NodeSample(
        cores={0: CpuSecs(10.5, 0.25, 3, 100, 1, 0.25, 0.5, 7), 2: CpuSecs(1, 0, 0, 9, 9, 0, 0, 0)}
    )
    assert compute_core_secs(node) == [14, 0, 1]
    assert compute_core_secs(NodeSample()) == []


def test_used_memory_is_what_is_not_available():
    assert compute_used_memory({"MemTotal": 4096, "MemAvailable": 1024}) == 3
    assert compute_used_memory({"MemTotal": 4096}) is None
    assert compute_used_memory({"MemTotal": 1, "MemAvailable": 4096}) == 0


def test_a_card_is_told_with_whole_numbers_and_an_extended_performance_state(origin, given_input):
    [gpu] = attributes(origin, given_input)["system"]["gpus"]
    assert gpu["performance_state"] == 4
    assert (gpu["ce_util"], gpu["memory_util"], gpu["temperature"], gpu["fan"]) == (100, 31, -3, 37)
    assert gpu["memory"] == 5 * 2**20
    assert "failing" not in gpu


# --- jobs ------------------------------------------------------------------------------


def test_a_slurm_job_has_its_number_and_no_epoch(origin, given_input):
    jobs = [job for job in jobs_of(origin, given_input) if job["job"] == 12]
    assert all("epoch" not in job for job in jobs)
    assert {job["user"] for job in jobs} == {"root", "alice"}  # each user of a job has a record


def test_a_job_without_a_number_is_its_oldest_process_group_of_this_boot(origin, given_input):
    [job] = [job for job in jobs_of(origin, given_input) if job["user"] == "bob"]
    assert (job["job"], job["epoch"]) == (200, given_input.snapshot.epoch)
    assert {each["cmd"] for each in job["processes"]} == {"pilot", "payload"}


def test_users_without_a_name_are_told_by_number_and_else_as_unknown(origin, given_input):
    users = {each["processes"][0]["cmd"]: each["user"] for each in jobs_of(origin, given_input)}
    assert users["nginx"] == "_user_4711"
    assert users["containerd-shim"] == "_user_unknown"


def test_a_process_that_ended_before_its_details_were_read_is_left_out(origin, given_input):
    details = {pid: each for pid, each in given_input.details.items() if pid != 101}
    found = processes_of(jobs_of(origin, replace(given_input, details=details)))
    assert "python" not in found
    assert "rank" in found


def test_kernel_threads_have_a_record_each(origin, given_input):
    records = [job for job in jobs_of(origin, given_input) if job["job"] == 0]
    assert [[each["cmd"] for each in record["processes"]] for record in records] == [
        ["kthreadd"],
        ["kworker/0:0"],
    ]


def test_system_jobs_are_left_out_by_their_users(origin, given_input):
    found = processes_of(jobs_of(origin, given_input, SonarSettings()))
    assert "kthreadd" not in found
    assert "sshd" not in found
    assert "bash" not in found
    assert "python" in found
    assert "containerd-shim" in found  # whose user is unknown


def test_batch_only_leaves_out_all_else(origin, given_input):
    options = SonarSettings(exclude_system_jobs=False, batch_only=True)
    found = jobs_of(origin, given_input, options)
    assert {job["job"] for job in found} == {12, 200}


def test_jobs_below_the_minimum_of_cpu_time_are_left_out(origin, given_input):
    options = SonarSettings(exclude_system_jobs=False, min_cpu_time_secs=50)
    assert [job["user"] for job in jobs_of(origin, given_input, options)] == ["alice"]


def test_options_in_effect_are_told(origin):
    assert attributes_of(SonarSettings(exclude_system_jobs=False)) == {}
    assert attributes_of(SonarSettings(rollup=True, batch_only=True, min_cpu_time_secs=60)) == {
        "rollup": "true",
        "exclude_system_jobs": "true",
        "batch_only": "true",
        "min_cpu_time": "60",
    }


# --- processes -------------------------------------------------------------------------


def test_cpu_time_counts_children_that_were_waited_for_and_the_average_does_not(origin, given_input):
    bash = processes_of(jobs_of(origin, given_input))["bash"]
    assert bash["cpu_time"] == 3  # 1.5 + 1.0 + 0.26 seconds, rounded
    life_secs = given_input.snapshot.taken_at_secs - (1_799_000_000 + 1000)
    assert bash.get("cpu_avg", 0) == round(100 * 1.5 / life_secs, 1)


def test_utilisation_is_the_change_since_the_previous_look(origin, given_input):
    found = processes_of(jobs_of(origin, given_input))
    assert found["python"]["cpu_util"] == 0.5  # 0.5 s in 100 s
    assert "cpu_util" not in found["pilot"]
    without = replace(given_input, previous=None)
    assert "cpu_util" not in processes_of(jobs_of(origin, without))["python"]


def test_a_process_that_began_since_counts_from_its_beginning(origin, given_input, snapshot):
    began = snapshot.taken_at_secs - 2 - snapshot.node.boot_time_secs
    young = snapshot.processes[102]._replace(start_ticks=int(began * 100))
    given = replace(given_input, snapshot=replace(snapshot, processes={**snapshot.processes, 102: young}))
    found = [p for job in jobs_of(origin, given) for p in job["processes"] if p.get("pid") == 102]
    assert found[0]["cpu_util"] == pytest.approx(50.0, abs=0.3)


def test_a_reused_number_is_not_compared_with_its_predecessor(origin, given_input, snapshot):
    before = {
        **given_input.previous.processes,
        101: snapshot.processes[101]._replace(start_ticks=1, user_ticks=0),
    }
    given = replace(given_input, previous=replace(snapshot, processes=before))
    assert processes_of(jobs_of(origin, given))["python"]["cpu_util"] == 100.0


def test_sizes_are_kib_and_input_and_output_are_rounded_up(origin, given_input):
    found = processes_of(jobs_of(origin, given_input))["python"]
    assert (found["resident_memory"], found["virtual_memory"]) == (300, 1024)
    assert (found["data_read"], found["data_written"]) == (1, 2)
    assert "data_cancelled" not in found


def test_the_main_thread_does_not_count(origin, given_input):
    found = processes_of(jobs_of(origin, given_input))
    assert found["python"]["num_threads"] == 4
    assert "num_threads" not in found["bash"]


def test_zombies_are_told_as_ps_does_and_the_dead_not_at_all(origin, given_input):
    found = processes_of(jobs_of(origin, given_input))
    assert "odd\ufffd\n <defunct>" in found
    assert "gone" not in found


def test_a_container_is_known_by_its_control_group_or_by_its_daemon(origin, given_input):
    found = processes_of(jobs_of(origin, given_input))
    told = {name for name, each in found.items() if each.get("in_container")}
    assert told == {"nginx", "conmon-like"}


def test_what_a_process_does_on_a_card_is_told(origin, given_input):
    assert processes_of(jobs_of(origin, given_input))["python"]["gpus"] == [
        {
            "index": 1,
            "uuid": "GPU-1",
            "gpu_util": 40.0,
            "gpu_memory": 2**20,
            "gpu_memory_util": 6.250000005820766,
        }
    ]


def test_the_first_card_has_the_index_0_of_the_node_and_of_its_processes(origin, given_input):
    card = replace(given_input.snapshot.gpus[0].card, index=0)
    gpu = replace(given_input.snapshot.gpus[0], card=card)
    given = replace(given_input, snapshot=replace(given_input.snapshot, gpus=(gpu,)))
    found = attributes(origin, given)
    assert [each["index"] for each in found["system"]["gpus"]] == [0]
    assert [each["index"] for each in processes_of(found["jobs"])["python"]["gpus"]] == [0]


def test_the_seed_profile_has_none_of_the_later_fields(origin, given_input):
    found = attributes(replace(origin, profile=SEED), given_input)
    assert found["system"].keys() == {"cpus", "gpus", "used_memory"}
    later = {"in_container", "num_threads", "data_read", "data_written", "data_cancelled"}
    assert all(each.keys() & later == set() for job in found["jobs"] for each in job["processes"])


def test_rolling_up_sums_childless_processes_of_one_parent_and_command(origin, given_input):
    options = SonarSettings(exclude_system_jobs=False, rollup=True)
    found = processes_of(jobs_of(origin, given_input, options))
    rank = found["rank"]
    assert (rank["rolledup"], rank["ppid"], rank["cpu_time"], rank["num_threads"]) == (1, 100, 3, 2)
    assert (rank["resident_memory"], rank["virtual_memory"]) == (3, 2)
    assert (rank["data_read"], rank["data_cancelled"]) == (1, 1)
    assert rank["pid"] > 2**22
    assert found["python"]["pid"] == 101  # one alone stays as it is
    assert found["bash"]["pid"] == 100  # and so does a parent
