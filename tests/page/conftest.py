"""A browser for each test: it starts within a second."""

from collections.abc import AsyncIterator

import pytest

from tests.page.chromium import Page, browser
from tests.real.conftest import require_chromium

LIVE = "/v1/live"
"""A lost stream of it is no error: the service of a test ends before its tab."""


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """An empty tab; the page's code must not raise."""
    require_chromium()
    async with browser() as opened, opened.page() as tab:
        yield tab
        assert [error for error in tab.errors if not error.endswith(LIVE)] == []
