"""Checks what the daemon depends on, for the command `doctor`: yields findings with remedies."""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import re
import socket
import ssl
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jobfeatures.batch import SYSTEMS
from jobfeatures.check.fetching import CannotCheckError, read_listing
from jobfeatures.check.listing import Case, DirectoryKind, Severity
from jobfeatures.check.rules import judge
from jobfeatures.errors import ConfigurationError, JobfeaturesError, SourceError
from jobfeatures.hooks.actions import node_name
from jobfeatures.publish.folders import FAILURES
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import Job, JobKey, JobTable
from jobfeatures.records.quantities import counted
from jobfeatures.system.clock import SystemClock
from jobfeatures.system.httpget import Server
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.controller.daemon import make_cluster_sources
from jobfeatures_exporter.model.snapshot import Snapshot
from jobfeatures_exporter.node.samplingloop import find_places
from jobfeatures_exporter.node.sources import chosen_systems, make_source
from jobfeatures_exporter.sampling.bpf.choice import try_reader
from jobfeatures_exporter.sampling.descriptors import read_text
from jobfeatures_exporter.sampling.layout.hierarchies import Places
from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.scrape.collectors import CONTROLLER
from jobfeatures_exporter.startup.checks import check, check_features_root
from jobfeatures_exporter.startup.findings import DoctorFinding, Mark, good, note, see, wrong
from jobfeatures_exporter.startup.gpudrivers import examine_gpus
from jobfeatures_exporter.startup.hooksites import (
    HOOK_SITES,
    NamedHook,
    mentions_us,
    named_hooks,
    programs_of,
)
from jobfeatures_exporter.startup.sitesays import (
    hidden_features,
    jobs_without_group,
    listed_jobs,
    refused_places,
    unseen_processes,
)
from jobfeatures_exporter.state.daemongroups import GroupReader
from jobfeatures_exporter.state.missinggroups import find_missing
from jobfeatures_exporter.view.sources import READ_ONE_BY_ONE, SourceView, advise_ebpf
from jobfeatures_exporter.view.units import format_span
from jobfeatures_exporter.web.configfile.reloaded import WebFile
from jobfeatures_exporter.web.hosts import is_loopback

TIME_ERROR = 5  # of adjtimex(2): the clock is not synchronized
TIMEX_BYTES = 512  # larger than the structure on any platform
MAX_CLOCK_AHEAD_SECS = 2.0
JOURNAL = "journalctl -t jobfeatures shows the job and the reason"
FULL = "free space or inodes: df {0}; df -i {0}"
MAX_PAGE_BYTES = 64 * 2**20
SOON_SECS = 14 * 86_400.0
ALL_JOBS = (
    "let the daemon's user see all users' jobs: PrivateData of Slurm, query_other_jobs of PBS, "
    "SECURE_JOB_INFO_LEVEL of LSF"
)


def examine(config: ExporterConfig) -> Iterator[DoctorFinding]:
    """Run the checks; yield each finding as it is made."""
    try:
        check(config)
        yield good("settings", "consistent")
    except ConfigurationError as error:
        yield wrong("settings", str(error), "correct this setting")
    seen: frozenset[JobKey] = frozenset()
    if config.role == CONTROLLER:
        yield from _cluster(config)
    else:
        settings, clock = config.of_sampler(), SystemClock()
        places, known = find_places(config, clock), dict[JobKey, Job]()
        with contextlib.closing(Sampler(settings, clock, jobs=lambda: known, places=places)) as sampler:
            snapshot = sampler.sample()
            answers = [_ask(name, config, snapshot) for name in chosen_systems(config)]
            tables = [each.table for each in answers if each.table is not None]
            known.update(each for table in tables for each in table.jobs.items() if each[1].state.is_on_node)
            if find_missing(known, snapshot, tables) or snapshot.unconfirmed:
                # Of some jobs the processes are found by what their batch system says, and some groups count
                # once it has said that their jobs run here.
                snapshot = sampler.sample()
        seen = _living(snapshot)
        yield _control_groups(config, seen)
        yield from unseen_processes(config)
        yield from refused_places(places())
        yield from (
            note(f"reading {kind}", f"failed {counted(count, 'time')}", see("unreadable readings"))
            for kind, count in sorted(snapshot.unreadable.items())
        )
        yield from _reader(config)
        yield from examine_gpus(config)
        yield from _sources(config, answers, snapshot, places())
        yield from _tree(config, seen)
    yield from _certificate(config)
    yield _clock()
    yield _listener(config)


# --- what is queried ----------------------------------------------------------------


def _failed(name: str, error: Exception) -> DoctorFinding:
    words = str(error)
    view = SourceView(name, has_answered=False, is_up=False, failures=1, words=words)
    return wrong(name, words, view.advice or "run the same command by hand, as the daemon's user")


class _Asked(NamedTuple):
    """What a batch system answered; `unlisted`: why it could not be asked for all jobs of the node."""

    name: str
    table: JobTable | None = None
    failure: Exception | None = None
    unlisted: str = ""


def _ask(name: str, config: ExporterConfig, snapshot: Snapshot) -> _Asked:
    node, listed, unlisted = node_name(config.shared.node.name, {}), frozenset[JobKey](), ""
    try:
        listed = listed_jobs(name, config, node)
    except SourceError as error:
        unlisted = str(error)
    claimed = listed.union(snapshot.unconfirmed)
    try:
        table = make_source(name, config, SystemClock(), node).poll_jobs(_living(snapshot), claimed)
    except (JobfeaturesError, OSError) as error:
        return _Asked(name, failure=error)
    return _Asked(name, table, unlisted=unlisted)


def _living(snapshot: Snapshot) -> frozenset[JobKey]:
    """Return the jobs that have processes; an empty group is not a job."""
    jobs = snapshot.jobs.items()
    return frozenset(key for key, each in jobs if isinstance(key, JobKey) and each.processes)


def _sources(
    config: ExporterConfig, answers: Sequence[_Asked], snapshot: Snapshot, places: Places
) -> Iterator[DoctorFinding]:
    if not answers:
        remedy = f"if there is one, name it in batch.sources: {', '.join(SYSTEMS)}"
        yield (wrong if _living(snapshot) else note)("batch system", "none is found on this node", remedy)
    named = config.shared.batch.common.cgroup_parents
    groups = GroupReader(
        config.path.procfs, config.path.cgroup, node_name(config.shared.node.name, {}), named
    )
    for name, table, failure, unlisted in answers:
        if failure is not None:
            yield _failed(name, failure)
        if table is None:
            continue
        yield from _answer(name, table)
        if unlisted:
            words = f"other jobs may run here, but the list of jobs cannot be read: {unlisted}"
            yield note(f"{name} jobs", words, "run the same command by hand, as the daemon's user")
        yield from jobs_without_group(name, table, snapshot, places, groups)
        if name in HOOK_SITES:
            yield from _hooks(name, config)
        yield from hidden_features(name, config, node_name(config.shared.node.name, {}))


def _answer(name: str, table: JobTable) -> Iterator[DoctorFinding]:
    running = sum(job.state.is_on_node for job in table.jobs.values())
    yield good(name, f"answers: {counted(running, 'job')} on this node")
    if table.node_problem:
        words = f"{name} answers, but not about this node: {table.node_problem}"
        advice = SourceView(name, has_answered=True, is_up=True, failures=0, words=table.node_problem).advice
        yield wrong(name, words, advice or "set node.name to the name of this machine in the batch system")
    for each in table.rejected[:3]:
        yield note(name, f"record skipped: {each}", "the rest of the answer is used")
    if not table.complete:
        yield note(name, "the answer does not list all jobs of this node", ALL_JOBS)
    ahead = table.clock_ahead_secs
    if ahead is not None and abs(ahead) > MAX_CLOCK_AHEAD_SECS:
        which = "ahead of" if ahead > 0 else "behind"
        words = f"its clock is {format_span(abs(ahead))} {which} this node's"
        yield wrong(f"{name} clock", words, "run chrony or systemd-timesyncd on both")


def _hooks(system: str, config: ExporterConfig) -> Iterator[DoctorFinding]:
    what = f"{system} hooks"
    try:
        for each in named_hooks(system, config, node_name(config.shared.node.name, {})):
            mark, words, remedy = _hook(system, each)
            yield DoctorFinding(mark, what, f"{words} ({each.queue})" if each.queue else words, remedy)
    except SourceError as error:
        yield _failed(what, error)
    except OSError as error:
        yield note(what, str(error), "run doctor as root")


def _hook(system: str, hook: NamedHook) -> tuple[Mark, str, str]:
    """Return the severity of one hook's state, the state in words, and a remedy."""
    set_to, page = f"{hook.name}={hook.command}", f"see docs/batch/{system}.md"
    if hook.wanted:
        is_so = hook.command == hook.wanted
        return Mark.GOOD if is_so else Mark.WRONG, set_to, f"must be {hook.wanted}: {page}"
    if not hook.command:
        remedy = f"set it, so that jobs have features from their start: {page}"
        return Mark.NOTE, f"{hook.name} is not set", remedy
    if not hook.command.startswith(hook.required_prefix):
        return Mark.WRONG, f"{set_to} does not run as root", f"put {hook.required_prefix} before it"
    for program in programs_of(hook.command):
        if not program.startswith("/"):
            continue
        if not os.access(program, os.X_OK if hook.is_run else os.R_OK):
            of = f"{set_to}: {program}" if program not in hook.command else set_to
            return Mark.WRONG, f"{of} cannot be run on this node", f"install it, or correct this: {page}"
        if os.stat(program).st_mode & stat.S_IWOTH:
            return Mark.WRONG, f"{set_to}: others may write to it", f"chmod go-w {program}"
    try:
        is_ours = mentions_us(hook.command)
    except OSError as error:
        return Mark.NOTE, f"{set_to}: {error.strerror}", f"check that it calls our hook: {page}"
    if hook.consequence:
        return (Mark.NOTE, f"{set_to}: {hook.consequence}", page) if is_ours else (Mark.GOOD, set_to, "")
    if not is_ours:
        return Mark.NOTE, f"{set_to} does not mention jobfeatures", f"call our hook from it: {page}"
    return Mark.GOOD, set_to, ""


def _cluster(config: ExporterConfig) -> Iterator[DoctorFinding]:
    try:
        sources = make_cluster_sources(config, SystemClock())
    except ConfigurationError as error:
        yield wrong("batch system", str(error), "install its commands here, or correct batch.sources")
        return
    for source in sources:
        try:
            yield good(f"{source.name} queue", counted(len(source.poll_queue().jobs), "job"))
        except SourceError as error:
            yield _failed(f"{source.name} queue", error)
        try:
            cluster = source.poll_cluster()
            words = f"{counted(len(cluster.nodes), 'node')}, {counted(len(cluster.partitions), 'partition')}"
            yield good(f"{source.name} nodes", words)
        except SourceError as error:
            yield _failed(f"{source.name} nodes", error)


# --- this machine ----------------------------------------------------------


def _control_groups(config: ExporterConfig, seen: frozenset[JobKey]) -> DoctorFinding:
    what, jobs = "control groups", counted(len(seen), "job")
    try:
        found = find_hierarchies(config.path.cgroup)
    except OSError as error:
        words = f"{config.path.cgroup}: {error.strerror}"
        return wrong(what, words, "set path.cgroup to where control groups are mounted")
    if not found:
        words = f"none at {config.path.cgroup}: jobs can be found by their processes alone"
        return note(what, words, "mount cgroup2, or set path.cgroup")
    version = "v2" if found.keys() == {UNIFIED} else f"v1 ({', '.join(sorted(found))})"
    try:
        read_text(f"{config.path.procfs}/pressure/cpu")  # RHEL 8 has the file, which cannot be read
    except OSError:
        words = f"{version}, {jobs}; the kernel does not report pressure (PSI)"
        return note(what, words, "add psi=1 to the kernel's command line")
    return good(what, f"{version}, {jobs}")


def _reader(config: ExporterConfig) -> Iterator[DoctorFinding]:
    """Load the eBPF programs that the daemon would, for a moment; yield a finding if that fails."""
    choice = try_reader(config.reader, config.path)
    if choice.kernel is not None:
        choice.kernel.close()
    if failure := choice.process_reader.failure:
        yield note("processes", f"{READ_ONE_BY_ONE[10:]}: {failure}", advise_ebpf(failure))


def _tree(config: ExporterConfig, seen: frozenset[JobKey]) -> Iterator[DoctorFinding]:
    if not config.features_publish:
        yield note("features", "are not published", "to publish them, set features.publish = true")
        return
    try:
        check_features_root(config)
    except ConfigurationError as error:
        yield wrong("features", str(error), see("It does not start"))
        return
    tree = FeatureTree(config.shared.batch.common.root)
    if os.path.isdir(tree.root):
        yield from _full_or_closed(tree.root)
    if not os.path.isdir(tree.machine_path):
        words = f"nothing is published at {tree.root}"
        yield note("features", words, "start the daemon, or let a prolog run jobfeatures publish")
        return
    try:
        published = tree.published().keys()
        faults = judge(Case(read_listing(tree.machine_path, DirectoryKind.MACHINE), time.time()))
        failures = tree.hook_failures() if os.path.isdir(f"{tree.root}/{FAILURES}") else {}
    except (CannotCheckError, JobfeaturesError, OSError) as error:
        yield wrong("features", f"{tree.root}: {error}", "run doctor as root")
        return
    yield good("features", f"{tree.root}: {counted(len(published), 'job')} published")
    for each in faults:
        if each.severity is Severity.ERROR:
            words = f"{tree.machine_path}: {each.key} {each.text}"
            yield wrong("features", words, f"see the rule {each.rule} in docs/check.md")
    for key in sorted(seen - set(published)):
        words = f"{key.batch_system} job {key.job_id} runs here, but has no feature directory"
        yield wrong("features", words, "check that its prolog runs our hook, or that the daemon runs")
    for (action, reason), count in sorted(each for each in failures.items() if each[1]):
        words = f"{action} failed {counted(count, 'time')}: {reason}"
        yield wrong("hooks", words, FULL.format(tree.root) if reason == "enospc" else JOURNAL)


def _full_or_closed(root: str) -> Iterator[DoctorFinding]:
    """Yield findings on a full file system, and on folders above the features that users cannot enter."""
    space = os.statvfs(root)
    if not space.f_bavail or (space.f_files and not space.f_favail):
        yield wrong("features", f"{root}: no space or no inodes are left", FULL.format(root))
    for folder in (root, *map(str, Path(root).parents)):
        if not (mode := stat.S_IMODE(os.stat(folder).st_mode)) & stat.S_IXOTH and os.geteuid() == 0:
            words = f"not every user can enter {folder} (mode {mode:o}), so jobs may not find their features"
            yield note("features", words, f"chmod o+x {folder}, unless jobs have access by a group or an ACL")


def _certificate(config: ExporterConfig) -> Iterator[DoctorFinding]:
    if config.web.config_file is None:
        return
    what = "certificate"
    try:
        tls = WebFile(config.web.config_file, quiet=True).options.tls
    except ConfigurationError as error:
        yield wrong(what, str(error), see("It does not start"))
        return
    if tls is None or not tls.certificate.path:
        yield note(what, "not checked, because the web configuration contains its text, not its file", "")
        return
    try:
        held = _decode(tls.certificate.path)
    except (ssl.SSLError, OSError) as error:
        yield wrong(what, f"{tls.certificate.path}: {error}", "use a certificate in PEM")
        return
    left = ssl.cert_time_to_seconds(held["notAfter"]) - time.time()
    if left < SOON_SECS:
        words = f"{tls.certificate.path} {'expired' if left < 0 else 'expires'} {held['notAfter']}"
        yield (wrong if left < 0 else note)(what, words, "replace the file: it is reloaded at once")
    names = {value for kind, value in held.get("subjectAltName", ()) if kind in {"DNS", "IP Address"}}
    wanted = {socket.gethostname(), socket.getfqdn(), node_name(config.shared.node.name, {})}
    if not names & wanted and not any(name.startswith("*.") or _is_own_address(name) for name in names):
        its = ", ".join(sorted(names)) or "no name"
        words = f"is for {its}, but this machine is {', '.join(sorted(wanted))}"
        yield wrong(what, words, "use one for the name to which Prometheus connects (/sd)")
    elif left >= SOON_SECS:
        yield good(what, f"{', '.join(sorted(names))}, until {held['notAfter']}")


def _is_own_address(text: str) -> bool:
    """Return whether this is an address of this machine: no other can be bound."""
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    with contextlib.suppress(OSError, ValueError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        ipaddress.ip_address(text)  # a host name would need a DNS query
        probe.bind((text, 0))
        return True
    return False


def _decode(path: str) -> dict[str, Any]:
    """Return a certificate's fields as in `getpeercert`; Python has no public function for files."""
    found: dict[str, Any] = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]  # noqa: SLF001
    return found


def _clock() -> DoctorFinding:
    try:
        zeros = ctypes.create_string_buffer(TIMEX_BYTES)  # modes 0: change nothing
        state = ctypes.CDLL(None).adjtimex(zeros)
    except (OSError, AttributeError):
        return note("clock", "it is unknown whether the clock is synchronised")
    if state == TIME_ERROR:
        return note("clock", "not synchronised, according to the kernel", "run chrony or systemd-timesyncd")
    return good("clock", "synchronised, according to the kernel")


def _listener(config: ExporterConfig) -> DoctorFinding:
    what = f"daemon at {config.web_listen_address}"
    host, _, port = config.web_listen_address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    try:
        with socket.create_connection((host, int(port)), timeout=2.0):
            pass
        if config.web.config_file is not None:
            return good(what, "listens; not queried further, as it requires TLS or a password")
        server = Server(f"http://{f'[{host}]' if ':' in host else host}:{port}", max_bytes=MAX_PAGE_BYTES)
        answer = server.get("/-/ready", timeout_secs=5.0)
        page = server.get("/metrics", timeout_secs=10.0).body
    except (OSError, JobfeaturesError) as error:
        unit = "jobfeatures-controller" if config.role == CONTROLLER else "jobfeatures-exporter"
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return wrong(what, words, f"see systemctl status {unit}")
    words = "; ".join(answer.body.decode("utf-8", "replace").split("\n")[:3]).strip("; ")
    if answer.status != 200:
        return wrong(what, words, "see what is wrong with the batch systems above")
    if found := re.search(rb"(?m)^batch_exporter_series_over_budget ([1-9]\d*)", page):
        words += f"; /metrics leaves out {found[1].decode()} series"
        return note(what, words, "raise metrics.max_series, and sample_limit of Prometheus with it")
    if is_loopback(host):
        words += "; only this machine can scrape it: to change that, set web.listen_address"
    return good(what, words)
