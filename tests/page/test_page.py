"""The status page in a real browser: what a person sees, clicks and types."""

import pytest

from tests.page.chromium import Page
from tests.page.served import SHOWN, Served

pytestmark = pytest.mark.real
FEW, MANY = 23, 5000
TOLD = "document.getElementById('told').open"
FRAME_S = 0.1


async def click_host(page: Page) -> None:
    """Click on a host, and wait until the page explains it."""
    await page.evaluate("document.querySelector('[data-name=gpu-3]').click()")
    await page.until(TOLD)


async def test_each_host_is_a_tile_with_its_state_in_words_and_a_letter(page: Page) -> None:
    async with Served(FEW).serve() as served:
        await served.open_in(page)
        titles = await page.evaluate(
            "[...document.querySelectorAll('#grid button')].map(b => [b.title, b.textContent])"
        )
        assert titles[0] == ["gpu-0: with jobs", "b"]
        assert titles[19] == ["gpu-19: drained by others", "H"]
        keys = await page.evaluate("document.getElementById('keys').innerText")
        assert "12 with jobs" in keys
        assert "5 idle" in keys


async def test_a_host_that_changes_changes_its_tile_and_one_that_is_gone_leaves(
    page: Page,
) -> None:
    async with Served(FEW).serve() as served:
        await served.open_in(page)
        served.states["gpu-0"] = "down"
        del served.states["gpu-1"]
        await page.until("document.querySelector('[data-name=gpu-0]').className === 'down'")
        await page.until(f"{SHOWN} === {FEW - 1}")


async def test_a_click_explains_the_host_and_its_text_is_no_html(page: Page) -> None:
    async with Served(FEW).serve() as served:
        await served.open_in(page)
        await click_host(page)
        text = await page.evaluate("document.getElementById('text').innerText")
        assert text == "host gpu-3: <b>in sync</b>"
        await page.press("Escape")
        await page.until(f"!{TOLD}")


async def test_it_works_without_a_mouse(page: Page) -> None:
    async with Served(FEW).serve() as served:
        await served.open_in(page)
        await page.press("Tab")
        await page.write("default/train-1")
        await page.press("Enter")
        await page.until(TOLD)
        assert served.asked == [("pod", "default/train-1")]
        await page.press("Escape")
        await page.evaluate("document.querySelector('[data-name=gpu-3]').focus()")
        await page.press("ArrowRight")
        assert await page.evaluate("document.activeElement.dataset.name") == "gpu-4"
        await page.press("Enter")
        await page.until(TOLD)
        assert served.asked[-1] == ("host", "gpu-4")


async def test_a_search_marks_the_hosts_that_match(page: Page) -> None:
    async with Served(FEW).serve() as served:
        await served.open_in(page)
        await page.evaluate("document.getElementById('name').focus()")
        await page.write("gpu-1")
        found = await page.evaluate("document.querySelectorAll('#grid .found').length")
        assert found == len([name for name in served.states if "gpu-1" in name])


async def test_checks_phases_latencies_and_the_last_decisions_are_shown(page: Page) -> None:
    async with Served(FEW).serve() as served:
        await served.open_in(page)
        await page.until("document.getElementById('took').rows.length === 3")
        text = await page.evaluate("document.body.innerText.replaceAll('\\t', ' ')")
    for words in (
        "last step 0.1 s ago",
        "12 in Slurm's queue",
        "6 Pods bound 28 ms, at most 4.0 s",
        "12 ms now, 12 ms at most in two minutes",
        "host gpu-1 drained",
        "leads",
    ):
        assert words in text


async def test_without_the_service_the_page_says_so(page: Page) -> None:
    async with Served(FEW).serve() as served:
        await served.open_in(page)
    await page.until("document.getElementById('lost').textContent.includes('no connection')")


async def test_it_asks_nobody_else(page: Page) -> None:
    async with Served(FEW).serve() as served:
        await served.open_in(page)
        await click_host(page)
        assert {url for url in page.requests if not url.startswith(served.url)} == set()


@pytest.mark.parametrize("hosts", [8, MANY])
async def test_on_a_phone_nothing_is_cut_off(page: Page, hosts: int) -> None:
    async with Served(hosts).serve() as served:
        await served.open_in(page, width=360, height=740)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_it_follows_the_dark_mode_of_the_system(page: Page) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    async with Served(FEW).serve() as served:
        await served.open_in(page)
        assert await page.evaluate(colour) == "rgb(255, 255, 255)"
        await page.look(dark=True)
        assert await page.evaluate(colour) == "rgb(20, 23, 26)"


async def test_five_thousand_hosts_are_fluent(page: Page) -> None:
    """A change of a tenth of them takes less than a frame that a person would notice."""
    async with Served(MANY).serve() as served:
        await served.open_in(page)
        await page.evaluate(
            "window.took = []; const before = show;"
            "show = (...all) => { const at = performance.now(); before(...all);"
            " document.body.offsetHeight; took.push(performance.now() - at); }"
        )
        for number in range(0, MANY, 10):
            served.states[f"gpu-{number}"] = "down"
        took_ms = await page.until("took.length && took[0]")
        print(f"500 of 5,000 tiles change within {took_ms:.0f} ms")
        assert took_ms < 1000 * FRAME_S
