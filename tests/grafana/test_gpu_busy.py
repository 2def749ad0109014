"""What dashboards make of GPUs that are read less often than they are scraped, as Prometheus computes it."""

import json
import shutil
import subprocess

import pytest

from grafana.panels import gpu_busy, gpu_power

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
