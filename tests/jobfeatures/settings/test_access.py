"""What is said of a server that wants more than was given."""

import pytest

from jobfeatures.errors import SourceError
from jobfeatures.settings.access import Access
from jobfeatures.system.httpget import HttpStatusError


def said(access):
    with pytest.raises(SourceError) as caught:
        access.get()
    return str(caught.value)


@pytest.fixture
def refuse(monkeypatch):
    """Let each question be answered with this status."""

    def refuse(status):
        def fetch(url, *_arguments, **_more):
            raise HttpStatusError(url, status, "No", "")

        monkeypatch.setattr("jobfeatures.settings.access.fetch_text", fetch)

    return refuse


def test_a_server_that_wants_a_password_names_the_flags_for_it(refuse):
    refuse(401)
    assert said(Access("http://n1:9819", flag="--metrics")) == (
        "http://n1:9819: 401 No: ''; give --metrics.user and --metrics.password-file, or --metrics.token-file"
    )
    given = Access("http://n1:9819", {"Authorization": "Basic eDp5"}, flag="--metrics")
    assert said(given).endswith("the password or token is wrong")


def test_a_server_that_refers_elsewhere_is_not_followed(refuse):
    refuse(307)
    assert said(Access("http://n1:9819", flag="--metrics")) == (
        "http://n1:9819: 307 No: ''; give the address that it refers to: redirects are not followed"
    )


def test_other_refusals_and_addresses_without_flags_are_told_as_they_are(refuse):
    refuse(404)
    assert said(Access("http://n1:9819", flag="--metrics")) == "http://n1:9819: 404 No: ''"
    refuse(401)
    assert said(Access("http://n1:9819")) == "http://n1:9819: 401 No: ''"
