"""What dashboards make of GPUs that are read less often than they are scraped, and of jobs whose nodes change, by Prometheus."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from grafana.panels import gpu_busy, gpu_power

ROOT = Path(__file__).parents[2]

SCRAPE_SECS, READ_SECS, BUSY, WATTS = 5, 10, 0.87, 300


def evaluate(tmp_path, expression, value, share):
    """Return what promtool says of a claim that a value is so much, but for a share, 2 s after each of twenty scrapes."""
    low, high = value * (1 - share), value * (1 + share)
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    reads = [number * SCRAPE_SECS // READ_SECS * READ_SECS for number in range(60)]
    series = {
        'batch_gpu_busy_seconds_total{uuid="a"}': [1000 + BUSY * read for read in reads],
        'batch_job_gpu_energy_joules_total{uuid="a",job_id="1"}': [WATTS * read for read in reads],
        'batch_gpu_age_seconds{uuid="a"}': [number * SCRAPE_SECS - read for number, read in enumerate(reads)],
    }
    window = 4 * SCRAPE_SECS  # as Grafana has it
    text = expression.replace("$__rate_interval_ms", f"{1000 * window}").replace(
        "$__rate_interval", f"{window}s"
    )
    case = {
        "interval": f"{SCRAPE_SECS}s",
        "input_series": [
            {"series": name, "values": " ".join(map(str, values))} for name, values in series.items()
        ],
        "promql_expr_test": [
            {
                "expr": f"count((({text}) >= {low}) <= {high})",
                "eval_time": f"{102 + SCRAPE_SECS * number}s",
                "exp_samples": [{"labels": "{}", "value": 1}],
            }
            for number in range(20)
        ],
    }
    path = tmp_path / "case.yml"  # JSON is YAML
    path.write_text(json.dumps({"evaluation_interval": f"{SCRAPE_SECS}s", "tests": [case]}))
    return subprocess.run([program, "test", "rules", path], capture_output=True, text=True, check=False)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("expression", "counter", "value"),
    [
        (gpu_busy('uuid="a"'), "batch_gpu_busy_seconds_total", BUSY),
        ("sum(" + gpu_power('job_id="1"', 'uuid="a"') + ")", "batch_job_gpu_energy_joules_total", WATTS),
    ],
    ids=["busy", "power"],
)
def test_a_gpu_that_is_steadily_busy_is_drawn_steadily(tmp_path, expression, counter, value):
    done = evaluate(tmp_path, expression, value, 0.001)
    assert done.returncode == 0, done.stdout + done.stderr
    plain = f"rate({counter}[$__rate_interval])"
    assert evaluate(tmp_path, plain, value, 0.2).returncode == 1  # what it was: 67 to 133 % of it


def shown(tmp_path, board, title, series, minute):
    """Return what promtool says of a panel's first query at a minute, asked for no figure, of series scraped each minute."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    text = json.loads((ROOT / f"grafana/dashboards/{board}.json").read_text())
    [panel] = [each for each in text["panels"] if each["title"] == title and each["type"] == "stat"]
    expression = panel["targets"][0]["expr"].replace("$__rate_interval_ms", "240000")
    expression = expression.replace("$__rate_interval", "4m").replace("$__range", "1h")
    for name, value in (
        ("cluster", ".*"),
        ("instance", ".*"),
        ("batch_system", "slurm"),
        ("job_id", "1"),
        ("user", "ann"),
        ("gpu", ".*"),
    ):
        expression = expression.replace(f"${name}", value)
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": expression, "eval_time": f"{minute}m", "exp_samples": []}],
    }
    path = tmp_path / "case.yml"
    path.write_text(json.dumps({"evaluation_interval": "1m", "tests": [case]}))
    done = subprocess.run([program, "test", "rules", path], capture_output=True, text=True, check=False)
    return [
        float(each) for each in re.findall(r"^ *got: \{.*\} (\S+)$", done.stdout + done.stderr, re.MULTILINE)
    ]


@pytest.mark.integration
@pytest.mark.parametrize("board", ["job", "cluster"])
def test_what_a_node_did_that_has_left_a_job_is_no_use_of_the_rest(tmp_path, board):
    panel = {"job": "CPU use", "cluster": "CPUs used"}[board]
    series = {}
    for instance, values in (("n1", "60"), ("n2", "30 stale")):
        key = f'{{instance="{instance}",batch_system="slurm",job_id="1"}}'
        series[f"batch_job_allocated_cpus{key}"] = f"4x{values}"
        series[f"batch_job_cpu_seconds_total{key}"] = f"0+120x{values}"
    assert shown(tmp_path, board, panel, series, 32) == [0.5]


@pytest.mark.integration
@pytest.mark.parametrize("board", ["job", "cluster", "user"])
def test_a_job_of_a_minute_that_keeps_its_cpus_busy_uses_them(tmp_path, board):
    panel = "CPUs used" if board == "cluster" else "CPU use"
    key = 'instance="n1",batch_system="slurm",job_id="1"'
    series = {
        f'batch_job_info{{{key},user="ann"}}': "_x10 1x5",
        f"batch_job_start_time_seconds{{{key}}}": "_x10 570x5",
        f"batch_job_allocated_cpus{{{key}}}": "_x10 4x5",
        f"batch_job_cpu_seconds_total{{{key}}}": "_x10 120+240x5",
    }
    assert shown(tmp_path, board, panel, series, 11) == [1]


@pytest.mark.integration
@pytest.mark.parametrize("board", ["job", "cluster", "user"])
def test_a_job_of_which_a_restarted_exporter_knows_less_has_not_used_all_its_time_at_once(tmp_path, board):
    panel = "CPUs used" if board == "cluster" else "CPU use"
    key = 'instance="n1",batch_system="slurm",job_id="1"'
    series = {
        f'batch_job_info{{{key},user="ann"}}': "1x60",
        f"batch_job_start_time_seconds{{{key}}}": "-360000x60",
        f"batch_job_allocated_cpus{{{key}}}": "4x60",
        f"batch_job_cpu_seconds_total{{{key}}}": "360000+240x10 362390+240x48",
    }
    assert shown(tmp_path, board, panel, series, 10) == [1]
    assert shown(tmp_path, board, panel, series, 12) == []
    assert shown(tmp_path, board, panel, series, 20) == [1]


@pytest.mark.integration
def test_a_job_without_a_wall_limit_does_not_end_before_a_shutdown(tmp_path):
    limited, unlimited = (f'instance="n1",batch_system="slurm",job_id="{each}"' for each in (1, 2))
    series = {
        'batch_node_draining{instance="n1"}': "1x20",
        f"batch_job_info{{{limited}}}": "1x20",
        f'batch_job_remaining_seconds{{{limited},basis="shutdown"}}': "9000x20",
        f'batch_job_remaining_seconds{{{limited},basis="wall_limit"}}': "3600x20",
    }
    assert shown(tmp_path, "drains", "Jobs cut off", series, 10) == []
    assert shown(tmp_path, "drains", "Empty in", series, 10) == [3600]
    series |= {
        f"batch_job_info{{{unlimited}}}": "1x20",
        f'batch_job_remaining_seconds{{{unlimited},basis="shutdown"}}': "9000x20",
    }
    assert shown(tmp_path, "drains", "Jobs cut off", series, 10) == [1]
    assert shown(tmp_path, "drains", "Empty in", series, 10) == [float("inf")]


@pytest.mark.integration
@pytest.mark.parametrize("board", ["job", "user"])
def test_gpus_that_tell_no_use_are_not_taken_for_idle(tmp_path, board):
    """As MIG instances, for which NVML has no utilisation."""
    key = 'instance="n1",batch_system="slurm",job_id="1"'
    series = {
        f'batch_job_info{{{key},user="ann"}}': "1x20",
        f'batch_job_gpu_allocated{{{key},uuid="GPU-a"}}': "1x20",
        f'batch_job_gpu_allocated{{{key},uuid="GPU-b"}}': "1x20",
        f'batch_job_gpu_allocated{{{key},uuid="MIG-c"}}': "1x20",
        f'batch_job_gpu_utilization_ratio{{{key},uuid="GPU-a"}}': "0.8x20",
        f'batch_job_gpu_utilization_ratio{{{key},uuid="GPU-b"}}': "0x20",
    }
    assert shown(tmp_path, board, "GPU use", series, 10) == [0.4]


@pytest.mark.integration
@pytest.mark.parametrize(("board", "panel"), [("gpu", "Allocated"), ("user", "GPUs")])
def test_a_mig_instance_is_its_part_of_the_card_and_a_shared_card_an_equal_part(tmp_path, board, panel):
    series = {
        'batch_gpu_info{instance="n1",uuid="GPU-a"}': "1x20",
        'batch_gpu_info{instance="n1",uuid="MIG-1",parent="GPU-a"}': "1x20",
        'batch_gpu_info{instance="n1",uuid="MIG-2",parent="GPU-a"}': "1x20",
        'batch_gpu_info{instance="n1",uuid="GPU-b"}': "1x20",
        'batch_gpu_memory_bytes{instance="n1",uuid="GPU-a"}': "80x20",
        'batch_gpu_memory_bytes{instance="n1",uuid="MIG-1"}': "20x20",
        'batch_gpu_memory_bytes{instance="n1",uuid="MIG-2"}': "10x20",
        'batch_gpu_memory_bytes{instance="n1",uuid="GPU-b"}': "80x20",
    }
    for job_id, uuid in (("1", "MIG-1"), ("2", "MIG-2"), ("3", "GPU-b"), ("4", "GPU-b")):
        key = f'instance="n1",batch_system="slurm",job_id="{job_id}"'
        series[f'batch_job_gpu_allocated{{{key},uuid="{uuid}"}}'] = "1x20"
        series[f'batch_job_info{{{key},user="ann"}}'] = "1x20"
    assert shown(tmp_path, board, panel, series, 10) == [20 / 80 + 10 / 80 + 1]


@pytest.mark.integration
def test_services_that_are_shown_beside_jobs_use_no_cpus_of_jobs(tmp_path):
    key, service = (f'instance="n1",batch_system="{each}",job_id="1"' for each in ("slurm", "service"))
    series = {
        f"batch_job_start_time_seconds{{{key}}}": "0x20",
        f"batch_job_allocated_cpus{{{key}}}": "4x20",
        f"batch_job_cpu_seconds_total{{{key}}}": "0+120x20",
        f"batch_job_cpu_seconds_total{{{service}}}": "0+120x20",
    }
    assert shown(tmp_path, "cluster", "CPUs used", series, 11) == [0.5]


@pytest.mark.integration
def test_a_job_that_runs_again_or_on_fewer_nodes_runs_on(tmp_path):
    first, second = (
        f'{{instance="{instance}",batch_system="slurm",job_id="1"}}' for instance in ("n1", "n2")
    )
    series = {
        f"batch_job_start_time_seconds{first}": "0x29 stale",
        f"batch_job_end_time_seconds{first}": "_x28 1680x1 stale",
        f"batch_job_start_time_seconds{second}": "_x34 2100x40",
    }
    assert shown(tmp_path, "job", "Runs for", series, 50) == [15 * 60]
    assert shown(tmp_path, "job", "Runs for", series, 30) == [28 * 60]  # between the two


@pytest.mark.integration
def test_a_node_that_learns_a_jobs_name_later_is_one_node(tmp_path):
    series = {
        'batch_job_info{instance="n1",batch_system="slurm",job_id="1",user="",name=""}': "1x1 stale",
        'batch_job_info{instance="n1",batch_system="slurm",job_id="1",user="ann",name="sim"}': "_x2 1x30",
    }
    assert shown(tmp_path, "job", "Nodes", series, 20) == [1]
