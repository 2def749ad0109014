#!/bin/bash -p
# Slurm TaskProlog: tells a task where the features of its job are.
# slurmstepd runs it as the job's user before each task, and adds lines "export NAME=value" on its
# standard output to the task's environment. The Prolog has prepared the lines; if it has not,
# because it was late or failed, the task is told where its features will be.
# It starts no program, since it runs once per task.
LC_ALL=C
bound=
case ${SLURM_JOB_ID:-} in
'' | *[!0-9]*) exit 0 ;;
esac
root=${JOBFEATURES_FEATURES_ROOT:-/run/jobfeatures}
job=$SLURM_JOB_ID
# Every task of a heterogeneous job gets the number of its first component. Its own number is in the path of
# our control group, made by slurmstepd; without groups, it is the first one with export lines on this node.
if [[ ${SLURM_HET_SIZE:-} =~ ^[1-9][0-9]{0,3}$ && $job =~ ^[1-9][0-9]{0,9}$ ]]; then
  group='^[^:]*:[^:]*:/(slurm[^/]*/uid_[0-9]+|[^/]+\.slice/[^/]*slurmstepd\.scope)/job_([0-9]+)(/|$)'
  for ((number = job; number < SLURM_JOB_ID + SLURM_HET_SIZE; number++)); do
    [ -f "$root/exports/slurm-$number" ] && job=$number && break
  done
  while IFS= read -r line; do
    [[ $line =~ $group ]] && job=${BASH_REMATCH[2]} && break
  done 2>/dev/null </proc/self/cgroup
fi
# of_job NAME: set old to the list of folders in NAME without those of a job that has submitted this one, which are gone
of_job() {
  local IFS=, each
  set -f
  old=
  for each in ${!1}; do
    case $each in
    "$root/machinefeatures:"* | "$root/jobfeatures/"* | "$root/jobstatus/"*) ;;
    *) old=${old:+$old,}$each ;;
    esac
  done
}
exports=$root/exports/slurm-$job
cluster=${SLURM_CLUSTER_NAME//\//%2F}
[ -e "$exports@${cluster:0:200}" ] && exit 0 # another cluster's job has this number here
if [ -f "$exports" ] && [ -r "$exports" ]; then
  lines=0
  while [ "$lines" -lt 16 ] && { IFS= read -r line || [ -n "$line" ]; }; do
    lines=$((lines + 1))
    case $line in
    *[[:cntrl:]]*) ;;
    'export MACHINEFEATURES='* | 'export JOBFEATURES='* | 'export JOBSTATUS='* | \
      'export MACHINEFEATURES_URL='* | 'export JOBFEATURES_URL='* | 'export JOBSTATUS_URL='*) printf '%s\n' "$line" ;;
    'export APPTAINER_BIND='* | 'export SINGULARITY_BIND='* | 'export no_proxy='* | 'export NO_PROXY='*) # what the job has stays
      name=${line%%=*} ours=${line#*=}
      name=${name#export }
      old=${!name}
      case $name in # programs read either, and some only the first that is set
      no_proxy | NO_PROXY) old=${old:-${no_proxy:-$NO_PROXY}} ;;
      *)
        bound=$bound,$name
        case ,$old, in *",$ours,"*) ;; *) of_job "$name" ;; esac
        ;;
      esac
      case ,$old, in
      *[[:cntrl:]]*) ;;
      ,\*, | *",$ours,"*) [ "$old" = "${!name}" ] || printf '%s\n' "export $name=$old" ;;
      *) printf '%s\n' "export $name=${old:+$old,}$ours" ;;
      esac
      ;;
    esac
  done 2>/dev/null <"$exports"
else
  printf '%s\n' "export MACHINEFEATURES=$root/machinefeatures" \
    "export JOBFEATURES=$root/jobfeatures/slurm-$job" "export JOBSTATUS=$root/jobstatus/slurm-$job"
fi
for name in APPTAINER_BIND SINGULARITY_BIND; do
  of_job "$name"
  case $bound,$old in
  *",$name,"* | *[[:cntrl:]]*) ;;
  *) [ "$old" = "${!name}" ] || printf '%s\n' "export $name=$old" ;;
  esac
done
exit 0
