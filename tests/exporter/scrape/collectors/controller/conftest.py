"""The queue and the nodes of a constructed cluster."""

from __future__ import annotations

import pytest

from jobfeatures.records.model import (
    Cluster,
    JobTable,
)
from tests.exporter.madecluster import make_cluster, make_queue


@pytest.fixture
def queue() -> JobTable:
    return make_queue()


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster()
