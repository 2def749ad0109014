"""Makes the report on a job on this node, from the metrics page that the daemon serves to its users."""

from __future__ import annotations

from jobfeatures.errors import SourceError
from jobfeatures.records.metrics import JOB_END, JOB_INFO, JOB_SAYS_CPUS, JOB_START
from jobfeatures.records.series import Series, parse_lines
from jobfeatures.system.httpget import Server
from jobfeatures_exporter.jobreport import queries
from jobfeatures_exporter.jobreport.asking import JobReports
from jobfeatures_exporter.jobreport.gathering import ReportedRun, SeriesOfJobs, gather_report
from jobfeatures_exporter.jobreport.selecting import choose_jobs, is_called
from jobfeatures_exporter.scrape.collectors import gpus, jobs

NOTE = "of this node alone, as of now: memory is that of now, not the highest"
NAMES = frozenset(each.sample_name for each in (*queries.LAST, *queries.HIGHEST, *queries.OF_CARDS))
# A page has the current memory use; only the kernel's own peak covers the job's whole time.
PEAKS = (jobs.USED, jobs.CHARGED, gpus.JOB_MEMORY)


def ask_node(path: str, job: str, *, node: str, now_secs: float) -> JobReports:
    """Return the reports on a job or array, from the daemon that serves the UNIX socket `path`.

    `node` is the name that the reports give the node. Raises SourceError if the daemon does not answer, else
    the errors that `report_page` raises.
    """
    server = Server(f"unix:{path}")
    answer = server.get("/metrics")
    if answer.status != 200:
        raise SourceError(f"{server.name}: answered with HTTP status {answer.status}")
    return report_page(answer.body.decode("utf-8", "replace"), job, node=node, now_secs=now_secs)


def report_page(text: str, job: str, *, node: str, now_secs: float) -> JobReports:
    """Return the reports on a job or array, made of the metrics page `text`.

    `node` is the name that the reports give the node. Raises ParseError if the page is malformed,
    JobWithoutSamplesError if the job is not on it, and AmbiguousJobError if several jobs match.
    """
    series = [
        Series(each.name, {"instance": node, **each.labels}, each.value) for each in parse_lines(text, NAMES)
    ]
    infos = [each for each in series if each.name == JOB_INFO.sample_name and is_called(each.labels, job)]
    found = choose_jobs(job, infos, cluster_label="cluster", since_text="moment", where="this node")
    reports = []
    for job_id in found.job_ids:
        own = tuple(each for each in series if each.labels.get("job_id") in (job_id, None))
        times = {
            each.name: each.value for each in own if each.name in (JOB_START.sample_name, JOB_END.sample_name)
        }
        end_secs = times.get(JOB_END.sample_name)
        reports.append(
            gather_report(
                found,
                job_id,
                ReportedRun(times.get(JOB_START.sample_name), end_secs, end_secs or now_secs, (NOTE,)),
                SeriesOfJobs(
                    last=own,
                    highest={
                        peak: tuple(each for each in own if each.name == peak.sample_name) for peak in PEAKS
                    },
                    average={
                        JOB_SAYS_CPUS: tuple(each for each in own if each.name == JOB_SAYS_CPUS.sample_name)
                    },
                    cards=tuple(each for each in own if "job_id" not in each.labels),
                ),
            )
        )
    return JobReports(tuple(reports))
