# shellcheck shell=sh
# Tells a Torque job where its features are: for /etc/profile.d, read by the login shell in which
# pbs_mom runs a job's script. The prologue has prepared the lines; nothing is started here.
if [ -n "${PBS_JOBID:-}" ] && [ -n "${PBS_ENVIRONMENT:-}" ]; then
  _jobfeatures=${PBS_JOBID%%.*}
  case $_jobfeatures in
  *[!][0-9-]*) ;;
  *'['*']') _jobfeatures="${_jobfeatures%%\[*}%5B${_jobfeatures##*\[}" _jobfeatures="${_jobfeatures%\]}%5D" ;;
  esac
  case $_jobfeatures in
  */* | '') ;;
  *)
    _jobfeatures=${JOBFEATURES_FEATURES_ROOT:-/run/jobfeatures}/exports/torque-$_jobfeatures
    if [ -f "$_jobfeatures" ] && [ -r "$_jobfeatures" ]; then
      while IFS= read -r _line || [ -n "$_line" ]; do
        case $_line in
        *[[:cntrl:]]*) ;;
        'export MACHINEFEATURES='* | 'export JOBFEATURES='* | 'export JOBSTATUS='* | \
          'export MACHINEFEATURES_URL='* | 'export JOBFEATURES_URL='* | 'export JOBSTATUS_URL='*)
          export "${_line#export }"
          ;;
        esac
      done <"$_jobfeatures"
      unset _line
    fi
    ;;
  esac
  unset _jobfeatures
fi
