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
        'export NO_PROXY='*) # and no_proxy: programs read either, and some only the first that is set
          _old=${NO_PROXY:-${no_proxy:-}}
          case ,$_old, in ,\*, | *",$_value,"*) ;; *) _old=${_old:+$_old,}$_value ;; esac
          export NO_PROXY="$_old"
          _old=${no_proxy:-$_old}
          case ,$_old, in ,\*, | *",$_value,"*) ;; *) _old=${_old:+$_old,}$_value ;; esac
          export no_proxy="$_old"
          ;;
        esac
      done 2>/dev/null <"$_lines"
    else
      export MACHINEFEATURES="$_root/machinefeatures" JOBFEATURES="$_root/jobfeatures/$_key"
      export JOBSTATUS="$_root/jobstatus/$_key"
    fi
    ;;
  esac
fi
unset _key _root _lines _count _line _value _old
[ "$#" -gt 0 ] || exit 0
case $1 in # LSF's own file with the job's commands, to be read by a shell; a user's program fails as it would alone
"${LSB_JOBFILENAME:-}"*) [ ! -f "$1" ] || [ -x "$1" ] || exec /bin/sh "$@" ;;
esac
exec "$@"
