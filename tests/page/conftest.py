"""A browser for each test: it starts within a second."""

from collections.abc import AsyncIterator

import pytest

from tests.page.chromium import Page, browser
from tests.real.conftest import require_chromium


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """An empty tab; the page's code must not raise."""
    require_chromium()
    async with browser() as opened, opened.page() as tab:
        yield tab
        assert tab.errors == []
