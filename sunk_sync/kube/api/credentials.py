"""Credentials for the API server, found as kubernetes_asyncio does, and renewed."""

import asyncio
import os
import ssl
from collections.abc import Callable
from pathlib import Path

import aiohttp
import anyio
import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader
from kubernetes_asyncio.config.kube_config import KubeConfigLoader, load_kube_config

from sunk_sync.kube.api.answers import KubeError, short

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
RENEW_S = 60.0
"""Interval of checks for new tokens of files and plugins, as in Kubernetes' own clients."""
RENEW_AFTER_401_S = 5.0
"""Minimum time between two replacements of a refused token: a plugin may be costly."""
PLUGIN_DEADLINE_S = 30.0
TLS_FIELDS = ("host", "ssl_ca_cert", "cert_file", "key_file", "verify_ssl", "tls_server_name")


class Credentials:
    def __init__(
        self, *, kubeconfig: str | None, context: str | None, clock: Callable[[], float]
    ) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._clock = clock
        self._loader: KubeConfigLoader | None = None
        self._lock = asyncio.Lock()
        self._loaded_s = self._renewed_s = float("-inf")
        self.configuration = Configuration(host="")
        self.namespace = "default"
        """Namespace of the ServiceAccount, else of the kubeconfig's context."""
        self.tls: tuple[object, ...] = ()
        """The settings that connections depend on. When they change, connections must be opened
        again."""

    async def load(self) -> KubeError | None:
        """Load everything again: files, and plugins even if their token is still valid."""
        fresh = Configuration(host="")
        try:
            with anyio.fail_after(PLUGIN_DEADLINE_S):
                await self._load_into(fresh)
        except TimeoutError:
            return _error(f"the credential plugin did not finish within {PLUGIN_DEADLINE_S:.0f} s")
        except _CONFIG_ERRORS as error:
            return _error(f"{type(error).__name__}: {error}")
        if not fresh.host:
            return _error("the kubeconfig names no server")
        self.configuration = fresh
        self.tls = _tls(fresh)
        self._loaded_s = self._clock()
        return None

    async def _load_into(self, configuration: Configuration) -> None:
        if self._is_in_cluster():
            InClusterConfigLoader(
                token_filename=str(SERVICE_ACCOUNT / "token"),
                cert_filename=str(SERVICE_ACCOUNT / "ca.crt"),
                try_refresh_token=False,
            ).load_and_set(configuration)
            self.namespace = _text(SERVICE_ACCOUNT / "namespace") or "default"
            return
        self._loader = await load_kube_config(
            config_file=self._kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config",
            context=self._context,
            client_configuration=configuration,
        )
        current = (self._loader.current_context or {}).get("context") or {}
        self.namespace = current.get("namespace") or "default"

    def _is_in_cluster(self) -> bool:
        named = self._kubeconfig or self._context
        return (
            not named
            and "KUBERNETES_SERVICE_HOST" in os.environ
            and (SERVICE_ACCOUNT / "token").is_file()
        )

    async def authorization(self) -> str:
        """Return the header Authorization; empty with a client certificate."""
        if self._clock() - self._loaded_s > RENEW_S:
            async with self._lock:
                if self._clock() - self._loaded_s > RENEW_S:
                    await self._refresh()
        return self._header()

    def _header(self) -> str:
        return str(self.configuration.api_key.get("BearerToken") or "").strip()

    async def _refresh(self) -> None:
        """Read files that may have changed; run a plugin only if its token expires soon.

        On a failure keep the old token: the server decides whether it is valid.
        """
        self._loaded_s = self._clock()
        if self._loader is None:
            await self.load()
            return
        try:
            with anyio.fail_after(PLUGIN_DEADLINE_S):
                await self._loader.load_and_set(self.configuration)
        except _CONFIG_ERRORS:
            return
        self.tls = _tls(self.configuration)

    async def renew(self, refused: str) -> bool:
        """Load again after a 401 to the header `refused`; return whether another try may help."""
        async with self._lock:
            if self._header() != refused:
                return True
            if self._clock() - self._renewed_s < RENEW_AFTER_401_S:
                return False
            self._renewed_s = self._clock()
            tls = self.tls
            await self.load()
            return self._header() != refused or self.tls != tls

    def ssl_context(self) -> ssl.SSLContext | bool:
        """Return the TLS context. Raise OSError if a file is unusable."""
        configuration = self.configuration
        if not str(configuration.host).startswith("https"):
            return True
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        # The CAs of many clusters lack fields that RFC 5280 requires and Python 3.13 checks.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context


# The library indexes and asserts while it reads files and plugins, so it raises all of these.
_CONFIG_ERRORS = (
    ConfigException,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    RuntimeError,
    yaml.YAMLError,
    aiohttp.ClientError,
)


def _tls(configuration: Configuration) -> tuple[object, ...]:
    return tuple(
        (value, _written(value))
        for value in (getattr(configuration, field) for field in TLS_FIELDS)
    )


def _written(value: object) -> float:
    try:
        return os.stat(value).st_mtime if isinstance(value, str) else 0.0
    except OSError:
        return 0.0


def _error(why: str) -> KubeError:
    return KubeError(kind="credentials", why=short(why))


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
