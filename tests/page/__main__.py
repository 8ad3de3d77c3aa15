"""Take pictures of the status page at several sizes, and measure its first paint.

`python -m tests.page FOLDER` writes a PNG for each.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.page.chromium import Browser, browser
from tests.page.served import Served

SIZES = (8, 500, 5000)
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def looks() -> Iterator[tuple[str, dict[str, int | bool]]]:
    yield "light", {}
    yield "dark", {"dark": True}
    yield "phone", {"width": 360, "height": 740}


async def main(folder: Path) -> None:
    async with browser() as opened:
        for hosts in SIZES:
            for name, look in looks():
                (folder / f"page-{hosts}-{name}.png").write_bytes(
                    await picture(opened, hosts, f"{hosts} hosts, {name}", look)
                )


async def picture(opened: Browser, hosts: int, what: str, look: dict[str, int | bool]) -> bytes:
    async with Served(hosts).serve() as served, opened.page() as page:
        shown_ms = await served.open_in(page, **look)
        painted_ms = await page.until(PAINTED)
        await asyncio.sleep(2)
        print(f"{what}: first paint {painted_ms:.0f} ms, all hosts {shown_ms:.0f} ms")
        return await page.screenshot()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(target))
