#!/bin/bash
# Install the Debian 12 packages that up.sh needs. No daemon is started.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
if [ ! -e /usr/sbin/policy-rc.d ] && [ ! -d /run/systemd/system ]; then
  printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
  chmod 755 /usr/sbin/policy-rc.d
fi
apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends oar-server oar-user oar-node \
  oar-server-pgsql oar-user-pgsql openssh-server postgresql libjson-perl
