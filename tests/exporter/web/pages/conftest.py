from __future__ import annotations

import pytest

from jobfeatures_exporter.web import pages
from tests.exporter.web.pages.drawn import PAGES, page_of, text_of
from tests.exporter.web.pages.reading import Element


@pytest.fixture(autouse=True)
def times_are_shown_in_utc(in_utc):
    """Show them so whatever zone this machine is in."""


@pytest.fixture(params=PAGES)
def drawn(request) -> str:
    return request.param


@pytest.fixture
def text(drawn) -> str:
    return text_of(drawn)


@pytest.fixture
def page(drawn) -> Element:
    return page_of(drawn)


@pytest.fixture(autouse=True, scope="session")
def documentation_is_installed(tmp_path_factory):
    """As where packages are installed, whatever this machine has."""
    pages.DOCUMENTATION = str(tmp_path_factory.mktemp("docs"))
