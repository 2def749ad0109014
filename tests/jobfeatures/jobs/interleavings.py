"""A node, its controller, its hooks and its daemon in random order; and what has to be true of it, each apart.

The daemon's parts are the real ones (sources, roster, publisher, tree), the
controller, the control groups and the clock are played. What is checked knows
nothing of evidence: it looks at runs as they are, and at what lies on the disk.
"""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass, field

from jobfeatures.batch.slurm.answers import Answers
from jobfeatures.batch.slurm.source import SlurmSource
from jobfeatures.errors import SourceError
from jobfeatures.hooks.actions import find_objection
from jobfeatures.jobs.evidence import START_SECS, Group
from jobfeatures.jobs.jobrecords import format_record
from jobfeatures.jobs.roster import Roster
from jobfeatures.publish.config import SiteSettings
from jobfeatures.publish.hooksource import HookSource
from jobfeatures.publish.publisher import Publisher
from jobfeatures.publish.site import Site
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.publish.writing import write_job
from jobfeatures.records.model import Job, JobKey, JobState, Limits, fill_unknown
from tests.configured import configured

IDS = ("1", "2")
HOLD_SECS = 3600.0
USERS = {"alice": 6001, "bob": 6002}


@dataclass
class Run:
    """One run of a job, as it is."""

    number: int
    job_id: str
    user: str
    restarts: int
    submit_secs: int
    start_secs: int
    limits_secs: list[int]  # the latest last
    epilog_ran: bool = False
    is_over: bool = False
    processes: int = 0
    prolog_secs: float | None = None  # when it had written something
    recorded_secs: float = 0.0  # when that was told
    hook: list = field(default_factory=list)  # what its prolog still has to do
    keys: set = field(default_factory=set)  # that were seen in its directory
    end_reported_secs: float | None = None  # since when answers have been telling something else
    was_replaced: bool = False  # by a directory that another run was given, after the hold
    was_contradicted: bool = False  # by a wrong answer, when no prolog vouched for it
    before: Run | None = None  # under this id

    @property
    def key(self):
        return JobKey("slurm", self.job_id)

    def own_limits(self):
        """Return the limits that may be shown until the controller is heard: also those of runs before.

        Where one was the same user's with the same count, nothing tells the
        two apart but an epilog, which nobody may have noticed: Slurm 22.05
        tells a prolog no start. `settle` demands the right one.
        """
        found, run = list(self.limits_secs), self.before
        while run is not None:
            if (run.user, run.restarts) == (self.user, self.restarts):
                found += run.limits_secs
            run = run.before
        return found


def has_no_epilog(run):
    """Return whether the run, or one before it, left what its prolog had made."""
    while run is not None:
        if run.prolog_secs is not None and not run.epilog_ran:
            return True
        run = run.before
    return False


def looks_earlier(run):
    """Return whether answers about the run, which has no prolog, seem to be late ones.

    They do beside the prolog of the same user's run with a higher count, which no epilog has withdrawn.
    """
    before = run.before
    while before is not None and before.prolog_secs is None and not before.epilog_ran:
        before = before.before
    if run.prolog_secs is not None or before is None or before.epilog_ran:
        return False
    return before.user == run.user and before.restarts > run.restarts


class World:
    """Everything; `step` does one thing by chance."""

    def __init__(self, seed: int, root: str) -> None:
        self.random = random.Random(seed)
        self.log: list[str] = []
        self.now = 1_800_000_000.0
        self.skew = self.random.choice((-300, 0, 300))  # the controller's clock before ours
        shutil.rmtree(root, ignore_errors=True)
        self.tree = FeatureTree(root)
        self.site = Site(configured(SiteSettings, machine_total_cpu=4))
        self.runs: dict[str, Run] = {}  # the latest of each id
        self.controller: dict[str, Job] = {}
        self.mood = "whole"
        self.number = 0
        self.tokens: dict[str, tuple[Run, str]] = {}
        self.start_daemon()

    # --- clocks -------------------------------------------------------------------

    def now_secs(self):
        return self.now

    def monotonic_secs(self):
        return self.now

    # --- the daemon -----------------------------------------------------------------

    def start_daemon(self):
        self.publisher = Publisher(self.tree, self.site, self)
        self.tree.prepare()
        self.roster = Roster()
        self.roster.remember(self.publisher.remembered())
        self.slurm = SlurmSource(self, self.ask, node_name="n1")
        self.hooks = HookSource(self.tree.records_path, self)
        self.tables: dict[str, object] = {}
        self.late: list = []
        self.roll = None
        self.sample()  # the controller is asked only after the first look

    def sample(self):
        self.groups = {run.key: Group(uid=USERS[run.user]) for run in self.runs.values() if run.processes}

    def poll_hooks(self):
        self.tables["hooks"] = self.hooks.poll_jobs(())

    def poll(self, mood="whole", late=False):
        self.mood = mood
        seen = [key for key in self.groups if key not in self.roster.suspects]
        asked_secs = self.now
        try:
            table = self.slurm.poll_jobs(seen, self.tree.published().keys())
        except SourceError:
            return
        if mood in ("invalid", "elsewhere"):
            for run in self.runs.values():
                if run.end_reported_secs is None:
                    run.end_reported_secs = asked_secs
                if run.prolog_secs is None:
                    run.was_contradicted = True
        if late:
            self.late.append(table)
        else:
            self.tables["slurm"] = table

    def deliver(self):
        """Bring an answer that was on its way. A keeper has one question under way: none is overtaken."""
        if self.late:
            table, last = self.late.pop(), self.tables.get("slurm")
            self.late.clear()
            if last is None or table.taken_at_secs > last.taken_at_secs:
                self.tables["slurm"] = table

    def judge(self):
        self.roll = self.roster.judge(
            list(self.tables.values()),
            now_secs=self.now,
            groups=self.groups,
            published=self.tree.published(),
            sources={"slurm"},
        )

    def publish(self):
        if self.roll is not None:
            self.publisher.update(self.roll)
            self.roster.note_epilogs(self.publisher.take_withdrawn())

    # --- the controller ---------------------------------------------------------------

    def ask(self, job_ids, *, known, about_node, now_secs):
        """Stand for scontrol."""
        jobs, gone = {}, set()
        if self.mood == "down":
            raise SourceError("no controller")
        for job_id in job_ids:
            if self.mood == "half" and self.random.random() < 0.5:
                continue
            if self.mood == "invalid":
                gone.add(job_id)
            elif self.mood == "elsewhere":
                if self.random.random() < 0.5:
                    gone.add(job_id)
                else:
                    states = (JobState.RUNNING, JobState.COMPLETED, JobState.PENDING)
                    jobs[job_id] = Job(
                        key=JobKey("slurm", job_id), user="eve", uid=6666, state=self.random.choice(states)
                    )
            elif job_id in self.controller:
                jobs[job_id] = self.controller[job_id]
            else:
                gone.add(job_id)
        complete = len(jobs) + len(gone) == len(job_ids)
        answers = Answers(jobs=jobs, gone=frozenset(gone), rejected={}, ask_alone={}, complete=complete)
        return answers, None

    def told(self, run, state=JobState.RUNNING, **changes):
        self.controller[run.job_id] = Job(
            key=run.key,
            state=state,
            user=run.user,
            uid=USERS[run.user],
            restarts=run.restarts,
            submit_secs=run.submit_secs,
            start_secs=run.start_secs if state is not JobState.PENDING else None,
            allocated_cpus=1,
            limits=Limits(wall_secs=run.limits_secs[-1], memory_bytes=2**30),
            **changes,
        )

    # --- runs and hooks -----------------------------------------------------------------

    def start(self, job_id):
        last = self.runs.get(job_id)
        waits = self.controller.get(job_id)
        is_requeued = waits is not None and waits.state is JobState.PENDING
        self.number += 1
        clock = int(self.now + self.skew)
        run = Run(
            self.number,
            job_id,
            user=last.user if is_requeued else self.random.choice(list(USERS)),
            restarts=last.restarts + 1 if is_requeued else 0,
            submit_secs=last.submit_secs if is_requeued else clock - 1,
            start_secs=clock,
            limits_secs=[1000 * self.number],
            before=last,
        )
        self.runs[job_id] = run
        self.told(run)
        has_hook = self.random.random() < 0.85
        run.hook = ["first", "ask", "second"] if has_hook else ["no hook"]
        if self.random.random() < 0.2:
            run.hook = run.hook[:1]  # killed while it asks
        self.log.append(f"  run {run.number} of {job_id}, {run.user}, restart {run.restarts}, {run.hook}")

    def advance_hook(self, run):
        step = run.hook.pop(0)
        env = Job(
            key=run.key,
            state=JobState.RUNNING,
            user=run.user,
            uid=USERS[run.user],
            restarts=run.restarts,
            allocated_cpus=1,
        )
        if step == "first":
            self.write(run, env, self.now)
        elif step == "ask":
            answer = self.controller.get(run.job_id)
            if self.random.random() < 0.2:  # the controller is late: it reports the run before, or another
                answer = Job(key=run.key, user="eve", uid=6666, state=JobState.COMPLETED)
            is_ours = answer is not None and find_objection(answer, env) is None
            run.asked = fill_unknown(answer, env) if is_ours else env, self.now
        elif step == "second":
            self.write(run, run.asked[0], run.asked[1])
        if not run.hook:
            run.processes = 2

    def write(self, run, job, reported_secs):
        with self.tree.locked(run.key):
            write_job(self.tree, job, self.site, self.site.machine, reported_at_secs=reported_secs)
            self.tree.write_record(run.key, format_record(job, reported_at_secs=reported_secs))
        run.prolog_secs, run.recorded_secs = self.now, reported_secs
        status = self.tree.status_path(run.key)
        open(f"{status}/run-{run.number}-{run.user}", "w").close()
        token = self.tree.make_token(run.key)
        earlier, old = self.tokens.get(run.job_id, (run, token))
        assert earlier.user == run.user or old != token, "another user's secret"
        self.tokens[run.job_id] = run, token

    def end(self, run, *, requeue=False):
        run.is_over, run.hook = True, []
        run.processes = 1 if self.random.random() < 0.15 else 0
        if requeue:
            run.processes = 0
            self.told(run, JobState.PENDING)
        else:
            self.told(run, JobState.COMPLETED, end_secs=int(self.now + self.skew))
        if requeue or self.random.random() < 0.75:
            run.epilog_ran = True
            with self.tree.locked(run.key):
                self.tree.remove_job(run.key)

    # --- chance ---------------------------------------------------------------------------

    def step(self):
        self.now += self.random.choice((0.05, 0.05, 0.5, 0.5, 2, 10, 40, 200))
        job_id = self.random.choice(IDS)
        run = self.runs.get(job_id)
        alive = run is not None and not run.is_over
        deeds = {
            self.sample: 3,
            self.poll_hooks: 3,
            self.judge: 3,
            self.publish: 3,
            self.round: 3,
            self.poll_well: 3,
            self.poll_badly: 2,
            self.lie: 2,
            self.deliver: 2 if self.late else 0,
            self.start_daemon: 1,
            self.let_an_hour_pass: 0.3,
        }
        if alive:
            deeds[lambda: self.advance_hook(run)] = 8 if run.hook else 0
            deeds[lambda: self.end(run)] = 1.5
            deeds[lambda: self.end(run, requeue=True)] = 0 if run.hook else 1
            deeds[lambda: self.change_limit(run)] = 1
            deeds[lambda: self.suspend(run)] = 1 if run.processes else 0
        else:
            deeds[lambda: self.start(job_id)] = 8
            deeds[lambda: self.controller.pop(job_id, None)] = 1 if run and not run.processes else 0
            deeds[lambda: setattr(run, "processes", 0)] = 1 if run else 0
        deed = self.random.choices(list(deeds), weights=list(deeds.values()))[0]
        name = deed.__name__ if deed.__name__ != "<lambda>" else deed.__code__.co_names[0]
        self.log.append(f"{self.now - 1_800_000_000:9.2f} {name} (id {job_id})")
        deed()
        self.check()

    def poll_well(self):
        self.poll()

    def poll_badly(self):
        self.poll(self.random.choice(("whole", "half", "down")), late=self.random.random() < 0.7)

    def lie(self):
        self.poll(self.random.choice(("invalid", "elsewhere")))

    def let_an_hour_pass(self):
        self.now += HOLD_SECS

    def change_limit(self, run):
        run.limits_secs.append(run.limits_secs[-1] + 1)
        self.told(run)

    def suspend(self, run):
        self.told(run, self.random.choice((JobState.SUSPENDED, JobState.RUNNING)))

    def round(self):
        self.sample()
        self.poll_hooks()
        self.judge()
        self.publish()

    # --- what has to be true -----------------------------------------------------------------

    def check(self):
        for run in self.runs.values():
            if not run.is_over:
                self.check_living(run)

    def check_living(self, run):
        folder = self.tree.job_path(run.key)
        if run.prolog_secs is None:
            return
        is_vouched_for = run.processes and run.key in self.groups
        may_be_gone = run.end_reported_secs is not None and (
            self.now - run.end_reported_secs >= HOLD_SECS
            or not (is_vouched_for or self.now - run.recorded_secs < START_SECS)
        )
        if may_be_gone:
            run.was_replaced = True
        if run.was_replaced:
            return
        assert os.path.isdir(folder), f"run {run.number} lives and has no directory"
        names = set(os.listdir(folder))
        assert names >= run.keys or run.was_contradicted, f"run {run.number} lost {run.keys - names}"
        limit = self.read_limit(run)
        if limit is None or limit in run.limits_secs:
            run.keys = names
        marks = os.listdir(self.tree.status_path(run.key))
        foreign = [mark for mark in marks if not mark.endswith(run.user)]
        assert not foreign, f"run {run.number} has another user's status: {foreign}"
        assert f"run-{run.number}-{run.user}" in marks, f"run {run.number} lost its status"
        if limit is not None:
            assert limit in run.own_limits(), f"run {run.number} has a limit that was never its own: {limit}"

    def read_limit(self, run):
        try:
            with open(f"{self.tree.job_path(run.key)}/wall_limit_secs") as file:
                return int(file.read())
        except FileNotFoundError:
            return None

    def settle(self):
        """Let everybody finish, and everybody be honest; then compare the disk with what is."""
        for run in self.runs.values():
            while run.hook and not run.is_over:
                self.advance_hook(run)
        for _ in range(3):
            self.ask_all(later_secs=400)
        self.log.append("settled")
        published = {key.job_id for key in self.tree.published()}
        living = {run.job_id for run in self.runs.values() if not run.is_over}
        left = {run.job_id for run in self.runs.values() if run.is_over and run.processes}
        assert living <= published, f"without a directory: {living - published}"
        # Of a job that had no epilog, and whose id was another's since, the controller tells nothing.
        held = {run.job_id for run in self.runs.values() if run.before and has_no_epilog(run.before)}
        assert published <= living | left | held, f"ghosts: {published - living - left}"
        leftovers = {key.job_id for key in self.roll.leftovers}
        assert leftovers <= left
        for job_id in living:
            run = self.runs[job_id]
            limit = self.read_limit(run)
            # A prolog counts for an hour against answers about an earlier run.
            assert limit == run.limits_secs[-1] or (limit is None and looks_earlier(run)), (
                "not the latest limit"
            )
            marks = os.listdir(self.tree.status_path(run.key))
            assert all(mark.endswith(run.user) for mark in marks), "another user's status"
        if left or held:
            self.ask_all(later_secs=HOLD_SECS)
            published = {key.job_id for key in self.tree.published()}
            assert published <= living, f"ghosts beyond the hold: {published - living}"
            for _ in range(2):  # a directory has gone, another comes
                self.ask_all(later_secs=400)
            for job_id in living:
                run = self.runs[job_id]
                assert self.read_limit(run) == run.limits_secs[-1], "not the latest limit beyond the hold"

    def ask_all(self, *, later_secs):
        """Look at everything so much later, and publish."""
        self.now += later_secs
        self.sample()
        self.late.clear()
        self.poll_hooks()
        self.poll()
        self.judge()
        self.publish()


def play(seed: int, root: str, steps: int = 60) -> None:
    """Play one interleaving. Raises AssertionError with the seed and all that happened."""
    world = World(seed, root)
    try:
        for _ in range(steps):
            world.step()
        world.settle()
    except AssertionError as error:
        raise AssertionError("\n".join([f"seed {seed}: {error}", *world.log])) from error
