"""No page has one series twice, whatever is told twice: Prometheus keeps one of the two, and counters jump between them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.gridengine.cluster import parse_cluster as parse_qhost
from jobfeatures.batch.htcondor.jobad import parse_queue as parse_condor_queue
from jobfeatures.batch.htcondor.machine import parse_status
from jobfeatures.batch.lsf.hosts import parse_cluster as parse_lsf_cluster
from jobfeatures.batch.oar.answers import parse_cluster as parse_oar_cluster
from jobfeatures.batch.pbs.cluster import make_cluster as make_pbs_cluster
from jobfeatures.batch.pbs.records import Records, parse_json
from jobfeatures.batch.slurm.administration import (
    parse_all_reservations,
    parse_licences,
    parse_sdiag,
    parse_shares,
)
from jobfeatures.batch.slurm.cluster import parse_cluster
from jobfeatures.batch.slurm.json.cluster import (
    parse_json_cluster,
    parse_json_diag,
    parse_json_licences,
    parse_json_reservations,
)
from jobfeatures.batch.slurm.json.values import JsonRecord
from jobfeatures.batch.slurm.queue import QUEUE_FIELDS, parse_queue
from jobfeatures.errors import ParseError
from jobfeatures_exporter.cluster.sums import compute_cluster_sums, compute_queue_sums
from jobfeatures_exporter.families.exposition import label_text, render
from jobfeatures_exporter.privacy.hiding import Privacy
from jobfeatures_exporter.scrape.collectors import COLLECTORS, collect
from tests.exporter.madecontext import make_context
from tests.exporter.madenode import NOW
from tests.jobfeatures.batch.slurm.test_queue import VALUES

WHEN = {"taken_at_secs": NOW}
# Few, so that they meet: what systems say of whom they do not know, spellings that look alike, what labels escape.
NAMES = st.sampled_from(
    ["nobody", "nobody ", "Nobody", "(null)", "4294967294", "a", 'a"', "a\\", "a,a", "ä", "n[1]"]
)
SOME = st.lists(NAMES, max_size=5)
NODES = st.lists(st.sampled_from(["n1", "n1[0]", "n1[1]", "N1", "n2"]), min_size=1, max_size=5)
STATES = st.sampled_from(
    ["IDLE", "idle+drain", "MIXED+MIXED", "down*", "IDLE+CLOUD+POWERED_DOWN+CLOUD", "drained~"]
)
GRES = st.sampled_from(["gpu:(null):5(IDX:0-4)", "gpu:a:1,gpu:a:1", "gpu:2(IDX:0)", "(null)", "shard:2"])


def texts_of(context):
    """Return the names and labels of all series of a context."""
    for family in collect(context, COLLECTORS.keys()):
        for values, _ in family.samples:
            yield family.metric.sample_name, label_text(family.metric.label_names, values)


def twice_in(context):
    """Return the series that are there twice, by what is collected and on the page."""
    found = [each for each, times in Counter(texts_of(context)).items() if times > 1]
    for openmetrics in (False, True):
        page = render(collect(context, COLLECTORS.keys()), openmetrics=openmetrics).decode()
        lines = Counter(line.rpartition(" ")[0] for line in page.splitlines() if line[:1] != "#")
        found += [line for line, times in lines.items() if times > 1]
    return found


def sdiag_of(users, types):
    lines = ["Server thread count:  3"]
    for title, names in (("message type", types), ("user", users)):
        lines.append(f"Remote Procedure Call statistics by {title}")
        lines += [
            f"\t{name:<16} ({n:>5}) count:{n} ave_time:1 total_time:{n}" for n, name in enumerate(names, 1)
        ]
    return parse_sdiag("\n".join(lines), **WHEN)


def diag_of(users, types):
    told = {
        "server_thread_count": 3,
        "rpcs_by_message_type": [
            {"message_type": name, "type_id": n, "count": n, "total_time": n} for n, name in enumerate(types)
        ],
        "rpcs_by_user": [
            {"user": name, "user_id": n, "count": n, "total_time": n} for n, name in enumerate(users)
        ],
    }
    return parse_json_diag(JsonRecord({"statistics": told}), source="rest", **WHEN)


@given(SOME, SOME, st.booleans(), st.integers(0, 4), st.sampled_from(["none", "hash"]))
def test_of_a_scheduler_s_requests(users, types, is_json, top_users, mode):
    context = replace(
        make_context(),
        administration=((diag_of if is_json else sdiag_of)(users, types),),
        top_users=top_users,
    )
    assert twice_in(Privacy(mode, b"k" * 16).context(context)) == []


@given(SOME, SOME, st.booleans())
def test_of_licences_reservations_and_shares(names, accounts, is_json):
    if is_json:
        licences = parse_json_licences(
            JsonRecord({"licenses": [{"LicenseName": name, "Total": 1, "Used": 0} for name in names]}),
            source="rest",
            **WHEN,
        )
        told = [{"name": name, "start_time": 1, "end_time": int(NOW) + 9, "flags": []} for name in names]
        reservations = parse_json_reservations(JsonRecord({"reservations": told}), source="rest", **WHEN)
    else:
        licences = parse_licences([f"LicenseName={name} Total=1 Used=0" for name in names], **WHEN)
        lines = [
            f"ReservationName={name} StartTime=1 EndTime=9999999999 Duration=1 Nodes=n1 NodeCnt=1 CoreCnt=1 "
            "Features=(null) PartitionName=(null) Flags= "
            for name in names
        ]
        reservations = parse_all_reservations(lines, **WHEN)
    rows = [f"{account}|{user}|0.5|1|0.5|0.5" for account in accounts for user in ("", *names)]
    shares = parse_shares("\n".join(rows), **WHEN)
    context = replace(make_context(), administration=(licences, reservations, shares), top_users=100)
    assert twice_in(context) == []


def slurm_clusters(names, states, gres, partitions):
    nodes = [
        f"NodeName={name} Arch=x CPUAlloc=1 CPUTot=4 Gres={gres} GresUsed={gres} State={states} ActiveFeatures=a,a,b "
        for name in names
    ]
    parts = [f"PartitionName={name} Nodes=n[1-2],n1 State=UP " for name in partitions]
    yield parse_cluster(nodes, parts, **WHEN)
    told = [
        {"name": name, "state": states.upper(), "cpus": 4, "alloc_cpus": 1, "gres": gres, "gres_used": gres}
        | {"active_features": ["a", "a"], "reason": "x"}
        for name in names
    ]
    parts = [{"name": name, "nodes": {"configured": "n[1-2],n1"}} for name in partitions]
    yield parse_json_cluster(
        JsonRecord({"nodes": told}), JsonRecord({"partitions": parts}), source="rest", **WHEN
    )


def pbs_cluster(names, host, queues):
    def document(member, records):
        body = ",".join(f"\n{json.dumps(name)}:{json.dumps(each)}" for name, each in records)
        try:
            return parse_json(f'{{"timestamp":1,"{member}":{{{body}}}}}', member=member, source="x")
        except ParseError:  # names that PBS cannot have, twice
            return Records({})

    state = {"state": "free,free,job-exclusive", "resources_available": {"ncpus": 2, "host": host}}
    nodes = document("nodes", [(name, state) for name in names])
    return make_pbs_cluster(nodes, document("Queue", [(name, {}) for name in queues]), source="pbs", **WHEN)


def other_clusters(names, queues):
    slots = [
        {"Name": f"slot1@{name}", "Machine": name, "State": "Claimed", "Cpus": 1, "TotalCpus": 4}
        for name in names
    ]
    yield parse_status(json.dumps(slots), **WHEN)
    hosts = [{"HOST_NAME": name, "STATUS": "ok", "MAX": "4", "NJOBS": "1"} for name in names]
    yield parse_lsf_cluster(
        hosts, [{"QUEUE_NAME": name, "STATUS": "Open:Active"} for name in queues], {}, **WHEN
    )
    resources = {
        str(n): {"network_address": name, "type": "default", "state": "Alive", "jobs": "1"}
        for n, name in enumerate(names, 1)
    }
    yield parse_oar_cluster(json.dumps(resources), source="oarnodes", **WHEN)
    queue = "".join(
        f"<queue name='{name}'><queuevalue qname='x' name='slots'>2</queuevalue></queue>"
        for name in queues
        if name.isalnum()
    )
    qhost = "".join(
        f"<host name='{name}'><hostvalue name='num_proc'>2</hostvalue>{queue}</host>" for name in names
    )
    yield parse_qhost(f"<?xml version='1.0'?><qhost>{qhost}</qhost>".encode(), **WHEN)


@given(NODES, STATES, GRES, SOME)
def test_of_clusters(names, states, gres, partitions):
    clusters = [
        *slurm_clusters(names, states, gres, partitions),
        pbs_cluster(names, "n1", partitions),
        *other_clusters(names, partitions),
    ]
    for cluster in clusters:
        context = replace(make_context(), clusters=(compute_cluster_sums(cluster),))
        assert twice_in(context) == [], cluster.source
    by_source = {cluster.source: compute_cluster_sums(cluster) for cluster in clusters}
    assert len(by_source) == 6
    assert twice_in(replace(make_context(), clusters=tuple(by_source.values()))) == []


SEPARATOR = "\x1fz\x1f"
REASONS = st.sampled_from(
    [
        "None",
        "Resources",
        "JobHeldUser",
        "job_requeued_in_held_state",
        "ReqNodeNotAvail, n1",
        "a b",
        "other",
        "ä",
    ]
)


@given(st.lists(st.tuples(st.sampled_from("1123"), SOME, REASONS), max_size=6), st.booleans())
def test_of_queues(jobs, is_pending):
    state = "PENDING" if is_pending else "RUNNING"
    records = [
        {**VALUES, "JobID": number, "Partition": ",".join(partitions), "Reason": reason, "State": state}
        for number, partitions, reason in jobs
    ]
    text = "".join("".join(each[field] + SEPARATOR for field in QUEUE_FIELDS) + "\n" for each in records)
    tables = [parse_queue(text, SEPARATOR, **WHEN)]
    ads = [{"ClusterId": int(number), "ProcId": 0, "JobStatus": 2} for number, _, _ in jobs]
    tables.append(parse_condor_queue(json.dumps(ads), **WHEN))
    context = replace(make_context(), queues=tuple(map(compute_queue_sums, tables)))
    assert twice_in(context) == []


@pytest.mark.parametrize("mode", ["none", "hash", "withhold"])
def test_of_a_node_whose_jobs_users_and_commands_have_one_name(mode):
    """By the names that users choose; jobs, cards and domains have names of their own."""
    context = make_context()
    jobs = {
        key: replace(job, name="nobody", user="nobody", account="nobody", partition="nobody")
        for key, job in context.jobs.items()
    }
    assert twice_in(Privacy(mode, b"k" * 16).context(replace(context, jobs=jobs))) == []


def test_a_series_that_is_there_twice_is_found():
    context = make_context()
    assert twice_in(replace(context, queues=context.queues * 2)) != []
