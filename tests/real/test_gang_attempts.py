"""Rows G8 and G9 with the real Job controller: gangs tried again, and gangs of another size.

A stand-in for the kubelets reports the Pods running and ended.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from tests.real.applied import KILL_WAIT_S, NAMESPACE, Example, ExampleStage, applied
from tests.real.conftest import for_each_slurm, with_settings
from tests.real.service import Service, allow
from tests.real.stage import stays
from tests.real.testbed.kubelet import EXIT_CODE
from tests.real.workloads import FOREVER, Load

STAGE_HOSTS = 4
SIZE = 3
PAUSE_S = 90.0
"""After three failed Pods the Job controller waits for 40 s."""

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("scheduler"),
    with_settings(
        watch_namespace=f"slurm,{NAMESPACE}",
        scheduler_name="slurm-slurm",
        slurm_kill_wait=f"{KILL_WAIT_S}s",
        termination_offset="5s",
    ),
]
pods = for_each_slurm(ExampleStage)


@pytest.fixture(scope="module", autouse=True)
def _prepared(pods: ExampleStage) -> None:
    """Allow Pods in the namespace; SIGTERM ends their containers, as it does by default."""
    allow(pods.bed, NAMESPACE)
    for name in pods.bed.slurm.conf.names:
        pods.bed.kube.annotate_node(name, {EXIT_CODE: "143"})


DEFAULTS = {
    "  backoffLimitPerIndex: 2\n": "",
    "  podReplacementPolicy: Failed            # new Pods when the old ones have ended\n": "",
    """  podFailurePolicy:
    rules:
      - action: Ignore
        onPodConditions:
          - type: DisruptionTarget
      # A rank that crashes fails the Job, because the other ranks cannot go on without it.
      - action: FailJob
        onExitCodes:
          operator: NotIn
          values: [0]
""": "",
}
IGNORED = {
    """      # A rank that crashes fails the Job, because the other ranks cannot go on without it.
      - action: FailJob
        onExitCodes:
          operator: NotIn
          values: [0]
""": "",
}


@contextmanager
def gang(pods: ExampleStage, *, changed: Mapping[str, str] = DEFAULTS) -> Iterator[Example]:
    with applied(pods, "indexed-job-gang", changed=changed, within_s=PAUSE_S) as example:
        yield example


def rank_of(name: str) -> int:
    return int(name.split("-")[1])


def by_rank(loads: Mapping[str, Load]) -> list[Load]:
    return [load for _, load in sorted(loads.items(), key=lambda one: rank_of(one[0]))]


def attempt(example: Example, size: int, *, without: Mapping[str, Load] = {}) -> dict[str, Load]:
    """Return the Pods of an attempt when all of them run with one job."""
    found = example.until_running(size, without=without)
    assert len(example.gangs(found)) == 1
    return found


def finished(example: Example, *loads: Load, code: int = 0) -> None:
    """End the containers, and see the Pods end."""
    example.finish(*loads, code=code)
    phase = "Failed" if code else "Succeeded"
    for load in loads:
        load.until(lambda load=load: load.pod["status"]["phase"] == phase)


@pytest.mark.parametrize("changed", [DEFAULTS, IGNORED], ids=["defaults", "each index alone"])
def test_a_gang_whose_ranks_all_failed_is_tried_again_G8(
    pods: ExampleStage, changed: Mapping[str, str]
) -> None:
    with gang(pods, changed=changed) as example:
        first = attempt(example, SIZE)
        finished(example, *first.values(), code=1)
        second = attempt(example, SIZE, without=first)
        finished(example, *second.values())
        example.until_true("job/train", "Complete")


def test_the_clean_up_of_a_succeeded_rank_ends_no_other_and_only_the_others_come_again_G8(
    pods: ExampleStage,
) -> None:
    with gang(pods) as example:
        first = by_rank(attempt(example, SIZE))
        finished(example, first[0])
        first[0].delete()
        example.until(lambda: first[0].gone, "rank 0 is cleaned up")
        assert stays(lambda: all(one.pod["status"]["phase"] == "Running" for one in first[1:]))
        assert len(example.jobs()) == 1
        finished(example, *first[1:], code=1)
        second = attempt(example, SIZE - 1, without={one.name: one for one in first})
        assert sorted(map(rank_of, second)) == [1, 2]
        finished(example, *second.values())
        example.until_true("job/train", "Complete")


@pytest.mark.parametrize("how", ["succeeded", "deleted"])
def test_after_a_restart_the_job_says_whether_a_missing_rank_has_succeeded_G3_G8(
    pods: ExampleStage, scheduler: Service, how: str
) -> None:
    """Only the Job knows: sunk-sync did not see the end."""
    with gang(pods, changed=IGNORED) as example:
        first = by_rank(attempt(example, SIZE))
        if how == "succeeded":
            finished(example, first[0])
            first[0].delete()
            example.until(lambda: first[0].gone, "rank 0 is cleaned up")
            scheduler.restart()
            assert stays(lambda: all(one.pod["status"]["phase"] == "Running" for one in first[1:]))
            assert len(example.jobs()) == 1
        else:
            scheduler.kill9()
            first[0].delete()
            example.until(lambda: first[0].gone, "rank 0 is deleted")
            scheduler.restart()
            attempt(example, SIZE, without={one.name: one for one in first})


def test_a_failed_rank_that_is_made_again_ends_the_ranks_that_run_G8(pods: ExampleStage) -> None:
    with gang(pods, changed=IGNORED) as example:
        first = by_rank(attempt(example, SIZE))
        finished(example, first[0], code=1)
        assert stays(lambda: all(one.pod["status"]["phase"] == "Running" for one in first[1:]))
        example.until(lambda: first[1].terminating or first[1].gone, "the others end")
        second = attempt(example, SIZE, without={one.name: one for one in first})
        finished(example, *second.values())
        example.until_true("job/train", "Complete")
        assert example.get("job/train")["status"]["failed"] == 1


def test_a_job_that_is_suspended_and_resumed_is_a_gang_again_G8(pods: ExampleStage) -> None:
    with gang(pods) as example:
        first = by_rank(attempt(example, SIZE))
        finished(example, first[0])
        example.kubectl("patch", "job/train", "-p", '{"spec":{"suspend":true}}')
        example.until(lambda: not example.alive() and not example.jobs(), "suspended")
        example.kubectl("patch", "job/train", "-p", '{"spec":{"suspend":false}}')
        second = attempt(example, SIZE - 1)
        finished(example, *second.values())
        example.until_true("job/train", "Complete")


TWO = {"completions: 3 ": "completions: 2 ", "parallelism: 3 ": "parallelism: 2 "}


def test_a_job_that_is_applied_again_with_more_ranks_is_a_new_gang_G9(pods: ExampleStage) -> None:
    with gang(pods, changed={**DEFAULTS, **TWO}) as example:
        first = attempt(example, 2)
        for load in first.values():
            example.kube.annotate_pod(load.name, NAMESPACE, FOREVER)
        file = pods.bed.kube.directory / "indexed-job-gang.yaml"
        text = file.read_text()
        for three, two in TWO.items():
            text = text.replace(two, three)
        file.write_text(text)
        example.kubectl("delete", "job/train")
        example.kubectl("apply", "-f", str(file))
        example.until(lambda: len(example.alive()) == SIZE, "the new Pods exist")
        assert all(load.terminating for load in first.values())
        for load in first.values():
            load.let_end()
        second = attempt(example, SIZE)
        finished(example, *second.values())
        example.until_true("job/train", "Complete")


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)], ids=["more", "fewer"])
def test_an_elastic_job_that_waits_gets_a_job_of_its_new_size_G9(
    pods: ExampleStage, before: int, after: int
) -> None:
    blockers = [pods.submit("--exclusive", "-p", "high", "-w", name) for name in hosts(pods)]
    changed = {**DEFAULTS, **(TWO if before == 2 else {})}
    with gang(pods, changed=changed) as example:
        example.until(lambda: nodes_asked(example) == [before], f"a job of {before} nodes waits")
        size = f'{{"spec":{{"completions":{after},"parallelism":{after}}}}}'
        example.kubectl("patch", "job/train", "-p", size)
        example.until(lambda: nodes_asked(example) == [after], f"a job of {after} nodes waits")
        pods.scancel(*blockers)
        found = attempt(example, after)
        finished(example, *found.values())
        example.until_true("job/train", "Complete")


def hosts(pods: ExampleStage) -> list[str]:
    return list(pods.bed.slurm.conf.names)


def nodes_asked(example: Example) -> list[int]:
    jobs = [job for job in example.jobs().values() if job["job_state"] == ["PENDING"]]
    return [job["node_count"]["number"] for job in jobs]
