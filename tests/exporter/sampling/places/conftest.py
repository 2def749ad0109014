import errno
import os

import pytest

from jobfeatures_exporter.sampling.places import trust
from tests.exporter.sampling.places.staging import Host


@pytest.fixture
def host(node, tmp_path, monkeypatch):
    """A host where our own files are root's."""
    monkeypatch.setattr(trust, "ROOT_UID", os.getuid())
    before = os.umask(0o022)
    node.cgroup.chmod(0o755)  # which was made before
    host = Host(node, tmp_path)

    def getxattr(path, name, **_):
        if name != "user.delegate" or path not in host.delegated:
            raise OSError(errno.ENODATA, "No data available")
        return b"1"

    monkeypatch.setattr(os, "getxattr", getxattr)
    yield host
    os.umask(before)
