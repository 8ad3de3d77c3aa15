"""Files of deploy/examples on a stage: applied, read from both servers, and deleted."""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.real.stage import eventually, stays
from tests.real.testbed import SlurmConf
from tests.real.testbed.kube import REPOSITORY
from tests.real.testbed.kube_objects import status_of
from tests.real.testbed.kubelet import EXIT_CODE, RUN
from tests.real.workloads import Job, Load, PodStage, all_jobs, lives

EXAMPLES = REPOSITORY / "deploy" / "examples"
NAMESPACE = "team-a"
KILL_WAIT_S = 30
"""Slurm's default, so that the examples need no other grace period."""
WITHIN_S = 30.0
SETTLED_S = 1.0
ALIVE = ("Pending", "Running")


class ExampleStage(PodStage):
    def conf(self) -> SlurmConf:
        return replace(super().conf(), kill_wait_s=KILL_WAIT_S)


class Example:
    """A file of deploy/examples that is applied."""

    def __init__(self, stage: ExampleStage, file: Path, *, within_s: float) -> None:
        self.stage = stage
        self.file = file
        self.within_s = within_s
        self.kube = stage.bed.kube

    def kubectl(self, *argv: str) -> str:
        return self.kube.kubectl("-n", NAMESPACE, *argv)

    def get(self, what: str) -> Any:
        """Return the object KIND/NAME as it is on the server."""
        return json.loads(self.kubectl("get", what, "-o", "json"))

    def change(self, what: str, path: str, value: object) -> None:
        patch = json.dumps([{"op": "replace", "path": path, "value": value}])
        self.kubectl("patch", what, "--type=json", "-p", patch)

    def show(self) -> str:
        return self.kubectl("get", "all", "-o", "wide") + self.stage.bed.slurm.squeue()

    def until(self, claim: Callable[[], Any], what: str) -> None:
        eventually(claim, what, within_s=self.within_s, show=self.show)

    def until_true(self, what: str, kind: str) -> None:
        """Wait for a condition of KIND/NAME."""
        self.until(lambda: status_of(self.get(what), kind) == "True", f"{what} {kind}")

    def listed(self) -> list[Any]:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        return list(self.kube.rest.call("GET", path)["items"])

    def alive(self) -> dict[str, Any]:
        """Return by name the Pods that are to run or run."""
        return {
            one["metadata"]["name"]: one
            for one in self.listed()
            if one["status"]["phase"] in ALIVE and "deletionTimestamp" not in one["metadata"]
        }

    def until_running(self, size: int, *, without: Mapping[str, Load] = {}) -> dict[str, Load]:
        """Return the Pods by name when this number runs, each with its job on its Node.

        `without`: none of these Pods counts, though a new one may have its name.
        """
        old = {load.uid for load in without.values()}
        found: dict[str, Load] = {}

        def all_run() -> bool:
            alive = self.alive()
            found.clear()
            for name, one in alive.items():
                uid = one["metadata"]["uid"]
                found[name] = Load(self.stage.bed, name, namespace=NAMESPACE, uid=uid)
            running = all(one["status"]["phase"] == "Running" for one in alive.values())
            uids = {load.uid for load in found.values()}
            return running and len(found) == size and not old & uids

        def settled() -> bool:
            """A controller may make a Pod of an old group once more, and then all of them anew."""
            return all_run() and (not without or stays(all_run, for_s=SETTLED_S))

        self.until(settled, f"{size} Pods run")
        jobs = self.jobs()
        for load in found.values():
            assert load.node in self.stage.expand(jobs[load.until_bound()]["nodes"])
        return found

    def gangs(self, loads: Mapping[str, Load]) -> dict[str, list[str]]:
        """Return the names of the Pods of each job; each Pod has a node of the job to itself."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name, load in sorted(loads.items()):
            found[load.until_bound()].append(name)
        jobs = self.jobs()
        for number, names in found.items():
            nodes = self.stage.expand(jobs[number]["nodes"])
            assert nodes == {loads[name].node for name in names}
            assert len(nodes) == len(names)
        return dict(found)

    def finish(self, *loads: Load, code: int = 0) -> None:
        """End the containers, as they do by themselves."""
        for load in loads:
            knobs = {RUN: "0", EXIT_CODE: str(code)}
            self.kube.annotate_pod(load.name, NAMESPACE, knobs)

    def evict(self, load: Load) -> None:
        """End a Pod as `kubectl drain` does."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": load.name}}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{load.name}/eviction"
        self.kube.rest.call("POST", path, eviction)

    def jobs(self) -> dict[str, Job]:
        """Return by number the jobs of these Pods that have not ended."""
        found = [job for job in all_jobs(self.stage.bed) if lives(job)]
        ours = [job for job in found if job["name"].startswith(f"k8s/{NAMESPACE}/")]
        return {number_of(job): job for job in ours}

    def cancel(self, load: Load) -> None:
        """Cancel the job of this Pod alone, and see the Pod end."""
        self.stage.scancel(load.until_bound())
        self.until(lambda: load.gone, "the Pod of the cancelled job is gone")


def number_of(job: Job) -> str:
    """Return the id as the annotation of a Pod spells it: 7, or 7_1 for a task of an array."""
    task = job["array_task_id"]
    if not task["set"]:
        return str(job["job_id"])
    return f"{job['array_job_id']['number']}_{task['number']}"


@contextmanager
def applied(
    stage: ExampleStage,
    name: str,
    *,
    changed: Mapping[str, str] = {},
    within_s: float = WITHIN_S,
) -> Iterator[Example]:
    """Apply an example; at the end delete it, and see its Pods and jobs end."""
    text = (EXAMPLES / f"{name}.yaml").read_text()
    for old, new in changed.items():
        assert old in text
        text = text.replace(old, new)
    file = stage.bed.kube.directory / f"{name}.yaml"
    file.write_text(text)
    example = Example(stage, file, within_s=within_s)
    example.kubectl("apply", "-f", str(file))
    begun_s = time.monotonic()
    try:
        yield example
    finally:
        example.kubectl("delete", "--ignore-not-found", "-f", str(file))
    example.until(lambda: not example.listed() and not example.jobs(), "no Pod and no job is left")
    print(f"{name}: {time.monotonic() - begun_s:.1f} s")
