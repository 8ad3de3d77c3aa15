"""Servers for the tests of the Slurm client."""

from collections.abc import AsyncIterator

import pytest

from tests.slurm.recorded.server import Server, serving


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as running:
        yield running


@pytest.fixture
async def second() -> AsyncIterator[Server]:
    """Another server, at another address."""
    async with serving() as running:
        yield running
