"""What is said of public dashboards follows from the names that the profiles declare."""

import runpy

import pytest

from tests.docs.pages import ROOT

SCRIPT = runpy.run_path(str(ROOT / "docs/dashboards.py"))
TOLD = {"slurm_job_process_usage_total", "slurm_job_memory_usage"}


@pytest.mark.parametrize(
    ("asked", "works", "said"),
    [
        ("slurm_job_memory_usage", "yes", ""),
        ("slurm_job_process_usage_total", "yes", "with `collector.processes`"),
        ("slurm_job_memory_usage node_cpu_seconds_total", "beside another", "node_exporter has it"),
        (
            "slurm_job_memory_usage | slurm_job_memory_rss_huge",
            "in part",
            "parts of memory that are not sampled",
        ),
        ("slurm_job_memory_usage slurm_job_memory_rss_huge", "no", "parts of memory that are not sampled"),
    ],
)
def test_a_panel_is_judged_by_the_names_that_are_told(asked, works, said):
    assert SCRIPT["judge"](asked, TOLD) == (works, said)


def test_every_panel_stands_once_in_its_table():
    for dashboard in SCRIPT["DASHBOARDS"]:
        panels = [panel for named in SCRIPT["judged"](dashboard).values() for panel in named]
        assert sorted(panels) == sorted(dashboard.panels)


def test_the_names_that_were_missing_are_told():
    told = {metric.sample_name for each in SCRIPT["PROFILES"].values() for metric in each.metrics}
    assert {
        "slurm_job_core_usage_total",
        "slurm_job_process_usage_total",
        "ceems_rapl_package_joules_total",
        "namedprocess_namegroup_open_filedesc",
        "namedprocess_namegroup_worst_fd_ratio",
    } <= told
