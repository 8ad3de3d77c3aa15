"""Client of one Kubernetes API server: calls and watches; errors are values."""

import time
from collections.abc import Awaitable, Callable
from typing import Protocol, Self, TypedDict

import aiohttp
import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace
from yarl import URL

from sunk_sync import __version__
from sunk_sync.kube.api.answers import Decode, KubeError, T, short
from sunk_sync.kube.api.credentials import Credentials
from sunk_sync.kube.api.fencing import FENCED, READS, FencedBody, LeftSeconds, unlimited
from sunk_sync.kube.api.transport import (
    Meter,
    Stream,
    caught,
    decoded,
    read,
    read_refusal,
    watched_socket,
)
from sunk_sync.telemetry.exchange import OnExchange

USER_AGENT = f"sunk-sync/{__version__}"
CALLS_MAX = 32
"""Connections for calls. Each watch has one more of its own."""
DEADLINE_S = 10.0
CONNECT_DEADLINE_S = 10.0
ANSWER_BYTES_MAX = 8 << 20
EXACT_S = 3600.0
"""aiohttp rounds longer deadlines up to whole seconds."""
READ_BUFFER_BYTES = 64 << 10
"""aiohttp pauses reading at twice this size; it bounds one slice of a stream."""


class Request(Struct, frozen=True, kw_only=True):
    """One HTTP request. `body` is encoded JSON."""

    method: str = "GET"
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"
    deadline_s: float = DEADLINE_S
    bytes_max: int = ANSWER_BYTES_MAX
    by_anyone: bool = False
    """A write that a replica may send although it does not lead: to the Lease itself, or one that
    the API server takes once only."""

    @property
    def fenced(self) -> bool:
        return not (self.by_anyone or self.method in READS)


class ResourceAttributes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class Restores(Struct):
    """Restores of the API server that its watches have found together."""

    count: int = 0
    """How often a watch found that resourceVersions went back, because etcd was restored from a
    backup. Another watch may miss it, because the server has passed its version again by then."""


class Caller(Protocol):
    """The part of KubeClient that sends one request and reads its answer."""

    async def call(self, request: Request, decode: Decode[T], /) -> T | KubeError: ...


class KubeClient:
    """Calls and watches with one identity."""

    def __init__(
        self, credentials: Credentials, *, on_exchange: OnExchange, clock: Callable[[], float]
    ) -> None:
        self.restores = Restores()
        self.left_s: LeftSeconds = unlimited
        """Asked right before each write is sent."""
        self._credentials = credentials
        self._on_exchange = on_exchange
        self._clock = clock
        self._open_sessions()

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: str | None,
        context: str | None,
        on_exchange: OnExchange,
        clock: Callable[[], float] = time.monotonic,
    ) -> Self | KubeError:
        """Load address and credentials: in-cluster, else as kubectl does. Send nothing yet."""
        credentials = Credentials(kubeconfig=kubeconfig, context=context, clock=clock)
        unusable = await credentials.load()
        if unusable is not None:
            return unusable
        try:
            return cls(credentials, on_exchange=on_exchange, clock=clock)
        except OSError as error:  # ssl.SSLError is one
            return KubeError(kind="credentials", why=short(f"certificates: {error}"))

    @property
    def address(self) -> str:
        return str(self._credentials.configuration.host)

    @property
    def namespace(self) -> str:
        """Namespace of the ServiceAccount, else of the kubeconfig's context, else `default`."""
        return self._credentials.namespace

    async def aclose(self) -> None:
        await self._calls.close()
        await self._streams.close()

    async def call(self, request: Request, decode: Decode[T]) -> T | KubeError:
        """Send the request within its deadline; decode the body of a 2xx answer."""

        async def once(authorization: str) -> T | KubeError:
            meter = Meter(self._on_exchange, request.method, request.path)
            if request.fenced:
                answer = await self._fenced(request, decode, authorization, meter)
            else:
                sending = self._exchange(request, decode, authorization, meter, request.body)
                answer = await caught(sending)
            meter.report(answer)
            return answer

        return await self._as_ourselves(once)

    async def open(self, request: Request, *, silence_s: float) -> Stream | KubeError:
        """Start a watch: a Stream once the server answers 200, else the error.

        `request.deadline_s` holds until then. Afterwards no gap may be longer than `silence_s`.
        """

        async def once(authorization: str) -> Stream | KubeError:
            meter = Meter(self._on_exchange, "WATCH", request.path)
            opened = await caught(self._begin(request, authorization, meter, silence_s=silence_s))
            if isinstance(opened, KubeError):
                meter.report(opened)
            return opened

        return await self._as_ourselves(once)

    async def _as_ourselves(self, once: Callable[[str], Awaitable[T | KubeError]]) -> T | KubeError:
        """Send with the current token. After a 401 send once more if there is a newer token."""
        authorization = await self._authorization()
        answer = await once(authorization)
        refused = isinstance(answer, KubeError) and answer.status == 401
        if refused and await self._credentials.renew(authorization):
            return await once(await self._authorization())
        return answer

    async def _fenced(
        self, request: Request, decode: Decode[T], authorization: str, meter: Meter
    ) -> T | KubeError:
        """Send a write only while this replica leads, and give it no longer than that."""
        left_s = self.left_s()
        if left_s <= 0:
            return FENCED
        body = FencedBody(request.body or b"", self.left_s)
        within = replace(request, deadline_s=min(request.deadline_s, left_s))
        answer = await caught(self._exchange(within, decode, authorization, meter, body))
        return FENCED if body.refused else answer

    async def _exchange(
        self,
        request: Request,
        decode: Decode[T],
        authorization: str,
        meter: Meter,
        body: bytes | FencedBody | None,
    ) -> T | KubeError:
        async with self._calls.request(
            request.method,
            self._url(request),
            data=body,
            headers=_headers(authorization, request.content_type if request.body else ""),
            timeout=aiohttp.ClientTimeout(total=request.deadline_s, ceil_threshold=EXACT_S),
            **self._options(),
        ) as response:
            meter.status = response.status
            if response.status >= 300:
                return await read_refusal(response)
            answer = await read(response, request.bytes_max)
            if isinstance(answer, KubeError):
                return answer
            meter.received_bytes = len(answer)
            return decoded(answer, decode)

    async def _begin(
        self, request: Request, authorization: str, meter: Meter, *, silence_s: float
    ) -> Stream | KubeError:
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_DEADLINE_S, sock_read=silence_s
        )
        with anyio.fail_after(request.deadline_s):
            response = await self._streams.get(
                self._url(request),
                headers=_headers(authorization),
                timeout=timeout,
                **self._options(),
            )
            meter.status = response.status
            if response.status < 300:
                return Stream(response, meter)
            async with response:
                return await read_refusal(response)

    async def cluster_uid(self) -> str | KubeError:
        """Return the UID of the namespace kube-system, which identifies this cluster."""
        answer = await self.call(Request(path="/api/v1/namespaces/kube-system"), _decode_uid)
        return answer if isinstance(answer, KubeError) else answer.metadata.uid

    async def server_version(self) -> str | KubeError:
        """Return the version of the server, such as v1.35.4."""
        answer = await self.call(Request(path="/version"), _decode_version)
        return answer if isinstance(answer, KubeError) else answer.git_version

    async def may(self, permission: ResourceAttributes) -> bool | KubeError:
        """Whether RBAC allows sunk-sync this access (SelfSubjectAccessReview)."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": permission},
        }
        request = Request(
            method="POST",
            path="/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            body=msgspec.json.encode(review),
        )
        answer = await self.call(request, _decode_review)
        return answer if isinstance(answer, KubeError) else answer.status.allowed

    async def _authorization(self) -> str:
        authorization = await self._credentials.authorization()
        if self._credentials.tls != self._tls:
            await self._reopen_sessions()
        return authorization

    async def _reopen_sessions(self) -> None:
        """Connect again with new address or certificates. Calls in flight fail."""
        old = self._calls, self._streams
        try:
            self._open_sessions()
        except OSError:  # files are half written: the next call tries again
            return
        for session in old:
            await session.close()

    def _open_sessions(self) -> None:
        context = self._credentials.ssl_context()

        def session(limit: int) -> aiohttp.ClientSession:
            return aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=limit, ssl=context, keepalive_timeout=60, socket_factory=watched_socket
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=READ_BUFFER_BYTES,
            )

        self._calls, self._streams = session(CALLS_MAX), session(0)
        self._tls = self._credentials.tls

    def _url(self, request: Request) -> URL:
        return URL(self.address + request.path, encoded=True).with_query(request.query)

    def _options(self) -> "_Options":
        configuration = self._credentials.configuration
        return _Options(
            allow_redirects=False,
            server_hostname=configuration.tls_server_name or None,
            proxy=configuration.proxy or None,
        )


class _Options(TypedDict):
    allow_redirects: bool
    server_hostname: str | None
    proxy: str | None


def _headers(authorization: str, content_type: str = "") -> dict[str, str]:
    """Make the headers. No compression: it costs more than the network in a cluster."""
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": USER_AGENT,
    }
    if authorization:
        headers["Authorization"] = authorization
    if content_type:
        headers["Content-Type"] = content_type
    return headers


class _UidMeta(Struct, frozen=True):
    uid: str


class _WithUid(Struct, frozen=True):
    metadata: _UidMeta


class _Version(Struct, frozen=True):
    git_version: str = msgspec.field(name="gitVersion")


class _Verdict(Struct, frozen=True):
    allowed: bool


class _Review(Struct, frozen=True):
    status: _Verdict


_decode_uid = msgspec.json.Decoder(_WithUid).decode
_decode_version = msgspec.json.Decoder(_Version).decode
_decode_review = msgspec.json.Decoder(_Review).decode
