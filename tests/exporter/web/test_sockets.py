"""Sockets handed over as systemd does, to a process of its own: they begin at descriptor 3."""

import json
import os
import socket
import subprocess
import sys

import pytest

from jobfeatures.errors import ConfigurationError
from jobfeatures_exporter.web import sockets as sockets_module
from jobfeatures_exporter.web.sockets import find_kept, take_sockets

SCRIPT = """
import json, os, sys
from jobfeatures_exporter.web.sockets import take_sockets
from jobfeatures.errors import ConfigurationError
os.environ["LISTEN_PID"] = str(os.getpid()) if sys.argv[1] == "own" else sys.argv[1]
try:
    found = take_sockets()
except ConfigurationError as error:
    sys.exit(str(error))
told = {name: [each.getsockname()[1] for each in sockets] for name, sockets in found.items()}
inherited = [each.get_inheritable() for sockets in found.values() for each in sockets]
print(json.dumps([told, inherited, [name for name in os.environ if name.startswith("LISTEN")]]))
"""


def hand_over(sockets, names="", pid="own", count=None):
    """Run a process in which the sockets are the descriptors from 3 on."""

    def arrange():
        copies = [os.dup(each.fileno()) for each in sockets]
        high = [os.dup2(each, 100 + number) for number, each in enumerate(copies)]
        for number, each in enumerate(high):
            os.dup2(each, 3 + number)

    return subprocess.run(
        [sys.executable, "-c", SCRIPT, pid],
        env={
            **os.environ,
            "LISTEN_FDS": str(len(sockets)) if count is None else count,
            "LISTEN_FDNAMES": names,
        },
        preexec_fn=arrange,  # no threads here
        close_fds=False,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def listening():
    made = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    yield made
    for each in made:
        each.close()


@pytest.mark.program
def test_sockets_go_to_the_listener_that_their_names_tell(listening):
    ports = [each.getsockname()[1] for each in listening]
    told, inheritable, left = json.loads(hand_over(listening, "jobfeatures.socket:features:x").stdout)
    assert told == {"metrics": [ports[0], ports[2]], "features": [ports[1]]}
    assert inheritable == [False] * 3
    assert left == []


@pytest.mark.program
def test_without_names_all_are_for_metrics(listening):
    told, _, _ = json.loads(hand_over(listening).stdout)
    assert list(told) == ["metrics"]
    assert len(told["metrics"]) == 3


@pytest.mark.program
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pid": "1"}, "systemd passed no socket"),
        ({"count": "0"}, "systemd passed no socket"),
        ({"count": "-1"}, "systemd passed no socket"),
        ({"count": "1000000"}, "systemd passed no socket"),
        ({"names": "features:features:sonar"}, "no socket for metrics"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(listening, given, said):
    done = hand_over(listening, **given)
    assert done.returncode == 1
    assert done.stderr.startswith("web.systemd_socket: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.program
def test_a_socket_that_does_not_listen_is_refused():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, socket.socket() as deaf:
        for each in (datagrams, deaf):
            assert "is not a listening stream socket" in hand_over([each]).stderr
    with open(os.devnull, encoding="ascii") as file:
        assert "descriptor 3" in hand_over([file]).stderr


def test_without_systemd_it_is_told():
    environ = {}
    with pytest.raises(ConfigurationError, match=r"web\.systemd_socket: systemd passed no socket"):
        take_sockets(environ)


def test_what_was_kept_is_no_socket_and_is_found_by_its_name(monkeypatch, tmp_path):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        kept = os.open(tmp_path, os.O_RDONLY)
        names = ["kept-sums-1", "", "kept-gone"]
        monkeypatch.setattr(sockets_module, "FIRST", kept)
        monkeypatch.setattr(sockets_module, "MAX", 2)
        environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "3", "LISTEN_FDNAMES": ":".join(names)}
        os.set_inheritable(kept, True)
        assert find_kept(environ) == {"sums-1": kept}
        assert not os.get_inheritable(kept)
        assert find_kept({**environ, "LISTEN_PID": "1"}) == {}
        assert find_kept({}) == {}
        os.close(kept)
