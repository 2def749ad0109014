#!/bin/bash
# prometheus-pushgateway 1.5.1-2+b5 (Debian 12), one group a job (/metrics/job/batch/job_id/N) as epilogs push.
# One would guess: a push that is refused with 400 (here for a timestamp, which the format allows and the gateway does not)
# changes nothing: a job that never got a value in has no series.
# What happens: the refused push makes the job's group. It has no metric but push_failure_time_seconds = now and
# push_time_seconds = 0, and stays until it is deleted: time() - push_time_seconds says that the job last pushed in 1970.
# Why it matters: each refused job stays on the page for ever, counts of groups count it, and alerts of "no push for an
# hour" fire for jobs that were never there, or name an age of half a century.
set -euo pipefail
tmp=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server"; wait "$server" || true; fi; rm -rf "$tmp"' EXIT
cd "$tmp"
apt-get download -q -o APT::Sandbox::User=root prometheus-pushgateway=1.5.1-2+b5 >/dev/null
dpkg -x prometheus-pushgateway_*.deb root
root/usr/bin/prometheus-pushgateway --version 2>&1 | head -1

at=127.0.0.1:$((20000 + RANDOM % 10000))
root/usr/bin/prometheus-pushgateway --web.listen-address=$at --persistence.file= 2>log &
server=$!
for _ in $(seq 100); do curl -sf -o answer "http://$at/-/ready" && break; sleep 0.2; done

push() { curl -s -w '%{http_code}' -o why --data-binary @- "http://$at/metrics/job/batch/job_id/$1"; }
echo "a push for job 1: $(echo 'cores 4' | push 1)"
refused=$(echo "cores 4 1700000000000" | push 2)
echo "a push for job 2: $refused, $(cat why)"
[ "$refused" = 400 ]
curl -sf "http://$at/metrics" | grep 'job="batch"' | tee page
[ "$(grep -c 'job_id="2"' page)" = 2 ]
grep -qE '^push_time_seconds\{.*job_id="2"\} 0$' page
grep -qE '^push_failure_time_seconds\{.*job_id="2"\} [1-9]' page
echo "Holds: a refused push leaves a group that last pushed in 1970."
