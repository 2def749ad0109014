"""Host headers that a listener on loopback takes for its own."""

import pytest

from jobfeatures_exporter.web.hosts import is_ours


@pytest.mark.parametrize(
    "header",
    [
        *("localhost", "LOCALHOST:9819", "x.localhost", "localhost.", "localhost:", "127.0.0.1:9819"),
        *("[::1]", "[::1]:9819", "node1", "node1:80", "[fe80::1]", "10.0.0.1", " localhost "),
    ],
)
def test_addresses_localhost_and_given_names_are_ours_with_or_without_a_port(header):
    assert is_ours(header, {"node1"})


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
    ],
)
def test_nothing_else_is(header):
    assert not is_ours(header, {"node1"})
