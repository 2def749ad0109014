"""What is written of a job while the directory service does not answer."""

import pwd
import random
import threading
from types import SimpleNamespace

from jobfeatures.publish.writing import group_of
from jobfeatures.system import lookups
from tests.running import until


def test_nobody_waits_for_the_group_of_a_user_whom_the_directory_takes_its_time_to_name(monkeypatch):
    answers = threading.Event()
    monkeypatch.setattr(lookups, "PATIENCE_SECS", 0.0)
    monkeypatch.setattr(lookups, "PERIOD_SECS", 0.0)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: answers.wait() and SimpleNamespace(pw_gid=uid + 1))
    uid = 2**30 + random.randrange(2**29)  # answers are kept, also to the next run in one process
    assert (group_of(uid), group_of(None)) == (-1, -1)
    answers.set()
    assert until(lambda: group_of(uid) != -1)
    assert group_of(uid) == uid + 1
