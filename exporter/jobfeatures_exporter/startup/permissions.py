"""Missing permissions of the daemon, reported before anything starts."""

from __future__ import annotations

import errno
import os
import stat

from jobfeatures.errors import ConfigurationError
from jobfeatures_exporter.config import DaemonConfig

KEY = "features.root"
INSTEAD = "run as root, name another folder, or switch publishing off: --no-features.publish"


def check_features_root(config: DaemonConfig) -> None:
    """Raise ConfigurationError if the feature directories cannot be written; creates nothing.

    Failures that may be transient, such as a full disk, do not count: the publisher retries.
    """
    if not config.features_publish:
        return
    root = config.features_root
    try:
        found = os.stat(root, follow_symlinks=False)
    except FileNotFoundError:
        parent = os.path.dirname(root)
        if not os.path.isdir(parent):
            raise ConfigurationError(KEY, f"{root} cannot be made: there is no folder {parent}") from None
        _check_writable(parent, f"{root} cannot be made")
        return
    except OSError as error:
        raise ConfigurationError(KEY, f"cannot read {root}: {error.strerror}; {INSTEAD}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise ConfigurationError(KEY, f"{root} has to be a folder, and is none")
    if found.st_uid not in {0, os.geteuid()}:
        raise ConfigurationError(
            KEY, f"{root} belongs to uid {found.st_uid}, who could change what jobs read"
        )
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        raise ConfigurationError(
            KEY, f"others may write to {root} (mode {stat.S_IMODE(found.st_mode):o}); chmod go-w {root}"
        )
    _check_writable(root, f"cannot write to {root}")


def _check_writable(folder: str, what: str) -> None:
    if os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        return
    read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
    reason = os.strerror(errno.EROFS if read_only else errno.EACCES)
    raise ConfigurationError(KEY, f"{what}: {reason}; {INSTEAD}")
