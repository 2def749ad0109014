#!/bin/bash
# htcondor 25.14.1 (PyPI wheel), its module classad2: Python datetimes as values of an ad.
# One would guess: a datetime with a time zone names one moment, so the ad has that moment (absTime with an offset);
# one without a zone is the doubtful case. (The same moment in another zone must not change anything.)
# What happens: a datetime without a zone is taken as local time, daylight saving included, and comes back right.
# Of one with a zone the offset is dropped and its clock is read as UTC: 12:00+02:00 (10:00 UTC) becomes 12:00 UTC.
# ClassAd text with an offset, absTime("…+02:00"), is read right. Python's careful way is the wrong one here.
# Why it matters: deadlines and shutdown times written into ads by services that keep zones (as one should)
# are wrong by the offset, two hours in a Central European summer and one in winter, and right where zones are UTC.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install htcondor==25.14.1
TZ=Europe/Berlin "$work/venv/bin/python" - <<'PYTHON'
from datetime import datetime, timedelta, timezone

import classad2

print("classad2", classad2.version(), "with TZ=Europe/Berlin")
print("guess: each moment comes back as it was put in")
summer = timezone(timedelta(hours=2))
winter = timezone(timedelta(hours=1))
moments = {
    "without a zone": (datetime(2026, 7, 15, 12), 0),
    "in UTC": (datetime(2026, 7, 15, 10, tzinfo=timezone.utc), 0),
    "summer time": (datetime(2026, 7, 15, 12, tzinfo=summer), 7200),
    "winter time": (datetime(2026, 1, 15, 12, tzinfo=winter), 3600),
}
for name, (moment, wrong_by) in moments.items():
    ad = classad2.ClassAd({"Deadline": moment})
    back = ad["Deadline"]
    print(f"{name}: {moment} comes back as {back}: {back.timestamp() - moment.timestamp():+.0f} s")
    assert back.timestamp() - moment.timestamp() == wrong_by, name
text = classad2.ExprTree('absTime("2026-07-15T12:00:00+02:00")').eval()
print("the text with its offset:", text)
assert text.timestamp() == datetime(2026, 7, 15, 10, tzinfo=timezone.utc).timestamp()
PYTHON
