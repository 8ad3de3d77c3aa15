"""The checks of /livez and /readyz, from the state of the core."""

import re
from pathlib import Path

from msgspec.structs import replace

from sunk_sync.core.model.facts import SOURCES, GetResult, Lost
from sunk_sync.service.health import Health
from tests.kit.build import (
    Core,
    deleted,
    job,
    listing,
    marked,
    node,
    pod,
    room,
    slurm_node,
    slurmd_pod,
)

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"


def health_of(core: Core) -> Health:
    """Return the health of a service with this core."""
    health = Health(clock=lambda: core.now)
    health.reconciler = core.reconciler
    return health


def checks_of(health: Health) -> dict[str, tuple[str, str]]:
    """Return status and text of each check."""
    return {check.name: (check.ok, check.text) for check in health.ready()[1]}


def test_at_the_start_the_service_is_live_and_not_ready() -> None:
    """An API server that does not answer yet is no reason for a restart."""
    health = Health(clock=lambda: 0.0)
    assert [check.ok for check in health.live()] == ["ok"]
    ready, checks = health.ready()
    assert not ready
    assert checks[0].text == "starting"


def test_the_service_is_ready_once_both_sides_were_listed() -> None:
    core = Core(listed=False, scheduler="")
    health = health_of(core)
    assert not health.ready()[0]
    assert checks_of(health)["slurm"] == ("failed", "not listed yet: not listed yet")
    for source in ("nodes", "slurmd_pods", "slurm_nodes"):
        core.see(*listing(source))
    assert health.ready()[0]
    assert checks_of(health)["kubernetes: workload pods"][0] == "degraded"


def test_the_syncer_alone_is_not_degraded_by_what_only_the_scheduler_reads() -> None:
    """It reads neither jobs nor Namespaces."""
    core = Core(listed=False, scheduler="")
    for source in ("nodes", "slurmd_pods", "slurm_nodes", "pods"):
        core.see(*listing(source))
    degraded = [name for name, (status, _) in checks_of(health_of(core)).items() if status != "ok"]
    assert degraded == []


def test_an_outage_of_slurm_degrades_a_ready_service_F4() -> None:
    """Otherwise the Service would lose its only replica when Slurm restarts."""
    core = Core(node(), slurmd_pod(), slurm_node())
    core.see(Lost("slurm_nodes", "down"))
    ready, _ = health_of(core).ready()
    assert ready
    degraded = ("degraded", "cannot be read: down; 1 row as last seen")
    assert checks_of(health_of(core))["slurm"] == degraded


def test_volumes_that_cannot_be_read_degrade_a_ready_service_once_a_pod_has_a_claim_P8() -> None:
    """No Pod without a claim needs them."""
    core = Core(listed=False)
    for source in SOURCES:
        core.see(*listing(source))
    assert "kubernetes: claims" not in checks_of(health_of(core))
    core.see(pod("p1", volume_claims=("data",)), Lost("volumes", "forbidden"))
    said = checks_of(health_of(core))
    assert said["kubernetes: volumes"] == ("degraded", "not listed yet: forbidden")
    assert said["kubernetes: claims"][0] == said["kubernetes: storage classes"][0] == "degraded"
    assert health_of(core).ready()[0]


def test_a_wrong_selector_is_degraded_S20() -> None:
    """Most marked Pods exist, but no listing shows them."""
    pod = slurmd_pod()
    core = Core(node(), pod, slurm_node(comment=marked()))
    core.see(deleted("slurmd_pods", pod))
    core.see(GetResult("Pod", pod.namespace, pod.name, "yes", pod.uid, core.now))
    assert checks_of(health_of(core))["selector"][0] == "degraded"


def test_a_slurm_node_that_is_claimed_twice_is_degraded_S16() -> None:
    twin = slurmd_pod("n1", name="other", uid="u2", node_name="kn2")
    core = Core(node(), slurmd_pod(), node("kn2"), twin, slurm_node())
    core.decided(("host", "n1"))
    text = "1 claimed more than once: sunk-sync diff names them"
    assert checks_of(health_of(core))["claims"] == ("degraded", text)


def test_another_kill_wait_than_the_one_of_slurm_is_degraded() -> None:
    health = health_of(Core(node()))
    assert "kill wait" not in checks_of(health)
    health.kill_wait = "--slurm-kill-wait is 20 s, Slurm's KillWait is 6 s"
    assert checks_of(health)["kill wait"] == ("degraded", health.kill_wait)


def test_held_drains_are_counted_S19() -> None:
    rows = [(node(f"kn{i}"), slurmd_pod(f"n{i}"), slurm_node(f"n{i}")) for i in range(3)]
    core = Core(*(row for three in rows for row in three), max_drains_per_minute=1)
    for i in range(3):
        core.see(node(f"kn{i}", ready="False"))
    core.wait(41)
    assert checks_of(health_of(core))["drains"][1] == "2 held until a second listing agrees"


def test_held_ends_and_kept_jobs_are_degraded_P31_P21() -> None:
    pods = [pod(f"p{i}", node_name=f"kn{i}", phase="Running", job_id=str(i)) for i in range(3)]
    rows = [row for i in range(3) for row in room(f"n{i}")]
    ran = [job(pods[i], job_id=str(i), state="RUNNING", slurm_nodes=(f"n{i}",)) for i in range(3)]
    lone = job(pod("gone"), job_id="9", state="RUNNING", slurm_nodes=("n9",))
    core = Core(*rows, *pods, *ran, lone, max_pod_ends_per_minute=1)
    assert checks_of(health_of(core))["ends of pods"] == ("ok", "none held")
    assert checks_of(health_of(core))["kept jobs"] == ("ok", "none")
    core.see(*(replace(one, state=frozenset({"NODE_FAIL"})) for one in ran))
    core.wait(1)
    core.see(GetResult("Pod", "ns", "gone", "unknown", "", core.now))
    said = checks_of(health_of(core))
    assert said["ends of pods"] == ("degraded", "2 held until the Nodes were read again")
    assert said["drains"] == ("ok", "none held")
    assert said["kept jobs"] == ("degraded", "1: nobody knows whether their Pods live")
    assert health_of(core).ready()[0]


def test_the_page_on_faults_shows_every_check() -> None:
    """Otherwise run `python -m tests.real.faults_page`."""
    shown = re.findall(r"^([a-z ]+(?:: [a-z ]+)?): (?:ok|degraded): ", PAGE.read_text(), re.M)
    assert list(dict.fromkeys(shown)) == list(checks_of(health_of(Core())))


def test_a_key_whose_rule_failed_is_named_F7() -> None:
    core = Core(slurm_node())
    core.reconciler.failures[("host", "n1")] = None  # type: ignore[assignment]
    assert checks_of(health_of(core))["rules"] == ("degraded", "1 key out of service: n1")


def test_a_stopping_service_is_not_ready_F10() -> None:
    health = health_of(Core())
    health.stopping = True
    assert not health.ready()[0]
