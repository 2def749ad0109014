"""What administrators look at, against what Slurm's own commands print at the same time."""

import re
import time

import pytest

from ..running import until

CLUSTER = "jobfeatureslab"


@pytest.fixture
def administered(slurm):
    """Add licences, features, reservations and a drained node; return the drained one."""
    other = next(name for name in slurm.run("sinfo", "-h", "-N", "-o", "%N").split() if name != slurm.node)

    def run(*argv):
        slurm.run(*argv)

    run("sacctmgr", "-i", "add", "resource", "name=matlab", "server=flexhost", "servertype=flexlm",
        "type=license", "count=20", f"cluster={CLUSTER}", "percentallowed=100")  # fmt: skip
    run(
        "scontrol",
        "update",
        f"nodename={slurm.node}",
        "availablefeatures=avx512,ib",
        "activefeatures=avx512,ib",
    )
    run("scontrol", "update", f"nodename={other}", "state=drain", "reason=NHC: /scratch of alice not mounted")
    run("scontrol", "create", "reservation", "reservationname=maint", "starttime=now+2hours", "duration=60",
        "users=root", "flags=maint,ignore_jobs", f"nodes={other}")  # fmt: skip
    yield other
    run("scontrol", "delete", "reservationname=maint")
    run("scontrol", "update", f"nodename={other}", "state=resume")
    run("scontrol", "update", f"nodename={slurm.node}", "availablefeatures=", "activefeatures=")
    run("sacctmgr", "-i", "delete", "resource", "name=matlab", "server=flexhost")


@pytest.fixture
def exporter(slurm, administered, start_exporter):
    return start_exporter(
        "--role", "controller", "--batch.sources", "slurm", "--controller.interval", "1s",
        "--collector.fairshare", environ=slurm.environ,
    )  # fmt: skip


def labelled(exporter, name, *labels):
    """Return the values of a metric's series by these labels."""
    found = exporter.series(name, batch_system="slurm").items()
    return {tuple(dict(known)[each] for each in labels): value for known, value in found}


def requests_by_user(slurm):
    text = slurm.run("sdiag").partition("statistics by user")[2].partition("Pending")[0]
    return {
        line.split()[0]: int(re.search(r"count:(\d+)", line)[1])
        for line in text.splitlines()
        if "count:" in line
    }


def test_requests_by_user_and_cycles_are_those_of_sdiag(slurm, exporter):
    slurm.submit("sleep 1")
    before = requests_by_user(slurm)

    def newer():
        shown = labelled(exporter, "batch_scheduler_user_requests_total", "user")
        return shown if shown.get(("root",), 0) >= before["root"] else None

    shown = until(newer, 60)
    after = requests_by_user(slurm)
    assert {user for (user,) in shown} == set(after)
    assert all(before[user] <= shown[user,] <= after[user] for user in before)
    types = labelled(exporter, "batch_scheduler_requests_total", "type")
    printed = re.findall(r"\t([A-Z_]+)\s+\(\s*\d+\) count:(\d+)", slurm.run("sdiag"))
    assert {name for (name,) in types} <= {name for name, _ in printed}
    longest = re.findall(r"Max cycle:\s+(\d+)", slurm.run("sdiag"))
    cycles = labelled(exporter, "batch_scheduler_cycle_seconds", "scheduler", "statistic")
    assert all(
        cycles[name, "max"] <= int(most) / 1e6 + 1e-9
        for name, most in zip(("main", "backfill"), longest, strict=True)
    )


def test_licences_are_those_of_scontrol(slurm, exporter):
    def shown():
        return labelled(exporter, "batch_licences", "licence", "kind")

    until(lambda: ("matlab@flexhost", "total") in shown(), 60)
    printed = re.search(r"LicenseName=matlab@flexhost\s+Total=(\d+) Used=(\d+) Free=(\d+) Reserved=(\d+)",
                        slurm.run("scontrol", "show", "lic"))  # fmt: skip
    kinds = ("total", "used", "free", "reserved")
    assert [shown()["matlab@flexhost", kind] for kind in kinds] == [int(each) for each in printed.groups()]


def test_shares_are_those_of_sshare(slurm, exporter):
    slurm.wait(slurm.submit("sleep 2"), "COMPLETED")

    def printed():
        text = slurm.run("sshare", "-a", "-P", "-n", "-o", "Account,User,RawUsage")
        return {(account.strip(), user): int(raw) for account, user, raw in
                (line.split("|") for line in text.splitlines()) if raw}  # fmt: skip

    def both_agree():
        expected = printed()
        shown = labelled(exporter, "batch_fairshare_usage_seconds", "account", "user")
        return expected and shown == expected

    assert until(both_agree, 60)
    assert ("physics", "alice") in printed()


def test_reservations_are_those_of_scontrol(slurm, exporter):
    until(lambda: labelled(exporter, "batch_reservation_nodes", "reservation"), 60)
    line = slurm.run("scontrol", "-o", "show", "reservation", "maint")
    assert labelled(exporter, "batch_reservation_maintenance", "reservation") == {("maint",): 1}
    assert labelled(exporter, "batch_reservation_nodes", "reservation") == {("maint",): 1}
    cores = int(re.search(r"CoreCnt=(\d+)", line)[1])
    assert labelled(exporter, "batch_reservation_cores", "reservation") == {("maint",): cores}
    start = labelled(exporter, "batch_reservation_start_timestamp_seconds", "reservation")["maint",]
    assert start == pytest.approx(time.time() + 7200, abs=300)
    end = labelled(exporter, "batch_reservation_end_timestamp_seconds", "reservation")["maint",]
    assert end - start == 3600


def test_features_and_classes_of_reasons_are_those_of_sinfo_and_no_text_is_shown(
    slurm, administered, exporter
):
    until(lambda: labelled(exporter, "batch_cluster_reason_nodes", "reason"), 60)
    features = labelled(exporter, "batch_cluster_feature_nodes", "feature")
    printed = set(slurm.run("sinfo", "-h", "-N", "-n", slurm.node, "-o", "%b").split()[0].split(","))
    assert {name for (name,) in features} == printed == {"avx512", "ib"}
    assert labelled(exporter, "batch_cluster_reason_nodes", "reason") == {("health_check",): 1}
    assert "scratch" in slurm.run("sinfo", "-h", "-N", "-n", administered, "-o", "%E")
    assert "scratch" not in exporter.get("/metrics")


def test_held_and_dependent_jobs_count_apart(slurm, exporter):
    held = slurm.submit("sleep 1", "--hold")
    slurm.submit("sleep 1", f"--dependency=afterok:{held}")

    def counts():
        found = labelled(exporter, "batch_queue_not_eligible_jobs", "partition", "cause")
        return [found.get(("batch", cause)) for cause in ("held", "dependent", "date")]

    assert until(lambda: counts() == [1, 1, 0], 60)
