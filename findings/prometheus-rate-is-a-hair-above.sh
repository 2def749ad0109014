#!/bin/bash
# promtool 2.42.0+ds-5+deb12u1 (Debian 12): rate() of a counter that grows evenly and is scraped on time.
# One would guess: a job that uses 45 CPU seconds each minute has rate() = 0.75 exactly, as 45 / 60 is a binary fraction; and
# rate(x[7m]) is increase(x[7m]) / 420, as the manual says that increase is rate times the seconds of the range.
# What happens: increase(x[7m]) is 315 exactly, but rate(x[7m]) is 0.7500000000000001, and > 0.75: the growth is not
# divided by the seconds but multiplied by 1/seconds, rounded. Over 5 minutes the same counter has 0.75. Of whole numbers of
# seconds per minute, some ranges have it and some do not.
# Why it matters: limits on rates of jobs (over three quarters busy, equal to what was asked for) are true or false by the
# length of the window, and rate(a[7m]) == increase(a[7m]) / 420 is false.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
apt-get download -q -o APT::Sandbox::User=root prometheus=2.42.0+ds-5+deb12u1 >/dev/null
dpkg -x prometheus_*.deb root
root/usr/bin/promtool --version | head -1

cat >tests.yml <<'TESTS'
tests:
- interval: 1m
  input_series:
  - {series: busy, values: '0+45x60'}
  promql_expr_test:
  - {expr: 'increase(busy[7m])', eval_time: 50m}
  - {expr: 'increase(busy[7m]) / 420', eval_time: 50m}
  - {expr: 'rate(busy[7m])', eval_time: 50m}
  - {expr: 'rate(busy[7m]) > 0.75', eval_time: 50m}
  - {expr: 'rate(busy[5m])', eval_time: 50m}
  - {expr: 'rate(busy[5m]) > 0.75', eval_time: 50m, exp_samples: [{labels: '{}', value: 0}]}
TESTS
# The tests expect nothing (or, where there is nothing, something), so that promtool prints what it got.
root/usr/bin/promtool test rules tests.yml >answer 2>&1 && exit 1
grep -E 'expr|got' answer
found=$(sed -n 's|.*got: *||p' answer | sed 's| *$||' | tr '\n' '|')
[ "$found" = '{} 3.15E+02|{} 7.5E-01|{} 7.500000000000001E-01|{} 7.500000000000001E-01|{} 7.5E-01|nil|' ]
echo "Holds: rate() over 7 minutes of 0.75 a second is above 0.75."
