"""No name of a person, an account, a job or a command is in anything that leaves, where they are hidden.

A context is filled with names that stand nowhere else, wherever a record has a
place for one; then all that can be made of it is made and searched.
"""

import dataclasses
import itertools
import json
import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.drains.drain import Drain
from jobfeatures.errors import ConfigurationError
from jobfeatures.formats.sonar import CURRENT, SEED
from jobfeatures.formats.sonar.envelopes import Origin, error_envelope
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures.formats.sonar.writejobs import job_fields
from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.records.administration import FairShare, Reservation, UserRequests
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures.records.schedulequality import UserQuality
from jobfeatures_exporter.cluster.overview import compute_cluster_view
from jobfeatures_exporter.families.exposition import render
from jobfeatures_exporter.model.snapshot import (
    CommandSample,
    FigureSource,
    JobSample,
    Kind,
    ProcessDetail,
    ProcessSample,
    Snapshot,
    UnitKey,
)
from jobfeatures_exporter.privacy.config import HASH, SHOWN, WITHHOLD, PrivacySettings
from jobfeatures_exporter.privacy.hiding import COMMAND, NO_PRIVACY, USER, Privacy, make_privacy
from jobfeatures_exporter.scrape.collectors import COLLECTORS, collect
from jobfeatures_exporter.scrape.pagetext import PageMaker
from jobfeatures_exporter.scrape.profiles import PROFILES
from jobfeatures_exporter.sonar.clusterdocuments import queue_records
from jobfeatures_exporter.sonar.config import SonarSettings
from jobfeatures_exporter.sonar.sample import SampleInput, sample_envelope
from jobfeatures_exporter.web.pages.controller import render_controller
from jobfeatures_exporter.web.pages.node import render_node

KEY = b"0123456789abcdef"
HIDING = [Privacy(HASH, KEY), Privacy(WITHHOLD)]
# Where records keep names, and what only says who somebody is.
NAMES = {
    Job: ("user", "account", "name", "reservation"),
    CommandSample: ("command",),
    ProcessSample: ("command",),
    Drain: ("set_by",),
    UserQuality: ("user",),
    UnitKey: ("name",),
    UserRequests: ("name",),
    FairShare: ("account", "user"),
    Reservation: ("name",),
}
UIDS = {Job: "uid", JobSample: "uid", ProcessDetail: "uid"}
TELLING = {"user", "users", "user_name", "username", "owner", "account", "command", "set_by", "uid", "email"}


class Names:
    """Names and numbers that stand nowhere else."""

    def __init__(self):
        self.count = itertools.count(1)
        self.given = []

    def within(self, text):
        """Return those that stand in a text, digits of other numbers left out: how long a look took, say."""
        found = [name for name in self.given if name in text]
        return [name for name in found if re.search(rf"(?<![\d.]){name}(?!\d)", text)]

    def name(self):
        self.given.append(f"Zoë{next(self.count):05d}x")
        return self.given[-1]

    def uid(self):
        self.given.append(str(7_770_000 + next(self.count)))
        return int(self.given[-1])


def filled(value, names):
    """Return a record with such names in all its parts."""
    if isinstance(value, Mapping):
        return {filled(key, names): filled(each, names) for key, each in value.items()}
    if isinstance(value, UnitKey):
        return value._replace(name=names.name())
    if type(value) is tuple:
        return tuple(filled(each, names) for each in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    parts = {
        each.name: filled(getattr(value, each.name), names) for each in dataclasses.fields(value) if each.init
    }
    for name in TELLING & parts.keys():
        known = (*NAMES.get(type(value), ()), UIDS.get(type(value)))
        is_name = isinstance(parts[name], str) or name == "uid"
        assert name in known or not is_name, f"{type(value)}.{name} has to be hidden and stand in this test"
    kept = "other" if isinstance(value, CommandSample) and value.command == "other" else None
    for name in NAMES.get(type(value), ()):
        parts[name] = kept or names.name()
    if type(value) in UIDS:
        parts[UIDS[type(value)]] = names.uid()
    if isinstance(value, JobSample):
        parts["cgroup"] = f"/slurm/uid_{names.uid()}/user@{names.uid()}.service/job_{value.key}"
    return dataclasses.replace(value, **parts)


@pytest.fixture
def names():
    return Names()


@pytest.fixture
def hostile(context, names):
    """A context with a job of each kind, and such names everywhere."""
    units = [UnitKey(kind, kind.value) for kind in (Kind.SERVICE, Kind.SESSION, Kind.CONTAINER)]
    samples = {
        key: JobSample(key=key, accounting=FigureSource.CGROUP, user_cpu_secs=1.5, processes=1, uid=1)
        for key in units
    }
    snapshot = context.snapshot
    jobs = {key: dataclasses.replace(each, key=key) for key, each in {**snapshot.jobs, **samples}.items()}
    snapshot = dataclasses.replace(snapshot, jobs=jobs, keys={**snapshot.keys, 321: units[1]})
    made = filled(dataclasses.replace(context, snapshot=snapshot), names)
    # A sample knows itself by the name that its job is kept under.
    jobs = {key: dataclasses.replace(each, key=key) for key, each in made.snapshot.jobs.items()}
    programs = {key: {f"/home/{names.name()}/x": 99.0} for key in jobs if isinstance(key, JobKey)}
    snapshot = dataclasses.replace(made.snapshot, jobs=jobs, programs=programs)
    return dataclasses.replace(made, snapshot=snapshot)


def everything_made_of(context):
    """Return all that a scrape, a page and a document may say."""
    maker = PageMaker(COLLECTORS, PROFILES, 0)
    small = PageMaker(COLLECTORS, PROFILES, 150)
    families = collect(context, COLLECTORS)
    tables = [each.table for each in context.sources if each.table is not None]
    views = [compute_cluster_view("slurm", table, None, now_secs=context.now_secs) for table in tables]
    return [
        maker.render(context, openmetrics=False).decode(),
        maker.render(context, openmetrics=True).decode(),
        small.render(context, openmetrics=True).decode(),
        render(families, openmetrics=True).decode(),
        render_node(context, families),
        render_controller(context, families, views),
    ]


@pytest.mark.parametrize("privacy", HIDING, ids=lambda each: each.mode)
def test_no_name_is_in_any_page(hostile, names, privacy):
    assert len(names.given) > 30
    for text in everything_made_of(privacy.context(hostile)):
        assert names.within(text) == []


def test_names_would_be_found_if_they_were_there(hostile, names):
    text = "".join(everything_made_of(NO_PRIVACY.context(hostile)))
    for kind in ("user", "account", "name", "command", "username"):
        assert any(f'{kind}="{name}"' in text for name in names.given), kind
    assert any(f'uid="{name}"' in text for name in names.given)
    assert any(f"uid_{name}/" in text for name in names.given)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("privacy", HIDING, ids=lambda each: each.mode)
def test_no_name_is_in_any_profile(hostile, names, privacy, profile):
    text = PageMaker((), [profile], 0).render(privacy.context(hostile), openmetrics=False).decode()
    assert names.within(text) == []


@pytest.mark.parametrize("privacy", HIDING, ids=lambda each: each.mode)
def test_what_is_wrong_with_drains_quotes_nobody(context, privacy):
    broken = dataclasses.replace(context.drains, problem="drains.json:jobs: not an object: {'set_by': 'zoe'}")
    context = dataclasses.replace(context, drains=broken)
    assert "zoe" in render_node(context, collect(context, COLLECTORS))
    hidden = privacy.context(context)
    page = render_node(hidden, collect(hidden, COLLECTORS))
    assert "zoe" not in page
    assert "problem" in page


@pytest.mark.parametrize("privacy", HIDING, ids=lambda each: each.mode)
def test_the_same_series_are_there_but_for_those_of_withheld_names(hostile, privacy):
    def counts(context):
        return {
            family.metric.name: len(family.samples)
            for family in collect(dataclasses.replace(context, kinds=frozenset({Kind.BATCH})), COLLECTORS)
            if not family.metric.name.startswith("batch_exporter_collector_")  # of those that were slow
        }

    before, after = counts(hostile), counts(privacy.context(hostile))
    differing = {name for name in before if before[name] != after[name]}
    named = (
        "batch_job_command",
        "batch_schedule_user",
        "batch_scheduler_user",
        "batch_fairshare",
        "batch_res",
    )
    by_name = {name for name in differing if name.startswith(named)}
    assert differing == (set() if privacy.mode == HASH else by_name)


def test_no_series_stands_twice_where_names_are_withheld(hostile):
    for family in collect(Privacy(WITHHOLD).context(hostile), COLLECTORS):
        texts = [text for text, _ in family.samples]
        assert len(texts) == len(set(texts)), family.metric.name


def test_withheld_commands_are_one(hostile):
    [commands] = Privacy(WITHHOLD).context(hostile).snapshot.commands.values()
    [before] = hostile.snapshot.commands.values()
    assert [each.command for each in commands] == ["other"]
    assert commands[0].cpu_secs == sum(each.cpu_secs for each in before)


def test_services_and_sessions_are_not_shown_where_names_are_withheld(hostile):
    assert Privacy(WITHHOLD).context(hostile).kinds == {Kind.BATCH, Kind.GROUP}
    assert Privacy(HASH, KEY).context(hostile).kinds == frozenset(Kind)


def test_nothing_is_copied_where_names_are_shown(context):
    assert NO_PRIVACY.context(context) is context


# --- documents in Sonar's format --------------------------------------------------------


def documents(context, names):
    details = {pid: ProcessDetail(uid=names.uid()) for pid in context.snapshot.processes}
    users = {each.uid: names.name() for each in list(details.values())[1:]}  # one has no name
    given = SampleInput(snapshot=context.snapshot, now_secs=context.now_secs, details=details, users=users)
    options = SonarSettings(exclude_system_jobs=False)
    for profile in (CURRENT, SEED):
        origin = Origin(cluster="hpc.example.org", node="n1", profile=profile)
        yield sample_envelope(origin, given, options, now_secs=context.now_secs)


@pytest.mark.parametrize("privacy", HIDING, ids=lambda each: each.mode)
def test_no_name_is_in_a_sample_and_it_keeps_to_the_format(hostile, names, privacy):
    for document in documents(hostile, names):
        hidden = privacy.document(document)
        profile = SEED if "attributes" not in document.get("data", {}) else CURRENT
        assert validate_envelope(hidden, profile=profile, strict=True) == []
        text = json.dumps(hidden, ensure_ascii=False)
        assert names.within(text) == []
        shown = json.dumps(document, ensure_ascii=False)
        assert any(name in shown for name in names.given)


@pytest.mark.parametrize("privacy", HIDING, ids=lambda each: each.mode)
def test_no_name_is_in_a_record_of_a_job(hostile, names, privacy):
    origin = Origin(cluster="hpc.example.org", node="n1", profile=CURRENT)
    [table] = [each.table for each in hostile.sources if each.table is not None]
    records = [
        *queue_records(table),
        JobRecord(
            batch_system="slurm",
            job_id=next(iter(table.jobs)).job_id,
            state=JobState.COMPLETED,
            name=names.name(),
            user=names.name(),
        ),
    ]
    records = [each for each in records if each.key.job_id.isdigit()]
    assert records
    text = json.dumps(privacy.document([job_fields(origin, each) for each in records]), ensure_ascii=False)
    assert names.within(text) == []


@pytest.mark.parametrize("profile", [CURRENT, SEED])
@pytest.mark.parametrize("privacy", HIDING, ids=lambda each: each.mode)
def test_what_went_wrong_quotes_nobody_in_a_document(privacy, profile):
    origin = Origin(cluster="hpc.example.org", node="n1", profile=profile)
    document = error_envelope(origin, "sacct: not a number: 'zoe'", 0)
    hidden = privacy.document(document)
    assert "zoe" not in json.dumps(hidden)
    assert validate_envelope(hidden, profile=profile, strict=True) == []
    assert NO_PRIVACY.document(document) == document


def test_empty_and_unknown_members_stay():
    privacy = HIDING[0]
    given = {"user": "_user_unknown", "cmd": "", "account": "a", "x": [{"user_name": "b"}, 1, None]}
    hidden = privacy.document(given)
    assert (hidden["user"], hidden["cmd"]) == ("_user_unknown", "")
    assert hidden["account"] == privacy.name("account", "a")
    assert hidden["x"][0]["user_name"] == privacy.name(USER, "b")


# --- the one function ---------------------------------------------------------------------


@given(st.text(min_size=1))
def test_a_hash_is_stable_readable_and_of_the_key(text):
    hashed = Privacy(HASH, KEY).name(USER, text)
    assert hashed == Privacy(HASH, KEY).name(USER, text)
    assert hashed != Privacy(HASH, KEY + b"x").name(USER, text)
    assert hashed != Privacy(HASH, KEY).name(COMMAND, text)
    kind, _, digits = hashed.partition("-")
    assert kind == USER
    assert len(digits) == 12
    assert set(digits) <= set("0123456789abcdef")


@given(st.text(), st.text())
def test_two_names_have_two_hashes(one, other):
    privacy = Privacy(HASH, KEY)
    assert (privacy.name(USER, one) == privacy.name(USER, other)) == (one == other)


@pytest.mark.parametrize("text", [None, ""])
@pytest.mark.parametrize("mode", [SHOWN, HASH, WITHHOLD])
def test_what_is_not_known_stays_unknown(mode, text):
    assert Privacy(mode, KEY).name(USER, text) == text


def test_what_is_no_unicode_has_a_hash_too():
    assert Privacy(HASH, KEY).name(USER, "\udcff").startswith("user-")


def test_the_key_is_never_shown():
    assert "012345" not in repr(Privacy(HASH, KEY))


# --- its settings ---------------------------------------------------------------------------


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "privacy.key"
    path.write_bytes(b"k" * 20 + b"\n")
    path.chmod(0o600)
    return path


def test_the_key_is_read_from_its_file(key_file):
    made = make_privacy(PrivacySettings(names="hash", key_file=str(key_file)))
    assert made == Privacy(HASH, b"k" * 20)
    assert make_privacy(PrivacySettings()).mode == SHOWN
    assert make_privacy(PrivacySettings(names="withhold")).mode == WITHHOLD


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_bytes(b"short"), "needs 16 bytes or more, not 5"),
        (lambda path: path.write_bytes(b"x" * 5000), "is longer than"),
        (lambda path: path.chmod(0o644), "only its owner may"),
        (lambda path: path.unlink(), "No such file"),
        (lambda path: (path.unlink(), path.mkdir()), "must be a regular file"),
    ],
)
def test_a_key_that_is_of_no_use_is_told_in_one_line(key_file, spoil, said):
    spoil(key_file)
    with pytest.raises(ConfigurationError, match=said) as caught:
        make_privacy(PrivacySettings(names="hash", key_file=str(key_file)))
    assert str(caught.value).startswith("privacy_key_file: ")
    assert "\n" not in str(caught.value)


def test_hashes_need_a_key():
    with pytest.raises(ConfigurationError, match="privacy: hash needs privacy_key_file"):
        make_privacy(PrivacySettings(names="hash"))


def test_a_snapshot_without_units_keeps_its_keys(context):
    snapshot: Snapshot = Privacy(HASH, KEY).context(context).snapshot
    assert snapshot.keys is context.snapshot.keys


def test_the_last_samples_of_jobs_that_have_gone_have_no_uid(context):
    snapshot = context.snapshot
    last = {key: dataclasses.replace(each, uid=1000) for key, each in snapshot.jobs.items()}
    gone = dataclasses.replace(snapshot, final=last)
    hidden = Privacy(WITHHOLD).context(dataclasses.replace(context, snapshot=gone)).snapshot
    assert {each.uid for each in hidden.final.values()} == {None}
