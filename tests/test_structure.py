"""The rules of the house: who may import whom, and what may touch the system."""

import functools
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from jobfeatures_exporter.config import ExporterConfig

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "jobfeatures": ROOT / "jobfeatures",
    "jobfeatures_exporter": ROOT / "exporter" / "jobfeatures_exporter",
}
IMPORT = re.compile(
    r"^[ \t]*(?:import +([\w., ]+)|from +(\.*[\w.]*) +import +(\([^)]*\)|[\w, ]+))", re.MULTILINE
)
DOTTED = re.compile(r"""(["'])((?:jobfeatures|jobfeatures_exporter)(?:\.[a-z_]+)+)\1""")

PURE = {
    "jobfeatures.errors",
    "jobfeatures.records.metrics",
    "jobfeatures.records.localtimes",
    "jobfeatures.records.model",
    "jobfeatures.joblogs.loggedjob",
    "jobfeatures.batch.controller.protocol",
    "jobfeatures.batch.slurm.bynode",
    "jobfeatures.batch.slurm.record",
    "jobfeatures.batch.lastjobs",
    "jobfeatures.batch.questions",
    "jobfeatures.batch.keyedrecord",
    "jobfeatures.batch.system",
    "jobfeatures.logkinds",
    "jobfeatures.joblogs.batches",
    "jobfeatures.joblogs.folding",
    "jobfeatures.joblogs.jobnumbers",
    "jobfeatures.system.loglimits",
    "jobfeatures.drains.drain",
    "jobfeatures.drains.plan",
    "jobfeatures.drains.plantext",
    "jobfeatures.drains.nodemetrics",
    "jobfeatures.drains.victims",
    "jobfeatures.batch.oar.answers",
    "jobfeatures.batch.oar.groups",
    "jobfeatures.batch.oar.basics",
    "jobfeatures.batch.oar.prolog",
    "jobfeatures.batch.pbs.accounting",
    "jobfeatures.batch.pbs.openpbs",
    "jobfeatures.batch.pbs.cluster",
    "jobfeatures.batch.pbs.jobs",
    "jobfeatures.batch.pbs.records",
    "jobfeatures.batch.pbs.values",
    "jobfeatures.batch.htcondor.accounting",
    "jobfeatures.batch.htcondor.evaluate",
    "jobfeatures.batch.htcondor.fields",
    "jobfeatures.batch.htcondor.jobad",
    "jobfeatures.batch.htcondor.machine",
    "jobfeatures.batch.slurm.gpus",
    "jobfeatures.batch.slurm.node",
    "jobfeatures.batch.slurm.queue",
    "jobfeatures.batch.slurm.fields",
    "jobfeatures.batch.slurm.cluster",
    "jobfeatures.batch.slurm.sacct.records",
    "jobfeatures.batch.lsf.answers",
    "jobfeatures.batch.lsf.basics",
    "jobfeatures.batch.lsf.hosts",
    "jobfeatures.batch.lsf.jobs",
    "jobfeatures.batch.lsf.limits",
    "jobfeatures.batch.lsf.prolog",
    "jobfeatures.batch.lsf.values",
    "jobfeatures.batch.lsf.accounting",
    "jobfeatures.batch.slurm.json.accounting",
    "jobfeatures.batch.slurm.json.cluster",
    "jobfeatures.batch.slurm.json.jobs",
    "jobfeatures.batch.slurm.json.source",
    "jobfeatures.batch.slurm.json.values",
    "jobfeatures.batch.gridengine.accounting",
    "jobfeatures.batch.gridengine.answers",
    "jobfeatures.batch.gridengine.basics",
    "jobfeatures.batch.gridengine.cluster",
    "jobfeatures.batch.gridengine.queue",
    "jobfeatures.batch.gridengine.record",
    "jobfeatures.records.quantities",
    "jobfeatures.records.series",
    "jobfeatures.system.exitstatus",
    "jobfeatures.check.consistency",
    "jobfeatures.check.forms",
    "jobfeatures.check.listing",
    "jobfeatures.check.rules",
    "jobfeatures.check.transport",
    "jobfeatures.features.keys",
    "jobfeatures.features.machine",
    "jobfeatures.features.job",
    "jobfeatures.formats.sonar.documents",
    "jobfeatures.formats.sonar.envelopes",
    "jobfeatures.formats.sonar.joblog",
    "jobfeatures.formats.swf.makejobs",
    "jobfeatures.formats.swf.firstpass",
    "jobfeatures.formats.swf.write",
    "jobfeatures.formats.sonar.writejobs",
    "jobfeatures.formats.joblines",
    "jobfeatures.formats.sonar.fields",
    "jobfeatures.formats.sonar.parsejobs",
    "jobfeatures.formats.sonar.reader",
    "jobfeatures.formats.sonar.validate",
    "jobfeatures.formats.sonar.values",
    "jobfeatures.formats.sss.amounts",
    "jobfeatures.formats.sss.awareness",
    "jobfeatures.formats.sss.requests.dependencies",
    "jobfeatures.formats.sss.requests.expressions",
    "jobfeatures.formats.sss.extensions",
    "jobfeatures.formats.sss.conformance",
    "jobfeatures.formats.sss.objects",
    "jobfeatures.formats.sss.inherit",
    "jobfeatures.batch.slurm.sacct.lines",
    "jobfeatures.batch.slurm.sacct.reader",
    "jobfeatures.batch.slurm.sacct.values",
    "jobfeatures.batch.slurm.json.log",
    "jobfeatures.formats.sss.job",
    "jobfeatures.formats.sss.requests.names",
    "jobfeatures.formats.sss.reader",
    "jobfeatures.formats.sss.records",
    "jobfeatures.formats.sss.properties",
    "jobfeatures.formats.sss.stream",
    "jobfeatures.formats.swf.bursts",
    "jobfeatures.formats.swf.check",
    "jobfeatures.formats.swf.fields",
    "jobfeatures.formats.swf.header",
    "jobfeatures.formats.swf.lines",
    "jobfeatures.formats.swf.records",
    "jobfeatures.analysis.schedule.choosing",
    "jobfeatures.analysis.schedule.document",
    "jobfeatures.analysis.schedule.eet",
    "jobfeatures.analysis.schedule.jobarrays",
    "jobfeatures.analysis.schedule.measures",
    "jobfeatures.analysis.schedule.pictures.heatmap",
    "jobfeatures.analysis.schedule.pictures.drawn",
    "jobfeatures.analysis.schedule.live.expectation",
    "jobfeatures.analysis.schedule.live.expecttext",
    "jobfeatures.analysis.schedule.live.facts",
    "jobfeatures.analysis.schedule.live.userhistory",
    "jobfeatures.analysis.schedule.live.ongoing",
    "jobfeatures.analysis.schedule.live.outlook",
    "jobfeatures.records.schedulequality",
    "jobfeatures.analysis.schedule.eligibility",
    "jobfeatures.analysis.schedule.partitions",
    "jobfeatures.analysis.schedule.result",
    "jobfeatures.analysis.schedule.shares",
    "jobfeatures.analysis.simulate.backfill",
    "jobfeatures.analysis.simulate.engine",
    "jobfeatures.analysis.simulate.arrivals",
    "jobfeatures.analysis.simulate.placing",
    "jobfeatures.analysis.simulate.policies",
    "jobfeatures.analysis.simulate.pools",
    "jobfeatures.analysis.simulate.swfschedule",
    "jobfeatures.analysis.simulate.workload",
    "jobfeatures.formats.sss.vocabulary",
    "jobfeatures.formats.sss.writerecords",
    "jobfeatures.hooks.request",
    "jobfeatures.publish.hookreasons",
    "jobfeatures.publish.http.addresses",
    "jobfeatures.system.basiccredentials",
    "jobfeatures.system.rates",
    "jobfeatures.jobs.evidence",
    "jobfeatures.publish.reconcile",
    "jobfeatures.jobs.jobrecords",
    "jobfeatures.status.jobstatus",
    "jobfeatures.status.waste",
    "jobfeatures_exporter.model.snapshot",
    "jobfeatures_exporter.model.measured",
    "jobfeatures_exporter.sampling.performance.events",
    "jobfeatures_exporter.scrape.collectors.work",
    "jobfeatures_exporter.sampling.power",
    "jobfeatures_exporter.cluster.sums",
    "jobfeatures_exporter.model.context",
    "jobfeatures_exporter.cluster.discovery",
    "jobfeatures_exporter.sampling.processes.accumulate",
    "jobfeatures_exporter.sampling.processes.attribution",
    "jobfeatures_exporter.sampling.layout.hierarchies",
    "jobfeatures.batch.htcondor.groups",
    "jobfeatures.batch.lsf.groups",
    "jobfeatures.batch.groups",
    "jobfeatures.batch.slurm.groups",
    "jobfeatures.formats.classad",
    "jobfeatures.formats.classad.ad",
    "jobfeatures.formats.classad.jsonform",
    "jobfeatures.formats.classad.longform",
    "jobfeatures_exporter.sampling.parsers.cgroupfiles",
    "jobfeatures_exporter.sampling.processes.bycommand",
    "jobfeatures_exporter.sampling.parsers.counterfiles",
    "jobfeatures_exporter.sampling.groups.endings",
    "jobfeatures_exporter.sampling.power.energy",
    "jobfeatures_exporter.sampling.groups.ledger",
    "jobfeatures_exporter.sampling.gpu.jobuse",
    "jobfeatures_exporter.sampling.gpu.fdinfo",
    "jobfeatures_exporter.sampling.gpu.meter",
    "jobfeatures_exporter.sampling.extrasamples",
    "jobfeatures_exporter.service.reload",
    "jobfeatures_exporter.state.cpurates",
    "jobfeatures_exporter.scrape.budget",
    "jobfeatures_exporter.scrape.profiles",
    "jobfeatures_exporter.scrape.profiles.ceems",
    "jobfeatures_exporter.scrape.profiles.common",
    "jobfeatures_exporter.scrape.profiles.jobstats",
    "jobfeatures_exporter.scrape.profiles.process_exporter",
    "jobfeatures_exporter.scrape.profiles.slurm_job_exporter",
    "jobfeatures_exporter.scrape.profiles.treydock",
    "jobfeatures_exporter.sonar.jobchanges",
    "jobfeatures_exporter.sonar.clusterdocuments",
    "jobfeatures_exporter.sonar.process",
    "jobfeatures_exporter.sonar.sample",
    "jobfeatures_exporter.sonar.sysinfo",
    "jobfeatures_exporter.state.retention",
    "jobfeatures_exporter.web.asked",
    "jobfeatures_exporter.ingest.books",
    "jobfeatures_exporter.ingest.foreign",
    "jobfeatures_exporter.ingest.parse",
    "jobfeatures_exporter.ingest.contents",
    "jobfeatures_exporter.scrape.collectors.allocation",
    "jobfeatures_exporter.scrape.collectors.controller.cluster",
    "jobfeatures_exporter.scrape.collectors.drains",
    "jobfeatures_exporter.scrape.collectors.gpus",
    "jobfeatures_exporter.scrape.collectors.energy",
    "jobfeatures_exporter.scrape.collectors.features",
    "jobfeatures_exporter.scrape.collectors.jobs",
    "jobfeatures_exporter.scrape.collectors.node",
    "jobfeatures_exporter.scrape.collectors.controller.queue",
    "jobfeatures_exporter.scrape.collectors.processes",
    "jobfeatures_exporter.scrape.collectors.steps",
    "jobfeatures_exporter.scrape.collectors.remaining",
    "jobfeatures_exporter.scrape.collectors.controller.schedule",
    "jobfeatures_exporter.scrape.collectors.own.sinks",
    "jobfeatures_exporter.scrape.collectors.own.sources",
    "jobfeatures_exporter.scrape.collectors.status",
    "jobfeatures_exporter.scrape.collectors.sysinfo",
    "jobfeatures_exporter.scrape.collectors.waste",
    "jobfeatures_exporter.cluster.overview",
    "jobfeatures_exporter.cluster.draincurves",
    "jobfeatures_exporter.web.pages.node",
    "jobfeatures_exporter.web.pages.course",
    "jobfeatures_exporter.web.pages.jobs",
    "jobfeatures_exporter.web.pages.job",
    "jobfeatures_exporter.web.pages.controller",
    "jobfeatures_exporter.web.pages.health",
    "jobfeatures_exporter.view.job",
    "jobfeatures_exporter.web.pages.layout",
    "jobfeatures_exporter.web.pages.markup",
    "jobfeatures_exporter.web.pages.plans",
    "jobfeatures_exporter.view.numbers",
    "jobfeatures_exporter.web.pages.pieces",
    "jobfeatures_exporter.web.pages.reports",
    "jobfeatures_exporter.view.units",
    "jobfeatures_exporter.scrape.collectors.own.web",
    "jobfeatures.records.cells",
    "jobfeatures_exporter.jobreport",
    "jobfeatures_exporter.jobreport.asking",
    "jobfeatures_exporter.jobreport.asjson",
    "jobfeatures_exporter.view.use",
    "jobfeatures_exporter.jobreport.selecting",
    "jobfeatures_exporter.jobreport.gathering",
    "jobfeatures_exporter.view.judge",
    "jobfeatures_exporter.jobreport.queries",
    "jobfeatures_exporter.jobreport.text",
    "jobfeatures_exporter.view.node",
    "jobfeatures_exporter.view.sources",
    "jobfeatures_exporter.top.table",
    "jobfeatures_exporter.view.processes",
    "jobfeatures_exporter.view.waste",
    "jobfeatures_exporter.privacy.hiding",
    "jobfeatures_exporter.web.hosts",
    "jobfeatures_exporter.web.configfile.options",
    "jobfeatures_exporter.web.configfile.yamlfile",
    "jobfeatures_exporter.model.statuses",
    "jobfeatures_exporter.web.pages.chart",
}
IMPURE_IMPORTS = {
    "os", "io", "time", "socket", "subprocess", "threading", "pathlib", "shutil", "tempfile", "select", "signal",
    "fcntl", "pwd", "psutil", "watchdog", "aiohttp", "asyncio", "urllib.request", "random", "secrets",
}  # fmt: skip

ONLY_IN = {
    "subprocess": {"jobfeatures.system.command", "jobfeatures.client"},
    "aiohttp": {
        "jobfeatures_exporter.web",
        "jobfeatures_exporter.ingest.listener",
        "jobfeatures_exporter.startup.receiver",
        "jobfeatures.publish.http",
    },
    "prometheus_client": {  # the page has a renderer of its own
        "jobfeatures_exporter.registry",
        "jobfeatures_exporter.commands.textfile",
    },
    "watchdog": {"jobfeatures.system.watch"},
    "ClusterShell": {"jobfeatures.records.nodelist"},
    "matplotlib": {"jobfeatures.drains.plot", "jobfeatures.analysis.schedule.pictures"},
    "pynvml": set(),  # loaded by name, where its driver is
    "pyrsmi": set(),
    "amdsmi": set(),  # prints and raises at import without hardware
    "confluent_kafka": {"jobfeatures_exporter.sinks.kafka"},
    "psutil": {"jobfeatures_exporter.top.pages"},
    "tqdm": {"jobfeatures.system.progress"},
    "rich": {"jobfeatures_exporter.top.app"},
    "textual": {"jobfeatures_exporter.top.app"},
    "pyte": set(),  # of tests
    "numpy": {
        "jobfeatures.formats.swf.columns",
        "jobfeatures.analysis.schedule",
        "jobfeatures.analysis.simulate",
    },
    "defusedxml": {
        "jobfeatures.formats.sss.xml",
        "jobfeatures.batch.gridengine.answers",
    },
    "re2": {"jobfeatures.formats.sss.requests.names"},
    "isal": {"jobfeatures_exporter.web.answers"},
    "lxml": set(),  # of tests
    "yaml": {"jobfeatures_exporter.web.configfile.yamlfile"},
    "bcrypt": {"jobfeatures_exporter.web.configfile.basicauth"},
    "cryptography": set(),  # of tests
}

SIBLINGS = {
    "jobfeatures.batch": {
        f"jobfeatures.batch.{name}"
        for name in (
            "basics",
            "controller",
            "groups",
            "keyedrecord",
            "processes",
            "programs",
            "lastjobs",
            "questions",
            "settings",
            "source",
            "system",
            "waiting",
        )
    },
    "jobfeatures.commands": {f"jobfeatures.commands.{name}" for name in ("common", "hook", "logarguments")},
    "jobfeatures.formats": set(),
    "jobfeatures_exporter.sinks": {
        f"jobfeatures_exporter.sinks.{name}" for name in ("config", "keeper", "message", "spool")
    },
    "jobfeatures_exporter.commands": {"jobfeatures_exporter.commands.common"},
    "jobfeatures_exporter.scrape.collectors": set(),
    "jobfeatures_exporter.scrape.profiles": {"jobfeatures_exporter.scrape.profiles.common"},
}


def name_of(path: Path) -> str:
    place = next(each.parent for each in PACKAGES.values() if path.is_relative_to(each))
    parts = path.relative_to(place).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def found() -> dict[str, tuple[set[str], set[str]]]:
    """Return, by module, what it imports, and the dotted names in its strings."""
    texts = {path: path.read_text() for package in PACKAGES.values() for path in package.rglob("*.py")}
    return {name_of(path): (imports_of(text, path), dotted_in(text)) for path, text in texts.items()}


def imports_of(text: str, path: Path) -> set[str]:
    """Return what a file imports, and what an example in its docstring does: to parse all takes as long as 2,000 tests."""
    names = set()
    for plain, module, parts in IMPORT.findall(text):
        names.update(each.split()[0] for each in plain.split(",") if each.strip())
        if module:
            assert not module.startswith("."), f"{path}: relative import"
            names.add(module)
            listed = re.sub(r"#.*", "", parts).strip("()").split(",")
            names.update(f"{module}.{each.split()[0]}" for each in listed if each.strip())
    return names


def dotted_in(text: str) -> set[str]:
    return {match[2] for match in DOTTED.finditer(text)}


@functools.cache
def modules() -> dict[str, set[str]]:
    """Return what each module imports."""
    return {name: imports for name, (imports, _) in found().items()}


@functools.cache
def named() -> dict[str, set[str]]:
    """Return what each module imports, now or by a dotted name in a string."""
    return {name: imports | dotted for name, (imports, dotted) in found().items()}


def is_within(name: str, place: str) -> bool:
    return name == place or name.startswith(place + ".")


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("jobfeatures", "jobfeatures_exporter"),
        ("jobfeatures.formats", "jobfeatures.batch"),
        ("jobfeatures.batch", "jobfeatures.publish"),
    ],
)
def test_nothing_below_imports_what_stands_above(low, high):
    guilty = [
        name
        for name, each_named in named().items()
        if is_within(name, low) and any(is_within(each, high) for each in each_named)
    ]
    assert guilty == []


def rings(place: str, arrows: dict[str, set[str]]) -> list[str]:
    """Return the rings, of any length, of the rooms and loose modules that stand directly in a room."""
    depth = place.count(".") + 2

    def room(name: str) -> str:
        return ".".join(name.split(".")[:depth])

    inside = {name for name in arrows if name.startswith(place + ".")}
    reached: dict[str, set[str]] = {room(name): set() for name in inside}
    for name in inside:
        reached[room(name)] |= {room(other) for other in arrows[name] & inside} - {room(name)}
    for middle, beyond in reached.items():  # Warshall's closure
        for others in reached.values():
            if middle in others:
                others.update(beyond)
    found = {one: sorted(each for each in others if one in reached[each]) for one, others in reached.items()}
    return sorted({" ⇄ ".join(ring) for ring in found.values() if ring})


def arrows() -> dict[str, set[str]]:
    """Return the modules that each imports, or names in a string; a module for a name that it defines."""
    return {
        name: {found for each in each_named if (found := _module_of(each)) and found != name}
        for name, each_named in named().items()
    }


def _module_of(name: str) -> str:
    return name if name in modules() or not name else _module_of(name.rpartition(".")[0])


def test_no_rooms_stand_in_a_ring():
    """At any level, loose modules included, and however long: whoever reads a room needs only those below."""
    known = arrows()
    places = {name.rpartition(".")[0] for name in known} - {""}
    assert {place: found for place in sorted(places) if (found := rings(place, known))} == {}


def test_a_ring_is_found_at_its_length_with_the_loose_modules_in_it():
    known = {"p.a.x": {"p.b"}, "p.b": {"p.c.y"}, "p.c.y": {"p.a.z"}, "p.a.z": set(), "p.d": {"p.b"}}
    assert rings("p", known) == ["p.a ⇄ p.b ⇄ p.c"]
    assert rings("p.a", known) == []


FLOORS = {"commands", "controller", "demo", "node", "registry", "service", "startup", "top"}


@pytest.mark.parametrize(
    ("whole", "floors"),
    [
        ("jobfeatures.config.Config", {f"jobfeatures.{each}" for each in ("commands", "hooks")}),
        ("jobfeatures_exporter.config.ExporterConfig", {f"jobfeatures_exporter.{each}" for each in FLOORS}),
    ],
)
def test_only_the_top_floors_take_all_settings(whole, floors):
    """Other rooms declare a record of their own settings, and take that."""
    takers = {".".join(name.split(".")[:2]) for name, imports in modules().items() if whole in imports}
    assert takers - {"jobfeatures_exporter.config"} == floors


def records_in(whole):
    yield whole
    for each in fields(whole):
        if "record" in each.metadata:
            yield from records_in(each.metadata["record"][0])


def test_records_of_settings_are_frozen_and_none_is_based_on_another():
    """A whole has them as fields: which settings a room knows is seen from what it is given."""
    records = [*records_in(ExporterConfig)]
    assert len(records) > 25
    assert {each.__bases__ for each in records} == {(object,)}
    assert all(each.__dataclass_params__.frozen for each in records)


def test_the_lists_name_modules_that_there_are():
    assert {*PURE, *SIBLINGS, *set().union(*SIBLINGS.values(), *ONLY_IN.values())} - modules().keys() == set()


def test_pure_modules_touch_nothing():
    touched = {name: modules().get(name, set()) & IMPURE_IMPORTS for name in sorted(PURE)}
    assert {name: names for name, names in touched.items() if names} == {}


def test_imports_are_found_wherever_they_stand():
    text = """try:
    import a, m as n
except E:
    from b import c as d
def f():
  if x:
    from g import (
        h,  # , like this
        i as j,
    )
  else:
    import d.e  # important
"""
    assert imports_of(text, ROOT) == {"a", "b", "b.c", "d.e", "g", "g.h", "g.i", "m"}
    with pytest.raises(AssertionError, match="relative import"):
        imports_of("from . import a", ROOT)
    assert dotted_in(
        "find('jobfeatures_exporter.web') and \"jobfeatures.batch.x\"; 'exporter.cannot be'"
    ) == {
        "jobfeatures_exporter.web",
        "jobfeatures.batch.x",
    }


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_is_used_in_its_own_place_only(library):
    guilty = [
        name
        for name, imports in modules().items()
        if any(is_within(each, library) for each in imports)
        and not any(is_within(name, place) for place in ONLY_IN[library])
    ]
    assert guilty == []


def test_of_the_web_server_only_its_public_modules_are_used():
    used = {each for imports in modules().values() for each in imports if is_within(each, "aiohttp")}
    modules_used = {each.split(".")[1] for each in used if "." in each}
    assert {each for each in modules_used if each.islower()} == {"web"}


@pytest.mark.parametrize("family", SIBLINGS)
def test_siblings_never_import_each_other(family):
    shared = SIBLINGS[family] | {family}
    members = {
        name
        for name in modules()
        if name.startswith(family + ".") and not any(is_within(name, each) for each in SIBLINGS[family])
    } - shared
    rooms = {name: ".".join(name.split(".")[: family.count(".") + 2]) for name in members}
    guilty = [
        (name, other) for name in members for other in named()[name] & members if rooms[name] != rooms[other]
    ]
    assert guilty == []


def test_there_are_no_import_cycles():
    graph = {
        name: {each for each in imports if each in modules() and each != name}
        for name, imports in modules().items()
    }
    done, path = set(), []

    def visit(name):
        assert name not in path, " → ".join([*path[path.index(name) :], name])
        if name in done:
            return
        path.append(name)
        for other in sorted(graph[name]):
            visit(other)
        path.pop()
        done.add(name)

    for name in sorted(graph):
        visit(name)


def test_the_files_beside_the_code_are_in_the_package_as_it_is_installed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for package, folder in (("jobfeatures", ROOT), ("jobfeatures_exporter", ROOT / "exporter")):
        found = {path for pattern in listed[package] for path in (folder / package).glob(pattern)}
        files = {path for path in (folder / package).rglob("*.*") if path.is_file()}
        beside = {path for path in files if path.suffix != ".py" and path.parent.name != "__pycache__"}
        assert beside <= found


@pytest.mark.program
def test_a_hook_imports_nothing_heavy():
    """A prolog starts the command once a job: each of these costs as much as the whole of its work."""
    heavy = {
        "asyncio",
        "xml",
        "xml.etree",
        "ClusterShell",
        "watchdog",
        "psutil",
        "aiohttp",
        "prometheus_client",
        "tomllib",
        "urllib.request",
        "matplotlib",
        "email",
        "http",
        "jobfeatures.drains.drain",
        "subprocess",
        "socket",
        "selectors",
        "random",
        "datetime",
        "decimal",
        "shutil",
        "urllib",
        "jobfeatures.batch.source",
    }
    code = """
import contextlib, sys, jobfeatures.cli, jobfeatures.commands.publish
from jobfeatures.batch import SYSTEMS

for each in SYSTEMS.values():  # what a method needs is imported when it is called; for want of a job it fails then
    for ask in (
        lambda: each.job_from_prolog({each.job_variable: "1"}, node_name=None, note=print),
        lambda: each.ask_in_prolog(None, None, node_name="", timeout_secs=0.0),
        lambda: each.needs_server(None, None),
    ):
        with contextlib.suppress(Exception):
            ask()
jobfeatures.cli.build_parser("publish", in_haste=True)
print(*sys.modules)
"""
    output = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    found = set(output.stdout.split())
    assert heavy & found == set()
    assert {f"jobfeatures.batch.{name}" for name in ("slurm.site", "pbs.torque", "lsf.prolog")} <= found


def test_only_commands_and_the_controller_role_import_what_judges_logs():
    guilty = {
        name
        for name, each_named in named().items()
        if any(is_within(each, "jobfeatures.analysis") for each in each_named)
        and not any(
            is_within(name, place)
            for place in ("jobfeatures.analysis", "jobfeatures.commands", "jobfeatures_exporter.controller")
        )
    }
    assert guilty == set()


def test_what_the_mutants_are_of_and_judged_by_is_there():
    """A path that is missing there ends the whole step, which runs before releases only."""
    named = re.findall(
        r'"((?:tests|jobfeatures|jobfeatures_exporter)/[\w/.*]+)"', (ROOT / ".ci/mutants").read_text()
    )
    assert len(named) > 20
    assert [each for each in named if not [*ROOT.glob(each), *ROOT.glob(f"exporter/{each}")]] == []
