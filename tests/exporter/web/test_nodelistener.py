"""Nodes ask the controller role over real HTTP and TLS."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import aiohttp
import pytest

from jobfeatures.batch.controller import ControllerSettings
from jobfeatures.batch.controller.protocol import make_token
from jobfeatures.batch.controller.source import ControllerClient
from jobfeatures.batch.source import KeeperStatus
from jobfeatures.errors import ConfigurationError, Rejected, SourceError
from jobfeatures.publish.http.webserver import listening
from jobfeatures.records.model import JobTable, Limits
from jobfeatures_exporter.cluster.nodeanswers import NodeAnswers
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.startup.checks import check
from jobfeatures_exporter.web.nodelistener import NodeListener, raise_descriptors, read_secrets
from tests.configured import configured
from tests.running import FakeClock

SECRET = b"0123456789abcdef" * 4


@dataclass
class Tables:
    """What a batch system told of all its nodes."""

    tables: dict[str, JobTable]
    taken_at_secs: float
    rejected: tuple[Rejected, ...] = field(default=())

    def table(self, node_name, now_secs):
        return self.tables.get(node_name)


class Slurm:
    """A batch system whose answer is set by the test; an exception is raised."""

    name = "slurm"

    def __init__(self):
        self.answer = None
        self.queues = []

    def poll_by_node(self, queue):
        self.queues.append(queue)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def private(path, content):
    path.write_bytes(content)
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def slurm():
    return Slurm()


@pytest.fixture
def answers(slurm, clock, make_table):
    queue = SimpleNamespace(status=KeeperStatus("slurm-queue", make_table(taken_at_secs=clock.now)))
    made = NodeAnswers(slurm, queue, clock, interval_secs=60, timeout_secs=1)
    made.refresh()  # the queue is known
    made.tells = lambda *tables, age=20.0: setattr(
        slurm, "answer", Tables({f"n{n}": each for n, each in enumerate(tables, 1)}, clock.now - age)
    )
    return made


@pytest.fixture
async def site(answers, clock, tmp_path):
    """Return the address of a listener, and a function that asks it."""
    listener = NodeListener(answers, private(tmp_path / "secret", SECRET), clock)
    async with (
        listening(listener, "127.0.0.1:0") as address,
        aiohttp.ClientSession() as session,
    ):

        async def ask(path, token="", method="GET", **headers):
            headers = {name.replace("_", "-"): value for name, value in headers.items()}
            if token:
                headers["Authorization"] = f"Bearer {token}"
            async with session.request(method, f"http://{address}{path}", headers=headers) as answer:
                return answer.status, await answer.text(), answer.headers

        ask.listener, ask.address = listener, address
        yield ask


@pytest.fixture
def make_client(site, clock, tmp_path):
    def make(node_name="n1", token_of=None, url=f"http://{site.address}", clock=clock):
        token = private(tmp_path / "token", make_token(SECRET, token_of or node_name).encode())
        config = ControllerSettings(url=url, token_file=token)
        return ControllerClient(config, clock, node_name, 10.0)

    return make


def told(table, at_secs):
    return table.jobs, table.taken_at_secs == at_secs, table.complete


async def test_a_node_is_told_its_own_jobs_and_when_they_were_told(
    answers, make_client, make_table, make_job, clock
):
    mine, theirs = make_job("1", name="a\nb"), make_job("2")
    answers.tells(make_table(mine, taken_at_secs=clock.now - 20.5), make_table(theirs))
    answers.keeper.poll_once()
    table = await asyncio.to_thread(make_client("n1").ask)
    assert told(table, clock.now - 21) == ({mine.key: mine}, True, True)  # older rather than newer


async def test_what_has_not_changed_is_not_sent_again_and_yet_grows_no_older(
    answers, site, make_client, make_table, make_job, clock
):
    job = make_job("1")
    client = make_client("n1")
    for _ in range(3):
        clock.advance(60)
        answers.tells(make_table(job, taken_at_secs=clock.now - 20))
        answers.keeper.poll_once()
        assert told(await asyncio.to_thread(client.ask), clock.now - 20) == ({job.key: job}, True, True)
    token = make_token(SECRET, "n1")
    clock.advance(1)
    status, text, headers = await site("/nodes/n1", token)
    assert status == 200
    clock.advance(1)
    again = await site("/nodes/n1", token, If_None_Match=headers["ETag"])
    assert (again[0], again[1], again[2]["Age"]) == (304, "", "22")
    answers.tells(make_table(make_job("3"), taken_at_secs=clock.now))
    answers.keeper.poll_once()
    clock.advance(1)
    status, text, _ = await site("/nodes/n1", token, If_None_Match=headers["ETag"])
    assert status == 200
    assert '"job_id": "3"' in text


@pytest.mark.parametrize(
    "role_ahead_secs", [-300.0, 0.0, 300.0]
)  # the controller role's clock before Slurm's
@pytest.mark.parametrize("node_ahead_secs", [-300.0, 0.0, 300.0])
async def test_remaining_time_is_right_within_two_seconds_whatever_three_clocks_show(
    answers, make_client, make_table, make_job, clock, role_ahead_secs, node_ahead_secs
):
    slurm_secs = clock.now - role_ahead_secs
    job = make_job("1", start_secs=int(slurm_secs) - 100, limits=Limits(wall_secs=600))
    table = make_table(job, taken_at_secs=clock.now - 20)
    answers.tells(replace(table, clock_ahead_secs=-role_ahead_secs))
    answers.keeper.poll_once()
    node = FakeClock(slurm_secs + node_ahead_secs)
    client = make_client("n1", clock=node)
    for passed_secs in (0, 60):  # the second answer is 304
        clock.advance(passed_secs)
        node.advance(passed_secs)
        told = await asyncio.to_thread(client.ask)
        context = Context(now_secs=node.now, sources=(KeeperStatus("slurm", told),))
        left_secs = context.wall_end_secs(told.jobs[job.key]) - node.now
        assert left_secs == pytest.approx(500 - passed_secs, abs=2)
        assert told.clock_ahead_secs == pytest.approx(-node_ahead_secs, abs=0.01)


@pytest.mark.parametrize("shown", [None, "", "x", "1" * 30, "-5.000", "nan"])
async def test_a_role_that_does_not_know_slurm_s_clock_or_tells_nonsense_leaves_it_unknown(
    answers, make_client, make_table, clock, shown, monkeypatch
):
    ahead_secs = None if shown is None else 300.0
    answers.tells(replace(make_table(taken_at_secs=clock.now), clock_ahead_secs=ahead_secs))
    answers.keeper.poll_once()
    monkeypatch.setattr("jobfeatures_exporter.web.nodelistener.format_clock", lambda _secs: shown)
    assert (await asyncio.to_thread(make_client().ask)).clock_ahead_secs is None


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        ("/nodes/n1", "", 401),
        ("/nodes/n1", make_token(SECRET, "n2"), 401),
        ("/nodes/n1", make_token(b"another secret" * 3, "n1"), 401),
        ("/nodes/n9", make_token(SECRET, "n9"), 404),
        ("/nodes/", make_token(SECRET, "n1"), 404),
        ("/nodes/n1/", make_token(SECRET, "n1"), 404),
        ("/nodes/%6e1", make_token(SECRET, "n1"), 200),
        ("/nodes/../nodes/n1", make_token(SECRET, "n1"), 200),
        ("/nodes/n%5B1-2%5D", make_token(SECRET, "n1"), 404),
        ("/metrics", make_token(SECRET, "n1"), 404),
    ],
)
async def test_a_node_gets_nothing_but_its_own(path, token, status, answers, site, make_table, make_job):
    answers.tells(make_table(make_job("1")), make_table(make_job("2")))
    answers.keeper.poll_once()
    found, text, _ = await site(path, token)
    assert found == status
    assert '"job_id": "2"' not in text
    assert ('"job_id": "1"' in text) is (status == 200)


async def test_nothing_can_be_changed(site):
    assert (await site("/nodes/n1", make_token(SECRET, "n1"), "PUT"))[0] == 405


async def test_wrong_tokens_are_bounded_and_cost_right_ones_nothing(answers, site, make_table):
    answers.tells(make_table())
    answers.keeper.poll_once()
    statuses = [(await site("/nodes/n1", "wrong"))[0] for _ in range(30)]
    assert statuses[0] == 401
    assert statuses[-1] == 429
    assert (await site("/nodes/n1", make_token(SECRET, "n1")))[0] == 200


async def test_one_node_that_asks_without_end_is_slowed_down(answers, site, make_table, clock):
    answers.tells(make_table(), make_table())
    answers.keeper.poll_once()
    statuses = [(await site("/nodes/n1", make_token(SECRET, "n1")))[0] for _ in range(10)]
    assert statuses.count(200) == 4
    assert statuses[-1] == 429
    assert (await site("/nodes/n2", make_token(SECRET, "n2")))[0] == 200
    clock.advance(1)
    assert (await site("/nodes/n1", make_token(SECRET, "n1")))[0] == 200


async def test_before_the_first_answer_nothing_is_said(answers, slurm, make_client):
    with pytest.raises(SourceError, match=r"503 .no answer of the batch system yet: waiting"):
        await asyncio.to_thread(make_client().ask)
    slurm.answer = SourceError("squeue: no answer")
    answers.keeper.poll_once()
    with pytest.raises(SourceError, match="no answer of the batch system yet: squeue: no answer"):
        await asyncio.to_thread(make_client().ask)


async def test_where_slurm_did_not_answer_it_says_so_and_concludes_nothing(
    answers, slurm, site, make_client, make_table, make_job, clock
):
    answers.tells(make_table(make_job("1"), taken_at_secs=clock.now))
    answers.keeper.poll_once()
    slurm.answer = SourceError("squeue: Unable to contact slurm controller")
    clock.advance(600)
    answers.keeper.poll_once()
    _, text, headers = await site("/nodes/n1", make_token(SECRET, "n1"))
    assert '"complete": false, "problem": "squeue: Unable to contact' in text
    assert '"job_id": "1"' in text
    assert headers["Age"] == "600"
    with pytest.raises(SourceError, match="cannot query the batch system: squeue: Unable to contact"):
        await asyncio.to_thread(make_client().ask)


async def test_the_nodes_are_asked_about_behind_the_queue(answers, slurm, make_table, clock):
    answers.tells(make_table())
    answers.keeper.poll_once()
    assert [each.taken_at_secs for each in slurm.queues] == [clock.now]


def test_without_a_queue_nothing_is_asked(slurm, clock):
    answers = NodeAnswers(
        slurm, SimpleNamespace(status=KeeperStatus("slurm-queue")), clock, interval_secs=60, timeout_secs=0.01
    )
    answers.keeper.poll_once()
    assert answers.keeper.status.last_error == "the batch system's list of jobs has not been read yet"
    assert slurm.queues == []


def test_a_batch_system_that_does_not_tell_of_nodes_is_refused_at_the_start(clock):
    with pytest.raises(ConfigurationError, match=r"controller\.listen"):
        NodeAnswers(object(), None, clock, interval_secs=60, timeout_secs=1)


async def test_a_new_secret_is_taken_beside_the_old_one(answers, site, make_table, tmp_path):
    answers.tells(make_table())
    answers.keeper.poll_once()
    new = b"fedcba9876543210" * 4
    assert (await site("/nodes/n1", make_token(new, "n1")))[0] == 401
    private(tmp_path / "secret", new + b"\n" + SECRET)
    site.listener.reread()
    assert (await site("/nodes/n1", make_token(new, "n1")))[0] == 200
    private(tmp_path / "secret", b"short")
    with pytest.raises(ConfigurationError, match=r"controller\.secret_file"):
        site.listener.reread()
    assert (await site("/nodes/n1", make_token(SECRET, "n1")))[0] == 200


async def test_a_token_that_others_can_read_is_not_sent(answers, site, make_client, make_table, tmp_path):
    answers.tells(make_table())
    answers.keeper.poll_once()
    client = make_client()
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(SourceError, match="only its owner may"):
        await asyncio.to_thread(client.ask)


@pytest.mark.parametrize(
    "said",
    [
        b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nAge: 0\r\n\r\nhalf", b"HTTP/1.1 200 OK\r\nAge: 0\r\n\r\n{}\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nAge: x\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\nAge: -5\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nAge: 5\r\n\r\n",
    ],
)  # fmt: skip
async def test_what_is_no_answer_is_a_failure(said, make_client):
    answered = []

    async def answer(reader, writer):
        answered.append(asyncio.current_task())
        with (
            contextlib.closing(writer),
            contextlib.suppress(asyncio.IncompleteReadError),
        ):  # of TLS, tried next
            await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(SourceError, match=f"controller role http://127.0.0.1:{port}"):
        await asyncio.to_thread(make_client(url=f"http://127.0.0.1:{port}").ask)
    server.close()
    await asyncio.gather(*answered)


async def test_a_hundred_connections_are_a_hundred_and_who_comes_then_is_served(answers, site, make_table):
    answers.tells(make_table())
    answers.keeper.poll_once()
    host, _, port = site.address.rpartition(":")
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(150):
            _, writer = await asyncio.open_connection(host, int(port))
            stack.push_async_callback(writer.wait_closed)
            stack.callback(writer.close)
        assert (await site("/nodes/n1", make_token(SECRET, "n1")))[0] == 200


def test_descriptors_for_all_connections_are_there_or_it_is_said():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        wanted = min(hard, soft + 1) if hard != resource.RLIM_INFINITY else soft + 1
        raise_descriptors(wanted)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= wanted
        if hard != resource.RLIM_INFINITY:
            with pytest.raises(ConfigurationError, match="LimitNOFILE"):
                raise_descriptors(hard + 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"controller_secret_file": None}, r"controller\.secret_file: must be set"),
        ({"controller_listen": ":9821"}, r"controller\.listen: an address other than loopback needs TLS"),
        ({}, None),
    ],
)
def test_settings_that_would_let_tokens_be_read_or_nobody_in_are_refused(changes, reason):
    values = {"controller_listen": "127.0.0.1:9821", "controller_secret_file": "/x", **changes}
    config = configured(role="controller", **values)
    if reason is None:
        check(config)
        return
    with pytest.raises(ConfigurationError, match=reason):
        check(config)


def test_a_secret_that_cannot_be_read_is_told(tmp_path):
    for path, reason in ((tmp_path / "none", "No such file"), (tmp_path, "must be a regular file")):
        with pytest.raises(ConfigurationError, match=rf"controller\.secret_file: .*{reason}"):
            read_secrets(str(path))
