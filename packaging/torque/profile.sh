# shellcheck shell=sh
# Tells a Torque job where its features are: for /etc/profile.d, read by the login shell in which
# pbs_mom runs a job's script. The prologue has prepared the lines; if it has not, the job is told
# where its features will be. No program is started here.
if [ -n "${PBS_JOBID:-}" ] && [ -n "${PBS_ENVIRONMENT:-}" ]; then
  _jobfeatures=${PBS_JOBID%%.*}
  case $_jobfeatures in
  *[!][0-9-]*) ;;
  *'['*']') _jobfeatures="${_jobfeatures%%\[*}%5B${_jobfeatures##*\[}" _jobfeatures="${_jobfeatures%\]}%5D" ;;
  esac
  case $_jobfeatures in
  */* | '') ;;
  *)
    _root=${JOBFEATURES_FEATURES_ROOT:-/run/jobfeatures}
    if [ -f "$_root/exports/torque-$_jobfeatures" ] && [ -r "$_root/exports/torque-$_jobfeatures" ]; then
      while IFS= read -r _line || [ -n "$_line" ]; do
        case $_line in
        *[[:cntrl:]]*) ;;
        'export MACHINEFEATURES='* | 'export JOBFEATURES='* | 'export JOBSTATUS='* | \
          'export MACHINEFEATURES_URL='* | 'export JOBFEATURES_URL='* | 'export JOBSTATUS_URL='*)
          export "${_line#export }"
          ;;
        'export NO_PROXY='*) # and no_proxy: programs read either, and some only the first that is set
          _hosts=${_line#*=}
          _old=${NO_PROXY:-${no_proxy:-}}
          case ,$_old, in ,\*, | *",$_hosts,"*) ;; *) _old=${_old:+$_old,}$_hosts ;; esac
          export NO_PROXY="$_old"
          _old=${no_proxy:-$_old}
          case ,$_old, in ,\*, | *",$_hosts,"*) ;; *) _old=${_old:+$_old,}$_hosts ;; esac
          export no_proxy="$_old"
          ;;
        esac
      done <"$_root/exports/torque-$_jobfeatures"
      unset _line _hosts _old
    elif [ "${_jobfeatures#*[!0-9%BD-]}" = "$_jobfeatures" ]; then
      export MACHINEFEATURES="$_root/machinefeatures" JOBFEATURES="$_root/jobfeatures/torque-$_jobfeatures"
      export JOBSTATUS="$_root/jobstatus/torque-$_jobfeatures"
    fi
    ;;
  esac
  unset _jobfeatures _root
fi
