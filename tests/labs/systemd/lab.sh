# shellcheck shell=bash
# lab_service RUN ACTION: let a systemd whose /run this folder will be run the command in /mnt/.cmd, as lab.service
# (Delegate=yes), and then do ACTION. Output and status of the command are left beside it.
lab_service() {
  local units=$1/systemd/system base=basic.target each
  mkdir -p "$units"
  [ -e "${1%/run}/lib/systemd/system/dbus.service" ] && base="dbus.service $base"
  cat >"$units/lab.service" <<UNIT
[Unit]
Requires=$base
After=$base
SuccessAction=$2
FailureAction=$2
[Service]
Type=oneshot
Delegate=yes
KillMode=process
TimeoutSec=infinity
WorkingDirectory=/mnt
Environment=HOME=/root LANG=C.UTF-8 TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=/bin/bash -c "bash /mnt/.cmd >/mnt/output.log 2>&1 </dev/null; echo \$\$? >/mnt/.rc"
UNIT
  for each in apparmor e2scrub_reap keyboard-setup console-setup ldconfig \
    systemd-{udevd,udev-trigger,remount-fs,journal-flush,random-seed,timesyncd,resolved,sysctl,modules-load,hwdb-update,sysusers,update-utmp}; do
    ln -sf /dev/null "$units/$each.service"
  done
  for each in "${1%/run}"/usr/lib/systemd/system/*.timer; do # the distribution's, which write files at midnight
    case $each in */jobfeatures-*) ;; *) ln -sf /dev/null "$units/${each##*/}" ;; esac
  done
}
