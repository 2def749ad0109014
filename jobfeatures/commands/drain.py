"""`jobfeatures drain`: sets, cancels, shows and plans shutdowns of this node and of its jobs."""

from __future__ import annotations

import argparse
import json
import os
import pwd
from collections.abc import Mapping
from typing import NamedTuple

from jobfeatures.batch import SYSTEMS
from jobfeatures.client import Features, FeaturesError
from jobfeatures.commands.common import add_batch, read_config
from jobfeatures.config import Config
from jobfeatures.drains.drain import (
    OPERATOR,
    Announced,
    Drain,
    Drains,
    GraceError,
    check_grace,
    machine_shutdown,
    machine_shutdowns,
    parse_when,
)
from jobfeatures.drains.metricsource import add_source_flags
from jobfeatures.errors import ConfigurationError, JobfeaturesError, ParseError, shown
from jobfeatures.features import keys
from jobfeatures.features.job import job_shutdown
from jobfeatures.features.keys import MjfProfile
from jobfeatures.hooks.actions import read_record
from jobfeatures.publish.drainstore import DrainStore
from jobfeatures.publish.site import Site
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import Job, JobKey, fill_unknown
from jobfeatures.settings.flags import add_flags
from jobfeatures.settings.usage import complain
from jobfeatures.system.clock import SystemClock
from jobfeatures.system.exitstatus import DONE, TOO_LITTLE_KNOWN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `jobfeatures drain` to its parser."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    made = {
        name: actions.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False
        )
        for name, text in (
            ("set", "announce a shutdown of this node or of one job, or change its time"),
            ("cancel", "withdraw what was set"),
            ("expire", "remove this node's shutdown time if it has passed and the profile is that of 2014"),
            ("show", "print all shutdowns that are announced here, and by whom"),
            ("plan", "print what draining would waste by shutdown time, and the cheapest time"),
        )
    }
    for each in made.values():
        add_flags(each, Config)
    for name in ("set", "cancel"):
        made[name].add_argument("--job", metavar="ID", help="a job, instead of the whole node")
        add_batch(made[name], SYSTEMS, ", if ids are not unique")
    made["set"].add_argument(
        "--at",
        required=True,
        metavar="TIME",
        help="epoch seconds, +3600, +2h, or ISO 8601 (local, or a zone)",
    )
    made["set"].add_argument(
        "--force", action="store_true", help="accept a time in the past, or sooner than grace_secs promises"
    )
    made["plan"].add_argument(
        "--before", metavar="TIME", help="latest possible shutdown (default: the end of the last job)"
    )
    made["plan"].add_argument("--plot", metavar="FILE", help="also draw it: png, svg or pdf")
    add_source_flags(made["plan"])
    for name in ("show", "plan"):
        made[name].add_argument("--format", choices=("text", "json"), default="text", help="(default: text)")


def run(arguments: argparse.Namespace) -> int:
    """Run an action of `jobfeatures drain`. Exit status 1: refused or failed, 3: too little known to plan."""
    config = read_config(arguments)
    now_secs = SystemClock().now_secs()
    actions = {"set": _set, "cancel": _cancel, "expire": _expire, "show": _show, "plan": _plan}
    try:
        return actions[arguments.action](arguments, config, now_secs)
    except ConfigurationError:
        raise
    except GraceError as error:
        complain(f"refused: {error}; --force sets it anyway")
    except JobfeaturesError as error:
        complain(error)
    except OSError as error:
        hint = "; run as root" if isinstance(error, PermissionError) else ""
        complain(f"{os.path.join(config.batch.common.root, error.filename or '')}: {error.strerror}{hint}")
    return 1


def _set(arguments: argparse.Namespace, config: Config, now_secs: float) -> int:
    at_secs = _time(arguments.at, "--at", now_secs)
    tree, site = FeatureTree(config.batch.common.root), Site(config.site)
    key = _job_key(tree, arguments)
    if key is not None and keys.SHUTDOWNTIME_JOB.name in site.terms(_job(tree, key)).left_out:
        raise ConfigurationError(
            "--job", f"the setting features.leave_out excludes {keys.SHUTDOWNTIME_JOB.name}"
        )
    name, promised = _promise(tree, site, key)
    if not arguments.force:
        check_grace(at_secs, now_secs=now_secs, grace_secs=promised, key=name)
    drain = Drain(at_secs, int(now_secs), _who(os.environ))
    store = DrainStore(tree)
    drains = store.change(lambda old: old.with_drain(key, drain))
    _publish(tree, site, drains, store.read_announced(), key, now_secs)
    from jobfeatures.drains.plantext import format_span, format_time

    what = "this node" if key is None else f"job {key.job_id}"
    print(f"{what} shuts down at {format_time(at_secs)}, in {format_span(at_secs - now_secs)}")
    if promised is None:
        complain(f"{name} is not set, so jobs had not been promised any minimum notice")
    return 0


def _cancel(arguments: argparse.Namespace, config: Config, now_secs: float) -> int:
    tree, site = FeatureTree(config.batch.common.root), Site(config.site)
    store = DrainStore(tree)
    known = store.read()
    key = _job_key(tree, arguments, known)
    if (known.machine if key is None else known.jobs.get(key)) is None:
        complain("no shutdown is set for " + ("this node" if key is None else f"job {key.job_id}"))
        return 1
    drains = store.change(lambda old: old.with_drain(key, None))
    announced = store.read_announced()
    _publish(tree, site, drains, announced, key, now_secs)
    if key is None and announced.shutdowns:
        complain(f"{', '.join(announced.shutdowns)} announces a shutdown of its own, which stays")
    return 0


def _expire(_arguments: argparse.Namespace, config: Config, now_secs: float) -> int:
    tree = FeatureTree(config.batch.common.root)
    if os.path.lexists(f"{tree.machine_path}/{keys.SHUTDOWNTIME.name}"):
        store = DrainStore(tree)
        _publish(tree, Site(config.site), store.read(), store.read_announced(), None, now_secs)
    return 0


def _publish(
    tree: FeatureTree, site: Site, drains: Drains, announced: Announced, key: JobKey | None, now_secs: float
) -> None:
    """Publish the change at once; the daemon, which watches the store, would do the same later."""
    if key is not None:
        drain = drains.jobs.get(key)
        job = _job(tree, key)
        terms = site.terms(job)
        at_secs = job_shutdown(job, None if drain is None else drain.at_secs, terms)
        is_announced = at_secs is not None and keys.SHUTDOWNTIME_JOB.name not in terms.left_out
        value = str(at_secs) if is_announced else None
        try:
            tree.put_job_value(key, keys.SHUTDOWNTIME_JOB.name, value)
        except FileNotFoundError:
            if drain is not None:
                raise
        return
    at_secs = machine_shutdown(drains, announced)
    if site.profile is MjfProfile.OF_2014 and at_secs is not None and at_secs <= now_secs:
        at_secs = None  # "must be removed if the shutdowntime has arrived"
    tree.put_machine_value(keys.SHUTDOWNTIME.name, None if at_secs is None else str(at_secs))


def _promise(tree: FeatureTree, site: Site, key: JobKey | None) -> tuple[str, int | None]:
    """Return the key of the promised notice, and its seconds: the longer of the configured and published."""
    name = keys.GRACE_SECS.name if key is None else keys.GRACE_SECS_JOB.name
    terms = None if key is None else site.terms(_job(tree, key))
    configured = site.machine.grace_secs if terms is None else terms.grace_secs
    known = [] if configured is None else [configured]
    if terms is None or terms.profile is MjfProfile.OF_2016:  # else a job's directory is its user's
        area = "machine" if key is None else "job"
        try:
            reported = Features(tree.machine_path, None if key is None else tree.job_path(key)).get(
                area, name
            )
        except FeaturesError:
            reported = None
        if reported is not None and reported.isascii() and reported.isdigit() and len(reported) < 12:
            known.append(int(reported))
    return name, max(known, default=None)


def _job(tree: FeatureTree, key: JobKey) -> Job:
    """Return the job as the daemon, else its prolog, recorded it: limits may have changed since its start.

    Without a record of either, only its key.
    """
    paths = (tree.records_path, tree.known_path)
    records = [read_record(f"{path}/{key.directory_name}.json") for path in paths]
    found = sorted(filter(None, records), key=lambda record: record.reported_at_secs or 0.0)
    job = Job(key=key)
    for record in found:
        job = fill_unknown(record.job, job)
    return job


def _job_key(tree: FeatureTree, arguments: argparse.Namespace, known: Drains | None = None) -> JobKey | None:
    """Return the job that `--job` means: one that has a directory here, or a drain in `known`."""
    if arguments.job is None:
        if arguments.batch is not None:
            raise ConfigurationError("--batch", "can be used only with --job")
        return None
    candidates = {*tree.published(), *(known.jobs if known is not None else ())}
    found: list[JobKey] = sorted(
        key
        for key in candidates
        if key.is_called(arguments.job) and arguments.batch in (None, key.batch_system)
    )
    if not found:
        raise ParseError("nothing is published here for this job", source="--job", text=arguments.job)
    if len({key.batch_system for key in found}) < len(found):
        raise ConfigurationError("--job", f"fits several jobs: {', '.join(key.job_id for key in found)}")
    if len(found) > 1:
        raise ConfigurationError("--batch", f"must be one of {', '.join(key.batch_system for key in found)}")
    return found[0]


def _who(environ: Mapping[str, str]) -> str:
    """Return the name of the calling user; under sudo, of the user who ran it."""
    try:
        own = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        own = str(os.getuid())
    return environ.get("SUDO_USER") or own


class _Shutdown(NamedTuple):
    scope: str
    shutdown_secs: int
    source: str
    set_by: str | None = None
    set_at_secs: int | None = None


def _show(arguments: argparse.Namespace, config: Config, now_secs: float) -> int:
    from jobfeatures.drains.plantext import format_span, format_table, format_time

    store = DrainStore(FeatureTree(config.batch.common.root))
    drains, announced = store.read(), store.read_announced()
    found = []
    for source, at_secs in sorted(machine_shutdowns(drains, announced).items()):
        own = drains.machine if source == OPERATOR else None
        found.append(_Shutdown("node", at_secs, source, *((own.set_by, own.set_at_secs) if own else ())))
    for key, drain in sorted(drains.jobs.items()):
        job = f"{key.batch_system} {key.job_id}"
        found.append(_Shutdown(job, drain.at_secs, OPERATOR, drain.set_by, drain.set_at_secs))
    if arguments.format == "json":
        shutdowns = [each._asdict() for each in found]
        document = {"now_secs": now_secs, "shutdowns": shutdowns, "draining": dict(announced.draining)}
        print(json.dumps(document, indent=1))
        return 0
    rows = [
        (
            each.scope,
            format_time(each.shutdown_secs),
            format_span(each.shutdown_secs - now_secs),
            each.source,
            each.set_by or "",
            "" if each.set_at_secs is None else format_time(each.set_at_secs),
        )
        for each in found
    ]
    if rows:
        head = ("what", "shutdown at", "in", "source", "set by", "set at")
        print(format_table(head, rows, frozenset({0, 1, 3, 4, 5})), end="")
    for name, flag in sorted(announced.draining.items()):
        if flag:
            print(f"{name} drains this node")
    if not rows and not any(announced.draining.values()):
        print("no shutdown is announced")
    return 0


def _plan(arguments: argparse.Namespace, config: Config, now_secs: float) -> int:
    from jobfeatures.drains.metricsource import read_nodes
    from jobfeatures.drains.plan import order_nodes, plan_drain
    from jobfeatures.drains.plantext import format_order, format_plan, plans_document

    before = None if arguments.before is None else _time(arguments.before, "--before", now_secs) - now_secs
    earliest = float(Site(config.site).machine.grace_secs or 0)
    if before is not None and before < earliest:
        raise ConfigurationError(
            "--before", f"leaves {before:.0f} s, but jobs were promised {earliest:.0f} s"
        )
    nodes = read_nodes(arguments)
    plans = [(node, plan_drain(node, now_secs, earliest_secs=earliest, before_secs=before)) for node in nodes]
    for node, plan in plans:
        if plan is None:
            complain(f"{node.name}: left out, because batch_node_allocatable_cpus is missing")
    ordered = order_nodes([plan for _, plan in plans if plan is not None])
    if not ordered:
        complain("there is no node to make a plan for")
        return 1
    if arguments.format == "json":
        print(plans_document(ordered, now_secs=now_secs), end="")
    else:
        if arguments.prometheus is not None:
            print(format_order(ordered, now_secs=now_secs))
        print("\n".join(format_plan(plan, now_secs=now_secs) for plan in ordered), end="")
    if arguments.plot is not None:
        from jobfeatures.drains.plot import plot_plans

        plot_plans(ordered, nodes, arguments.plot)
    return DONE if any(plan.is_known for plan in ordered) else TOO_LITTLE_KNOWN


def _time(text: str, flag: str, now_secs: float) -> int:
    try:
        return parse_when(text, now_secs=now_secs)
    except ParseError as error:
        raise ConfigurationError(flag, f"{error.reason}, not {shown(error.text)}") from error
