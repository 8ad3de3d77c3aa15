"""Servers that the tests of the Slurm client start from."""

from collections.abc import AsyncIterator

import pytest

from tests.slurm.recorded.server import Server, serving


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server that answers as it is told."""
    async with serving() as running:
        yield running


@pytest.fixture
async def second() -> AsyncIterator[Server]:
    """Another one, at another address."""
    async with serving() as running:
        yield running
