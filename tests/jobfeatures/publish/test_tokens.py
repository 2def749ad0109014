import errno
import os
import stat
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.publish.tokens import TokenTable, new_token, parse_token
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey

KEY = JobKey("slurm", "12")


@pytest.fixture
def tree(tmp_path):
    return FeatureTree(str(tmp_path / "features"))


def test_a_token_is_long_random_and_fit_for_an_address():
    tokens = {new_token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert all(len(token) * 4 >= 128 and set(token) <= set("0123456789abcdef") for token in tokens)


@given(st.one_of(st.none(), st.binary(max_size=100)))
def test_any_content_is_a_token_or_none(content):
    token = parse_token(content)
    assert token is None or content.strip() == token.encode()


def test_a_token_is_made_once_and_survives_a_restart(tree, tmp_path):
    token = tree.make_token(KEY)
    assert FeatureTree(tree.root).make_token(KEY) == token
    assert TokenTable(tree.tokens_path).find(token) == KEY
    assert TokenTable(tree.tokens_path).find(token) == KEY


def test_nobody_else_can_read_a_token(tree):
    tree.make_token(KEY)
    assert stat.S_IMODE(os.stat(tree.tokens_path).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(f"{tree.tokens_path}/slurm-12").st_mode) == 0o600
    assert os.listdir(f"{tree.root}/staging") == []


def test_a_token_goes_with_its_job(tree):
    token = tree.make_token(KEY)
    table = TokenTable(tree.tokens_path)
    assert table.find(token) == KEY
    assert tree.remove_job(KEY) is False  # nothing but the token was there
    time.sleep(0.003)
    assert table.find(token) is None
    assert tree.make_token(KEY) != token


@pytest.mark.parametrize("content", ["", "x\n", "0" * 47 + "\n", "../" * 16 + "\n"])
def test_what_is_no_token_is_made_anew_and_never_found(tree, content):
    tree.prepare()
    path = f"{tree.tokens_path}/slurm-12"
    with open(path, "w") as file:
        file.write(content)
    os.chmod(path, 0o600)
    assert TokenTable(tree.tokens_path).find(content.strip()) is None
    token = tree.make_token(KEY)
    assert TokenTable(tree.tokens_path).find(token) == KEY


def test_the_token_of_a_process_that_was_faster_counts(tree, monkeypatch):
    tree.prepare()
    theirs, link = new_token(), os.link

    def link_too_late(*names, **folders):
        monkeypatch.setattr(os, "link", link)
        file = os.open(f"{tree.tokens_path}/slurm-12", os.O_CREAT | os.O_WRONLY, 0o600)
        os.write(file, f"{theirs}\n".encode())
        os.close(file)
        link(*names, **folders)

    monkeypatch.setattr(os, "link", link_too_late)
    assert tree.make_token(KEY) == theirs
    assert FeatureTree(tree.root).make_token(KEY) == theirs


def test_prolog_and_daemon_at_once_agree_on_one_token(tree):
    tree.prepare()
    for number in range(20):
        key, made, barrier = JobKey("slurm", str(number)), [], threading.Barrier(4)

        def make(key=key, made=made, barrier=barrier):
            barrier.wait()
            made.append(tree.make_token(key))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 4
        assert len(set(made)) == 1


def test_a_table_knows_each_new_token_at_once(tree):
    table = TokenTable(tree.tokens_path)
    assert table.find("0" * 48) is None  # there is no folder yet
    for number in range(100):
        key = JobKey("slurm", str(number))
        token = tree.make_token(key)
        time.sleep(0.0025)  # the table looks at a folder in flux every 2 ms
        assert table.find(token) == key


@pytest.mark.parametrize("failing", ["scandir", "open"])
def test_tokens_that_could_not_be_read_for_a_moment_are_found_later(tree, monkeypatch, failing):
    def fail(*_args, **_more):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    token = tree.make_token(KEY)
    os.utime(tree.tokens_path, (1, 1))  # the folder has not changed for long
    table = TokenTable(tree.tokens_path)
    with monkeypatch.context() as broken:
        broken.setattr(os, failing, fail)
        assert table.find(token) is None
    assert table.find(token) == KEY


def test_links_and_foreign_names_in_the_folder_are_passed_over(tree, tmp_path):
    tree.prepare()
    token = new_token()
    (tmp_path / "planted").write_text(token + "\n")
    os.symlink(tmp_path / "planted", f"{tree.tokens_path}/slurm-9")
    (tmp_path / "features/tokens/README").write_text(token + "\n")
    os.mkfifo(f"{tree.tokens_path}/slurm-8")
    assert TokenTable(tree.tokens_path).find(token) is None


@given(st.text(max_size=60))
def test_no_text_but_a_token_finds_a_job(text):
    assert TokenTable("/nonexistent").find(text) is None
