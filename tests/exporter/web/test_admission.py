"""Who is answered, by a clock that is given."""

import pytest

from jobfeatures.system.rates import Rates
from jobfeatures_exporter.web.admission import (
    CLIENT_RATE,
    FILE_RATE,
    HOST,
    RATE,
    Admission,
    host_asked,
    is_loopback,
    is_ours,
    parse_names,
)


def reasons(admission, client, count, now_secs=0.0, host="localhost"):
    refusals = [admission.refusal(client, host, now_secs) for _ in range(count)]
    return [None if refusal is None else refusal.reason for refusal in refusals]


def test_an_address_over_its_own_limit_takes_nothing_from_others():
    admission = Admission(rate=5.0, client_rate=2.0, names=None)
    assert reasons(admission, "a", 100) == [None] * 4 + [CLIENT_RATE] * 96
    assert reasons(admission, "b", 4) == [None] * 4
    assert reasons(admission, "c", 4) == [None] * 2 + [RATE] * 2
    assert admission.refused == {CLIENT_RATE: 96, RATE: 2}
    assert reasons(admission, "a", 3, now_secs=1.0) == [None, None, CLIENT_RATE]


def test_refusals_for_their_number_say_when_to_come_again():
    refusal = Admission(rate=0.5, client_rate=10.0, names=None, file_rate=Rates(1.0))
    made = [refusal.refusal("a", "x", 0.0) for _ in range(3)]
    assert made[0] is None
    assert (made[1].status, made[1].headers) == (429, {"Retry-After": "1"})


def test_the_files_limit_comes_after_our_own():
    admission = Admission(rate=10.0, client_rate=10.0, names=None, file_rate=Rates(1 / 3600, 3 * 3600))
    assert reasons(admission, "a", 5) == [None] * 3 + [FILE_RATE] * 2


def test_names_from_elsewhere_are_refused_where_names_count():
    admission = Admission(rate=100.0, client_rate=100.0, names={"node1"})
    assert reasons(admission, "a", 1, host="evil.example") == [HOST]
    assert admission.refusal("a", "evil.example", 0.0).status == 421
    assert reasons(admission, "a", 1, host="node1:9819") == [None]
    assert reasons(Admission(rate=100.0, client_rate=100.0, names=None), "a", 1, host="evil.example") == [
        None
    ]


@pytest.mark.parametrize(
    "header",
    [
        *("localhost", "LOCALHOST:9819", "x.localhost", "localhost.", "localhost:", "127.0.0.1:9819"),
        *("[::1]", "[::1]:9819", "node1", "node1:80", "[fe80::1]", "10.0.0.1", " localhost "),
        *("a.localhost", "[2001:db8::1]", "node1.", "NODE1:80"),
    ],
)
def test_addresses_localhost_and_given_names_are_ours_with_or_without_a_port(header):
    assert is_ours(header, {"node1"})


def test_any_name_is_ours_where_none_is_given_and_so_is_none_at_all():
    assert is_ours("evil.example", None)
    assert is_ours(None, {"node1"})


def test_loopback_is_told_from_the_rest():
    assert [is_loopback(each) for each in ("127.0.0.1", "127.9.9.9", "[::1]", "localhost")] == [True] * 4
    assert [is_loopback(each) for each in ("", "0.0.0.0", "[::]", "node1", "10.0.0.1")] == [False] * 5
    assert parse_names(" A, b ,,") == {"a", "b"}


@pytest.mark.parametrize(
    "header",
    [
        *("[::1].evil.example", "localhost:1@evil", "evil.example#.localhost", "fe80::1%evil.example"),
        *(
            "[fe80::1%evil.example]",
            "[::1",
            "[::1]x",
            "[::1]:9819:1",
            "::1",
            "localhost:80:80",
            "localhost:x",
        ),
        *("evil.example/.localhost", "evil.example?.localhost", "evil@localhost", "localhost:123456"),
        *("evil.example", "", "node1.evil.example", "[node1]", "[127.0.0.1]x", "a b.localhost"),
        *("node2", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example"),
    ],
)
def test_nothing_else_is(header):
    assert not is_ours(header, {"node1"})


@pytest.mark.parametrize(
    ("target", "header", "host"),
    [
        ("/metrics", "localhost:9819", "localhost:9819"),
        ("/metrics?x=http://evil.example/", "localhost", "localhost"),
        ("http://evil.example/metrics", "127.0.0.1:9819", "evil.example"),
        ("HTTPS://evil.example:80?x", "127.0.0.1:9819", "evil.example:80"),
        ("http://localhost@evil.example/", "127.0.0.1", "localhost@evil.example"),
        ("http://127.0.0.1:9819/metrics", "evil.example", "127.0.0.1:9819"),
        ("http:///metrics", "127.0.0.1", ""),
        ("*", None, None),
    ],
)
def test_the_host_of_an_absolute_target_counts_and_not_the_header(target, header, host):
    assert host_asked(target, header) == host
    assert not is_ours("localhost@evil.example", frozenset())
    assert not is_ours("", frozenset())
