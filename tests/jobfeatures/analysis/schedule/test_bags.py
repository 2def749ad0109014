"""One expected end for a workflow or a bag of tasks, against Algorithm 1 second by second with sets of jobs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.bags import Join
from jobfeatures.analysis.schedule.choosing import Filter
from jobfeatures.analysis.schedule.document import make_document
from jobfeatures.analysis.schedule.result import Options
from jobfeatures.analysis.schedule.shares import ShareRules
from jobfeatures.joblogs.loggedjob import JobRecord
from tests.jobfeatures.evaluated import evaluate, linked_log, summarise

RESOURCES = ("cpu", "gpu")


def job(place, submit, run, cpus, *, user="ann", wait=0, gpus=1, **more):
    return JobRecord(
        batch_system="x", job_id=str(place), user=user, submit_secs=submit, start_secs=submit + wait,
        end_secs=submit + wait + run, total_cpus=cpus, total_gpus=gpus, **more,
    )  # fmt: skip


@st.composite
def jobs(draw):
    """Return jobs of two users, of which some follow one before them, are tasks of an array, or of a workflow."""
    found = []
    for place in range(draw(st.integers(1, 9))):
        user = draw(st.sampled_from(["ann", "bob"]))
        more = {
            "array_job_id": draw(st.none() | st.sampled_from("12")),
            "workflow_id": draw(st.none() | st.just("w")),
        }
        if place and draw(st.booleans()):
            more["preceding_job_id"] = str(draw(st.integers(0, place - 1)))
            more["think_secs"] = draw(st.none() | st.integers(0, 4))
        times = (draw(st.integers(0, 6)), draw(st.integers(0, 5)), draw(st.integers(0, 5)))
        found.append(
            job(place, *times, user=user, wait=draw(st.integers(0, 9)), gpus=draw(st.integers(0, 2)), **more)
        )
    return found


def oracle(records, shares, joins):
    """Return the expected ends: line by line as the paper has it, each user for itself."""
    ends = {}
    for user in {record.user for record in records}:
        mine = [record for record in records if record.user == user]
        by_id = {record.job_id: record for record in mine}

        def before(record, by_id=by_id):
            return by_id.get(record.preceding_job_id) if Join.PRECEDING in joins else None

        capacity = {resource: {} for resource in RESOURCES}
        own = {}
        while len(own) < len(mine):
            known = []
            for place, record in enumerate(mine):
                if record.job_id in own:
                    continue
                arrival, other = record.submit_secs, before(record)
                if other is not None:
                    if other.job_id not in own:
                        continue
                    end, think = own[other.job_id], record.think_secs
                    arrival = max(arrival, end) if think is None else end + think
                known.append((arrival, record.submit_secs, place, record))
            # The next is who arrives first; of several, who was submitted first, then who stands first.
            arrival, _, _, record = min(known, key=lambda each: each[:3])
            latest = arrival
            run = record.end_secs - record.start_secs
            for resource, asked in zip(RESOURCES, (record.total_cpus, record.total_gpus), strict=True):
                left, time = asked * run, arrival
                while left > 0:
                    there = capacity[resource].get(time, shares[resource])
                    taken = min(there, asked)
                    capacity[resource][time] = there - taken
                    left -= taken
                    time += 1
                latest = max(latest, time)
            own[record.job_id] = latest
        sets = [{record.job_id} for record in mine]
        changed = True
        while changed:
            changed = False
            for one in mine:
                for other in mine:
                    if one is other or not hang_together(one, other, joins):
                        continue
                    first, second = (
                        next(each for each in sets if name.job_id in each) for name in (one, other)
                    )
                    if first is not second:
                        sets.remove(second)
                        first |= second
                        changed = True
        for bag in sets:
            ends |= dict.fromkeys(bag, max(own[name] for name in bag))
    return ends


def hang_together(one, other, joins):
    return (
        (Join.PRECEDING in joins and one.preceding_job_id == other.job_id)
        or (Join.ARRAY in joins and one.array_job_id is not None and one.array_job_id == other.array_job_id)
        or (Join.WORKFLOW in joins and one.workflow_id is not None and one.workflow_id == other.workflow_id)
    )


def rules(**shares):
    return ShareRules(default={resource: share * 1000 for resource, share in shares.items()})


@given(jobs(), st.sets(st.sampled_from(Join), min_size=1), st.integers(1, 4), st.integers(1, 2))
def test_a_workflow_or_bag_of_tasks_has_a_single_eet(records, joins, cpus, gpus):
    """ "For such a workflow or bags of tasks we should therefore generate single EET rather than compute separate
    EET for each job/task." """
    first = job("zero", 0, 0, 0, user="nobody", gpus=0)
    log = linked_log([*records, first])
    options = Options(resources=RESOURCES, rules=rules(cpu=cpus, gpu=gpus), join=tuple(joins))
    schedule = evaluate(log, options)
    found = dict(zip(schedule.chosen.position.tolist(), schedule.expected.tolist(), strict=True))
    expected = oracle(records, {"cpu": cpus, "gpu": gpus}, joins)
    assert [found[place] for place in range(len(records))] == [
        expected[str(place)] for place in range(len(records))
    ]
    ends = {record.job_id: record.end_secs for record in records}
    late = [name for name, end in ends.items() if end > expected[name]]
    assert sum(schedule.violated) == len(late)
    told = make_document(summarise(log.name, [log], options))
    assert told["joined"] == [each.value for each in options.join]
    assert told["bags"]["violated"] <= told["bags"]["count"] <= told["bags"]["jobs"] / 2


def evaluated(*records, join=tuple(Join), **more):
    return evaluate(linked_log(records), Options(rules=rules(cpu=2), join=join, **more))


def bags_of(*records):
    options = Options(rules=rules(cpu=2), join=tuple(Join))
    return make_document(summarise("log", [linked_log(records)], options))["bags"]


def test_tasks_of_an_array_are_late_when_the_array_is():
    """ "they are interested in the performance of an entire batch of jobs" """
    tasks = [job(place, 0, 10, 1, wait=wait, array_job_id="7") for place, wait in enumerate((10, 0, 0, 10))]
    alone = evaluated(*tasks, join=())
    assert (alone.expected.tolist(), sum(alone.violated)) == ([10, 10, 20, 20], 1)
    together = evaluated(*tasks)
    assert (together.expected.tolist(), sum(together.violated)) == ([20] * 4, 0)
    assert bags_of(*tasks) == {"count": 1, "jobs": 4, "violated": 0}
    late = job(3, 0, 10, 1, wait=11, array_job_id="7")
    assert bags_of(*tasks[:3], late) == {"count": 1, "jobs": 4, "violated": 1}


def test_a_chain_of_jobs_submitted_at_once_is_expected_to_run_one_after_the_other():
    chain = [
        job(place, 0, 10, 1, wait=10 * place, preceding_job_id=str(place - 1) if place else None)
        for place in range(4)
    ]
    assert evaluated(*chain, join=()).expected.tolist() == [10, 10, 20, 20]
    assert evaluated(*chain).expected.tolist() == [40] * 4
    assert sum(evaluated(*chain).violated) == 0


def test_a_filter_shows_jobs_of_a_bag_with_the_end_of_the_whole():
    tasks = [job(0, 0, 10, 2, workflow_id="w", queue="a"), job(1, 0, 10, 2, workflow_id="w", queue="b")]
    shown = evaluated(*tasks, filters=(Filter("queue", frozenset("a")),))
    assert shown.expected.tolist() == [20]


def test_bags_are_of_one_user_and_one_cluster():
    pair = [job(0, 0, 10, 2, array_job_id="7"), job(1, 0, 20, 2, user="bob", array_job_id="7")]
    assert evaluated(*pair).expected.tolist() == [10, 20]
    pair = [job(0, 0, 10, 2, array_job_id="7"), job(1, 0, 20, 2, cluster="b", array_job_id="7")]
    assert evaluated(*pair).expected.tolist() == [10, 30]


@pytest.mark.parametrize("mode", ["exact", "fluid"])
def test_other_modes_chain_too(mode):
    from jobfeatures.analysis.schedule.eet import Mode

    pair = [job(0, 0, 3, 3), job(1, 0, 1, 1, preceding_job_id="0")]
    ends = evaluated(*pair, mode=Mode(mode)).expected.tolist()
    assert [math.isclose(end, {"exact": 6, "fluid": 5.5}[mode]) for end in ends] == [True, True]
