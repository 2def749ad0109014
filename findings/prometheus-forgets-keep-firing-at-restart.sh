#!/bin/bash
# prometheus 2.42.0+ds-5+deb12u1 (Debian 12): an alert with keep_firing_for, and a restart of the server.
# One would guess: as the waiting time of `for` is taken up again after a restart (from ALERTS_FOR_STATE), so is what is left of
# keep_firing_for; the server's data are all there.
# What happens: an alert whose expression no longer holds and which is kept firing for ten minutes is gone with the restart,
# whereas one that waits by `for` has the same activeAt before and after, but for the seconds that the server was down.
# Why it matters: keep_firing_for bridges gaps between jobs (a node that is drained, a job that is requeued); a reload by restart
# ends such alerts all at once, as if they were resolved.
set -euo pipefail
tmp=$(mktemp -d)
server=
stop() { if [ -n "$server" ]; then kill "$server"; wait "$server" || true; server=; fi; }
trap 'stop; rm -rf "$tmp"' EXIT
cd "$tmp"
apt-get download -q -o APT::Sandbox::User=root prometheus=2.42.0+ds-5+deb12u1 >/dev/null
dpkg -x prometheus_*.deb root
root/usr/bin/prometheus --version 2>&1 | head -1

cat >rules.yml <<RULES
groups:
- name: jobs
  rules:
  - {alert: Kept, expr: vector(time()) < $(($(date +%s) + 15)), keep_firing_for: 10m}
  - {alert: Waiting, expr: vector(1), for: 5m}
RULES
echo '{global: {evaluation_interval: 1s}, rule_files: [rules.yml]}' >prometheus.yml
at=127.0.0.1:$((20000 + RANDOM % 10000))
start() {
    root/usr/bin/prometheus --config.file prometheus.yml --storage.tsdb.path data --web.listen-address $at \
        --rules.alert.for-grace-period=1s 2>>log &
    server=$!
}
alerts() {  # name, state and age in seconds, a line each
    curl -sf "http://$at/api/v1/alerts" | python3 -c '
import datetime, json, sys
now = datetime.datetime.now(datetime.timezone.utc)
for alert in sorted(json.load(sys.stdin)["data"]["alerts"], key=lambda alert: alert["labels"]["alertname"]):
    since = datetime.datetime.fromisoformat(alert["activeAt"][:19] + "+00:00")
    print(alert["labels"]["alertname"], alert["state"], round((now - since).total_seconds()))'
}
start
sleep 25
echo "ten seconds after the expression of Kept became false:"; alerts | tee before
stop
start
sleep 20
echo "after the restart:"; alerts | tee after
grep -q '^Kept firing' before
grep -q '^Waiting pending' before
[ "$(wc -l <after)" = 1 ]
read -r name state age <after
[ "$name $state" = "Waiting pending" ] && [ "$age" -gt 35 ]  # of the 20 s since the restart and 25 s before
echo "Holds: a restart takes up for, and forgets keep_firing_for."
