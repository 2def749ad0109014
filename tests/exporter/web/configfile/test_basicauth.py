import asyncio
import base64
import threading

import bcrypt
import pytest

from jobfeatures_exporter.web.configfile import basicauth
from jobfeatures_exporter.web.configfile.basicauth import MAX_KEPT, MAX_WAITING, BasicAuth, PasswordVerdict
from tests.exporter.web.standins import HASH, PASSWORD
from tests.held import count_held

USERS = {"alice": HASH}


def header(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
async def auth():
    made = BasicAuth()
    yield made
    made.close()


@pytest.fixture
def checks(monkeypatch):
    """The checks that were made: cost of the hash and whether it was right."""
    made = []
    original = bcrypt.checkpw

    def count(password, stored):
        found = False
        try:
            found = original(password, stored)
        finally:
            made.append((stored[:7], found))
        return found

    monkeypatch.setattr(bcrypt, "checkpw", count)
    return made


async def test_the_right_password_is_checked_once(auth, checks):
    for second in range(3):
        assert (
            await auth.judge(header("alice", PASSWORD), "c", USERS, now_secs=second) is PasswordVerdict.RIGHT
        )
    assert checks == [(b"$2b$04$", True)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Basic",
        "Basic !",
        "Bearer abc",
        header("alice", "wrong"),
        header("alice", ""),
        header("", PASSWORD),
        header("bob", PASSWORD),
        header("alice", PASSWORD + "\0"),
        header("alice", "x" * 500),
    ],
)
async def test_anything_else_is_wrong(auth, text):
    assert await auth.judge(text, "c", USERS, now_secs=0) is PasswordVerdict.WRONG


async def test_an_empty_password_is_never_right(auth, checks):
    users = {"alice": bcrypt.hashpw(b"", bcrypt.gensalt(4)).decode()}
    assert await auth.judge(header("alice", ""), "c", users, now_secs=0) is PasswordVerdict.WRONG
    assert checks == []


async def test_a_user_that_is_not_known_costs_as_much_as_one_that_is(auth, checks):
    users = {"alice": bcrypt.hashpw(b"x", bcrypt.gensalt(5)).decode()}
    for number, user in enumerate(("alice", "nobody")):
        assert await auth.judge(header(user, "wrong"), number, users, now_secs=0) is PasswordVerdict.WRONG
    assert [cost for cost, _ in checks] == [b"$2b$05$"] * 2


async def test_a_new_hash_ends_what_is_kept_of_the_old_one(auth):
    assert await auth.judge(header("alice", PASSWORD), "c", USERS, now_secs=0) is PasswordVerdict.RIGHT
    changed = {"alice": bcrypt.hashpw(b"other", bcrypt.gensalt(4)).decode()}
    assert await auth.judge(header("alice", PASSWORD), "c", changed, now_secs=9) is PasswordVerdict.WRONG
    assert await auth.judge(header("alice", "other"), "c", changed, now_secs=9) is PasswordVerdict.RIGHT


async def test_nothing_of_a_password_is_kept(auth):
    await auth.judge(header("alice", PASSWORD), "c", USERS, now_secs=0)
    kept = repr(vars(auth))
    assert PASSWORD not in kept
    assert PASSWORD.encode().hex() not in kept


async def test_who_guesses_may_guess_seldom_and_known_users_pass_by(auth, checks):
    assert await auth.judge(header("alice", PASSWORD), "c", USERS, now_secs=0) is PasswordVerdict.RIGHT
    guesses = [
        await auth.judge(header("alice", f"guess {number}"), "c", USERS, now_secs=0) for number in range(50)
    ]
    assert guesses.count(PasswordVerdict.WRONG) == 3  # of a bucket of 4, one being taken
    assert guesses.count(PasswordVerdict.BUSY) == 47
    assert len(checks) == 4
    assert await auth.judge(header("alice", PASSWORD), "c", USERS, now_secs=0) is PasswordVerdict.RIGHT
    assert await auth.judge(header("alice", "guess"), "other", USERS, now_secs=0) is PasswordVerdict.WRONG


async def test_few_wait_for_a_check(auth, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(basicauth, "_matches", lambda _password, _stored: gate.wait(20) and False)
    waiting = [
        asyncio.create_task(auth.judge(header("alice", str(number)), number, USERS, now_secs=0))
        for number in range(MAX_WAITING)
    ]
    await asyncio.sleep(0)
    assert await auth.judge(header("alice", "late"), "late", USERS, now_secs=0) is PasswordVerdict.BUSY
    gate.set()
    assert await asyncio.gather(*waiting) == [PasswordVerdict.WRONG] * MAX_WAITING


async def test_what_is_kept_is_bounded(auth, monkeypatch):
    monkeypatch.setattr(basicauth, "_matches", lambda _password, _stored: False)
    held = []
    for number in range(MAX_KEPT + 50):
        await auth.judge(header("alice", str(number)), "c", USERS, now_secs=number)
        held.append(count_held(auth))
    assert held[MAX_KEPT - 1] > held[0] + MAX_KEPT - 10
    assert held[-1] <= held[MAX_KEPT - 1] + 10


async def test_hashes_of_other_programs_are_understood(auth):
    for prefix in ("$2a$", "$2y$"):
        users = {"alice": prefix + HASH[4:]}
        assert await auth.judge(header("alice", PASSWORD), prefix, users, now_secs=0) is PasswordVerdict.RIGHT
