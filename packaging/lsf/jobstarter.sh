#!/bin/sh
# LSF job starter: tells a job where its features are, and then executes the job.
# LSF runs it as the job's user, with the job's command as its arguments. The pre-execution command
# has prepared the lines; if it has not, the job is told where its features will be. No other program
# is started here, and the job starts whatever the lines say.
if [ -n "${LSB_JOBID:-}" ]; then
  _key=lsf-$LSB_JOBID
  [ "${LSB_JOBINDEX:-0}" = 0 ] || _key=$_key%5B$LSB_JOBINDEX%5D
  case $_key in
  *[!a-z0-9%BD-]*) ;;
  *)
    _root=${JOBFEATURES_FEATURES_ROOT:-/run/jobfeatures}
    _lines=$_root/exports/$_key
    if [ -f "$_lines" ] && [ -r "$_lines" ]; then
      _count=0
      while [ "$_count" -lt 16 ] && { IFS= read -r _line || [ -n "$_line" ]; }; do
        _count=$((_count + 1))
        _value=${_line#*=}
        case $_line in
        *[[:cntrl:]]*) ;;
        'export MACHINEFEATURES='*) export MACHINEFEATURES="$_value" ;;
        'export JOBFEATURES='*) export JOBFEATURES="$_value" ;;
        'export JOBSTATUS='*) export JOBSTATUS="$_value" ;;
        'export MACHINEFEATURES_URL='*) export MACHINEFEATURES_URL="$_value" ;;
        'export JOBFEATURES_URL='*) export JOBFEATURES_URL="$_value" ;;
        'export JOBSTATUS_URL='*) export JOBSTATUS_URL="$_value" ;;
        esac
      done 2>/dev/null <"$_lines"
    else
      export MACHINEFEATURES="$_root/machinefeatures" JOBFEATURES="$_root/jobfeatures/$_key"
      export JOBSTATUS="$_root/jobstatus/$_key"
    fi
    ;;
  esac
fi
unset _key _root _lines _count _line _value
[ "$#" -gt 0 ] || exit 0
if [ -f "$1" ] && ! [ -x "$1" ]; then # a script that is not executable, to be read by a shell
  exec /bin/sh "$@"
fi
exec "$@"
