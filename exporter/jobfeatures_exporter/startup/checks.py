"""Checks settings for contradictions, before anything starts and before a reload takes effect.

`check_features_root` also finds missing permissions, before anything starts.
"""

from __future__ import annotations

import errno
import os
import stat

from jobfeatures.errors import ConfigurationError
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.ingest.config import IngestSettings
from jobfeatures_exporter.privacy.hiding import make_privacy
from jobfeatures_exporter.scrape.collectors import CONTROLLER
from jobfeatures_exporter.web.config import FEATURES, NODES, SONAR
from jobfeatures_exporter.web.hosts import is_loopback
from jobfeatures_exporter.web.listener import check_web

KEY = "features.root"
INSTEAD = "run as root, name another folder, or switch publishing off: --no-features.publish"


def check(config: ExporterConfig) -> None:
    """Raise ConfigurationError if settings contradict each other, or a file that they name is invalid.

    Those files are web.config_file and privacy_key_file.
    """
    check_ingest(config.ingest)
    check_web(config.web, other_listeners(config), config.shared.site.served.url)
    make_privacy(config.privacy)
    if config.role != CONTROLLER:
        check_listener(config)
    elif config.cluster.listen is not None:
        check_nodes_listener(config)


def other_listeners(config: ExporterConfig) -> dict[str, str | None]:
    """Return the addresses of the listeners for features and Sonar's documents; None if not configured."""
    return {FEATURES: config.shared.site.served.listen_address, SONAR: config.ingest.listen}


def check_ingest(config: IngestSettings) -> None:
    """Raise ConfigurationError if sonar.listen admits senders without passwords, or sonar.max_nodes is 0."""
    listen = config.listen
    if listen is not None and config.users_file is None and not is_loopback(listen.rpartition(":")[0]):
        raise ConfigurationError(
            "sonar.listen", "an address other than loopback needs passwords: set sonar.users_file"
        )
    if config.max_nodes == 0:
        raise ConfigurationError("sonar.max_nodes", "must be 1 or more")


def check_nodes_listener(config: ExporterConfig) -> None:
    """Raise ConfigurationError if controller.listen lacks a secret, or lacks TLS beyond loopback."""
    if config.cluster.secret_file is None:
        raise ConfigurationError("controller.secret_file", "must be set, because controller.listen is set")
    listen: str = config.cluster.listen or ""
    if NODES not in config.web.config_for and not is_loopback(listen.rpartition(":")[0]):
        raise ConfigurationError(
            "controller.listen",
            'an address other than loopback needs TLS: set web.config_file, and web.config_for = ["nodes"]',
        )


def check_listener(config: ExporterConfig) -> None:
    """Raise ConfigurationError if jobs are to use URLs and features.listen_address is not set.

    Also if that address has port 0 (any free port) and features.url is not set: jobs could not know the port.
    """
    if config.shared.site.served.listen_address is None:
        if config.shared.site.features.form != "local":
            raise ConfigurationError("features.form", 'must be "local" unless features.listen_address is set')
        return
    if config.shared.site.served.listen_address.endswith(":0") and config.shared.site.served.url is None:
        raise ConfigurationError(
            "features.listen_address",
            "port 0 is any free port, unknown to jobs: name another port, or set features.url",
        )


def check_features_root(config: ExporterConfig) -> None:
    """Raise ConfigurationError if the feature directories cannot be written; creates nothing.

    Failures that may be transient, such as a full disk, do not count: the publisher retries.
    """
    if not config.features_publish:
        return
    root = config.shared.batch.common.root
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
        what = f"a link; name {os.path.realpath(root)}" if os.path.islink(root) else "not a folder"
        raise ConfigurationError(KEY, f"{root} is {what}")
    if found.st_uid not in {0, os.geteuid()}:
        raise ConfigurationError(
            KEY, f"{root} belongs to uid {found.st_uid}, who could change what jobs read; chown root {root}"
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
