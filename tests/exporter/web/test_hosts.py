"""Which hosts are ours, and which listeners are reachable from this machine only."""

import pytest

from jobfeatures_exporter.web.hosts import host_asked, is_loopback, is_ours, parse_names


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
