#!/bin/bash
# In a machine of its own (up.sh machine): start the pool as up.sh does in namespaces, then run a command.
#
# Control groups are v2's alone, the pool's below system.slice/condor.service as under systemd.
set -euo pipefail
L=/tmp/jobfeatures-lab/htcondor groups=/sys/fs/cgroup/system.slice
hostname wn1
ip addr add 10.9.9.1/32 dev lo # HTCondor does not look up a STARTD whose host is 127.x
for each in /var/lib/condor /var/lib/jobfeatures-exporter; do mount -t tmpfs -o mode=755 tmpfs "$each"; done
chmod 700 /var/lib/jobfeatures-exporter
cp -a /etc/condor/config.d /run/config.d # tests give the pool other settings
mount --bind /run/config.d /etc/condor/config.d
/opt/lab/prepare
mkdir -p "$L" $groups/condor.service
read -ra controllers </sys/fs/cgroup/cgroup.controllers
echo "${controllers[*]/#/+}" >$groups/cgroup.subtree_control
(
    echo $BASHPID >$groups/condor.service/cgroup.procs
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 /usr/sbin/condor_master -f
) >/run/condor_master.log 2>&1 &
echo $! >"$L/init.pid"
cat >"$L/in" <<'END'
#!/bin/bash
exec env -i HOME=/root LANG=C.UTF-8 TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
END
chmod 755 "$L/in"
cp /opt/lab/{as,daemon} "$L/"
for _ in $(seq 600); do
    if [ "$("$L/in" condor_status -any -af MyType 2>/dev/null | grep -cE '^(Scheduler|Machine)$')" -ge 3 ]; then break; fi
    sleep 0.3
done
status=0
cd /opt/lab
CONDOR_LAB=$L CONDOR_LAB_PACE=${CONDOR_LAB_PACE:-5} PYTHONPATH=/opt/lab/site:$(echo /opt/jobfeatures-exporter/lib/python3*/site-packages) "$@" || status=$?
mkdir -p /mnt/log
cp /var/log/condor/* /mnt/log/ 2>/dev/null || true
exit $status
