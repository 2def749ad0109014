#!/bin/bash
# victoria-metrics 1.79.5+ds1-2+b5 (Debian 12): a gauge that is nearly always small and once "unlimited".
# One would guess: samples are 64-bit floats, so each keeps its value whatever stands beside it, and 9223372036854771712,
# which the kernel prints for "no limit", is a great number as any other.
# What happens: the samples of a series are stored together as whole numbers with one power of ten for all of them. One
# value of 9.2e18 leaves no place behind the point: a job's 0.5, 0.25 and 0.125 hours beside it come back as 0, and 12.75 as 12, without a
# word in the log. The same series with +Inf in its place keeps every digit.
# Why it matters: limits, shares and times left of batch jobs are fractions until one job has no limit; who writes the
# kernel's number there loses the others.
set -euo pipefail
tmp=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server"; wait "$server" || true; fi; rm -rf "$tmp"' EXIT
cd "$tmp"
apt-get download -q -o APT::Sandbox::User=root victoria-metrics=1.79.5+ds1-2+b5 >/dev/null
dpkg -x victoria-metrics_*.deb root
echo "victoria-metrics $(dpkg-deb -f victoria-metrics_*.deb Version)"

at=127.0.0.1:$((20000 + RANDOM % 10000))
root/usr/bin/victoria-metrics -storageDataPath=data -httpListenAddr=$at -loggerLevel=WARN >log 2>&1 &
server=$!
for _ in $(seq 100); do curl -sf -o answer "http://$at/health" && break; sleep 0.2; done

now=$(($(date +%s) * 1000 - 600000))
{
    minute=0
    for value in 0.5 0.25 9223372036854771712 0.125 12.75; do
        echo "hours_left{unlimited=\"number\"} $value $((now + minute * 60000))"
        echo "hours_left{unlimited=\"infinity\"} ${value/9223372036854771712/+Inf} $((now + minute * 60000))"
        minute=$((minute + 1))
    done
} >lines
curl -sf --data-binary @lines "http://$at/api/v1/import/prometheus"
for _ in $(seq 50); do
    curl -sf "http://$at/internal/force_flush"
    curl -sf "http://$at/api/v1/export" --data-urlencode 'match[]=hours_left' >answer
    [ "$(wc -l <answer)" = 2 ] && break
    sleep 0.2
done
echo "sent:"; cat lines; echo "came back:"; cat answer; echo "log:"; cat log
grep 'number' answer | grep -qE '"values":\[0,0,92233720368547[0-9]{5},0,12\]'
grep 'infinity' answer | grep -qF '"values":[0.5,0.25,+Inf,0.125,12.75]'
echo "Holds: one unlimited value rounds the fractions beside it to whole numbers."
