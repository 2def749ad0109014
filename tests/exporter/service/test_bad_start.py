"""Commands on wrong settings, files and rights: one line that says what to do, status 2, nothing started."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

EXPORTER = "jobfeatures-exporter"
MODULES = {"jobfeatures": "jobfeatures", EXPORTER: "jobfeatures_exporter"}
ROOT = Path(__file__).parents[3]
PORTS_FROM = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")


@pytest.fixture
def site(tmp_path):
    """A folder with files of all sorts that are no good, and a port that is taken."""
    (tmp_path / "empty.toml").write_text("")
    (tmp_path / "blank.toml").write_text(" \n\n")
    (tmp_path / "half.toml").write_text('[web]\nlisten_address = "127.0.0.1:0"\n[features]\nroot = "/run/jo')
    (tmp_path / "latin.toml").write_bytes(b'[node]\nname = "\xe9t\xe9"\n')
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)))
    (tmp_path / "key.toml").write_text("[web]\nlisten_addres = ':0'\n")
    (tmp_path / "top.toml").write_text("listen_address = ':0'\n")
    (tmp_path / "value.toml").write_text("[sample]\ninterval = 'often'\n")
    (tmp_path / "table.toml").write_text("[partition.long]\ngrace = 7200\n")
    (tmp_path / "hostile.toml").write_text('[web]\n"\\u001b[31m\\nred" = 1\n')
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "file").write_text("x")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "secret.toml").write_text("[node]\nname = 'n'\n")
    (tmp_path / "secret.toml").chmod(0)
    (tmp_path / "closed").mkdir(mode=0o500)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield {"D": str(tmp_path), "TAKEN": f"127.0.0.1:{taken.getsockname()[1]}"}


def run_without_powers(program, *words):
    """Run a program of its own, without root's right to read everything."""
    argv = [sys.executable, "-m", MODULES[program], *words]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root can read everything, and there is no setpriv to take that away")
        argv = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", *argv]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("JOBFEATURES_")}
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, env=clean, cwd=ROOT)


def must_be_refused(done, said):
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.isprintable() or done.stderr[:-1].isprintable()
    for text in said:
        assert text in done.stderr


FILES = [
    ("--config.file D/missing.toml", ["D/missing.toml", "there is no such file"]),
    ("--config.file D/empty.toml", ["D/empty.toml", "is empty; for the defaults remove it"]),
    ("--config.file D/blank.toml", ["D/blank.toml", "is empty"]),
    ("--config.file D/half.toml", ["D/half.toml", "is not TOML", "at end of document"]),
    ("--config.file D/latin.toml", ["D/latin.toml", "UTF-8"]),
    ("--config.file D/binary.toml", ["D/binary.toml", "UTF-8"]),
    ("--config.file D/folder", ["D/folder", "is a folder; name the file in it"]),
    ("--config.file D/file/in/it", ["D/file/in/it", "Not a directory"]),
    ("--config.file D/table.toml", ["partition.long.grace", "only cpu_factor, grace_secs"]),
]
SETTINGS = [
    ("--config.file D/key.toml", ["D/key.toml:2: web.listen_addres", "did you mean web.listen_address?"]),
    ("--config.file D/top.toml", ["D/top.toml:1: listen_address", "did you mean web.listen_address?"]),
    ("--config.file D/value.toml", ["D/value.toml:2: sample.interval", "must be a duration", "'often'"]),
    ("--config.file D/hostile.toml", ["D/hostile.toml", "there is no such setting"]),
    ("--web.listen-addres :0", ["'--web.listen-addres'", "did you mean --web.listen-address?"]),
    ("--web.listen-address=:0 --no-such=1", ["there is no flag '--no-such'"]),
    ("--log.level", ["--log.level", "expected one argument"]),
    ("--log.level debg", ["--log.level", "did you mean debug?"]),
    ("--batch.sources slrum", ["--batch.sources", "slurm, torque", "did you mean slurm?"]),
    ("--role controler", ["--role", "did you mean controller?"]),
    ("--web.listen-address nowhere", ["--web.listen-address", "must be HOST:PORT"]),
    ("--features.form http", ["features.form", "features.listen_address is set"]),
    ("--features.root D/no/root", ["features.root", "there is no folder D/no"]),
    ("--features.root D/file", ["features.root", "D/file is not a folder"]),
    ("--features.root D/link", ["features.root", "D/link is a link; name D/folder"]),
    ("--features.root D/open", ["features.root", "chmod go-w D/open"]),
    ("--sonar.listen 0.0.0.0:0", ["sonar.listen", "set sonar.users_file"]),
    ("--web.config.file D/missing.yml", ["web.config_file", "D/missing.yml"]),
]


def filled(text, site):
    return text.replace("D/", f"{site['D']}/").replace("TAKEN", site["TAKEN"])


def refuse(run, site, program, command, words, said, **options):
    quiet = (
        []
        if program != EXPORTER or "features.root" in words
        else ["--features.root", f"{site['D']}/features"]
    )
    done = run(program, *command, *[filled(word, site) for word in words.split()], *quiet, **options)
    must_be_refused(done, [filled(text, site) for text in said])
    assert not Path(site["D"], "features").exists()


@pytest.mark.parametrize(
    ("words", "said"), FILES + SETTINGS, ids=lambda each: each if isinstance(each, str) else ""
)
@pytest.mark.parametrize("command", ["serve", "check-config"])
def test_what_is_wrong_with_settings_and_files_is_said_in_one_line(call, site, command, words, said):
    refuse(call, site, EXPORTER, [command], words, said)


@pytest.mark.parametrize(
    ("words", "said"),
    [each for each in FILES if "table" not in each[0]],  # hooks pass over what they do not know
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_the_other_command_says_the_same_of_a_file(call, site, words, said):
    refuse(call, site, "jobfeatures", ["show"], words, said)


@pytest.mark.parametrize(
    ("program", "word", "said"),
    [
        (EXPORTER, "serv", "did you mean serve?"),
        ("jobfeatures", "shwo", "did you mean show?"),
        (EXPORTER, "\x1b[31mred", "there is no command"),
    ],
)
def test_a_command_that_there_is_not_is_told_with_the_nearest_one(call, program, word, said):
    must_be_refused(call(program, word), [said])


def test_a_flag_that_there_is_not_is_told_with_the_nearest_one_by_the_other_command_too(call):
    done = call("jobfeatures", "show", "--features.rot", "/x")
    must_be_refused(done, ["'--features.rot'", "did you mean --features.root?"])


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("JOBFEATURES_CONFIG_FILE", "D/half.toml", "D/half.toml: is not TOML"),
        ("JOBFEATURES_SAMPLE_INTERVAL", "-1", "JOBFEATURES_SAMPLE_INTERVAL: must be a duration"),
    ],
)
def test_a_wrong_variable_is_told_by_its_name(call, site, name, value, said):
    refuse(call, site, EXPORTER, ["serve"], "", [said], environ={name: filled(value, site)})


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("--web.listen-address TAKEN", "web.listen_address"),
        ("--web.listen-address 127.0.0.1:0 --features.listen-address TAKEN", "features.listen_address"),
        ("--web.listen-address 127.0.0.1:0 --sonar.listen TAKEN", "sonar.listen"),
    ],
)
def test_a_port_in_use_is_told_with_its_setting_and_nothing_is_published(call, site, words, key):
    refuse(
        call,
        site,
        EXPORTER,
        ["serve"],
        words,
        [key, "TAKEN", "Address already in use; stop what listens there"],
    )


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("192.0.2.77:9819", "it is not an address of this machine"),
        ("no.such.host.invalid:9819", "no such host"),
    ],
)
def test_an_address_that_cannot_be_had_is_told(call, site, address, said):
    refuse(call, site, EXPORTER, ["serve"], f"--web.listen-address {address}", ["web.listen_address", said])


@pytest.mark.program
@pytest.mark.skipif(
    not PORTS_FROM.exists() or int(PORTS_FROM.read_text()) <= 80, reason="anybody may listen on port 80 here"
)
def test_a_port_that_is_forbidden_is_told_with_the_right_that_is_needed(site):
    said = ["web.listen_address", "CAP_NET_BIND_SERVICE"]
    refuse(run_without_powers, site, EXPORTER, ["serve"], "--web.listen-address 127.0.0.1:80", said)


@pytest.mark.program
@pytest.mark.parametrize("command", ["serve", "check-config"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--config.file D/secret.toml", ["D/secret.toml", "Permission denied"]),
        ("--features.root D/closed/features", ["features.root", "cannot be made", "--no-features.publish"]),
        ("--features.root D/closed", ["features.root", "cannot write to", "--no-features.publish"]),
    ],
)
def test_rights_that_are_missing_are_told(site, command, words, said):
    refuse(run_without_powers, site, EXPORTER, [command], words, said)


def test_where_nothing_is_published_the_folder_may_be_anybodys(call, site):
    done = call(EXPORTER, "check-config", "--no-features.publish", "--features.root", f"{site['D']}/open")
    assert done.returncode == 0, done.stderr
