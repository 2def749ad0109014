"""Checks what the daemon depends on: findings, in the words of each source, and remedies."""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import socket
import ssl
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from jobfeatures.batch import SYSTEMS
from jobfeatures.check.fetching import CannotCheckError, read_listing
from jobfeatures.check.listing import Case, Kind, Severity
from jobfeatures.check.rules import judge
from jobfeatures.errors import ConfigurationError, JobfeaturesError, SourceError
from jobfeatures.hooks.actions import node_name
from jobfeatures.publish.folders import FAILURES
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey, JobTable
from jobfeatures.records.quantities import counted
from jobfeatures.system.clock import SystemClock
from jobfeatures.system.httpget import Server
from jobfeatures_exporter.config import DaemonConfig
from jobfeatures_exporter.controller.daemon import make_cluster_sources
from jobfeatures_exporter.node.sources import chosen_systems, make_source
from jobfeatures_exporter.sampling.groups.hierarchy import UNIFIED, find_hierarchies
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from jobfeatures_exporter.scrape.collectors import CONTROLLER
from jobfeatures_exporter.startup.checks import check, check_features_root
from jobfeatures_exporter.startup.hooksites import HOOK_SITES, NamedHook, mentions_us, named_hooks, program_of
from jobfeatures_exporter.view.sources import SourceView
from jobfeatures_exporter.view.units import format_span
from jobfeatures_exporter.web.admission import is_loopback
from jobfeatures_exporter.web.configfile.reloaded import WebFile

TIME_ERROR = 5  # of adjtimex(2): the clock is not synchronized
TIMEX_BYTES = 512  # larger than the structure on any platform
MAX_CLOCK_AHEAD_SECS = 2.0
SOON_SECS = 14 * 86_400.0
TROUBLESHOOTING = "docs/troubleshooting.md"
ALL_JOBS = (
    "let the daemon's user see all users' jobs: PrivateData of Slurm, query_other_jobs of PBS, "
    "SECURE_JOB_INFO_LEVEL of LSF"
)


class Mark(StrEnum):
    """The severity of a finding."""

    GOOD = "ok"
    NOTE = "note"
    WRONG = "WRONG"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    mark: Mark
    what: str
    words: str
    remedy: str = ""


_good, _note, _wrong = (partial(Finding, mark) for mark in Mark)


def examine(config: DaemonConfig) -> Iterator[Finding]:
    """Run the checks; yield each finding as it is made."""
    try:
        check(config)
        yield _good("settings", "consistent")
    except ConfigurationError as error:
        yield _wrong("settings", str(error), "correct the key that is named")
    seen: frozenset[JobKey] = frozenset()
    if config.role == CONTROLLER:
        yield from _cluster(config)
    else:
        with contextlib.closing(Sampler(SamplerSettings.of(config), SystemClock())) as sampler:
            snapshot = sampler.sample()
        jobs = snapshot.jobs.items()  # an empty group is not a job
        seen = frozenset(key for key, each in jobs if isinstance(key, JobKey) and each.processes)
        yield _control_groups(config, seen)
        yield from (
            _note(f"reading {kind}", f"failed {counted(count, 'time')}", _see("unreadable readings"))
            for kind, count in sorted(snapshot.unreadable.items())
        )
        yield from _sources(config, seen)
        yield from _tree(config, seen)
    yield from _certificate(config)
    yield _clock()
    yield _listener(config)


def _see(section: str) -> str:
    return f"see {section!r} in {TROUBLESHOOTING}"


# --- what is queried ----------------------------------------------------------------


def _failed(name: str, error: Exception) -> Finding:
    words = str(error)
    view = SourceView(name, has_answered=False, is_up=False, failures=1, words=words)
    return _wrong(name, words, view.advice or "run the same command by hand, as the daemon's user")


def _sources(config: DaemonConfig, seen: frozenset[JobKey]) -> Iterator[Finding]:
    names = chosen_systems(config)
    if not names:
        remedy = f"batch.sources names one of {', '.join(SYSTEMS)}"
        yield (_wrong if seen else _note)("batch system", "none is found on this node", remedy)
    for name in names:
        try:
            table = make_source(name, config, SystemClock(), node_name(config, {})).poll_jobs(seen)
        except (JobfeaturesError, OSError) as error:
            yield _failed(name, error)
            continue
        yield from _answer(name, table)
        if name in HOOK_SITES:
            yield from _hooks(name, config)


def _answer(name: str, table: JobTable) -> Iterator[Finding]:
    running = sum(job.state.is_on_node for job in table.jobs.values())
    yield _good(name, f"answers: {counted(running, 'job')} on this node")
    if table.node_problem:
        words = f"{name} answers, but not about this node: {table.node_problem}"
        advice = SourceView(name, has_answered=True, is_up=True, failures=0, words=table.node_problem).advice
        yield _wrong(name, words, advice or "set node.name to this machine's name there")
    for each in table.rejected[:3]:
        yield _note(name, f"record skipped: {each}", "the rest of the answer is used")
    if not table.complete:
        yield _note(name, "the answer lacks jobs of this node", ALL_JOBS)
    ahead = table.clock_ahead_secs
    if ahead is not None and abs(ahead) > MAX_CLOCK_AHEAD_SECS:
        which = "ahead of" if ahead > 0 else "behind"
        words = f"its clock is {format_span(abs(ahead))} {which} this node's"
        yield _wrong(f"{name} clock", words, "run chrony or systemd-timesyncd on both")


def _hooks(system: str, config: DaemonConfig) -> Iterator[Finding]:
    what = f"{system} hooks"
    try:
        for each in named_hooks(system, config, node_name(config, {})):
            mark, words, remedy = _hook(system, each)
            yield Finding(mark, what, f"{words} ({each.queue})" if each.queue else words, remedy)
    except SourceError as error:
        yield _failed(what, error)
    except OSError as error:
        yield _note(what, str(error), "run doctor as root")


def _hook(system: str, hook: NamedHook) -> tuple[Mark, str, str]:
    """Return the state of one hook, and a remedy."""
    set_to, page = f"{hook.name}={hook.command}", f"docs/batch/{system}.md"
    program = program_of(hook.command)
    if hook.wanted:
        is_so = hook.command == hook.wanted
        return Mark.GOOD if is_so else Mark.WRONG, set_to, f"it has to be {hook.wanted}: {page}"
    if not hook.command:
        remedy = f"set it, so that jobs have features from their start: {page}"
        return Mark.NOTE, f"{hook.name} is not set", remedy
    if any(char in program for char in "*?["):
        return Mark.GOOD, set_to, ""
    if not hook.command.startswith(hook.begins):
        return Mark.WRONG, f"{set_to} does not run as root", f"put {hook.begins} before it"
    if program.startswith("/"):
        if not os.access(program, os.X_OK if hook.is_run else os.R_OK):
            return Mark.WRONG, f"{set_to} cannot be run on this node", f"install it, or correct this: {page}"
        if os.stat(program).st_mode & stat.S_IWOTH:
            return Mark.WRONG, f"{set_to}: others may write to it", f"chmod go-w {program}"
    try:
        is_ours = mentions_us(hook.command)
    except OSError as error:
        return Mark.NOTE, f"{set_to}: {error.strerror}", f"see that it calls our hook: {page}"
    if not is_ours:
        return Mark.NOTE, f"{set_to} does not mention jobfeatures", f"call our hook from it: {page}"
    return Mark.GOOD, set_to, ""


def _cluster(config: DaemonConfig) -> Iterator[Finding]:
    try:
        sources = make_cluster_sources(config, SystemClock())
    except ConfigurationError as error:
        yield _wrong("batch system", str(error), "install its commands here, or name it")
        return
    for source in sources:
        try:
            yield _good(f"{source.name} queue", counted(len(source.poll_queue().jobs), "job"))
        except SourceError as error:
            yield _failed(f"{source.name} queue", error)
        try:
            cluster = source.poll_cluster()
            words = f"{counted(len(cluster.nodes), 'node')}, {counted(len(cluster.partitions), 'partition')}"
            yield _good(f"{source.name} nodes", words)
        except SourceError as error:
            yield _failed(f"{source.name} nodes", error)


# --- this machine ----------------------------------------------------------


def _control_groups(config: DaemonConfig, seen: frozenset[JobKey]) -> Finding:
    what, jobs = "control groups", counted(len(seen), "job")
    try:
        found = find_hierarchies(config.path_cgroup)
    except OSError as error:
        words = f"{config.path_cgroup}: {error.strerror}"
        return _wrong(what, words, "path.cgroup is where they are mounted")
    if not found:
        words = f"none at {config.path_cgroup}: jobs are known by their processes alone"
        return _note(what, words, "mount cgroup2, or set path.cgroup")
    version = "v2" if found.keys() == {UNIFIED} else f"v1 ({', '.join(sorted(found))})"
    if not os.path.exists(f"{config.path_procfs}/pressure/cpu"):
        words = f"{version}, {jobs}; the kernel does not count pressure"
        return _note(what, words, "psi=1 on the kernel's command line")
    return _good(what, f"{version}, {jobs}")


def _tree(config: DaemonConfig, seen: frozenset[JobKey]) -> Iterator[Finding]:
    if not config.features_publish:
        yield _note("features", "are not published", "features.publish")
        return
    try:
        check_features_root(config)
    except ConfigurationError as error:
        yield _wrong("features", str(error), _see("It does not start"))
        return
    tree = FeatureTree(config.features_root)
    if not os.path.isdir(tree.machine_path):
        words = f"nothing is published at {tree.root}"
        yield _note("features", words, "start the daemon, or let a prolog run our hook")
        return
    try:
        published = tree.published().keys()
        faults = judge(Case(read_listing(tree.machine_path, Kind.MACHINE), time.time()))
        failures = tree.hook_failures() if os.path.isdir(f"{tree.root}/{FAILURES}") else {}
    except (CannotCheckError, JobfeaturesError, OSError) as error:
        yield _wrong("features", f"{tree.root}: {error}", "make it readable for root")
        return
    yield _good("features", f"{tree.root}: {counted(len(published), 'job')} published")
    for each in faults:
        if each.severity is Severity.ERROR:
            words = f"{tree.machine_path}: {each.key} {each.text}"
            yield _wrong("features", words, f"docs/check.md has the rule {each.rule}")
    for key in sorted(seen - set(published)):
        words = f"{key.batch_system} job {key.job_id} is here and has no directory"
        yield _wrong("features", words, "check that its prolog runs our hook, or that the daemon runs")
    for (action, reason), count in sorted(each for each in failures.items() if each[1]):
        words = f"{action} failed {counted(count, 'time')}: {reason}"
        full = f"make room: df {tree.root}; df -i {tree.root}"
        remedy = full if reason == "enospc" else "journalctl -t jobfeatures has the job and the reason"
        yield _wrong("hooks", words, remedy)


def _certificate(config: DaemonConfig) -> Iterator[Finding]:
    if config.web_config_file is None:
        return
    what = "certificate"
    try:
        tls = WebFile(config.web_config_file, quiet=True).options.tls
    except ConfigurationError as error:
        yield _wrong(what, str(error), _see("It does not start"))
        return
    if tls is None or not tls.certificate.path:
        yield _note(what, "not in a file of its own", "")
        return
    try:
        held = _decode(tls.certificate.path)
    except (ssl.SSLError, OSError) as error:
        yield _wrong(what, f"{tls.certificate.path}: {error}", "use a certificate in PEM")
        return
    left = ssl.cert_time_to_seconds(held["notAfter"]) - time.time()
    if left < SOON_SECS:
        words = f"{tls.certificate.path} {'ended' if left < 0 else 'ends'} {held['notAfter']}"
        yield (_wrong if left < 0 else _note)(what, words, "replace it: a new one is used at once")
    names = {value for kind, value in held.get("subjectAltName", ()) if kind in {"DNS", "IP Address"}}
    wanted = {socket.gethostname(), socket.getfqdn(), node_name(config, {})}
    if not names & wanted and not any(name.startswith("*.") or _is_own_address(name) for name in names):
        its = ", ".join(sorted(names)) or "no name"
        words = f"is for {its}, and this machine is {', '.join(sorted(wanted))}"
        yield _wrong(what, words, "use one with the names that /sd lists, which Prometheus connects to")
    elif left >= SOON_SECS:
        yield _good(what, f"{', '.join(sorted(names))}, until {held['notAfter']}")


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


def _clock() -> Finding:
    try:
        zeros = ctypes.create_string_buffer(TIMEX_BYTES)  # modes 0: change nothing
        state = ctypes.CDLL(None).adjtimex(zeros)
    except (OSError, AttributeError):
        return _note("clock", "unknown whether it is synchronised")
    if state == TIME_ERROR:
        return _note("clock", "not synchronised, according to the kernel", "run chrony or systemd-timesyncd")
    return _good("clock", "synchronised, according to the kernel")


def _listener(config: DaemonConfig) -> Finding:
    what = f"daemon at {config.web_listen_address}"
    host, _, port = config.web_listen_address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    try:
        with socket.create_connection((host, int(port)), timeout=2.0):
            pass
        if config.web_config_file is not None:
            return _good(what, "listens (with TLS or users: not queried)")
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        answer = Server(url, max_bytes=2**16).get("/-/ready", timeout_secs=5.0)
    except (OSError, JobfeaturesError) as error:
        unit = "jobfeatures-controller" if config.role == CONTROLLER else "jobfeatures-exporter"
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return _wrong(what, words, f"systemctl status {unit} says why it does not run")
    words = "; ".join(answer.body.decode("utf-8", "replace").split("\n")[:3]).strip("; ")
    if answer.status != 200:
        return _wrong(what, words, "the sources above say more")
    if is_loopback(host):
        words += "; only this machine can scrape it, unless web.listen_address says otherwise"
    return _good(what, words)
