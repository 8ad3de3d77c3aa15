"""The admission policy on a real API server judges Pods as sunk-sync does, and no others."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Observed, Pod
from sunk_sync.core.model.names import JOB_ID, PREFIX
from sunk_sync.core.translate.job_spec import Invalid, describe
from sunk_sync.kube.decode.source_decoder import PODS
from sunk_sync.service.wiring import configuration_of
from tests.chart.admission_pods import CASES, SCHEDULER, VALUES, Case
from tests.chart.helm import Helm, Object, Values, of_kind
from tests.chart.loading import loaded
from tests.real.testbed import KubeServer
from tests.real.testbed.errors import BedError
from tests.real.testbed.rest import RestError
from tests.real.testbed.sandbox import wait_until

pytestmark = pytest.mark.real

KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
POLICIES = ("sunk-sync-slurm", "sunk-sync-resize-slurm", "sunk-sync-preferences-slurm")
BAD = Case({"user-id": "alice"})
INVALID = 422
ACTIVE_DEADLINE_S = 60


def put(kube: KubeServer, objects: list[Object], folder: Path) -> None:
    """Apply the policy, and wait until the API server uses it."""
    file = folder / "policy.json"
    ours = [one for kind in KINDS for one in of_kind(objects, kind)]
    assert len(ours) == len(KINDS) * len(POLICIES)
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": ours}))
    kube.kubectl("apply", "--validate=strict", "-f", file)


def pods_policy(helm: Helm, values: Values) -> Object:
    """Return the policy for new Pods and their annotations."""
    found = of_kind(helm.objects(values), KINDS[0])
    return next(one for one in found if one["metadata"]["name"] == POLICIES[0])


@pytest.fixture(scope="module")
def ruled(
    kube: KubeServer, helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Configuration]:
    """The policy is on the server; return the configuration of sunk-sync with the same values."""
    folder = tmp_path_factory.mktemp("admission")
    for name in ("team-a", "team-b", "team-c", "team-d", "team-e", "elsewhere"):
        kube.ensure_namespace(name)
    objects = helm.objects(VALUES)
    put(kube, objects, folder)
    wait_until(lambda: refusal(kube, BAD) != "", "the policy active", deadline_s=ACTIVE_DEADLINE_S)
    yield configuration_of(loaded(objects, folder), cluster_uid="uid")
    for kind in KINDS:
        kube.kubectl("delete", kind, *POLICIES)


def create(kube: KubeServer, case: Case, *, namespace: str = "") -> Any:
    """Create the Pod as a trial; return it as the API server would store it."""
    path = f"/api/v1/namespaces/{namespace or case.namespace}/pods?dryRun=All"
    return kube.rest.call("POST", path, case.manifest("trial"))


def refusal(kube: KubeServer, case: Case) -> str:
    """Return why the API server refuses the Pod; empty: it accepts it."""
    try:
        create(kube, case)
    except RestError as error:
        if error.status != INVALID:
            raise
        return str(error.body["message"])
    return ""


def judged(stored: Any, case: Case, configuration: Configuration) -> str:
    """Return why sunk-sync refuses the Pod."""
    stored["metadata"]["resourceVersion"] = "1"  # a trial has none
    seen = PODS.object(json.dumps(stored).encode())
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, Pod)
    gang = seen.row.gang and replace(seen.row.gang, problem="")
    rows = [replace(seen.row, namespace=case.namespace, gang=gang)]
    if gang is not None:
        rows.append(replace(rows[0], name="other", uid="other", settings=(("user-id", "0"),)))
        rows = rows if "user-id" not in case.annotations else rows[:1]
    described = describe(rows, configuration)
    return described.message if isinstance(described, Invalid) else ""


@pytest.mark.parametrize("name", CASES)
def test_the_policy_and_the_product_judge_a_pod_alike_P4_P5(
    kube: KubeServer, ruled: Configuration, name: str
) -> None:
    case = CASES[name]
    stored = create(kube, case, namespace="elsewhere")  # no policy there, but all defaults
    if dropped := case.spec.keys() - stored["spec"].keys():
        pytest.skip(f"this version of Kubernetes has no {dropped}")
    theirs, ours = refusal(kube, case), judged(stored, case, ruled)
    assert case.refused in ours
    assert case.refused in theirs
    assert (ours == "", theirs == "") == (not case.refused,) * 2, (ours, theirs)


def test_pods_of_other_schedulers_and_namespaces_are_not_concerned(
    kube: KubeServer, ruled: Configuration
) -> None:
    assert ruled.namespace_rules is not None
    assert create(kube, BAD, namespace="elsewhere")
    other = BAD._replace(spec={"schedulerName": "default-scheduler", "containers": [
        {"name": "main", "image": "none"}
    ]})  # fmt: skip
    assert create(kube, other)


def test_an_edit_is_judged_but_not_what_stood_there_before(
    kube: KubeServer, ruled: Configuration, tmp_path: Path, helm: Helm
) -> None:
    """A Pod from before the policy still gets the annotations of sunk-sync and its labels."""
    assert ruled.namespace_rules is not None
    pod = BAD.manifest("older")
    path = "/api/v1/namespaces/team-a/pods"
    kube.kubectl("delete", KINDS[1], "sunk-sync-slurm")
    wait_until(lambda: refusal(kube, BAD) == "", "no policy", deadline_s=ACTIVE_DEADLINE_S)
    try:
        kube.rest.call("POST", path, pod)
        put(kube, helm.objects(VALUES), tmp_path)
        wait_until(lambda: refusal(kube, BAD) != "", "the policy", deadline_s=ACTIVE_DEADLINE_S)

        def annotate(**annotations: str | None) -> Any:
            patch = {"metadata": {"annotations": annotations, "labels": {"seen": "yes"}}}
            kind = "application/merge-patch+json"
            return kube.rest.call("PATCH", f"{path}/older", patch, content_type=kind)

        annotate(**{JOB_ID: "7"})
        with pytest.raises(RestError, match="/user-id: allowed is"):
            annotate(**{PREFIX + "account": "root"})
        annotate(**{PREFIX + "user-id": "1002"})
        with pytest.raises(RestError, match="rule accounts of team-a"):
            annotate(**{PREFIX + "account": "root"})
    finally:
        kube.rest.call("DELETE", f"{path}/older?gracePeriodSeconds=0")


def test_the_policy_has_no_mistake_of_types(kube: KubeServer, ruled: Configuration) -> None:
    """The controller checks the expressions with the server's own schemas."""
    assert ruled.scheduler == SCHEDULER
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/sunk-sync-slurm"

    def checked() -> bool:
        found = kube.rest.call("GET", path)
        return bool(
            found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
        )

    wait_until(checked, "the types checked", deadline_s=ACTIVE_DEADLINE_S)
    warnings = kube.rest.call("GET", path)["status"].get("typeChecking", {})
    unknown = "undefined field 'resources'"  # of the whole Pod: before Kubernetes 1.32
    found = [one for one in warnings.get("expressionWarnings", ()) if unknown not in one["warning"]]
    assert not found


def test_open_to_all_checks_forms_alone(helm: Helm) -> None:
    policy = pods_policy(helm, {"scheduler": {"openToAll": True}})
    text = json.dumps(policy)
    assert "/user-id: allowed is" in text
    assert "--user-policy" not in text
    assert "variables.rules" not in text


@pytest.mark.parametrize(
    "values", [{"admissionPolicy": {"enabled": False}}, {"scheduler": {"enabled": False}}]
)
def test_the_policy_can_be_left_out(helm: Helm, values: Any) -> None:
    objects = helm.objects(values)
    assert not [one for kind in KINDS for one in of_kind(objects, kind)]


def test_a_server_without_the_kind_gets_no_policy(helm: Helm) -> None:
    """Without a cluster helm knows no kinds; with one it knows at least Pods."""
    has = "--api-versions=v1/Pod"
    kind = "--api-versions=admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
    assert KINDS[0] in helm.template({})
    assert KINDS[0] not in helm.template({}, has)
    assert KINDS[0] in helm.template({}, has, kind)


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({}, None),
        ({"slurm-kill-wait": 60}, "55.000"),
        ({"slurm-kill-wait": "60"}, "55.000"),
        ({"slurm-kill-wait": "1m500ms", "termination-offset": 0}, "60.500"),
        ({"slurm-kill-wait": "1h", "termination-offset": "1m"}, "3540.000"),
    ],
)
def test_grace_is_checked_only_against_a_known_kill_wait_P3(
    helm: Helm, settings: Any, limit: str | None
) -> None:
    """sunk-sync may read another KillWait from Slurm than the default."""
    policy = pods_policy(helm, {"settings": settings})
    (found,) = [
        one["expression"]
        for one in policy["spec"]["validations"]
        if "terminationGracePeriodSeconds" in one["expression"]
    ] or [None]
    assert found is None if limit is None else found.endswith(f"< {limit}")


MAIN, SIDE = ("main", "2", "1Gi"), ("side", "500m", "100Mi")


def sized(*containers: tuple[str, str, str]) -> list[Object]:
    """Return containers with their requests, by name, cpu and memory."""
    return [
        {"name": name, "image": "none", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
        for name, cpu, memory in containers
    ]


@pytest.fixture(scope="module")
def resize(kube: KubeServer, ruled: Configuration) -> Iterator[Callable[..., str]]:
    """Resize a Pod that runs, as a trial; return why it is refused, or empty."""
    assert ruled.namespace_rules is not None
    path = "/api/v1/namespaces/team-a/pods"
    pod = Case({"user-id": "1002"}).manifest("runs")
    pod["spec"] |= {"containers": sized(MAIN, SIDE), "nodeName": "n1"}
    kube.rest.call("POST", path, pod)
    told = [{"name": one["name"], "image": "none", "imageID": "", "restartCount": 0, "ready": True,
             "resources": one["resources"]} for one in sized(MAIN, SIDE)]  # fmt: skip
    strategic = "application/strategic-merge-patch+json"
    status = {"status": {"phase": "Running", "containerStatuses": told}}
    kube.rest.call("PATCH", f"{path}/runs/status", status, content_type=strategic)

    def change(*containers: tuple[str, str, str]) -> str:
        patch = {"spec": {"containers": sized(*containers)}}
        try:
            kube.rest.call("PATCH", f"{path}/runs/resize?dryRun=All", patch, content_type=strategic)
        except RestError as error:
            return str(error.body["message"])
        return ""

    if "could not find" in change(MAIN):
        pytest.skip("this version of Kubernetes resizes no Pods")
    yield change
    kube.rest.call("DELETE", f"{path}/runs?gracePeriodSeconds=0")


@pytest.mark.parametrize(
    ("containers", "refused"),
    [
        ((MAIN,), ""),
        ((("main", "1", "512Mi"),), ""),
        ((("main", "2500m", "1Gi"),), ""),
        ((("main", "1500m", "1Gi"), ("side", "1", "100Mi")), ""),
        ((("main", "2501m", "1Gi"),), "more cpu"),
        ((("side", "8", "100Mi"),), "more cpu"),
        ((("main", "2", "1025Mi"),), "more memory"),
    ],
    ids=["no change", "smaller", "within whole CPUs", "from one to the other", "more CPUs",
         "another container", "more memory"],
)  # fmt: skip
def test_a_resize_beyond_the_job_is_refused_P20(
    resize: Callable[..., str], containers: tuple[tuple[str, str, str], ...], refused: str
) -> None:
    said = resize(*containers)
    assert refused in said
    assert bool(said) == bool(refused), said


ALIKE: Object = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "soft"}}}
SOFT_SPREAD = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **ALIKE}
SOFT_AFFINITY = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": ALIKE}]
    },
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 1,
                "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
            }
        ]
    },
}
SOFT: Object = {"affinity": SOFT_AFFINITY, "topologySpreadConstraints": [SOFT_SPREAD]}
SOFT_RULES = ["preferred nodeAffinity", "preferred podAntiAffinity", "with ScheduleAnyway"]


def of_kind_named(kind: str, pod: Object) -> Object:
    """Return a Pod, or a controller with this Pod as its template."""
    if kind == "Pod":
        return pod
    labels = {"app": "soft"}
    template = {"metadata": {"labels": labels}, "spec": pod["spec"]}
    spec: Object = {"template": template}
    if kind in ("Job", "CronJob"):
        template["spec"] = {**pod["spec"], "restartPolicy": "Never"}
    else:
        spec["selector"] = {"matchLabels": labels}
    if kind == "StatefulSet":
        spec["serviceName"] = "soft"
    if kind == "CronJob":
        spec = {"schedule": "0 0 * * *", "jobTemplate": {"spec": spec}}
    group = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "soft"}, "spec": spec}


def warnings_of(kube: KubeServer, made: Object, folder: Path) -> str:
    """Return the warnings of `kubectl apply`, or empty."""
    file = folder / "made.json"
    file.write_text(json.dumps(made))
    command = ("-n", "team-a", "apply", "--dry-run=server", "--warnings-as-errors")
    try:
        kube.kubectl(*command, "-f", file)
    except BedError as error:
        if "Warning:" not in str(error):
            raise
        return str(error)
    return ""


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "StatefulSet", "Job", "CronJob"])
def test_kubectl_warns_of_rules_that_only_prefer_nodes_P8(
    kube: KubeServer, ruled: Configuration, tmp_path: Path, kind: str
) -> None:
    """The warning comes once, from what a person applies, and refuses nothing."""
    assert ruled.scheduler == SCHEDULER
    soft = Case({"user-id": "1002"}, spec=SOFT).manifest("soft")
    hard = Case({"user-id": "1002"}).manifest("soft")
    others = Case({}, spec={**SOFT, "schedulerName": "default-scheduler"}).manifest("soft")
    said = warnings_of(kube, of_kind_named(kind, soft), tmp_path)
    assert all(f"{rule} is ignored" in said for rule in SOFT_RULES), said
    assert warnings_of(kube, of_kind_named(kind, hard), tmp_path) == ""
    assert warnings_of(kube, of_kind_named(kind, others), tmp_path) == ""


def test_a_pod_of_a_controller_brings_no_further_warning_P8(
    kube: KubeServer, ruled: Configuration, tmp_path: Path
) -> None:
    assert ruled.scheduler == SCHEDULER
    pod = Case({"user-id": "1002"}, spec=SOFT, owner="ReplicaSet").manifest("soft")
    assert warnings_of(kube, pod, tmp_path) == ""
