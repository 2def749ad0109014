"""An Ansible connection to a system in a folder of this machine, named by `ansible_host`: chroot, nothing more."""

import shutil
import subprocess
from pathlib import Path

from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: folder
short_description: a system in a folder
description: [runs commands by chroot, with /proc and /sys that no other process sees]
author: jobfeatures-exporter
options: {}
"""
INSIDE = 'mount --rbind /proc "$0/proc" && mount --rbind /sys "$0/sys" && exec chroot "$0" "$@"'


class Connection(ConnectionBase):
    transport = "folder"
    has_pipelining = True

    def _connect(self):
        self._connected = True
        return self

    def close(self):
        self._connected = False

    def _inside(self, path):
        return Path(self._play_context.remote_addr) / str(path).lstrip("/")

    def exec_command(self, cmd, in_data=None, sudoable=True):
        root = self._play_context.remote_addr
        isolated = ["unshare", "--mount", "--propagation", "private", "sh", "-c", INSIDE, root]
        environ = {
            "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
        }
        done = subprocess.run(
            [*isolated, "/bin/sh", "-c", cmd], input=in_data or b"", capture_output=True, env=environ
        )
        return done.returncode, done.stdout, done.stderr

    def put_file(self, in_path, out_path):
        shutil.copyfile(in_path, self._inside(out_path))

    def fetch_file(self, in_path, out_path):
        shutil.copyfile(self._inside(in_path), out_path)
