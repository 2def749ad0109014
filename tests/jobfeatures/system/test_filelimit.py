import resource

import pytest

from jobfeatures.system import filelimit
from jobfeatures.system.filelimit import ENOUGH, allowed_connections, limits, raise_limit


@pytest.fixture
def limit(monkeypatch):
    """Return a function that sets made-up limits; a third value is what setrlimit(2) fails with."""
    now = [0, 0]

    def get(_which):
        return tuple(now)

    def set_limits(_which, both):
        now[:] = both

    monkeypatch.setattr(filelimit.resource, "getrlimit", get)
    monkeypatch.setattr(filelimit.resource, "setrlimit", set_limits)

    def make(soft, hard, error=None):
        now[:] = soft, hard
        if error is not None:

            def fail(_which, _both):
                raise error

            monkeypatch.setattr(filelimit.resource, "setrlimit", fail)

    return make


@pytest.mark.parametrize(
    ("soft", "hard", "found"),
    [
        (1024, 524288, ENOUGH),
        (1024, resource.RLIM_INFINITY, ENOUGH),
        (1024, 4096, 4096),
        (64, 64, 64),
        (100_000, 524288, 100_000),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_is_needed_and_allowed(limit, soft, hard, found):
    limit(soft, hard)
    assert raise_limit() == found
    assert limits()[0] == found


@pytest.mark.parametrize("error", [OSError(1, "x"), ValueError("x")])
def test_a_limit_that_cannot_be_raised_stays(limit, error):
    limit(256, 4096, error)
    assert raise_limit() == 256


def test_listeners_have_a_share_of_few_descriptors_and_all_they_want_of_many(limit):
    limit(ENOUGH, ENOUGH)
    assert (allowed_connections(512), allowed_connections(12_000)) == (512, 12_000)
    limit(256, 256)
    assert sum(map(allowed_connections, (512, 256, 256, 1024))) <= 256 // 8
    limit(64, 64)
    assert allowed_connections(512) == 4
