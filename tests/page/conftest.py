"""A browser for each test: it starts within a second."""

import os
from collections.abc import AsyncIterator

import pytest

from tests.page.chromium import COMMAND, Page, browser, is_there


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """An empty tab; the page's code must not raise."""
    if not is_there():
        why = f"{COMMAND} is missing: make testbed (or apt-get install {COMMAND})"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    async with browser() as opened, opened.page() as tab:
        yield tab
        assert tab.errors == []
