"""Resolves the site's settings about machines and jobs for this machine.

For each value the most specific setting applies: a flag or a variable, the table of the job's partition, the
first table whose pattern matches the machine's CPU model, the plain setting of the file, the default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from jobfeatures.features import keys
from jobfeatures.features.job import Terms, compute_share
from jobfeatures.features.keys import MjfProfile
from jobfeatures.features.machine import Machine
from jobfeatures.features.origin import SETTINGS
from jobfeatures.publish.config import SiteSettings
from jobfeatures.publish.exports import FeatureAccess
from jobfeatures.publish.http.addresses import public_url
from jobfeatures.records.model import Job
from jobfeatures.settings.declare import NamedTable
from jobfeatures.settings.resolve import settings_of, value_of
from jobfeatures.system.privatefile import opened

CPUINFO = "/proc/cpuinfo"
CPU_FOLDER = "/sys/devices/system/cpu"
_MODEL = re.compile(r"^(?:model name|cpu model|cpu)[ \t]*:(.*)", re.MULTILINE | re.IGNORECASE)
_MACHINE_KEYS = (keys.TOTAL_CPU, keys.HS06, keys.HS23, keys.GRACE_SECS, keys.JOBSLOTS, keys.SHUTDOWN_COMMAND)


class Cores(NamedTuple):
    """The numbers of cores online. With hyper-threading, a physical core is several logical ones."""

    physical: int
    logical: int


def parse_cpu_model(text: str) -> str | None:
    """Return the first CPU model in /proc/cpuinfo: ``model name : AMD EPYC 7763 64-Core Processor``."""
    match = _MODEL.search(text)
    return (match[1].strip() or None) if match else None


def read_cpu_model(path: str = CPUINFO) -> str | None:
    """Return the CPU model, None if unknown.

    Only the start of the file is read, which saves the kernel from generating the rest.
    """
    try:
        with opened(path, os.O_RDONLY | os.O_CLOEXEC) as file:
            return parse_cpu_model(os.read(file, 4096).decode("utf-8", "replace"))
    except OSError:
        return None


def read_cores(folder: str = CPU_FOLDER) -> Cores | None:
    """Return the numbers of online cores, None if the system does not show them.

    Source: Linux, Documentation/ABI/stable/sysfs-devices-system-cpu: ``cpuN/topology/thread_siblings_list``
    lists the logical cores of N's physical core; offline ones have no such file.
    """
    cores: set[str] = set()
    logical = 0
    try:
        for name in os.listdir(folder):
            if name[:3] == "cpu" and name[3:].isdigit():
                try:
                    with open(f"{folder}/{name}/topology/thread_siblings_list", encoding="ascii") as file:
                        cores.add(file.read(4096).strip())
                except FileNotFoundError:
                    continue
                logical += 1
    except (OSError, UnicodeDecodeError):
        return None
    return Cores(len(cores), logical) if logical else None


class Site:
    """The site's settings, and the values that follow from them for this machine and its jobs."""

    def __init__(
        self, config: SiteSettings, *, cpu_model: str | None = None, cores: Cores | None = None
    ) -> None:
        """`cpu_model` and `cores` are read from the system if they are needed and not given."""
        self._config = config
        self._cpu_model = cpu_model
        self._cores = cores
        self._machine: tuple[int | None, Machine] | None = None  # with how many CPUs were online
        self._terms: dict[str | None, Terms] = {}
        self.profile = MjfProfile(config.features.profile)

    @property
    def machine(self) -> Machine:
        """Return the machine's features as the site states them, completed by what the system shows now."""
        online = os.cpu_count()
        if self._machine is None or self._machine[0] != online:
            self._machine = online, self._make_machine(online)
        return self._machine[1]

    def _make_machine(self, online: int | None) -> Machine:
        stated = {key.name: self._stated(SETTINGS[key.name]) for key in _MACHINE_KEYS}
        values = {name: value for name, (value, _) in stated.items()}
        origins = {name: origin for name, (_, origin) in stated.items() if origin}
        total = values.pop(keys.TOTAL_CPU.name)
        total_cpus = online if total is None else total
        for key in (keys.HS06, keys.HS23):
            rating, origin = self._stated(f"{SETTINGS[key.name]}_per_core")
            if values[key.name] is None and rating is not None:
                values[key.name] = compute_share(rating, 1, total_cpus)
                origins[key.name] = f"{origin} * total_cpu"
        given = self._cores if self._machine is None else None  # of the CPUs that were online then
        cores = None if self.profile is MjfProfile.OF_2016 else given or read_cores()
        return Machine(
            total_cpus=total_cpus,
            physical_cores=cores.physical if cores else None,
            logical_cores=cores.logical if cores else None,
            origins=origins,
            **values,  # whose keys have the names of their fields
        )

    def terms(self, job: Job) -> Terms:
        """Return what the site's settings state about a job, which may depend on its partition."""
        found = self._terms.get(job.partition)
        if found is None:
            found = self._terms[job.partition] = self._make_terms(job.partition)
            if len(self._terms) > 1000:  # real partitions are few, but foreign documents may name many
                self._terms.clear()
        return found

    def access(self, partition: str | None) -> FeatureAccess:
        """Return how jobs of a partition reach their features: by paths if there is no HTTP listener."""
        config, listen, url = self._config, self._config.served.listen_address, self._config.served.url
        if listen is None or (url is None and listen.endswith(":0")):  # only the daemon knows that port
            return FeatureAccess(binds=config.features.bind)
        form, _ = self._stated("features.form", partition)
        return FeatureAccess(public_url(listen) if url is None else url, form, config.features.bind)

    def _make_terms(self, partition: str | None) -> Terms:
        terms = (keys.GRACE_SECS_JOB, keys.CPUFACTOR_LRMS, keys.SCRATCH_LIMIT_BYTES)
        stated = {key.name: self._stated(SETTINGS[key.name], partition) for key in terms}
        origins = {name: origin for name, (_, origin) in stated.items() if origin}
        profile = MjfProfile(self._stated("features.profile", partition)[0])
        folder, size = self._config.machine.scratch_dir, None
        if folder is not None and profile is not MjfProfile.OF_2016:
            try:
                found = os.statvfs(folder)
                size = found.f_blocks * found.f_frsize
                origins[keys.DISK_LIMIT_GB.name] = f"size of machine.scratch_dir {folder}"
            except OSError:
                pass  # not there yet: tried again with the next settings
        return Terms(
            grace_secs=stated[keys.GRACE_SECS_JOB.name][0],
            cpu_factor=stated[keys.CPUFACTOR_LRMS.name][0],
            scratch_bytes_per_cpu=stated[keys.SCRATCH_LIMIT_BYTES.name][0],
            scratch_size_bytes=size,
            profile=profile,
            left_out=frozenset(self._stated("features.leave_out", partition)[0]),
            shutdown_by_limit=self._stated("features.shutdown_by_limit", partition)[0],
            origins=origins,
        )

    def _stated(self, key: str, partition: str | None = None) -> tuple[Any, str]:
        """Return a setting's value and origin; None and an empty string if it is not set."""
        setting = self._settings[key]
        plain = value_of(self._config, setting)
        origin = self._config.origins.get(key, "")
        if origin in (setting.flag, setting.variable):
            return plain, origin
        name = key.rpartition(".")[2]
        tables: list[NamedTable] = [each for each in self._config.partition if each.label == partition]
        if key != "job.grace_secs":  # in tables of CPU models, grace_secs is the machine's
            tables += self._model_tables
        for table in tables:
            if name in table.values:
                return table.values[name], f"{table.origin}.{name}"
        return plain, (origin or key) if plain is not None else ""

    @cached_property
    def _settings(self) -> Mapping[str, Any]:
        return {each.key: each for each in settings_of(SiteSettings)}

    @cached_property
    def _model_tables(self) -> tuple[NamedTable, ...]:
        if not self._config.cpu_model:
            return ()
        model = self._cpu_model or read_cpu_model()
        if model is None:
            return ()
        return tuple(each for each in self._config.cpu_model if re.fullmatch(each.label, model))
