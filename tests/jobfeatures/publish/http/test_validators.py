import time

import pytest

from jobfeatures.publish.http.validators import has_changed
from jobfeatures.publish.remotevalues import Feature

MODIFIED_SECS = 784111777  # Sun, 06 Nov 1994 08:49:37 GMT


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Tokyo"])
def _zone(request, monkeypatch):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


# RFC 9110, 5.6.7: the present form of a date, and the two obsolete ones, all in GMT.
@pytest.mark.usefixtures("_zone")
@pytest.mark.parametrize(
    "date",
    ["Sun, 06 Nov 1994 08:49:{} GMT", "Sunday, 06-Nov-94 08:49:{} GMT", "Sun Nov  6 08:49:{} 1994"],
)
def test_a_date_of_any_form_is_in_gmt(date):
    found = Feature(b"4\n", '"x"', MODIFIED_SECS)
    assert has_changed({"If-Modified-Since": date.format(36)}, found)
    assert not has_changed({"If-Modified-Since": date.format(37)}, found)


@pytest.mark.parametrize("text", ["", "x", "Sun, 06 Nov 99999999 08:49:37 GMT", "0" * 2000])
def test_what_is_no_date_does_not_count(text):
    assert has_changed({"If-Modified-Since": text}, Feature(b"4\n", '"x"', MODIFIED_SECS))
