"""Runs functions on a Dask cluster: the extra ``dask``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from jobfeatures.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from jobfeatures.schedule.partitions import Runner

CONNECT_SECS: Final = 10


@contextmanager
def connected(address: str) -> Iterator[Runner]:
    """Give what runs functions on the cluster with this scheduler. Raises ConfigurationError."""
    try:
        from distributed import Client
    except ImportError:
        raise ConfigurationError(
            "--dask", "needs Dask: pip install 'jobfeatures-exporter[analysis,dask]'"
        ) from None
    try:
        client = Client(address, timeout=CONNECT_SECS)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ConfigurationError("--dask", f"no scheduler answers at {shown(address)}: {error}") from None
    with client:
        yield client
