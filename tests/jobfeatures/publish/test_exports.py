import os
import stat
import subprocess

import pytest

from jobfeatures.config import Config
from jobfeatures.publish.config import SiteSettings
from jobfeatures.publish.exports import FeatureAccess, beside_others, format_urls, write_exports
from jobfeatures.publish.site import Site
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey
from jobfeatures.settings.resolve import load_config
from tests.configured import configured
from tests.packaging.hooks import NO_PROXY_CASES, NO_PROXY_LINES
from tests.running import until

KEY = JobKey("slurm", "12")
URL = "http://127.0.0.1:9820"
ME = os.geteuid()
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def tree(tmp_path):
    return FeatureTree(str(tmp_path / "features"))


def variables(path):
    with open(path) as file:
        lines = [line.removeprefix("export ").strip().partition("=") for line in file]
    return {name: value for name, _, value in lines}


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def holds_token(path, tree):
    with open(f"{tree.tokens_path}/slurm-12") as file:
        token = file.read().strip()
    with open(path) as file:
        return token in file.read()


def test_without_a_listener_there_is_no_token_and_only_the_job_s_user_may_read_the_paths(tree):
    write_exports(tree, KEY, ME, -1, FeatureAccess(None, "http"))
    assert variables(tree.exports_path(KEY))["JOBFEATURES"] == tree.job_path(KEY)
    assert mode(tree.exports_path(KEY)) == 0o400
    assert not os.path.exists(f"{tree.tokens_path}/slurm-12")


@pytest.mark.parametrize(("form", "bound"), [("local", True), ("both", True), ("http", False)])
def test_containers_of_a_job_with_paths_see_them_if_the_site_wants_it(tree, form, bound):
    write_exports(tree, KEY, ME, -1, FeatureAccess(URL, form, ("apptainer",)))
    found = variables(tree.exports_path(KEY))
    assert ("APPTAINER_BIND" in found) == bound
    assert "SINGULARITY_BIND" not in found
    if bound:
        job, status = tree.job_path(KEY), tree.status_path(KEY)
        assert found["APPTAINER_BIND"].endswith(f",{job}:{job}:ro,{status}:{status}")


@pytest.mark.parametrize(
    "listener",
    [{}, {"features_listen_address": "127.0.0.1:0"}, {"features_listen_address": "127.0.0.1:9820"}],
)
def test_the_setting_counts_with_and_without_a_listener(listener):
    assert Site(configured(SiteSettings, features_bind=("apptainer",), **listener)).access(None).binds == (
        "apptainer",
    )


def test_with_paths_by_default_the_addresses_lie_beside_them(tree):
    write_exports(tree, KEY, ME, -1, FeatureAccess(URL, "local"))
    assert not holds_token(tree.exports_path(KEY), tree)
    assert mode(tree.exports_path(KEY)) == 0o400
    assert holds_token(tree.urls_path(KEY), tree)
    assert mode(tree.urls_path(KEY)) == 0o400
    token = tree.make_token(KEY)
    assert variables(tree.urls_path(KEY)) == {
        "MACHINEFEATURES": f"{URL}/machinefeatures",
        "JOBFEATURES": f"{URL}/jobfeatures/{token}",
        "JOBSTATUS": f"{URL}/jobstatus/{token}",
        "no_proxy": "127.0.0.1",
        "NO_PROXY": "127.0.0.1",
    }


def test_only_a_job_that_is_told_addresses_is_told_to_ask_them_without_a_proxy(tree):
    for form in ("local", "both", "http"):
        write_exports(tree, KEY, ME, -1, FeatureAccess(URL, form))
        assert ("no_proxy" in variables(tree.exports_path(KEY))) == (form != "local")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Node1.example.org:9820/features", "node1.example.org"),
        ("http://[::1]:9820", "[::1],::1"),
        ("http://10.0.0.1", "10.0.0.1"),
    ],
)
def test_the_host_is_named_as_programs_compare_it(url, host):
    assert f"export no_proxy={host}\n" in format_urls(url, "TOKEN")


@pytest.mark.parametrize(("had", "has"), NO_PROXY_CASES)
def test_what_a_job_asks_without_a_proxy_stays(had, has):
    told = beside_others(NO_PROXY_LINES.splitlines(), had)
    values = had | dict(line.removeprefix("export ").split("=", 1) for line in told)
    assert (values["no_proxy"], values["NO_PROXY"]) == has


def test_hosts_that_are_parted_by_blanks_are_words_of_no_shell():
    (line,) = beside_others(["export no_proxy=127.0.0.1"], {"no_proxy": " a, b  c "})
    assert line == "export no_proxy=a,b,c,127.0.0.1"
    assert [*beside_others(["export no_proxy=127.0.0.1"], {"no_proxy": "a;$(id)"})] == []


def test_addresses_by_default_are_the_job_s_alone(tree):
    write_exports(tree, KEY, ME, -1, FeatureAccess(URL, "http"))
    assert mode(tree.exports_path(KEY)) == 0o400
    assert variables(tree.exports_path(KEY)) == variables(tree.urls_path(KEY))


def test_both_forms_have_names_of_their_own(tree):
    write_exports(tree, KEY, ME, -1, FeatureAccess(URL, "both"))
    assert mode(tree.exports_path(KEY)) == 0o400
    found = variables(tree.exports_path(KEY))
    assert found["JOBFEATURES"] == tree.job_path(KEY)
    assert found["JOBFEATURES_URL"] == variables(tree.urls_path(KEY))["JOBFEATURES"]
    assert len(found) == 8


def test_a_change_of_form_changes_the_mode_and_nothing_else_is_written_twice(tree):
    write_exports(tree, KEY, ME, -1, FeatureAccess(URL, "http"))
    first = os.stat(tree.exports_path(KEY)).st_ino
    write_exports(tree, KEY, ME, -1, FeatureAccess(URL, "http"))
    assert os.stat(tree.exports_path(KEY)).st_ino == first
    write_exports(tree, KEY, ME, -1, FeatureAccess(URL, "local"))
    assert mode(tree.exports_path(KEY)) == 0o400
    assert not holds_token(tree.exports_path(KEY), tree)


def test_a_job_whose_user_is_not_known_gets_paths(tree):
    write_exports(tree, KEY, None, -1, FeatureAccess(URL, "http"))
    assert variables(tree.exports_path(KEY))["JOBFEATURES"] == tree.job_path(KEY)
    assert not os.path.exists(tree.urls_path(KEY))


def test_who_cannot_give_files_away_writes_paths_for_others(tree, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr(FeatureTree, "make_token", lambda *_: pytest.fail("made for somebody else"))
    monkeypatch.setattr("jobfeatures.publish.folders.must_be_ours", lambda *_: None)
    write_exports(tree, KEY, 6001, -1, FeatureAccess(URL, "http"))
    monkeypatch.undo()
    assert variables(tree.exports_path(KEY))["JOBFEATURES"] == tree.job_path(KEY)


def test_no_file_that_others_may_read_holds_a_token(tree):
    for form in ("local", "both", "http"):
        write_exports(tree, KEY, ME, -1, FeatureAccess(URL, form))
        token = tree.make_token(KEY)
        for folder, _, names in os.walk(tree.root):
            for name in names:
                path = f"{folder}/{name}"
                with open(path) as file:
                    content = file.read()
                hidden = mode(folder) & 0o077 == 0 or mode(path) & 0o077 == 0
                assert hidden or token not in content, path


@ROOT_ONLY
def test_the_job_s_user_reads_his_addresses_and_nobody_else_does(tree, tmp_path):
    write_exports(tree, KEY, 6001, 6001, FeatureAccess(URL, "http"))

    def read_as(uid, path):
        for folder in (tmp_path, *tmp_path.parents):  # another pytest that starts closes root's again
            if folder.stat().st_mode & 0o001 == 0:
                folder.chmod(folder.stat().st_mode | 0o011)
        return subprocess.run(["cat", path], user=uid, group=uid, extra_groups=[], capture_output=True).stdout

    for path in (tree.exports_path(KEY), tree.urls_path(KEY)):
        assert until(lambda path=path: b"/jobfeatures/" in read_as(6001, path))
        assert read_as(6002, path) == b""
    assert read_as(6001, f"{tree.tokens_path}/slurm-12") == b""


def site_of(tmp_path, text):
    file = tmp_path / "config.toml"
    file.write_text(text)
    return Site(load_config(Config, file=str(file), environ={}).site)


def test_the_form_may_differ_by_partition(tmp_path):
    site = site_of(
        tmp_path,
        "[features]\nlisten_address = '127.0.0.1:9820'\nform = 'http'\n[partition.atlas]\nform = 'local'\n",
    )
    assert site.access("dirac") == FeatureAccess(URL, "http")
    assert site.access("atlas") == FeatureAccess(URL, "local")
    assert site.access(None) == FeatureAccess(URL, "http")


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ("listen_address = ':9820'", "http://127.0.0.1:9820"),
        ("listen_address = '0.0.0.0:9820'", "http://127.0.0.1:9820"),
        ("listen_address = '[::]:9820'", "http://[::1]:9820"),
        (
            "listen_address = 'n1.example.org:1'\nurl = 'https://n1.example.org:1'",
            "https://n1.example.org:1",
        ),
        ("listen_address = ':0'\nurl = 'https://n1:444/mjf/'", "https://n1:444/mjf"),
        ("listen_address = ':0'", None),
        ("url = 'http://n1:9820'", None),
    ],
)
def test_jobs_are_told_an_address_that_they_can_reach(tmp_path, settings, url):
    assert site_of(tmp_path, f"[features]\n{settings}\n").access(None).url == url


@pytest.mark.parametrize(
    "url", ["n1:9820", "ftp://n1", "http://n1:0", "http://n1/$(x)", "http://n1/a b", "http://"]
)
def test_a_wrong_address_is_named(tmp_path, url):
    from jobfeatures.errors import ConfigurationError

    with pytest.raises(ConfigurationError, match=r"features\.url"):
        site_of(tmp_path, f'[features]\nurl = "{url}"\n')
