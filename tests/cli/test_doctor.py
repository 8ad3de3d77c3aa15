"""Doctor: each finding from its facts, and whole runs against two small servers."""

import base64
import io
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from sunk_sync.cli.clock_skew import check_skew, slurmctld_skew_s, span
from sunk_sync.cli.doctor import (
    check_kill_wait,
    check_scheduler,
    check_token,
    check_user,
    doctor,
)
from sunk_sync.cli.findings import Finding, Report, blind, fail, ok, some_of, warn
from sunk_sync.cli.name_mapping import findings_of
from sunk_sync.cli.node_sizes import size_findings
from sunk_sync.cli.node_taints import taint_findings
from sunk_sync.cli.packing import packing_findings
from sunk_sync.cli.permissions import check_permissions
from sunk_sync.core.model.facts import Row, SlurmdPod
from sunk_sync.core.model.node_mark import Mark, mark_text
from sunk_sync.core.model.node_signs import Sign
from sunk_sync.core.model.pod_spec import Offer
from sunk_sync.core.translate.packed_weight import EMPTY, OWN_MAX, packed_weight
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.rbac import PERMISSIONS
from sunk_sync.service.wiring import NODESETS
from sunk_sync.settings.model import GRES_MAP, Settings
from sunk_sync.settings.sources import load
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.api.controller import Conf
from sunk_sync.slurm.api.token import Token
from sunk_sync.slurm.read.node_sizes import NodeSize
from tests.kit.build import Core, node, slurm_node, slurmd_pod
from tests.kube.recorded.server import node as kube_node
from tests.kube.recorded.server import pod as kube_pod

ROOT = Path(__file__).parents[2]
COMMANDS, PAGE = ROOT / "sunk_sync" / "cli", ROOT / "docs" / "doctor.md"
NOW = 1_800_000_000.0
UID = "cluster-uid"


def levels(findings: Sequence[Finding]) -> list[str]:
    return [finding.level for finding in findings]


def only(findings: Iterable[Finding]) -> Finding:
    (finding,) = findings
    return finding


def token(**claims: object) -> Token:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return Token(text=f"head.{body}.signature")


@pytest.mark.parametrize(
    ("given", "level", "text"),
    [
        (token(exp=NOW + 86400), "ok", "expires in 1d"),
        (token(exp=NOW + 90), "warn", "expires in 1m30s"),
        (token(exp=NOW - 7200), "fail", "expired 2h ago"),
        (token(sun="root"), "warn", "does not say when it expires"),
        (Token(text="garbage"), "fail", "is no JWT"),
        (Token(), "warn", "none given"),
        (Token(text="two words"), "fail", "is not one token"),
    ],
)
def test_a_token_with_a_problem_has_its_cure_F5(given: Token, level: str, text: str) -> None:
    finding = only(check_token(given, now=NOW))
    assert finding.level == level
    assert text in finding.text
    assert level == "ok" or finding.cure


def test_an_unreadable_token_file_is_named(tmp_path: Path) -> None:
    given = Token(path=str(tmp_path / "nothing"))
    given.reread()
    assert str(tmp_path) in only(check_token(given, now=NOW)).text


@pytest.mark.parametrize(
    ("given", "name"),
    [(token(sun="root"), "root"), (token(exp=1), ""), (token(sun=5), ""), (Token(text="x"), "")],
)
def test_the_user_of_a_token_is_its_claim_sun(given: Token, name: str) -> None:
    assert given.user == name
    assert token(sun=5, exp=7).expires_at_s == 7


def conf(kill_wait_s: float | None, slurm_user: str = "") -> Conf:
    return Conf(
        kill_wait_s=kill_wait_s, message_timeout_s=10.0, prolog_slurmctld=(), slurm_user=slurm_user
    )


Read = Conf | SlurmError
OLD = SlurmError("unserved", "v0.0.42 has no /conf")


@pytest.mark.parametrize(
    ("chosen_s", "read", "level"),
    [
        (None, conf(30.0), "ok"),
        (30.0, conf(30.0), "ok"),
        (60.0, conf(30.0), "fail"),
        (60.0, OLD, "ok"),
        (None, OLD, "warn"),
        (None, conf(None), "warn"),
    ],
)
def test_kill_wait_must_equal_that_of_slurm(chosen_s: float | None, read: Read, level: str) -> None:
    """26.05 serves its KillWait; older releases do not."""
    finding = only(check_kill_wait(chosen_s, read))
    assert finding.level == level
    assert level == "ok" or finding.cure


@pytest.mark.parametrize(
    ("user", "read", "found"),
    [
        ("root", OLD, ["ok"]),
        ("slurm", conf(None, "slurm"), ["ok"]),
        ("alice", conf(None, "slurm"), ["fail"]),
        ("slurm", OLD, ["warn"]),
        ("alice", None, ["warn"]),
        ("", conf(None, "slurm"), []),
    ],
)
def test_only_root_and_SlurmUser_may_act_for_others_P5(
    user: str, read: Read | None, found: list[str]
) -> None:
    findings = check_user(user, read)
    assert levels(findings) == found
    assert all(finding.level == "ok" or finding.cure for finding in findings)


@pytest.mark.parametrize(
    ("namespaces", "where"), [("*", "every namespace"), ("team-a,team-b", "team-a, team-b")]
)
def test_the_scheduler_name_and_its_namespaces_are_shown(namespaces: str, where: str) -> None:
    """A Pod with another schedulerName waits without any message."""
    settings = load({"watch-namespace": namespaces, "slurm-api-base": "http://s:1"}, {}, "own")
    finding = only(check_scheduler(settings))
    assert finding.level == "ok"
    assert finding.text == f"takes Pods with schedulerName own-slurm in {where}"
    assert check_scheduler(settings.model_copy(update={"components": ("syncer",)})) == []


@pytest.mark.parametrize(
    ("skew_s", "found"),
    [(0.4, ["ok"]), (-4.0, ["ok"]), (20.0, ["warn"]), (-300.0, ["fail"]), (None, [])],
)
def test_clock_skew_may_be_seconds_not_minutes(skew_s: float | None, found: list[str]) -> None:
    assert levels(check_skew("slurmctld", skew_s)) == found


def test_the_clock_of_slurmctld_is_read_from_diag() -> None:
    body = b'{"statistics":{"req_time":{"set":true,"infinite":false,"number":%d}}}'
    now = time.time()
    assert slurmctld_skew_s(body % int(now), now) == pytest.approx(0.0, abs=1.0)
    assert slurmctld_skew_s(body % int(now + 100), now) == pytest.approx(100.0, abs=2.0)
    assert slurmctld_skew_s(body % int(now - 100), now) == pytest.approx(-99.0, abs=2.0)
    assert slurmctld_skew_s(b"<html>", now) is None
    assert slurmctld_skew_s(b"{}", now) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (90, "1m30s"), (3600, "1h"), (90061, "1d1h"), (float("inf"), "for ever")],
)
def test_spans_have_at_most_two_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_missing_permissions_are_one_line_for_each_resource() -> None:
    answers = [
        (("get", "pods in slurm"), False),
        (("list", "pods in slurm"), False),
        (("get", "nodes"), True),
    ]
    finding = only(check_permissions(answers, everything=False))
    assert finding.text == "may not get, list pods in slurm"
    assert "roles.yaml" in finding.cure


Allowed = bool | KubeError
FAILED = KubeError(kind="timeout", why="x")


@pytest.mark.parametrize(
    ("allowed", "everything", "found"),
    [(True, False, ["ok"]), (True, True, ["ok", "warn"]), (FAILED, FAILED, ["warn"])],
    ids=["all that are needed", "those of an administrator", "a failed review"],
)
def test_permissions_are_findings(allowed: Allowed, everything: Allowed, found: list[str]) -> None:
    findings = check_permissions([(("get", "nodes"), allowed)], everything=everything)
    assert levels(findings) == found


def pod(name: str, slurm_node: str, node_name: str) -> SlurmdPod:
    return slurmd_pod(slurm_node, name=name, uid=f"uid-{name}", node_name=node_name)


def named(*rows: Row) -> list[Finding]:
    graph = Core(*rows, cluster_uid=UID).graph
    return list(findings_of(graph, selector="app=slurmd", namespaces=("slurm",)))


def test_hosts_match_by_a_slurmd_pod_or_by_the_name_of_the_node() -> None:
    found = named(node("k1"), node("n2"), pod("a", "n1", "k1"), slurm_node("n1"), slurm_node("n2"))
    assert levels(found) == ["ok", "ok"]
    assert "2 Slurm nodes have their host, 1 by a slurmd Pod" in found[1].text


def test_two_claims_on_one_slurm_node_fail_and_both_are_named_S16() -> None:
    found = named(
        node("k1"), node("k2"), pod("a", "n1", "k1"), pod("b", "n1", "k2"), slurm_node("n1")
    )
    conflict = only(finding for finding in found if "claimed by" in finding.text)
    assert conflict.level == "fail"
    assert "Pod slurm/a and Pod slurm/b" in conflict.text
    assert "sunk.coreweave.com/slurm-node" in conflict.cure


def test_a_thousand_conflicts_are_less_than_20_lines() -> None:
    rows: list[Row] = []
    for number in range(1000):
        rows += [pod(f"a{number}", f"n{number}", ""), pod(f"b{number}", f"n{number}", "")]
        rows.append(slurm_node(f"n{number}"))
    assert len(named(*rows)) < 20


def test_a_claim_on_an_unknown_slurm_node_fails() -> None:
    found = named(
        node("k1"), node("k2", slurm_node="n8"), node("control-plane"), pod("a", "n9", "k1")
    )
    unknown = only(finding for finding in found if "does not have" in finding.text)
    assert unknown.level == "fail"
    assert "Node k2 → n8" in unknown.text
    assert "Pod slurm/a → n9" in unknown.text
    assert "control-plane" not in unknown.text


def test_a_slurm_node_without_a_host_is_a_warning_S18() -> None:
    found = named(node("n1"), slurm_node("n1"), slurm_node("elsewhere"))
    stranger = only(finding for finding in found if "never touched" in finding.text)
    assert (stranger.level, "elsewhere" in stranger.text) == ("warn", True)


def test_no_match_at_all_is_a_finding() -> None:
    found = named(node("ip-10-0-0-1"), slurm_node("n1"))
    assert "no Slurm node has a host in Kubernetes" in [finding.text for finding in found]


def test_a_slurm_without_nodes_is_a_warning() -> None:
    """It is new: its first nodes come with a NodeSet."""
    found = named(node("n1"))
    (matched,) = (finding for finding in found if finding.topic == "names")
    assert (matched.level, matched.text) == ("warn", "Slurm has no nodes")


def test_a_selector_without_a_pod_is_a_warning_S20() -> None:
    first = named(node("n1"), slurm_node("n1"))[0]
    assert (first.level, first.topic) == ("warn", "selector")
    assert "app=slurmd in slurm" in first.text


def test_a_pod_without_its_node_is_a_finding() -> None:
    found = named(pod("a", "n1", ""), slurm_node("n1"))
    assert any("Node is not there" in finding.text for finding in found)


def test_a_foreign_mark_fails_and_a_foreign_comment_is_a_warning_M8() -> None:
    ours, theirs = mark_text(Mark(UID, node="n1")), mark_text(Mark("other", node="n2"))
    comments = {"n1": ours, "n2": theirs, "n3": "mine"}
    found = named(
        *(node(name) for name in comments),
        *(slurm_node(name, comment=comment) for name, comment in comments.items()),
    )
    reported = {finding.level: finding.text for finding in found if "with" in finding.text}
    assert "1: n2" in reported["fail"]
    assert "1: n3" in reported["warn"]
    assert "1: n1" not in "".join(reported.values())


def test_taints_for_which_no_node_is_drained_are_named_S21() -> None:
    signs = (Sign("taint", "karpenter.sh/disrupted", ""), Sign("taint", "maintenance", "soon"))
    core = Core(node(signs=signs), slurmd_pod(), slurm_node())
    found = only(taint_findings(core.graph))
    assert found.level == "ok"
    assert found.text.startswith("maintenance (1 Node): no Node is drained for these")
    core = Core(node(signs=signs[:1]), slurmd_pod(), slurm_node())
    assert not list(taint_findings(core.graph))


def packing(*rows: Row, pack: str = "nodes") -> list[Finding]:
    return list(packing_findings(Core(*rows, cluster_uid=UID, pack=pack).graph))


def test_nodes_that_take_no_part_in_packing_are_named_W1() -> None:
    weights = {"n1": 5, "n2": packed_weight(5, EMPTY), "n3": OWN_MAX + 1}
    hosts = [slurm_node(name, weight=weight, fill=EMPTY) for name, weight in weights.items()]
    fine, heavy, others = packing(*map(node, weights), *hosts, slurm_node("elsewhere", weight=1))
    assert fine.text == "2 hosts are packed"
    assert "1: n3" in heavy.text
    assert "1: elsewhere" in others.text


def test_without_packing_doctor_names_only_what_sunk_sync_cannot_restore_W4() -> None:
    packed = packed_weight(5, EMPTY)
    assert not packing(node("n1"), slurm_node("n1", weight=packed), pack="off")
    left = only(packing(slurm_node("n1", weight=packed), pack="off"))
    assert "1: n1" in left.text


def sized(cpus: int = 16, memory_mib: int = 1000, gpus: int = 0) -> NodeSize:
    return NodeSize(slurm_node="n1", cpus=cpus, memory_mib=memory_mib, gpus=gpus)


OFFERED = Offer(allocatable=(("cpu", 16000), ("memory", 1000 << 20), ("nvidia.com/gpu", 8)))


@pytest.mark.parametrize(
    ("size", "requests", "excess"),
    [
        (sized(), (), ""),
        (sized(gpus=8), (), ""),
        (sized(), (("cpu", 100),), "n1 (16 CPUs, 15.9 left)"),
        (sized(cpus=15), (("cpu", 100),), ""),
        (sized(memory_mib=1001), (), "n1 (1001 MiB, 1000 left)"),
        (sized(gpus=9), (), "n1 (9 GPUs, 8 left)"),
        (sized(17, 1001), (), "n1 (17 CPUs, 16 left; 1001 MiB, 1000 left)"),
    ],
)
def test_slurm_nodes_larger_than_what_their_node_has_left_are_named_P28(
    size: NodeSize, requests: tuple[tuple[str, int], ...], excess: str
) -> None:
    slurmd = replace(slurmd_pod("n1"), requests=requests)
    rows = (node(offer=OFFERED), slurmd, slurm_node("n1"), slurm_node("elsewhere"))
    graph = Core(*rows, gres_map=GRES_MAP).graph
    finding = only(size_findings(graph, [size, replace(size, slurm_node="elsewhere")]))
    assert (finding.level, excess in finding.text) == ("warn" if excess else "ok", True)


def test_nodes_that_tell_no_size_are_not_compared_P28() -> None:
    assert not [*size_findings(Core(node("n1"), slurm_node("n1")).graph, [sized()])]
    away = only(size_findings(Core().graph, SlurmError("timeout", "away")))
    assert (away.level, "away" in away.text) == ("warn", True)


def test_a_list_shows_at_most_ten_names() -> None:
    assert some_of(["b", "a"]) == "2: a, b"
    assert some_of([f"n{i:03}" for i in range(50)]).endswith("n009 and 40 more")


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([ok("t", "x")], 0),
        ([ok("t", "x"), warn("t", "x", "y")], 0),
        ([ok("t", "x"), fail("t", "x", "y")], 1),
        ([fail("t", "x", "y"), blind("t", "x", "y")], 2),
    ],
)
def test_warnings_are_0_failures_1_no_access_2(findings: list[Finding], code: int) -> None:
    report = Report(io.StringIO())
    report.tell(findings)
    assert report.end() == code


def test_a_failure_has_its_cure_and_no_markup_or_control_characters() -> None:
    file = io.StringIO()
    report = Report(file)
    report.tell([fail("t", "[red]\x1b[31m" + "x" * 3000, "do this")])
    lines = file.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("fail t            [red] [31mx")
    assert lines[1].strip() == "cure: do this"
    assert lines[2].strip().startswith("see: docs/doctor.md#")


class Servers:
    """Kubernetes and slurmrestd on one port, and the requests they received."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.denied: tuple[str, str] | None = None
        self.hooks_key: bytes | None = b"0123456789abcdef"
        """Content of its Secret; None: there is no such Secret."""
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.method, request.path))
        body = await request.json() if request.can_read_body else None
        if request.path.endswith("/secrets/sunk-sync-slurm-hooks-key"):
            return self._secret()
        return web.json_response(self._kube(request.path, body) or _slurm(request.path))

    def _secret(self) -> web.Response:
        if self.hooks_key is None:
            status = {"kind": "Status", "reason": "NotFound", "message": "secrets not found"}
            return web.json_response(status, status=404)
        data = {"key": base64.b64encode(self.hooks_key).decode()} if self.hooks_key else {}
        return web.json_response({"metadata": {"resourceVersion": "1"}, "data": data})

    def _kube(self, path: str, body: Any) -> dict[str, Any] | None:
        match path:
            case "/version":
                return {"gitVersion": "v1.35.4"}
            case "/api/v1/namespaces/kube-system":
                return {"metadata": {"uid": UID, "name": "kube-system"}}
            case "/api/v1/nodes" | "/api/v1/namespaces/slurm/pods":
                return _listing(path)
            case "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
                asked = body["spec"]["resourceAttributes"]
                denied = (asked["verb"], asked["resource"]) == self.denied or asked["verb"] == "*"
                return {"status": {"allowed": not denied}}
        return None


def _listing(path: str) -> dict[str, Any]:
    kind, item = "Node", kube_node("n1", 5)
    if path.endswith("pods"):
        kind, item = "Pod", kube_pod("slurmd-n1", 5)
        item["spec"] = {"nodeName": "n1", "hostname": "n1"}
        conditions = [{"type": "Ready", "status": "True"}]
        item["status"] = {"phase": "Running", "conditions": conditions}
    return {"kind": f"{kind}List", "metadata": {"resourceVersion": "9"}, "items": [item]}


def _slurm(path: str) -> dict[str, Any]:
    around: dict[str, Any] = {"errors": [], "meta": {"slurm": {"release": "26.05.5"}}}
    payloads: dict[str, dict[str, Any]] = {
        "diag": {"statistics": {"req_time": int(time.time())}},
        "nodes": {"nodes": [{"name": "n1", "state": ["IDLE"], "comment": ""}]},
        "jobs": {"jobs": []},
        "conf": {"slurm_conf": {"KillWait": 30}},
        "ping": {"pings": [{"hostname": "h", "responding": True}]},
    }
    return around | payloads[path.strip("/").split("/")[2]]


@asynccontextmanager
async def serving(answer: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    """Serve on a free port of this machine, and yield the address."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    double = Servers()
    async with serving(double.answer) as double.url:
        yield double


def settings_for(url: str, folder: Path, **more: str) -> Settings:
    kubeconfig = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    kubeconfig.write_text(json.dumps(config))
    jwt = token(exp=9999999999).current()
    flags = {"kubeconfig": str(kubeconfig), "slurm-api-base": url, "slurm-auth-token": jwt}
    return load(flags | more, {}, "slurm")


async def examined(settings: Settings) -> tuple[int, str]:
    file = io.StringIO()
    return await doctor(settings, file), file.getvalue()


def test_a_node_without_gpus_lacks_none_P28() -> None:
    """GPUs that only jobs of Slurm use: no Pod that wants one can come."""
    offer = Offer(allocatable=(("cpu", 16000), ("memory", 1000 << 20)))
    rows = (node("n1", offer=offer), slurm_node("n1"))
    assert only(size_findings(Core(*rows, gres_map=GRES_MAP).graph, [sized(gpus=8)])).level == "ok"


async def test_a_good_installation_has_exit_code_0(servers: Servers, tmp_path: Path) -> None:
    code, text = await examined(settings_for(servers.url, tmp_path))
    assert code == 0, text
    topics = {line.split()[1] for line in text.splitlines()[:-1]}
    assert topics == {
        "token", "kubernetes", "clock", "permissions", "hooks", "scheduler", "slurm", "kill",
        "selector", "names",
    }  # fmt: skip
    assert text.splitlines()[-1].startswith("0 wrong, 0 doubtful, ")


async def test_doctor_sends_only_GETs_and_access_reviews(servers: Servers, tmp_path: Path) -> None:
    await examined(settings_for(servers.url, tmp_path))
    posts = {path for method, path in servers.asked if method != "GET"}
    assert posts == {"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"}


@pytest.mark.parametrize(
    "components", [("syncer",), ("syncer", "scheduler"), ("syncer", "nodesets")]
)
async def test_doctor_reviews_the_permissions_of_the_components(
    servers: Servers, tmp_path: Path, components: tuple[str, ...]
) -> None:
    settings = settings_for(servers.url, tmp_path).model_copy(update={"components": components})
    _, text = await examined(settings)
    hooks = {"secrets"} if settings.hooks_open else set()
    unused = {"leases", "secrets"} - hooks
    table = [
        one for one in PERMISSIONS if one.component in components and one.resource not in unused
    ]
    places = {(one.where, one.spelled, verb) for one in table for verb, _ in one.verbs}
    # Here slurmd, work and own are one namespace, so equal reviews are one.
    shared = {
        ("slurm" if where in ("slurmd", "work", "own") else where, what, verb)
        for where, what, verb in places
    }
    assert f"all {len(shared)} that are needed" in text


async def test_doctor_reviews_the_permissions_on_the_lease_F6(
    servers: Servers, tmp_path: Path
) -> None:
    """Only with --leader-elect."""
    settings = settings_for(servers.url, tmp_path)
    servers.denied = ("create", "leases")
    assert (await examined(settings))[0] == 0
    code, text = await examined(settings.model_copy(update={"leader_elect": True}))
    assert code == 1
    assert "may not create leases" in text


async def test_a_missing_permission_is_exit_code_1(servers: Servers, tmp_path: Path) -> None:
    servers.denied = ("patch", "nodes")
    code, text = await examined(settings_for(servers.url, tmp_path))
    assert code == 1
    assert "may not patch nodes" in text


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (None, "warn hooks key    Secret default/sunk-sync-slurm-hooks-key is missing"),
        (b"", "warn hooks key    Secret default/sunk-sync-slurm-hooks-key is empty"),
        (b"short", "fail hooks key    Secret default/sunk-sync-slurm-hooks-key: a key has"),
        (b"0123456789abcdef", "ok   hooks key    in Secret default/sunk-sync-slurm-hooks-key"),
    ],
    ids=["missing", "empty", "too short", "kept"],
)
async def test_a_hooks_key_that_is_not_kept_is_found_and_never_shown_L5(
    servers: Servers, tmp_path: Path, key: bytes | None, found: str
) -> None:
    servers.hooks_key = key
    _, text = await examined(settings_for(servers.url, tmp_path))
    assert found in text
    assert not key or key.decode() not in text


async def test_a_secret_that_cannot_be_created_fails_L5(servers: Servers, tmp_path: Path) -> None:
    servers.hooks_key, servers.denied = None, ("create", "secrets")
    code, text = await examined(settings_for(servers.url, tmp_path))
    assert code == 1
    assert "fail hooks key    Secret default/sunk-sync-slurm-hooks-key cannot be read" in text


async def test_the_key_file_replaces_the_secret_L5(servers: Servers, tmp_path: Path) -> None:
    servers.denied = ("get", "secrets")
    file = tmp_path / "key"
    file.write_text("0123456789abcdef")
    settings = settings_for(servers.url, tmp_path, **{"hooks-key-file": str(file)})
    code, text = await examined(settings)
    assert code == 0, text
    assert f"ok   hooks key    in {file}" in text
    file.write_text("short")
    code, text = await examined(settings)
    assert code == 1
    assert f"fail hooks key    {file}: a key has" in text


async def test_two_unreachable_servers_are_exit_code_2(tmp_path: Path) -> None:
    code, text = await examined(settings_for("http://127.0.0.1:1", tmp_path))
    assert code == 2
    assert text.count("cure:") >= 3
    assert "fail kubernetes" in text
    assert "fail slurm" in text


async def test_one_dead_address_of_two_is_found(servers: Servers, tmp_path: Path) -> None:
    """Fail-over hides it until the other address fails."""
    both = f"http://127.0.0.1:1,{servers.url}"
    code, text = await examined(settings_for(servers.url, tmp_path, **{"slurm-api-base": both}))
    assert code == 1
    assert "http://127.0.0.1:1: unreachable" in text
    assert "1 Slurm node has its host" in text


async def test_a_broken_kubeconfig_is_a_finding(servers: Servers, tmp_path: Path) -> None:
    settings = settings_for(servers.url, tmp_path)
    (tmp_path / "kubeconfig").write_text("{}")
    code, text = await examined(settings)
    assert code == 2
    assert "no way to Kubernetes" in text


async def test_html_instead_of_slurm_is_a_finding_F4(tmp_path: Path) -> None:
    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="<html>Welcome</html>", content_type="text/html")

    async with serving(page) as url:
        code, text = await examined(settings_for(url, tmp_path))
    assert code == 2
    assert "check --slurm-api-base" in text


def test_each_topic_of_doctor_has_its_section() -> None:
    source = "\n".join(file.read_text() for file in COMMANDS.glob("*.py"))
    topics = {*re.findall(r"\b(?:ok|warn|fail|blind|make)\(\s*\"([a-z ]+)\"", source)}
    topics |= {NODESETS, *re.findall(r"^_TOPIC = \"([a-z ]+)\"", source, re.MULTILINE)}
    sections = re.findall(r"^## (.+)$", PAGE.read_text(), re.MULTILINE)
    assert sections == sorted(topics - {"scheduler"}), "the topic scheduler is never doubtful"
