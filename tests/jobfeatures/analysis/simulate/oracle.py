"""The four policies once more, written down literally: nothing is kept that can be computed anew.

Time goes second by second. The whole queue is sorted whenever anything happens, what is free is summed up from the
jobs that run, and a reservation is found by trying every end in turn. Slow; for tests.
"""

from fractions import Fraction
from typing import NamedTuple


class Job(NamedTuple):
    submit: int
    runtime: int
    estimate: int
    user: int
    parts: int
    part: tuple[int, int, int]  # processors, memory, cards of each
    preceding: int | None = None  # the place of the job that it follows
    think: int = -1

    @property
    def processors(self):
        return self.parts * self.part[0]


class Oracle:
    def __init__(self, jobs, nodes, policy, refresh=3600, halving=0, shares=None):
        self.shares = shares or {}  # the fraction designated for a user, of others 1
        self.jobs, self.nodes = jobs, nodes
        self.is_fair, self.backfills = "fairshare" in policy, "easy" in policy
        self.refresh, self.halving = refresh, halving
        self.starts = [None] * len(jobs)
        self.where = [None] * len(jobs)  # node by part
        self.came = [None] * len(jobs)  # how many times anybody had come before
        self.ended = [False] * len(jobs)
        self.used = {job.user: Fraction(0) for job in jobs}

    def run(self):
        if not self.jobs:
            return self
        zero = time = min(job.submit for job in self.jobs if job.preceding is None)
        while not all(self.ended):
            for place in self.running():  # the second before this one
                self.used[self.jobs[place].user] += self.jobs[place].processors
            happens = self.end_jobs(time) | self.let_come(time)
            if self.halving and time > zero and (time - zero) % self.halving == 0:
                self.used = {user: used / 2 for user, used in self.used.items()}
            happens |= self.is_fair and (time - zero) % self.refresh == 0
            while happens:
                self.start_jobs(time)
                happens = self.end_jobs(time) | self.let_come(time)  # those that ran for no time, who follow
            time += 1
        return self

    def end_jobs(self, time):
        over = [place for place in self.running() if self.starts[place] + self.jobs[place].runtime <= time]
        for place in over:
            self.ended[place] = True
        return bool(over)

    def comes_at(self, job):
        """Return when a job is submitted, None before that is known."""
        if job.preceding is None:
            return job.submit
        if not self.ended[job.preceding]:
            return None
        end = self.starts[job.preceding] + self.jobs[job.preceding].runtime
        return max(end, job.submit) if job.think == -1 else end + job.think

    def let_come(self, time):
        coming = [
            place
            for place, job in enumerate(self.jobs)
            if self.came[place] is None and self.comes_at(job) == time
        ]
        before = sum(each is not None for each in self.came)
        for place in coming:
            self.came[place] = before
        return bool(coming)

    def queue(self):
        waiting = [
            place
            for place in range(len(self.jobs))
            if self.came[place] is not None and self.starts[place] is None
        ]

        def by_use(place):
            user = self.jobs[place].user
            return self.used[user] / self.shares.get(user, 1) if self.is_fair else 0

        return sorted(waiting, key=lambda place: (by_use(place), self.came[place], place))

    def running(self):
        return [
            place
            for place in range(len(self.jobs))
            if self.starts[place] is not None and not self.ended[place]
        ]

    def free(self, holding):
        """Return what is free on each node while these jobs hold what they have."""
        left = [list(node) for node in self.nodes]
        for place in holding:
            for node in self.where[place]:
                for resource in range(3):
                    left[node][resource] -= self.jobs[place].part[resource]
        assert all(value >= 0 for node in left for value in node)
        return left

    @staticmethod
    def place(job, left):
        """Return the node of each part, one part after the other on the first node with room; None: no room."""
        left, found = [list(node) for node in left], []
        for _ in range(job.parts):
            for node, values in enumerate(left):
                if all(value >= wanted for value, wanted in zip(values, job.part, strict=True)):
                    for resource in range(3):
                        values[resource] -= job.part[resource]
                    found.append(node)
                    break
            else:
                return None
        return found

    def begin(self, place, time, nodes):
        self.starts[place], self.where[place] = time, nodes

    def start_jobs(self, time):
        for place in self.queue():
            nodes = self.place(self.jobs[place], self.free(self.running()))
            if nodes is None:
                break
            self.begin(place, time, nodes)
        if self.backfills:
            while self.backfill_one(time):
                pass

    def backfill_one(self, time):
        """Start the first job that may go before the head; tell whether there was one."""
        queue = self.queue()
        if not queue:
            return False
        running = self.running()
        estimated = {place: max(time, self.starts[place] + self.jobs[place].estimate) for place in running}
        for shadow in sorted({time, *estimated.values()}):
            later = self.free([place for place in running if estimated[place] > shadow])
            reserved = self.place(self.jobs[queue[0]], later)
            if reserved is not None:
                break
        for node in reserved:
            for resource in range(3):
                later[node][resource] -= self.jobs[queue[0]].part[resource]
        now = self.free(running)
        both = [list(map(min, one, other)) for one, other in zip(now, later, strict=True)]
        for place in queue[1:]:
            job = self.jobs[place]
            nodes = self.place(job, now if time + job.estimate <= shadow else both)
            if nodes is not None:
                self.begin(place, time, nodes)
                return True
        return False
