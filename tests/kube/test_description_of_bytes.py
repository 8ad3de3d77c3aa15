"""A workload Pod as the API server sends it, translated to its job."""

from typing import Any

import pytest
import yaml

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.names import PREFIX
from sunk_sync.core.translate.job_spec import Invalid, describe
from tests.kit.pod_rows import row

CONFIGURATION = Configuration(
    gres_map=(("nvidia.com/gpu", "gpu"), ("rdma/*", "-")), gpu_types=(("H100_NVLINK_80GB", "h100"),)
)
EXAMPLE = """
metadata:
  annotations:
    sunk.coreweave.com/account: root
    sunk.coreweave.com/comment: "A Kubernetes job"
    sunk.coreweave.com/exclusive: "none"
spec:
  schedulerName: resident-slurm-staging-slurm-scheduler
  containers:
    - name: main
      image: ubuntu
      resources:
        limits: {memory: 960Gi, rdma/ib: "1", nvidia.com/gpu: "8"}
        requests: {cpu: "110", memory: 960Gi, nvidia.com/gpu: "8"}
  terminationGracePeriodSeconds: 5
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions:
              - {key: gpu.nvidia.com/model, operator: In, values: [H100_NVLINK_80GB]}
"""
"""A whole node with eight GPUs, as users of SUNK write it."""


def description_of(manifest: dict[str, Any]) -> JobDescription | Invalid:
    return describe([row(manifest["spec"], **manifest["metadata"])], CONFIGURATION)


def test_a_whole_node_with_gpus_of_one_model_P4_P6() -> None:
    assert description_of(yaml.safe_load(EXAMPLE)) == JobDescription(
        cpus=110,
        memory_mb=983_040,
        gres=(("gpu:h100", 8),),
        account="root",
        comment="A Kubernetes job",
        exclusive="none",
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("required-nodes", ",".join(f"n{number}" for number in range(20_000))),
        ("comment", "x" * 1025),
        ("timeout", "1" + "0" * 2000),
    ],
)
def test_a_value_that_is_too_long_is_refused_and_not_cut_P4(name: str, text: str) -> None:
    """Half a list of nodes would be valid and name other nodes."""
    manifest = yaml.safe_load(EXAMPLE)
    manifest["metadata"]["annotations"][PREFIX + name] = text
    outcome = description_of(manifest)
    assert isinstance(outcome, Invalid)
    assert outcome.message.startswith(f"annotation {PREFIX}{name}: ")


def test_a_list_of_3000_nodes_is_accepted_whole_P4() -> None:
    manifest = yaml.safe_load(EXAMPLE)
    names = ",".join(f"rack7-node{number:04}" for number in range(3000))
    manifest["metadata"]["annotations"][PREFIX + "excluded-nodes"] = names
    outcome = description_of(manifest)
    assert isinstance(outcome, JobDescription)
    assert outcome.excluded_nodes == names
