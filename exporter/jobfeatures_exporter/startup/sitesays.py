"""Checks for `doctor`: whether jobs that a batch system reports are seen, and see their features."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.slurm.answers import Scontrol
from jobfeatures.batch.slurm.steps import list_jobs
from jobfeatures.errors import ParseError, SourceError, printable
from jobfeatures.records.model import JobKey, JobState, JobTable
from jobfeatures.records.nodelist import expand_nodes
from jobfeatures.system.privatefile import read_bounded
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.model.missing import DaemonGroups, Reason
from jobfeatures_exporter.model.snapshot import Snapshot
from jobfeatures_exporter.sampling.layout.hierarchies import Places
from jobfeatures_exporter.startup.findings import DoctorFinding, note, see, wrong
from jobfeatures_exporter.startup.hooksites import MAX_BYTES, parse_settings, run_query
from jobfeatures_exporter.state.daemongroups import HIDDEN, LOST, GroupReader, container_of, pattern_of
from jobfeatures_exporter.state.missinggroups import describe, find_missing, judge_jobs

STARTING_SECS = 60.0  # a job in its prolog has no processes yet
MAX_NAMED = 10  # groups that do not count: what may make one may make thousands
CONTROL_GROUPS = "docs/control-groups.md"
CONFIGLESS = "/run/slurm/conf"  # where slurmd keeps what slurmctld sends it
OF_TMPFS = ("/tmp", "/dev/shm")  # noqa: S108  # where Dirs is not set


class HiddenFolders(NamedTuple):
    """Folders of the node that jobs do not see because the batch system gives each job its own.

    `setting` is the batch system's setting that does this.
    """

    setting: str
    folders: tuple[str, ...]


def listed_jobs(system: str, config: ExporterConfig, node: str) -> frozenset[JobKey]:
    """Return the jobs that Slurm reports to be on the node `node`, for `doctor` to ask about.

    The list is needed only where the daemon queries Slurm by `scontrol`, since these queries are about jobs
    that the daemon has already seen. Otherwise the result is empty, since the daemon's queries return all
    jobs of the node in any case. `system` is the batch system, such as slurm. Raises SourceError if Slurm
    does not answer.
    """
    if system != "slurm" or config.shared.batch.slurm.ask not in {"auto", "scontrol"}:
        return frozenset()
    batch = config.shared.batch
    scontrol = Scontrol(batch.slurm.scontrol, timeout_secs=batch.common.timeout_secs)
    return frozenset(JobKey(system, each) for each in list_jobs(scontrol.programs, node))


def jobs_without_group(
    name: str, table: JobTable, snapshot: Snapshot, places: Places, groups: GroupReader
) -> Iterator[DoctorFinding]:
    """Yield findings on jobs that run here according to `table` but have no control group in `snapshot`.

    `name` is the jobs' batch system. `places` says which control groups are accepted as those of jobs.
    `groups` reads the groups of the batch system's daemon. Both serve to find out why, and the remedy.
    """
    before_secs = time.time() - STARTING_SECS
    running = {
        key: job
        for key, job in table.jobs.items()
        if job.state is JobState.RUNNING and (job.start_secs or 0) < before_secs
    }
    missing = find_missing(running, snapshot, [table])
    unseen = [key.job_id for key, why in missing.items() if why is None]
    judged, daemon = judge_jobs(name, unseen, snapshot, groups)
    missed = sorted(key.job_id for key, why in judged.items() if why is Reason.FOUND)
    others = sorted(key.job_id for key in missing if judged.get(key) is not Reason.FOUND)
    if missed:
        words = f"{_some(missed, running)}: no control group is found; {describe(daemon)}"
        yield wrong(f"{name} jobs", words, _remedy(daemon, places, groups))
    if others and SYSTEMS[name].has_groups:
        words = f"{_some(others, running)} have no control group, as is normal"
        remedy = "they have no step here, or the batch system makes no control groups: "
        yield note(f"{name} jobs", words, remedy + see("Jobs are missing, wrong, or shown twice"))


def _some(ids: Sequence[str], running: Collection[JobKey]) -> str:
    its = f"job {ids[0]}" + (f" and {len(ids) - 1} more" if ids[1:] else "")
    return f"{its} of {len(running)} running here"


def _remedy(daemon: DaemonGroups, places: Places, groups: GroupReader) -> str:
    """Return a remedy, such as a setting, by which the jobs' control groups would be found."""
    if daemon.group is None:
        return groups.why_unseen()
    if not daemon.group:
        return LOST
    parents = [each for each in daemon.parents if each not in places.parents]
    if container := container_of(daemon.group):  # other daemons' containers are not this node's to name
        parents = [each for each in parents if f"{each}/".startswith(f"{container}/")] or [container]
    if not parents:
        return f"set batch.cgroup_parents to the groups above those of jobs: {CONTROL_GROUPS}"
    values = ", ".join(f'"{pattern_of(each)}"' for each in parents)
    why = "; ".join(
        printable(f"below {each}: {places.refused[each]}") for each in parents if each in places.refused
    )
    return f"set batch.cgroup_parents = [{printable(values)}]" + (f" ({why})" if why else "")


def unseen_processes(config: ExporterConfig) -> Iterator[DoctorFinding]:
    """Yield a finding if processes, or the paths of their control groups, are hidden from the exporter."""
    if not os.path.exists(f"{config.path.procfs}/1"):
        yield wrong("processes", f"processes of other users are hidden in {config.path.procfs}", HIDDEN)
    elif GroupReader(config.path.procfs, config.path.cgroup).has_unknown_root():
        words = (
            f"the exporter's own is not below {config.path.cgroup}, and processes' paths are relative to it"
        )
        yield wrong("control groups", words, LOST)


def refused_places(places: Places) -> Iterator[DoctorFinding]:
    """Yield findings on control groups that look like those of jobs but are not accepted as such.

    The first few are named by path, the others counted in one finding.
    """
    for path, why in sorted(places.refused.items())[:MAX_NAMED]:
        words = printable(f"those below {path} look like those of jobs, but are ignored: {why}")
        remedy = f'if they are jobs\', set batch.cgroup_parents = ["{pattern_of(path)}"]: {CONTROL_GROUPS}'
        yield note("control groups", words, remedy)
    if (more := len(places.refused) - MAX_NAMED) > 0:
        yield note("control groups", f"{more} more of this kind are ignored", f"see {CONTROL_GROUPS}")


def hidden_features(system: str, config: ExporterConfig, node: str) -> Iterator[DoctorFinding]:
    """Yield a finding if jobs cannot see the folder of their features."""
    what = f"{system} jobs"
    try:
        hidden = _hidden_folders(system, config, node)
    except SourceError:
        return  # said of its hooks
    except (OSError, ParseError) as error:
        yield note(what, f"which folders jobs see is unknown: {error}", "run doctor as root")
        return
    if hidden is None or not config.features_publish:
        return
    root = f"{config.shared.batch.common.root}/"
    for folder in hidden.folders:
        if root.startswith(f"{folder}/"):
            words = (
                f"{hidden.setting} gives each job a {folder} of its own, in which it cannot find {root[:-1]}"
            )
            yield wrong(
                what, words, f"remove {folder} from that setting, or set features.root to another folder"
            )


def _hidden_folders(system: str, config: ExporterConfig, node: str) -> HiddenFolders | None:
    """Return what is hidden from jobs; None if nothing is. Raises SourceError, OSError, ParseError.

    Sources: job_container.conf(5), namespace.yaml(5); MOUNT_UNDER_SCRATCH of HTCondor's manual.
    """
    if system == "htcondor":
        command = (
            config.shared.batch.htcondor.condor_status.removesuffix("condor_status") + "condor_config_val"
        )
        text = run_query(system, command, "MOUNT_UNDER_SCRATCH", config=config, may_fail="Not defined")
        folders = _paths(text) if "Not defined" not in text else ()
        return HiddenFolders("MOUNT_UNDER_SCRATCH", folders) if folders else None
    if system != "slurm":
        return None
    text = run_query(system, config.shared.batch.slurm.scontrol, "show", "config", config=config)
    names = ("NamespaceType", "JobContainerType", "SLURM_CONF")
    found = {name: "".join(values[:1]) for name, values in parse_settings(text, names, "=").items()}
    kind = found["NamespaceType"] or found["JobContainerType"]
    if kind.partition("/")[2] not in {"tmpfs", "linux"}:
        return None
    name = "namespace.yaml" if kind.endswith("/linux") else "job_container.conf"
    return HiddenFolders(f"{kind} ({name})", _folders_of(name, _configuration(name, found), node))


def _configuration(name: str, found: Mapping[str, str]) -> str:
    places = [os.path.dirname(found["SLURM_CONF"] or "/etc/slurm/slurm.conf"), CONFIGLESS]
    path = next(
        (path for place in places if os.path.exists(path := f"{place}/{name}")), f"{places[0]}/{name}"
    )
    return read_bounded(os.path.realpath(path), MAX_BYTES)[0].decode("utf-8", "replace")


def _folders_of(name: str, text: str, node: str) -> tuple[str, ...]:
    """Return the hidden folders in the configuration file `name`; in namespace.yaml, those of any node."""
    text = re.sub(r"#.*", "", text)
    if name.endswith(".yaml"):
        found = re.findall(r"""(?m)\bdirs["']?\s*:([^\n:]*(?:\n\s*-[^\n:]*$)*)""", text)
        found += re.findall(r"""\bpath["']?\s*:([^\n,}]*)""", text)
    else:
        found = list(_of_lines(text, node))[-1:]
    return _paths(" ".join(found)) or OF_TMPFS


def _paths(text: str) -> tuple[str, ...]:
    return tuple(each.rstrip("/") for each in re.findall(r"/[^]\s,}\"']*", text))


def _of_lines(text: str, node: str) -> Iterator[str]:
    """Yield the value of Dirs in each line that applies to the node, the most specific last."""
    lines = [dict(re.findall(r"""(\w+)\s*=\s*("[^"]*"|\S+)""", line)) for line in text.splitlines()]
    lines = [{key.lower(): value.strip('"') for key, value in line.items()} for line in lines]
    for line in sorted(lines, key=lambda line: "nodename" in line):
        if "dirs" in line and ("nodename" not in line or node in expand_nodes(line["nodename"])):
            yield line["dirs"]
