"""A headless Chromium, driven through its DevTools protocol."""

import asyncio
import base64
import contextlib
import itertools
import re
import tempfile
from collections.abc import AsyncIterator
from typing import Any, Final

import aiohttp

from tests.real.testbed.cache import BROWSER

FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",  # the tests run as root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
START_S: Final = 60.0
WITHIN_S: Final = 20.0
POLL_S: Final = 0.02
MESSAGE_MAX: Final = 64 << 20
KEYS: Final = {"ArrowRight": 39, "Enter": 13, "Escape": 27, "Tab": 9}

Message = dict[str, Any]


class Page:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self.requests: list[str] = []
        """URL of each request."""
        self.errors: list[str] = []
        """Exceptions and complaints of the page's own code."""
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for frame in self._socket:
            message = frame.json()
            if "id" in message:
                self._answers.pop(message["id"]).set_result(message)
            else:
                self._note(message["method"], message["params"])

    def _note(self, method: str, params: Message) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    async def call(self, method: str, **params: Any) -> Message:
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        message = await asyncio.wait_for(answer, WITHIN_S)
        if "error" in message:
            raise AssertionError(f"{method}: {message['error']}")
        return dict(message["result"])

    async def start(self) -> None:
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.call(f"{domain}.enable")

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def until(self, expression: str, *, within_s: float = WITHIN_S) -> Any:
        """Wait until the expression is true; return its value."""
        end = asyncio.get_running_loop().time() + within_s
        while not (value := await self.evaluate(expression)):
            if asyncio.get_running_loop().time() > end:
                raise AssertionError(f"not within {within_s} s: {expression}; {self.errors}")
            await asyncio.sleep(POLL_S)
        return value

    async def press(self, key: str) -> None:
        code = KEYS[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind, more in (("keyDown", text), ("keyUp", {})):
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more
            )

    async def write(self, text: str) -> None:
        await self.call("Input.insertText", text=text)

    async def look(self, *, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        """Set the window's size and the colours of the system."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def screenshot(self) -> bytes:
        """Return what a person sees, as PNG."""
        answer = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(answer["data"])

    async def close(self) -> None:
        self._reading.cancel()
        await self._socket.close()


class Browser:
    def __init__(self, address: str, session: aiohttp.ClientSession) -> None:
        self._address = address
        self._session = session

    @contextlib.asynccontextmanager
    async def page(self) -> AsyncIterator[Page]:
        """Open an empty tab; close it at the end."""
        async with self._session.put(f"http://{self._address}/json/new") as answer:
            tab = await answer.json(content_type=None)
        socket = await self._session.ws_connect(
            tab["webSocketDebuggerUrl"], max_msg_size=MESSAGE_MAX
        )
        page = Page(socket)
        await page.start()
        try:
            yield page
        finally:
            await page.close()
            await self._session.get(f"http://{self._address}/json/close/{tab['id']}")


@contextlib.asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            *("setpriv", "--pdeathsig", "KILL", BROWSER, *FLAGS),
            f"--user-data-dir={folder}",
            "about:blank",
            stderr=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
        )
        try:
            address = await asyncio.wait_for(_address(process), START_S)
            async with aiohttp.ClientSession() as session:
                yield Browser(address, session)
        finally:
            process.kill()
            await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    said = []
    async for line in process.stderr:
        said.append(line.decode(errors="replace"))
        if found := re.search(r"DevTools listening on ws://([^/]+)/", said[-1]):
            return found[1]
    raise AssertionError(f"{BROWSER} ended: {''.join(said[-5:])}")
