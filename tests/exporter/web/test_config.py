"""Links that a site states lead to http and https only, and what is put in stays in its place."""

import pytest

from jobfeatures_exporter.web.config import LINK, fill_link


@pytest.mark.parametrize(
    "template",
    [
        "https://grafana.example.org/d/job?var-job={job}&var-system={system}&var-note=token",
        "http://[::1]:3000/{node}",
    ],
)
def test_an_address_with_places_is_taken(template):
    assert LINK.parse(template) == template


@pytest.mark.parametrize(
    "template",
    [
        "javascript:alert({job})",
        "//grafana.example.org/{job}",
        "ftp://example.org/{job}",
        "https:///{job}",
        "https://user:secret@example.org/{job}",
        "https://example.org/{token}",
        "https://example.org/d/job?var-job={job}&auth_token=eyJhbGciOi",
        "https://example.org/d/job?API-key=7&var-job={job}",
        "https://example.org/{job",
        'https://example.org/" onclick="x',
        "https://example.org/\n{job}",
        "https://[::1/{job}",
        7,
    ],
)
def test_anything_else_is_refused(template):
    with pytest.raises(ValueError, match=r"must|placeholders"):
        LINK.parse(template)


def test_values_stay_within_their_place():
    filled = fill_link("https://g.example/{job}?n={node}", job='../x?a=b&c#"<', node="n1")
    assert filled == "https://g.example/..%2Fx%3Fa%3Db%26c%23%22%3C?n=n1"
