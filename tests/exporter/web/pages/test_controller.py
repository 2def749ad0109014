"""The page of the controller role: partitions, and what is found over the cluster."""

from __future__ import annotations

from dataclasses import replace

from jobfeatures_exporter.cluster.overview import find_jobs
from tests.exporter.web.pages import showcase
from tests.exporter.web.pages.drawn import controller_page, rows_of, samples_of, section_of
from tests.exporter.web.pages.reading import read_page


def test_figures_of_partitions_stand_in_their_rows():
    context, _ = showcase.make_cluster_context()
    samples = samples_of(showcase.families_of(context, "controller"))
    page = read_page(controller_page())
    for table in ("nodes-table", "queue-table"):
        for partition, cells in rows_of(page, table).items():
            for figure in (each for cell in cells.values() for each in cell.all("data")):
                values = [
                    value
                    for labels, value in samples[figure.attributes["title"]]
                    if labels["partition"] == partition
                ]
                assert float(figure.attributes["value"]) in values


def test_what_is_found_over_the_cluster_leads_to_its_page_on_its_node():
    queue = showcase.make_queue()
    job = replace(next(iter(queue.jobs.values())), nodes=("n1", "<i>"))
    queue = replace(queue, jobs={job.key: job})
    found = find_jobs([queue], job.key.job_id, lambda job: job)
    page = read_page(
        controller_page(find=f'"><b>{job.key.job_id}', found=found, node_url="https://{node}:9819/")
    )
    (form,) = page.all("form")
    assert form.all("input")[0].attributes["value"] == f'"><b>{job.key.job_id}'
    assert page.all("b") == []
    row = rows_of(page, "found-table")[job.key.job_id]
    link = row["Nodes"].all("a")[0].attributes["href"]
    assert link == f"https://{job.nodes[0]}:9819/job/{job.key.job_id}?system=slurm"
    nothing = read_page(controller_page(find="nobody", found=find_jobs([queue], "nobody", lambda job: job)))
    assert "no job with this number and no user with this name" in section_of(nothing, "find").text
