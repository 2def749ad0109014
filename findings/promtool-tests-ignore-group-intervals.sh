#!/bin/bash
# promtool and prometheus 2.42.0+ds-5+deb12u1 (Debian 12): unit tests of rules whose group has an interval of its own.
# One would guess: `promtool test rules` evaluates a group when a server does, every `interval` of the group (here 10 s),
# and evaluation_interval is the default for groups that name none, as in the server's own configuration.
# What happens: in tests the group's interval is passed over, every group runs at evaluation_interval: 21 points in
# 20 seconds where the server, with the same two settings, makes 2.
# Why it matters: sums over recorded points (core hours: sum_over_time(cores[1d]) * interval) pass their test and are
# ten times too small in service; groups slower than five minutes leave gaps there that no test shows.
set -euo pipefail
tmp=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server"; wait "$server" || true; fi; rm -rf "$tmp"' EXIT
cd "$tmp"
apt-get download -q -o APT::Sandbox::User=root prometheus=2.42.0+ds-5+deb12u1 >/dev/null
dpkg -x prometheus_*.deb root
root/usr/bin/promtool --version | head -1

cat >rules.yml <<'RULES'
groups:
- name: of its own
  interval: 10s
  rules:
  - {record: slow, expr: vector(1)}
- name: by default
  rules:
  - {record: quick, expr: vector(1)}
RULES
echo '{global: {evaluation_interval: 1s}, rule_files: [rules.yml]}' >prometheus.yml
cat >tests.yml <<'TESTS'
rule_files: [rules.yml]
evaluation_interval: 1s
tests:
- interval: 1s
  promql_expr_test:
  - {expr: 'count_over_time(slow[20s])', eval_time: 40s, exp_samples: [{labels: '{}', value: 21}]}
  - {expr: 'count_over_time(quick[20s])', eval_time: 40s, exp_samples: [{labels: '{}', value: 21}]}
TESTS
echo "promtool: 21 points of each in 20 s:"
root/usr/bin/promtool test rules tests.yml

at=127.0.0.1:$((20000 + RANDOM % 10000))
root/usr/bin/prometheus --config.file prometheus.yml --storage.tsdb.path data --web.listen-address $at >log 2>&1 &
server=$!
sleep 40
points() { curl -sf -g "http://$at/api/v1/query?query=count_over_time($1[20s])" | sed 's/.*,"\([0-9]*\)"\].*/\1/'; }
slow=$(points slow); quick=$(points quick)
echo "prometheus: $slow points of slow, $quick of quick in 20 s"
[ "$slow" -ge 1 ] && [ "$slow" -le 3 ] && [ "$quick" -ge 15 ]
echo "Holds: promtool's tests run every group at evaluation_interval, the server does not."
