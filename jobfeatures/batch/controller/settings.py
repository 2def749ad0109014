"""What a node's settings make of asking the controller role."""

from __future__ import annotations

from urllib.parse import urlsplit

from jobfeatures.batch.controller.client import ControllerClient
from jobfeatures.batch.controller.credential import is_node_name
from jobfeatures.clock import Clock
from jobfeatures.config import Config
from jobfeatures.errors import ConfigurationError

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def make_client(
    config: Config, clock: Clock, node_name: str, *, key: str, timeout_secs: float
) -> ControllerClient:
    """Return what asks; `key` is the setting that wants it. Raises ConfigurationError."""
    if config.controller_url is None:
        raise ConfigurationError("controller.url", f"is not set: {key} = controller needs it")
    parts = urlsplit(config.controller_url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise ConfigurationError("controller.url", "must be https: the token would be read on the way")
    if not is_node_name(node_name):
        raise ConfigurationError("node.name", f"must be a node's name, not {node_name!r}")
    if config.controller_ca_file is not None:
        import ssl

        try:
            ssl.create_default_context(cafile=config.controller_ca_file)
        except (OSError, ValueError) as error:
            raise ConfigurationError("controller.ca_file", f"cannot be used: {error}") from error
    return ControllerClient(
        clock,
        config.controller_url,
        node_name=node_name,
        token_file=config.controller_token_file,
        ca_file=config.controller_ca_file,
        timeout_secs=timeout_secs,
    )
