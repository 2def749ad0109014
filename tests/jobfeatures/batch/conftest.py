"""The made-up node of the exporter's tests, for what is found by processes."""

from tests.exporter.sampling.conftest import fail_opening, node

__all__ = ["fail_opening", "node"]
