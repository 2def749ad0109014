#!/bin/sh
# HTCondor job wrapper (USER_JOB_WRAPPER): tells a job where its features are, then executes the job.
# condor_starter runs it as the job's user, in the job's environment. The exporter's daemon publishes
# the features when the job's scratch directory appears; we wait a short time for its export lines. If
# no daemon publishes, the features go into the scratch directory. Whatever fails, the job is started.
# A wrapper has a price: HTCondor holds a job whose program cannot be started, and behind one it ends.
# All work is done in a subshell, since variables set here could be in the job's environment.
_jobfeatures_lines=$(
  exec </dev/null 2>/dev/null # the streams are the job's
  PATH=/usr/local/bin:/usr/bin:/bin
  limit=${JOBFEATURES_HOOK_TIMEOUT:-2}
  case $limit in '' | *[!0-9]* | ????*) limit=2 ;; esac

  # show FILE: print the lines of an exports file that set our variables, sixteen at most
  show() {
    [ -f "$1" ] && [ -r "$1" ] || return 1
    lines=0
    while [ "$lines" -lt 16 ] && { IFS= read -r line || [ -n "$line" ]; }; do
      lines=$((lines + 1))
      case $line in
      *[[:cntrl:]]*) ;;
      'export MACHINEFEATURES='* | 'export JOBFEATURES='* | 'export JOBSTATUS='* | \
        'export MACHINEFEATURES_URL='* | 'export JOBFEATURES_URL='* | 'export JOBSTATUS_URL='* | \
        'export APPTAINER_BIND='* | 'export SINGULARITY_BIND='* | 'export no_proxy='* | 'export NO_PROXY='*)
        printf '%s\n' "${line#export }" ;;
      esac
    done <"$1"
  }

  # number NAME: print a whole number from the job's ad
  number() { sed -n "s/^$1 = \([0-9][0-9]*\)\$/\1/p" "$_CONDOR_JOB_AD"; }

  [ -f "${_CONDOR_JOB_AD:-}" ] && [ -r "$_CONDOR_JOB_AD" ] || exit 0
  job=$(number ClusterId).$(number ProcId)
  case $job in .* | *. | *[!0-9.]*) exit 0 ;; esac
  # Each schedd numbers from 1; its name is the beginning of GlobalJobId.
  schedd=$(sed -n "s/^GlobalJobId = \"\([A-Za-z0-9_.~@-]*\)#$job#[0-9]*\"\$/@\1/p" "$_CONDOR_JOB_AD" | sed 's/@/%40/g')
  job=$job$schedd

  root=${JOBFEATURES_FEATURES_ROOT:-/run/jobfeatures}
  tenths=$((${limit#"${limit%%[!0]*}"}0))
  while [ -d "$root/exports" ]; do
    show "$root/exports/htcondor-$job" && exit 0
    [ "$tenths" -gt 0 ] || break
    tenths=$((tenths - 1))
    sleep 0.1
  done

  command=${JOBFEATURES_COMMAND:-}
  for directory in /opt/jobfeatures-exporter/bin /usr/local/bin /usr/bin; do
    [ -z "$command" ] && [ -x "$directory/jobfeatures" ] && command=$directory/jobfeatures
  done
  [ -x "$command" ] && [ -d "${_CONDOR_SCRATCH_DIR:-}" ] || exit 0
  own=$_CONDOR_SCRATCH_DIR/.jobfeatures
  mkdir -m 700 "$own" || exit 0 # not permitted, or left by an earlier start
  timeout -s KILL "$((limit + 1))" "$command" publish --batch htcondor --features.root "$own" >&2
  show "$own/exports/htcondor-$job"
)

while IFS= read -r _jobfeatures_line; do
  case $_jobfeatures_line in # what the job has already stays
  APPTAINER_BIND=*) _jobfeatures_old=${APPTAINER_BIND:-} ;;
  SINGULARITY_BIND=*) _jobfeatures_old=${SINGULARITY_BIND:-} ;;
  no_proxy=*) _jobfeatures_old=${no_proxy:-${NO_PROXY:-}} ;; # programs read either, and some only the first that is set
  NO_PROXY=*) _jobfeatures_old=${NO_PROXY:-${no_proxy:-}} ;;
  *) _jobfeatures_old= ;;
  esac
  case $_jobfeatures_line,$_jobfeatures_old, in
  *"_BIND=${_jobfeatures_line#*=},"*",${_jobfeatures_line#*=},"*) ;;
  *_BIND=*) # without the folders of a job that has submitted this one, which are gone
    _jobfeatures_old=$(
      root=${_jobfeatures_line#*=} IFS=,
      root=${root%%/machinefeatures:*}
      set -f
      for each in $_jobfeatures_old; do
        case $each in "$root/machinefeatures:"* | "$root/jobfeatures/"* | "$root/jobstatus/"*) ;; *) printf ',%s' "$each" ;; esac
      done
    )
    _jobfeatures_old=${_jobfeatures_old#,}
    ;;
  esac
  case ,$_jobfeatures_old, in
  ,,) ;;
  ,\*, | *",${_jobfeatures_line#*=},"*) _jobfeatures_line=${_jobfeatures_line%%=*}=$_jobfeatures_old ;;
  *) _jobfeatures_line=${_jobfeatures_line%%=*}=$_jobfeatures_old,${_jobfeatures_line#*=} ;;
  esac
  # shellcheck disable=SC2163  # the line is NAME=value
  [ -n "$_jobfeatures_line" ] && export "$_jobfeatures_line"
done <<END
$_jobfeatures_lines
END
unset _jobfeatures_lines _jobfeatures_line _jobfeatures_old

exec "$@"
