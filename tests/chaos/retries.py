"""Jobs that try again: their Pods fail, and the Jobs are suspended, resized and applied again."""

import random
from collections.abc import Callable
from typing import Any

from tests.real.service import NAMESPACE
from tests.real.testbed import KubeServer
from tests.real.testbed.kube_objects import Object
from tests.real.testbed.kubelet import EXIT_CODE, FAILURES, RUN

BATCH = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
BACKGROUND = "?propagationPolicy=Background"
MERGE = "application/merge-patch+json"
KEPT_S = 20
"""Finished Jobs, and their Pods, are removed after so long."""
RETRY = "retry"
SIZE_MAX = 3
IGNORES_DISRUPTIONS: Object = {
    "podFailurePolicy": {
        "rules": [
            {
                "action": "Ignore",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            }
        ]
    }
}
LIMITS: tuple[Object, ...] = (
    {},
    {},
    {"backoffLimit": 2},
    {"backoffLimitPerIndex": 1},
    IGNORES_DISRUPTIONS,
    {**IGNORES_DISRUPTIONS, "podReplacementPolicy": "Failed"},
)
"""Half of the Jobs leave the defaults, or nearly so."""
FATES: tuple[Object, ...] = (
    {EXIT_CODE: "1", FAILURES: "1"},
    {EXIT_CODE: "1"},
    {f"{EXIT_CODE}-1": "1", FAILURES: "1"},
    {f"{EXIT_CODE}-1": "1", f"{RUN}-1": "2", FAILURES: "1"},
    {f"{RUN}-0": "1"},
    {f"{RUN}-0": "1", f"{EXIT_CODE}-1": "1", FAILURES: "1"},
)
"""All fail once or always, one fails at the end or early, one succeeds early, both."""


class Retries:
    def __init__(
        self,
        kube: KubeServer,
        rng: random.Random,
        *,
        template: Callable[..., Object],
    ) -> None:
        """`template` makes the template of Pods with these annotations of ours."""
        self._rest = kube.rest
        self._rng = rng
        self._template = template
        self._numbers = 0

    def make(self) -> None:
        self._numbers += 1
        self._post(f"{RETRY}-{self._numbers}")

    def apply_again(self) -> None:
        """Delete a Job, and create one of its name at once, perhaps of another size."""
        if job := self._one():
            name = job["metadata"]["name"]
            self._rest.call("DELETE", f"{BATCH}/{name}{BACKGROUND}")
            self._post(name)

    def suspend(self) -> None:
        """Suspend a Job, or resume it."""
        if job := self._one():
            self._patch(job, {"suspend": not job["spec"].get("suspend")})

    def resize(self) -> None:
        """Give an Indexed Job another size: it is elastic."""
        job = self._one()
        if job and job["spec"].get("completionMode") == "Indexed":
            size = self._rng.randint(1, SIZE_MAX)
            self._patch(job, {"completions": size, "parallelism": size})

    def _one(self) -> Any:
        """Return one that has not finished; None if there is none."""
        jobs = [
            job
            for job in self._rest.call("GET", BATCH)["items"]
            if job["metadata"]["name"].startswith(RETRY) and not job["status"].get("completionTime")
        ]
        return self._rng.choice(jobs) if jobs else None

    def _patch(self, job: Any, spec: Object) -> None:
        path = f"{BATCH}/{job['metadata']['name']}"
        self._rest.call("PATCH", path, {"spec": spec}, content_type=MERGE)

    def _post(self, name: str) -> None:
        spec = self._gang() if self._rng.random() < 0.8 else self._plain()
        made = {**spec, "ttlSecondsAfterFinished": KEPT_S}
        self._rest.call("POST", BATCH, {"metadata": {"name": name}, "spec": made})

    def _gang(self) -> Object:
        size = self._rng.randint(2, SIZE_MAX)
        return {
            "completions": size,
            "parallelism": size,
            "completionMode": "Indexed",
            **self._rng.choice(LIMITS),
            "template": self._failing(self._rng.choice(FATES), gang="job"),
        }

    def _plain(self) -> Object:
        size = self._rng.randint(1, SIZE_MAX)
        fate = {EXIT_CODE: "1", FAILURES: str(self._rng.randint(1, SIZE_MAX))}
        return {
            "completions": size,
            "parallelism": size,
            "backoffLimit": 2,
            "template": self._failing(fate),
        }

    def _failing(self, fate: Object, **annotations: str) -> Object:
        template = self._template(cpus=8, **annotations)
        template["metadata"]["annotations"] |= fate
        return template
