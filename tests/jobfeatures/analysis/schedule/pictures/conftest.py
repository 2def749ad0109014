"""Schedules that are drawn: what a log of a few lines, or of many users, gives."""

import random

import pytest


@pytest.fixture(scope="session")
def make_views():
    """Return a function: logs of records → their views, users and all."""
    from jobfeatures.analysis.schedule.document import make_document
    from jobfeatures.analysis.schedule.jobarrays import from_records
    from jobfeatures.analysis.schedule.pictures.drawn import Sketch
    from jobfeatures.analysis.schedule.result import Options
    from jobfeatures.analysis.schedule.runs import Store
    from jobfeatures.analysis.schedule.spooled import spool
    from jobfeatures.analysis.schedule.whole import Whole

    def make(*logs, by=("user", "queue"), most=2**20, **options):
        views = []
        for name, jobs in logs:
            whole = Whole(spool(name, [from_records(jobs, name)], Options(**options)), by, most=most)
            sketch = Sketch(whole, Store())
            for chunk in whole.evaluate_chunks():
                sketch.add(*chunk)
            views.append(sketch.view(make_document(whole, by)))
        return views

    return make


@pytest.fixture(scope="session")
def make_jobs():
    """Return a function: users → records of jobs, some of them late; always the same."""
    from jobfeatures.joblogs.loggedjob import JobRecord

    def make(users, *, each=4, delay=1.0, seed=1):
        rng, jobs = random.Random(seed), []
        for number in range(each * len(users)):
            submit, wait, run = rng.randrange(200_000), rng.randrange(20_000), rng.randrange(1, 20_000)
            start = submit + int(wait * delay)
            name = users[number % len(users)]
            jobs.append(
                JobRecord(
                    batch_system="slurm",
                    job_id=str(number),
                    user=name,
                    queue=name,
                    submit_secs=submit,
                    start_secs=start,
                    end_secs=start + run,
                    total_cpus=rng.randrange(1, 9),
                    total_gpus=rng.randrange(2),
                    requested_memory_bytes=rng.randrange(2**34),
                )
            )
        return jobs

    return make
