#!/bin/bash -p
# Stands where a hook of jobfeatures-exporter was, which has been removed while a batch system's configuration may
# still name it: without a script here nodes drain and jobs fail. It does nothing but say so in syslog, and starts
# the job where that was its task. When nothing names it any more, delete /opt/jobfeatures-exporter.
( # not a child of the job, and with nothing that a job's environment has
  unset "${!LD_@}"
  export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
  timeout -s KILL 1 logger -t jobfeatures -p daemon.warning -- \
    "$0: jobfeatures-exporter has been removed, and the batch system still runs this script, which does nothing now" &
) </dev/null >/dev/null 2>&1
case ${0##*/} in
jobwrapper.sh) exec "$@" ;;
jobstarter.sh)
  [ "$#" -gt 0 ] || exit 0
  case $1 in # as the job starter itself does
  "${LSB_JOBFILENAME:-}"*) [ ! -f "$1" ] || [ -x "$1" ] || exec /bin/sh "$@" ;;
  esac
  exec "$@"
  ;;
esac
exit 0
