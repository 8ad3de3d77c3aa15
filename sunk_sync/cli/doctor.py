"""`sunk-sync doctor`: check both sides and name each problem with its remedy. It writes nothing."""

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TextIO

import anyio

from sunk_sync.cli.clock_skew import check_skew, kubernetes_skew_s, slurmctld_skew_s, span
from sunk_sync.cli.findings import Finding, Report, blind, fail, ok, some_of, warn
from sunk_sync.cli.job_texts import job_findings, read_own_jobs
from sunk_sync.cli.name_mapping import findings_of
from sunk_sync.cli.node_sets import check_node_sets
from sunk_sync.cli.node_sizes import size_findings
from sunk_sync.cli.node_taints import taint_findings
from sunk_sync.cli.packing import packing_findings
from sunk_sync.cli.permissions import ROLES, examine_permissions
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.facts import NEEDED, News, Tell
from sunk_sync.core.translate.counted import counted
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.api.client import KubeClient, ResourceAttributes
from sunk_sync.kube.read.listing import Listing
from sunk_sync.kube.write.hooks_key import SecretReference, find_key, secret_name
from sunk_sync.kube.write.outcomes import is_gone
from sunk_sync.server.tokens import KeyFileError, checked_key, read_key
from sunk_sync.service.hooks_key import cure_of, needs_secret
from sunk_sync.service.wiring import configuration_of, selections_of
from sunk_sync.settings.model import Settings
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.api.client import Access, SlurmClient
from sunk_sync.slurm.api.controller import Conf, read_conf
from sunk_sync.slurm.api.requests import SlurmCall
from sunk_sync.slurm.api.token import Token
from sunk_sync.slurm.api.transport import Network
from sunk_sync.slurm.api.versions import NEWEST, OLDEST
from sunk_sync.slurm.read.node_sizes import read_sizes
from sunk_sync.slurm.read.nodes import AlsoRead, NodePoll
from sunk_sync.slurm.read.pacing import PollTiming, Time
from sunk_sync.telemetry.exchange import Exchange

TOKEN_SOON_S = 600.0
KILL_WAIT_DEFAULT_S = 30.0

_KUBE_CURES = {
    "credentials": "check --kubeconfig and --context; in a Pod: its ServiceAccount is mounted",
    "timeout": "is the API server up, and does a NetworkPolicy let us reach it?",
    "connection": "is the address right, and does a NetworkPolicy let us reach it?",
}
_SLURM_CURES = {
    "unreachable": "check --slurm-api-base; is slurmrestd up, does a NetworkPolicy allow it?",
    "broken": "slurmrestd breaks off: see its log",
    "timeout": "slurmrestd answers but slurmctld does not: see the log of slurmctld",
    "auth": "renew the token: scontrol token username=root lifespan=…",
    "unserved": "check --slurm-api-version and --slurm-api-base; "
    f"sunk-sync speaks {OLDEST} to {NEWEST}",
    "controller_down": "slurmrestd cannot reach slurmctld: is slurmctld up?",
    "garbage": "something else than slurmrestd answers there: check --slurm-api-base",
}


async def doctor(settings: Settings, file: TextIO = sys.stdout) -> int:
    """Print one line for each check. Return 0: no problem, 1: problem found, 2: could not check."""
    report = Report(file)
    graph = Graph(configuration_of(settings, cluster_uid=""))
    async with kube_client(settings) as kube, slurm_clients(settings) as slurm:
        whole, *each = slurm
        report.tell(check_token(whole.token, now=time.time()))
        examined = await anyio.gather(
            examine_kubernetes(kube, settings, graph),
            *map(examine_address, each),
            list_slurm(whole, graph),
        )
        report.tell(finding for findings in examined for finding in findings)
        user = settings.slurm_user_name or whole.token.user
        if any(finding.blind for finding in report.findings):
            report.tell(check_user(user))
        else:
            conf = await read_conf(whole)
            report.tell(check_user(user, conf))
            report.tell(check_kill_wait(settings.slurm_kill_wait_s, conf))
            report.tell(
                findings_of(
                    graph,
                    selector=settings.slurmd_selector,
                    namespaces=settings.slurmd_namespace,
                )
            )
            if "scheduler" in settings.components:
                report.tell(size_findings(graph, await read_sizes(whole)))
                ours = graph.workloads.configuration
                report.tell(job_findings(await read_own_jobs(whole), mine=ours.owns))
            report.tell(packing_findings(graph))
            report.tell(taint_findings(graph))
    return report.end()


@asynccontextmanager
async def kube_client(settings: Settings) -> AsyncIterator[KubeClient | KubeError]:
    client = await KubeClient.connect(
        kubeconfig=_path(settings), context=settings.context, on_exchange=_unheard
    )
    try:
        yield client
    finally:
        if isinstance(client, KubeClient):
            await client.aclose()


async def examine_kubernetes(
    client: KubeClient | KubeError, settings: Settings, graph: Graph
) -> list[Finding]:
    """Check access, version, clock, permissions; fill the graph with Nodes and slurmd Pods."""
    if isinstance(client, KubeError):
        return [_kube_finding(client, "no way to Kubernetes")]
    version = await client.server_version()
    if isinstance(version, KubeError):
        return [_kube_finding(version, f"{client.address} does not answer")]
    findings = [ok("kubernetes", f"{version} at {client.address}")]
    findings += check_skew("Kubernetes", await kubernetes_skew_s(_path(settings), settings.context))
    findings += await examine_permissions(client, settings)
    findings += await check_hooks_key(client, settings, namespace=client.namespace)
    findings += await check_node_sets(client, settings)
    findings += await _list_kube(client, settings, graph)
    return findings + check_scheduler(settings)


def _kube_finding(error: KubeError, what: str) -> Finding:
    cure = _KUBE_CURES.get(error.kind, "see the log of the API server")
    if error.status == 401:
        cure = "the credentials are not taken: renew them"
    elif error.status == 403:
        cure = ROLES
    return blind("kubernetes", f"{what}: {error.why}", cure)


async def _list_kube(client: KubeClient, settings: Settings, graph: Graph) -> list[Finding]:
    uid = await client.cluster_uid()
    if isinstance(uid, KubeError):
        return [_kube_finding(uid, "the namespace kube-system cannot be read")]
    graph.workloads.configuration = configuration_of(settings, cluster_uid=uid)
    bad: list[str] = []
    for source, selection in selections_of(settings).items():
        if source not in NEEDED:
            continue
        listing = Listing(
            client,
            selection,
            tell=_filling(graph),
            on_bad=lambda kind, name, why: bad.append(f"{kind} {name} ({why})"),
            ambient=Ambient(),
        )
        answer = await listing.run()
        if isinstance(answer, KubeError):
            return [_kube_finding(answer, f"{selection.source} cannot be listed")]
    if bad:
        return [warn("kubernetes", f"unreadable objects, {some_of(bad)}", "look at them")]
    return []


def check_scheduler(settings: Settings) -> list[Finding]:
    """Report which Pods sunk-sync schedules; others wait without a message."""
    if "scheduler" not in settings.components:
        return []
    names = settings.watch_namespace
    where = "every namespace" if "*" in names else ", ".join(names)
    return [ok("scheduler", f"takes Pods with schedulerName {settings.scheduler_name} in {where}")]


async def check_hooks_key(
    client: KubeClient, settings: Settings, *, namespace: str
) -> list[Finding]:
    """Check that the key of the hook tokens survives a restart, in a file or a Secret (L5)."""
    if settings.hooks_key_file is not None:
        return [_key_in_file(Path(settings.hooks_key_file))]
    if not needs_secret(settings):
        return []
    place = SecretReference(namespace, secret_name(settings.cluster_name))
    found = await find_key(client, place)
    if isinstance(found, KubeError) and is_gone(found):
        create = ResourceAttributes(verb="create", resource="secrets", namespace=namespace)
        if await client.may(create) is True:
            return [_no_key(place, "is missing")]
    if isinstance(found, KubeError):
        return [fail("hooks key", f"Secret {place} cannot be read: {found.why}", cure_of(place))]
    if not found:
        return [_no_key(place, "is empty")]
    return [_key_checked(lambda: checked_key(found, f"Secret {place}"), f"in Secret {place}")]


def _no_key(place: SecretReference, why: str) -> Finding:
    text = f"Secret {place} {why}: sunk-sync puts a key there when it starts"
    return warn("hooks key", text, f"start it; if that does not help: {cure_of(place)}")


def _key_in_file(path: Path) -> Finding:
    return _key_checked(lambda: read_key(path), f"in {path}")


def _key_checked(key: Callable[[], bytes], where: str) -> Finding:
    try:
        key()
    except KeyFileError as error:
        return fail("hooks key", str(error), "openssl rand -hex 32 makes one")
    return ok("hooks key", where)


@asynccontextmanager
async def slurm_clients(settings: Settings) -> AsyncIterator[list[SlurmClient]]:
    """Yield a client that fails over, then one for each address, all with one token."""
    secret, path = settings.slurm_auth_token, settings.slurm_auth_token_file
    token = Token(text=secret.get_secret_value() if secret else "", path=str(path or ""))
    token.reread()
    clients = [
        SlurmClient(
            Access(
                addresses=addresses,
                version=settings.slurm_api_version,
                user_name=settings.slurm_user_name or "",
            ),
            token,
            transport=Network(clock=time.monotonic),
            clock=time.monotonic,
            on_exchange=_unheard,
        )
        for addresses in (settings.slurm_api_base, *((one,) for one in settings.slurm_api_base))
    ]
    try:
        yield clients
    finally:
        for client in clients:
            await client.aclose()


def check_token(token: Token, *, now: float) -> list[Finding]:
    cure = "scontrol token username=root lifespan=…, into --slurm-auth-token-file"
    if token.problem:
        return [fail("token", token.problem, cure)]
    if not token.current():
        return [warn("token", "none given", cure)]
    expires_s = token.expires_at_s
    if token.current().count(".") != 2:
        return [fail("token", "is no JWT (three parts with dots between)", cure)]
    if expires_s is None:
        return [warn("token", "does not say when it expires", "fine where it lives for ever")]
    left_s = expires_s - now
    if left_s <= 0:
        return [fail("token", f"expired {span(-left_s)} ago", cure)]
    level = ok("token", f"expires in {span(left_s)}")
    return [level if left_s > TOKEN_SOON_S else warn("token", level.text, cure)]


def check_user(user: str, conf: Conf | SlurmError | None = None) -> list[Finding]:
    """Check the user of the token: only root and SlurmUser submit for others and see all jobs."""
    told = conf.slurm_user if isinstance(conf, Conf) else ""
    if user in ("", "root", told):
        return [ok("token", f"is of {user}")] if user else []
    cure = "scontrol token username=root (or SlurmUser's name) lifespan=…"
    if not told:
        text = f"is of {user}, which is right only where SlurmUser in slurm.conf is {user}"
        return [warn("token", text, cure)]
    text = f"is of {user}: only root and {told} may make jobs for others and surely see all jobs"
    return [fail("token", text, cure)]


async def examine_address(client: SlurmClient) -> list[Finding]:
    """Check one address of slurmrestd with a request that reaches slurmctld, and its clock."""
    asked_s = time.time()
    answer = await client.call(SlurmCall(path="diag/", kind="diag/"))
    endpoint = client.endpoint
    if isinstance(answer, SlurmError):
        return [_slurm_finding(answer, endpoint.address)]
    text = f"{endpoint.release or 'version unknown'}, {answer.version} at {endpoint.address}"
    return [ok("slurm", text), *check_skew("slurmctld", slurmctld_skew_s(answer.body, asked_s))]


def _slurm_finding(failure: SlurmError, address: str) -> Finding:
    cure = _SLURM_CURES.get(failure.kind, "see the logs of slurmrestd and slurmctld")
    return fail("slurm", f"{address}: {failure}", cure)


async def list_slurm(client: SlurmClient, graph: Graph) -> list[Finding]:
    """Fill the graph with Slurm nodes."""
    poll = NodePoll(
        client,
        _filling(graph),
        timing=PollTiming(),
        time=Time(clock=time.monotonic, sleep=asyncio.sleep, random=random.random),
        also=AlsoRead(usage=graph.configuration.pack != "off"),
    )
    failure = await poll.poll()
    if failure is None:
        return [ok("slurm", counted(len(graph.slurm_nodes.entries), "Slurm node"))]
    cure = _SLURM_CURES.get(failure.kind, "see the logs of slurmrestd and slurmctld")
    return [blind("slurm", f"Slurm nodes cannot be listed: {failure}", cure)]


def check_kill_wait(chosen_s: float | None, conf: Conf | SlurmError) -> list[Finding]:
    real_s = None if isinstance(conf, SlurmError) else conf.kill_wait_s
    if real_s is None:
        if chosen_s is not None:
            return [ok("kill wait", f"{chosen_s:g}s as set; this Slurm does not tell its own")]
        text = f"this Slurm does not tell its KillWait, {KILL_WAIT_DEFAULT_S:g}s is assumed"
        return [warn("kill wait", text, "set --slurm-kill-wait to KillWait of slurm.conf")]
    if chosen_s in (None, real_s):
        return [ok("kill wait", f"{real_s:g}s, read from Slurm")]
    text = f"--slurm-kill-wait is {chosen_s:g}s, Slurm's KillWait is {real_s:g}s"
    return [fail("kill wait", text, f"leave it out, or set it to {real_s:g}s")]


def _filling(graph: Graph) -> Tell:
    async def tell(news: Sequence[News]) -> None:
        graph.observe(news, now=time.monotonic())

    return tell


def _path(settings: Settings) -> str | None:
    return str(settings.kubeconfig) if settings.kubeconfig else None


def _unheard(_exchange: Exchange) -> None:
    """Ignore exchanges: doctor has no metrics."""
