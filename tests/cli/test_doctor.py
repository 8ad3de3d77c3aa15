"""Doctor: each finding from its facts, and whole runs against two tiny servers."""

import base64
import io
import json
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sunk_sync.cli.clock_skew import check_skew, slurmctld_skew_s, span
from sunk_sync.cli.doctor import (
    check_kill_wait,
    check_permissions,
    check_scheduler,
    check_token,
    check_user,
    doctor,
)
from sunk_sync.cli.findings import Finding, Report, blind, fail, ok, some_of, warn
from sunk_sync.cli.name_mapping import findings_of
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import (
    ListingEnded,
    ListingStarted,
    News,
    Node,
    Observed,
    Row,
    SlurmdPod,
    SlurmNode,
    Source,
)
from sunk_sync.core.model.node_mark import Mark, mark_text
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.rbac import PERMISSIONS
from sunk_sync.settings.model import Settings
from sunk_sync.settings.sources import load
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.api.controller import Conf
from sunk_sync.slurm.api.token import Token

NOW = 1_800_000_000.0
UID = "cluster-uid"


def levels(findings: Sequence[Finding]) -> list[str]:
    return [finding.level for finding in findings]


def only(findings: Sequence[Finding]) -> Finding:
    (finding,) = findings
    return finding


# The token


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
def test_the_token_and_its_expiry(given: Token, level: str, text: str) -> None:
    """F5: a token that ends soon is told before it ends; what is wrong has a cure."""
    finding = only(check_token(given, now=NOW))
    assert finding.level == level
    assert text in finding.text
    assert level == "ok" or finding.cure


def test_a_token_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """With the path."""
    given = Token(path=str(tmp_path / "nothing"))
    given.reread()
    assert str(tmp_path) in only(check_token(given, now=NOW)).text


@pytest.mark.parametrize(
    ("given", "name"),
    [(token(sun="root"), "root"), (token(exp=1), ""), (token(sun=5), ""), (Token(text="x"), "")],
)
def test_a_token_says_whose_it_is(given: Token, name: str) -> None:
    """Slurm's claim `sun`."""
    assert given.user == name


def test_a_wrong_name_in_a_token_hides_no_expiry() -> None:
    assert token(sun=5, exp=7).expires_at_s == 7


# KillWait


def conf(kill_wait_s: float | None, slurm_user: str = "") -> Conf:
    return Conf(
        kill_wait_s=kill_wait_s,
        message_timeout_s=10.0,
        prolog_slurmctld=(),
        slurm_user=slurm_user,
    )


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
def test_kill_wait_against_the_real_one(
    chosen_s: float | None, read: Conf | SlurmError, level: str
) -> None:
    """26.05 tells its KillWait; of older ones we must be told."""
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
def test_only_root_and_slurm_user_may_act_for_others(
    user: str, read: Conf | SlurmError | None, found: list[str]
) -> None:
    """P5; and Slurm hides nobody's job from them."""
    findings = check_user(user, read)
    assert levels(findings) == found
    assert all(finding.level == "ok" or finding.cure for finding in findings)


# Which Pods


@pytest.mark.parametrize(
    ("namespaces", "where"), [("*", "every namespace"), ("team-a,team-b", "team-a, team-b")]
)
def test_which_pods_are_ours_is_told(namespaces: str, where: str) -> None:
    """Found by hand: a Pod with another schedulerName waits without a word."""
    settings = load({"watch-namespace": namespaces, "slurm-api-base": "http://s:1"}, {}, "own")
    finding = only(check_scheduler(settings))
    assert finding.level == "ok"
    assert finding.text == f"takes Pods with schedulerName own-slurm in {where}"
    assert check_scheduler(settings.model_copy(update={"components": ("syncer",)})) == []


# Clocks


@pytest.mark.parametrize(
    ("skew_s", "found"),
    [(0.4, ["ok"]), (-4.0, ["ok"]), (20.0, ["warn"]), (-300.0, ["fail"]), (None, [])],
)
def test_clock_skew(skew_s: float | None, found: list[str]) -> None:
    """Seconds are tolerated, minutes break tokens; a server that does not say is not blamed."""
    assert levels(check_skew("slurmctld", skew_s)) == found


def test_the_clock_of_slurmctld_is_in_its_answer() -> None:
    """Whole seconds: within them there is no skew."""
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
def test_spans_are_readable(seconds: float, text: str) -> None:
    """Two units at most."""
    assert span(seconds) == text


# Permissions


def test_missing_permissions_are_told_by_resource() -> None:
    """One line for a resource, with every verb that is missing."""
    answers = [
        (("get", "pods in slurm"), False),
        (("list", "pods in slurm"), False),
        (("get", "nodes"), True),
    ]
    finding = only(check_permissions(answers, everything=False))
    assert finding.text == "may not get, list pods in slurm"
    assert "roles.yaml" in finding.cure


def test_all_permissions_are_one_line() -> None:
    """Nothing to do."""
    assert levels(check_permissions([(("get", "nodes"), True)], everything=False)) == ["ok"]


def test_more_rights_than_needed_are_doubtful() -> None:
    """An administrator's kubeconfig works, and should not stay."""
    findings = check_permissions([(("get", "nodes"), True)], everything=True)
    assert levels(findings) == ["ok", "warn"]


def test_a_review_that_fails_is_not_a_refusal() -> None:
    """Unknown is neither yes nor no."""
    trouble = KubeError(kind="timeout", why="x")
    finding = only(check_permissions([(("get", "nodes"), trouble)], everything=trouble))
    assert finding.level == "warn"


# Names


def graph_of(*rows: Row) -> Graph:
    graph = Graph(Configuration(cluster_uid=UID))
    kinds: dict[Source, type] = {"nodes": Node, "slurmd_pods": SlurmdPod, "slurm_nodes": SlurmNode}
    for source, kind in kinds.items():
        seen: list[News] = [Observed(row, 1.0) for row in rows if isinstance(row, kind)]
        graph.observe([ListingStarted(source, 1.0, 1.0), *seen, ListingEnded(source)], now=1.0)
    return graph


def node(name: str, slurm_node: str = "") -> Node:
    return Node(name=name, uid=f"uid-{name}", ready="True", slurm_node=slurm_node)


def pod(name: str, slurm_node: str, node_name: str) -> SlurmdPod:
    return SlurmdPod(
        namespace="slurm",
        name=name,
        uid=f"uid-{name}",
        slurm_node=slurm_node,
        node_name=node_name,
        ready=True,
    )


def slurm_node(name: str, comment: str = "") -> SlurmNode:
    return SlurmNode(name=name, state=frozenset({"IDLE"}), comment=comment)


def named(*rows: Row) -> list[Finding]:
    return list(findings_of(graph_of(*rows), selector="app=slurmd", namespaces=("slurm",)))


def test_hosts_that_match_are_fine() -> None:
    """By a slurmd Pod, or by the Node's own name where slurmd runs outside Pods."""
    found = named(node("k1"), node("n2"), pod("a", "n1", "k1"), slurm_node("n1"), slurm_node("n2"))
    assert levels(found) == ["ok", "ok"]
    assert "2 Slurm nodes have their host, 1 by a slurmd Pod" in found[1].text


def test_two_claims_on_one_slurm_node_are_wrong() -> None:
    """S16: both are named."""
    found = named(
        node("k1"), node("k2"), pod("a", "n1", "k1"), pod("b", "n1", "k2"), slurm_node("n1")
    )
    (conflict,) = [finding for finding in found if "claimed by" in finding.text]
    assert conflict.level == "fail"
    assert "Pod slurm/a and Pod slurm/b" in conflict.text
    assert "sunk.coreweave.com/slurm-node" in conflict.cure


def test_a_thousand_conflicts_are_a_few_lines() -> None:
    """Bounded output."""
    rows: list[Row] = []
    for number in range(1000):
        rows += [pod(f"a{number}", f"n{number}", ""), pod(f"b{number}", f"n{number}", "")]
        rows.append(slurm_node(f"n{number}"))
    assert len(named(*rows)) < 20


def test_a_claim_on_what_slurm_does_not_have_is_wrong() -> None:
    """Of a Pod, and of a Node that names it; a Node that says nothing is no host of ours."""
    found = named(node("k1"), node("k2", "n8"), node("control-plane"), pod("a", "n9", "k1"))
    (unknown,) = [finding for finding in found if "does not have" in finding.text]
    assert unknown.level == "fail"
    assert "Node k2 → n8" in unknown.text
    assert "Pod slurm/a → n9" in unknown.text
    assert "control-plane" not in unknown.text


def test_slurm_nodes_of_others_are_doubtful_only() -> None:
    """S18: they may live elsewhere."""
    found = named(node("n1"), slurm_node("n1"), slurm_node("elsewhere"))
    (stranger,) = [finding for finding in found if "never touched" in finding.text]
    assert (stranger.level, "elsewhere" in stranger.text) == ("warn", True)


def test_no_match_at_all_is_wrong() -> None:
    """The usual first mistake: names differ."""
    found = named(node("ip-10-0-0-1"), slurm_node("n1"))
    assert "no Slurm node has a host in Kubernetes" in [finding.text for finding in found]


def test_a_selector_that_matches_nothing_is_doubtful() -> None:
    """S20: it says which selector and where."""
    first = named(node("n1"), slurm_node("n1"))[0]
    assert (first.level, first.topic) == ("warn", "selector")
    assert "app=slurmd in slurm" in first.text


def test_a_pod_without_its_node_is_doubtful() -> None:
    """Pending, or the Node went away."""
    found = named(pod("a", "n1", ""), slurm_node("n1"))
    assert any("Node is not there" in finding.text for finding in found)


def test_foreign_comments_and_foreign_marks_are_told() -> None:
    """M8: a human's comment is doubtful, another cluster's mark is wrong, ours is fine."""
    rows = [node("n1"), node("n2"), node("n3")]
    ours, theirs = mark_text(Mark(UID, node="n1")), mark_text(Mark("other", node="n2"))
    found = named(*rows, slurm_node("n1", ours), slurm_node("n2", theirs), slurm_node("n3", "mine"))
    told = {finding.level: finding.text for finding in found if "with" in finding.text}
    assert "1: n2" in told["fail"]
    assert "1: n3" in told["warn"]
    assert "1: n1" not in "".join(told.values())


def test_long_lists_of_names_are_cut() -> None:
    """Ten of them, and how many more."""
    assert some_of(["b", "a"]) == "2: a, b"
    assert some_of([f"n{i:03}" for i in range(50)]).endswith("n009 and 40 more")


# The report


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([ok("t", "x")], 0),
        ([ok("t", "x"), warn("t", "x", "y")], 0),
        ([ok("t", "x"), fail("t", "x", "y")], 1),
        ([fail("t", "x", "y"), blind("t", "x", "y")], 2),
    ],
)
def test_exit_codes(findings: list[Finding], code: int) -> None:
    """0 fine, 1 found something, 2 could not look; doubt alone is fine."""
    report = Report(io.StringIO())
    report.tell(findings)
    assert report.end() == code


def test_every_line_has_its_cure_and_markup_is_text() -> None:
    """Foreign texts cannot colour or break the output."""
    file = io.StringIO()
    report = Report(file)
    report.tell([fail("t", "[red]\x1b[31m" + "x" * 3000, "do this")])
    lines = file.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("fail t            [red] [31mx")
    assert lines[1].strip() == "cure: do this"


# Whole runs


class Servers:
    """A Kubernetes and a slurmrestd on one port, with what they were asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.denied: tuple[str, str] | None = None
        self.hooks_key: bytes | None = b"0123456789abcdef"
        """In its Secret; None: there is no such Secret."""
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
    meta = {"name": "n1", "uid": "u1", "resourceVersion": "5"}
    if path.endswith("pods"):
        item = {
            "metadata": meta | {"name": "slurmd-n1", "namespace": "slurm"},
            "spec": {"nodeName": "n1", "hostname": "n1"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        return {"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [item]}
    item = {
        "metadata": meta,
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    return {"kind": "NodeList", "metadata": {"resourceVersion": "9"}, "items": [item]}


def _slurm(path: str) -> dict[str, Any]:
    around: dict[str, Any] = {"errors": [], "meta": {"slurm": {"release": "26.05.5"}}}
    payloads: dict[str, dict[str, Any]] = {
        "diag": {"statistics": {"req_time": int(time.time())}},
        "nodes": {"nodes": [{"name": "n1", "state": ["IDLE"], "comment": ""}]},
        "conf": {"slurm_conf": {"KillWait": 30}},
        "ping": {"pings": [{"hostname": "h", "responding": True}]},
    }
    return around | payloads[path.strip("/").split("/")[2]]


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    double = Servers()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", double.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    double.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield double
    await runner.cleanup()


def settings_for(url: str, folder: Path, **more: str) -> Settings:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    claims = base64.b64encode(json.dumps({"exp": 9999999999}).encode()).decode()
    flags = {
        "kubeconfig": str(kubeconfig),
        "slurm-api-base": url,
        "slurm-auth-token": f"a.{claims}.c",
    }
    return load(flags | more, {}, "slurm")


async def examined(settings: Settings) -> tuple[int, str]:
    file = io.StringIO()
    return await doctor(settings, file), file.getvalue()


async def test_a_sound_installation_is_all_fine(servers: Servers, tmp_path: Path) -> None:
    """Every topic has its line; exit code 0."""
    code, text = await examined(settings_for(servers.url, tmp_path))
    assert code == 0, text
    topics = {line.split()[1] for line in text.splitlines()[:-1]}
    assert topics == {
        "token", "kubernetes", "clock", "permissions", "hooks", "scheduler", "slurm", "kill",
        "selector", "names",
    }  # fmt: skip
    assert text.splitlines()[-1].startswith("0 wrong, 0 doubtful, ")


async def test_doctor_writes_nothing(servers: Servers, tmp_path: Path) -> None:
    """Only GETs, and reviews of our own rights, which leave nothing behind."""
    await examined(settings_for(servers.url, tmp_path))
    posts = {path for method, path in servers.asked if method != "GET"}
    assert posts == {"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"}


@pytest.mark.parametrize("components", [("syncer",), ("syncer", "scheduler")])
async def test_doctor_asks_for_the_table_of_permissions(
    servers: Servers, tmp_path: Path, components: tuple[str, ...]
) -> None:
    """The manifests' roles are made from the same one; what does not run needs nothing."""
    settings = settings_for(servers.url, tmp_path).model_copy(update={"components": components})
    _, text = await examined(settings)
    table = [one for one in PERMISSIONS if one.component in components]
    places = {(one.where, one.spelled, verb) for one in table for verb, _ in one.verbs}
    # In this installation slurmd, work and own are one namespace, so equal questions are one.
    shared = {
        ("slurm" if where in ("slurmd", "work", "own") else where, what, verb)
        for where, what, verb in places
    }
    assert f"all {len(shared)} that are needed" in text


async def test_a_missing_permission_is_found(servers: Servers, tmp_path: Path) -> None:
    """Exit code 1, and what to grant."""
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
async def test_a_hooks_key_that_dies_with_the_process_is_found_L5(
    servers: Servers, tmp_path: Path, key: bytes | None, found: str
) -> None:
    """With what to do; the key itself is never shown."""
    servers.hooks_key = key
    _, text = await examined(settings_for(servers.url, tmp_path))
    assert found in text
    assert not key or key.decode() not in text


async def test_a_missing_secret_is_wrong_where_we_may_not_make_it_L5(
    servers: Servers, tmp_path: Path
) -> None:
    """As under the manifests' roles."""
    servers.hooks_key, servers.denied = None, ("create", "secrets")
    code, text = await examined(settings_for(servers.url, tmp_path))
    assert code == 1
    assert "fail hooks key    Secret default/sunk-sync-slurm-hooks-key cannot be read" in text


async def test_the_key_file_is_looked_at_instead_of_the_secret_L5(
    servers: Servers, tmp_path: Path
) -> None:
    """The flag wins; then no right on the Secret is needed."""
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


async def test_nothing_to_reach_is_exit_code_2(tmp_path: Path) -> None:
    """Both sides are told, each with its cure; no traceback."""
    code, text = await examined(settings_for("http://127.0.0.1:1", tmp_path))
    assert code == 2
    assert text.count("cure:") >= 3
    assert "fail kubernetes" in text
    assert "fail slurm" in text


async def test_one_dead_address_of_two_is_found_and_the_rest_is_looked_at(
    servers: Servers, tmp_path: Path
) -> None:
    """Fail-over would hide it until the day the other one dies."""
    both = f"http://127.0.0.1:1,{servers.url}"
    code, text = await examined(settings_for(servers.url, tmp_path, **{"slurm-api-base": both}))
    assert code == 1
    assert "http://127.0.0.1:1: unreachable" in text
    assert "1 Slurm nodes have their host" in text


async def test_a_broken_kubeconfig_is_a_finding(servers: Servers, tmp_path: Path) -> None:
    """Not a traceback."""
    settings = settings_for(servers.url, tmp_path)
    (tmp_path / "kubeconfig").write_text("{}")
    code, text = await examined(settings)
    assert code == 2
    assert "no way to Kubernetes" in text


async def test_html_instead_of_slurm_is_a_finding(tmp_path: Path) -> None:
    """F4: a proxy's page."""

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="<html>Welcome</html>", content_type="text/html")

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", page)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    code, text = await examined(settings_for(url, tmp_path))
    await runner.cleanup()
    assert code == 2
    assert "check --slurm-api-base" in text
