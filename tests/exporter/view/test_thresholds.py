"""The page and reports judge a job alike, by the table that alerts have too (tests/grafana/test_dashboards.py)."""

from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.metrics import JOB_START
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.jobreport import advice
from jobfeatures_exporter.jobreport.figures import GpuUse, JobReport, NodeUse, Place
from jobfeatures_exporter.scrape.collectors import gpus
from jobfeatures_exporter.view import hints
from jobfeatures_exporter.view.job import Identity, view_job
from jobfeatures_exporter.view.numbers import Numbers

KEY = JobKey("slurm", "7")
JOB = ("slurm", "7")
SHARES = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.02, 0.05, 0.15, 0.2, 1.0]))


@given(st.integers(0, 7200), st.lists(SHARES, min_size=1, max_size=4))
def test_a_steady_job_s_gpus_are_idle_on_the_page_if_they_are_in_its_report(elapsed_secs, shares):
    cards = {f"GPU-{number}": share for number, share in enumerate(shares)}
    numbers = Numbers(
        [
            Family(JOB_START, [(JOB, 0)]),
            Family(gpus.JOB_ALLOCATED, [((*JOB, card), 1) for card in cards]),
            Family(gpus.JOB_BUSY, [((*JOB, card), share * elapsed_secs) for card, share in cards.items()]),
            Family(gpus.UTILIZATION, [((card,), share) for card, share in cards.items()]),
        ]
    )
    view = view_job(numbers, KEY, Identity(), now_secs=elapsed_secs, cpus_now=None)
    used = tuple(
        GpuUse(uuid=card, is_allocated=True, busy_secs=share * elapsed_secs) for card, share in cards.items()
    )
    report = JobReport(
        batch_system="slurm",
        job_id="7",
        is_running=True,
        start_secs=0,
        seen_until_secs=elapsed_secs,
        nodes=(NodeUse(place=Place("n1"), elapsed_secs=elapsed_secs, gpus=used),),
    )
    on_page = [each for each in hints.find_hints(view) if "idle" in each.words]
    in_report = [each for each in advice.find_hints(report) if each.name == "gpu_idle"]
    assert len(on_page) == len(in_report)
    if len(cards) > 1:
        count = sum(share * elapsed_secs < 0.02 * elapsed_secs for share in shares)
        assert [each.words for each in on_page] == [f"{count} of {len(cards)} GPUs idle"] * len(in_report)
        assert all(f"{count} of its {len(cards)} GPUs" in each.text for each in in_report)
