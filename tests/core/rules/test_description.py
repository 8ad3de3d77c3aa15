"""The description of the job of some Pods, or their faults: P1-P6, P8, P9, P20, P27, G1, G2, G5."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Pod
from sunk_sync.core.model.job_description import SETTINGS, JobDescription
from sunk_sync.core.model.pod_spec import Gang, PodSpec, Requirement, Term
from sunk_sync.core.model.user_policy import Rules, UserPolicy
from sunk_sync.core.translate.job_spec import (
    MESSAGE_MAX,
    Invalid,
    can_update,
    describe,
    digest,
    static_cpu_warning,
)

GIB = 1 << 30
CONFIGURATION = Configuration(
    gres_map=(("nvidia.com/gpu", "gpu"), ("amd.com/gpu", "gpu"), ("rdma/*", "-")),
    gpu_types=(("A100_PCIE_80GB", "a100"), ("A100_NVLINK_80GB", "a100"), ("H100", "h100")),
)
SMALL: Mapping[str, int] = {"cpu": 1000, "memory": GIB}


TEAM_ALONE = UserPolicy((("team", Rules(users=((0, 9),))),))


def pod(name: str = "p", **fields: Any) -> Pod:
    """Make Pod `team/NAME` of one CPU and 1 GiB, with spec fields and annotations (with `_`)."""
    requests: Mapping[str, int] = fields.pop("requests", SMALL)
    of_spec = {key: fields.pop(key) for key in tuple(fields) if key in PodSpec.__struct_fields__}
    of_pod = {key: fields.pop(key) for key in tuple(fields) if key in ("namespace", "gang")}
    settings = {key.replace("_", "-"): value for key, value in fields.items()}
    return Pod(
        **{"namespace": "team", "name": name, "uid": f"uid-{name}", **of_pod},
        spec=PodSpec(requests=tuple(sorted(requests.items())), **{"grace_s": 5, **of_spec}),
        settings=tuple(sorted(settings.items())),
    )


def described(*pods: Pod, configuration: Configuration = CONFIGURATION) -> JobDescription:
    description = describe(pods, configuration)
    assert isinstance(description, JobDescription), description
    return description


def refused(*pods: Pod, configuration: Configuration = CONFIGURATION) -> str:
    invalid = describe(pods, configuration)
    assert isinstance(invalid, Invalid), invalid
    return invalid.message


def configured(**fields: Any) -> Configuration:
    return replace(CONFIGURATION, **fields)


def test_a_plain_pod_is_a_job_of_root_on_one_node_P1() -> None:
    assert described(pod()) == JobDescription(slurm_nodes=1, cpus=1, memory_mb=1024)


# --- P2


@pytest.mark.parametrize(
    ("requests", "numbers"),
    [
        ({}, "0 and memory is 0 MiB"),
        ({"cpu": 500}, "0.5 and memory is 0 MiB"),
        ({"memory": 3 << 20}, "0 and memory is 3 MiB"),
        ({"cpu": 0, "memory": 0, "nvidia.com/gpu": 8}, "0 and memory is 0 MiB"),
    ],
)
def test_without_cpu_or_memory_is_no_job_P2(requests: Mapping[str, int], numbers: str) -> None:
    message = refused(pod(requests=requests))
    assert message == f"cpu and memory requests must be above 0, but cpu is {numbers}"


# --- P3


@pytest.mark.parametrize("grace_s", [0, 24])
def test_a_grace_below_the_limit_is_accepted_P3(grace_s: int) -> None:
    """With KillWait 30 s the limit is 24 s, as in the documentation of SUNK."""
    described(pod(grace_s=grace_s))


@pytest.mark.parametrize(
    ("grace_s", "kill_wait_s", "offset_s", "allowed"),
    [
        (25, 30.0, 5.0, "at most 24 is allowed"),
        (30, 30.0, 5.0, "at most 24 is allowed"),
        (25, 30.0, 5.5, "at most 24 is allowed"),
        (30, 30.0, 0.0, "at most 29 is allowed"),
        (1, 6.0, 5.0, "at most 0 is allowed"),
        (0, 5.0, 5.0, "no value is allowed"),
        (0, 2.0, 5.0, "no value is allowed"),
    ],
)
def test_a_grace_at_the_limit_is_refused_P3(
    grace_s: int, kill_wait_s: float, offset_s: float, allowed: str
) -> None:
    configuration = configured(kill_wait_s=kill_wait_s, termination_offset_s=offset_s)
    assert refused(pod(grace_s=grace_s), configuration=configuration) == (
        f"terminationGracePeriodSeconds {grace_s} must be less than Slurm's KillWait "
        f"{kill_wait_s:g} s minus {offset_s:g} s: {allowed}"
    )


# --- P4


ANNOTATIONS: list[tuple[str, str, str, object]] = [
    ("account", "root", "account", "root"),
    ("comment", "A Kubernetes job", "comment", "A Kubernetes job"),
    ("comment", " two\n\tlines ", "comment", " two\n\tlines "),
    ("comment", "é" * 512, "comment", "é" * 512),
    ("constraints", "a100&(ib|roce)", "constraints", "a100&(ib|roce)"),
    ("current-working-dir", "/path/to/use", "working_directory", "/path/to/use"),
    ("excluded-nodes", "a100-092-01,a100-092-02", "excluded_nodes", "a100-092-01,a100-092-02"),
    ("excluded-nodes", "n1, n2", "excluded_nodes", "n1,n2"),
    ("excluded-nodes", "n[1-3,7]", "excluded_nodes", "n[1-3,7]"),
    ("exclusive", "none", "exclusive", "none"),
    ("exclusive", "ok", "exclusive", "oversubscribe"),
    ("exclusive", "user", "exclusive", "user"),
    ("exclusive", "mcs", "exclusive", "mcs"),
    ("exclusive", "topo", "exclusive", "topo"),
    ("exclusive", "true", "exclusive", "none"),
    ("exclusive", "True", "exclusive", "none"),
    ("exclusive", "false", "exclusive", ""),
    ("group-id", "1002", "group_id", 1002),
    ("partition", "default", "partition", "default"),
    ("partition", "a,b", "partition", "a,b"),
    ("prefer", "ib", "prefer", "ib"),
    ("priority", "100", "priority", 100),
    ("priority", "0", "priority", 0),
    ("priority", "4294967293", "priority", 4294967293),
    ("qos", "normal", "qos", "normal"),
    ("required-nodes", "a100-092-04,a100-092-06", "required_nodes", "a100-092-04,a100-092-06"),
    ("reservation", " test ", "reservation", "test"),
    ("timeout", "123", "time_limit_min", 123),
    ("timeout", "1", "time_limit_min", 1),
    ("timeout", "90s", "time_limit_min", 2),
    ("timeout", "60s", "time_limit_min", 1),
    ("timeout", "2h", "time_limit_min", 120),
    ("timeout", "1h30m", "time_limit_min", 90),
    ("timeout", "2d", "time_limit_min", 2880),
    ("timeout", "1-00:00:00", "time_limit_min", 1440),
    ("timeout", "1-12", "time_limit_min", 2160),
    ("timeout", "1-00:30", "time_limit_min", 1470),
    ("timeout", "02:30:01", "time_limit_min", 151),
    ("timeout", "52560000", "time_limit_min", 52560000),
    ("user-id", "1001", "user_id", 1001),
]


def test_every_annotation_stands_in_the_table_above_P4() -> None:
    assert {row[0] for row in ANNOTATIONS} == set(SETTINGS)


@pytest.mark.parametrize(("name", "text", "field", "value"), ANNOTATIONS)
def test_an_annotation_sets_only_its_field_P4(
    name: str, text: str, field: str, value: object
) -> None:
    description = described(pod(**{name: text}))
    assert getattr(description, field) == value
    changed = {field: getattr(JobDescription(), field)}
    rest = replace(description, **changed)
    assert replace(rest, group_id=0) == described(pod()), "nothing else may change"


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_annotation_counts_as_none_P4(name: str, text: str) -> None:
    """Templates make such annotations."""
    assert described(pod(**{name: text})) == described(pod())


WRONG = [
    ("account", "a b", "a name, or names with commas"),
    ("account", "x" * 1025, "at most 1024 bytes"),
    ("comment", "a\0b", "printable characters"),
    ("comment", "é" * 513, "at most 1024 bytes"),
    ("constraints", "a\nb", "printable characters"),
    ("current-working-dir", "relative", "an absolute path"),
    ("current-working-dir", "/a\nb", "an absolute path"),
    ("current-working-dir", "/" + "x" * 4095, "at most 4095 bytes"),
    ("excluded-nodes", "n[1-", "hostlist: unbalanced brackets"),
    ("excluded-nodes", "n[3-1]", "runs backwards"),
    ("excluded-nodes", "n[1-99999]", "more than 65536 names"),
    ("excluded-nodes", ",", "names of Slurm nodes or a hostlist"),
    ("exclusive", "yes", "none, ok, user, mcs, topo, true or false"),
    ("exclusive", "oversubscribe", "none, ok, user, mcs, topo, true or false"),
    ("group-id", "wheel", "a whole number"),
    ("partition", "a\tb", "printable"),
    ("prefer", "x" * 1025, "at most 1024 bytes"),
    ("priority", "-1", "a whole number from 0"),
    ("priority", "1.5", "a whole number from 0"),
    ("priority", "high", "a whole number from 0"),
    ("priority", "4294967294", "to 4294967293"),
    ("priority", "٣", "a whole number"),
    ("qos", "a b", "a name"),
    ("required-nodes", "n]1[", "unbalanced brackets"),
    ("reservation", "a b", "a name"),
    ("timeout", "0", "whole minutes above 0"),
    ("timeout", "-5", "whole minutes above 0"),
    ("timeout", "soon", "whole minutes above 0"),
    ("timeout", "1:2", "whole minutes above 0"),
    ("timeout", "2h1d", "whole minutes above 0"),
    ("timeout", "52560001", "at most 100 years"),
    ("timeout", "9" * 5000, "at most 100 years"),
    ("user-id", "root", "a whole number"),
    ("user-id", "2147483647", "to 2147483646"),
]


def test_every_annotation_stands_in_the_table_of_wrong_values_P4() -> None:
    assert {row[0] for row in WRONG} == set(SETTINGS)


@pytest.mark.parametrize(("name", "text", "allowed"), WRONG)
def test_a_wrong_value_is_refused_with_the_rule_P4(name: str, text: str, allowed: str) -> None:
    message = refused(pod(**{name: text}))
    assert message.startswith(f"annotation sunk.coreweave.com/{name}: '{text[0]}"[:40].rstrip("\0"))
    assert allowed in message
    assert message.isprintable()


def test_all_faults_are_one_message_P4() -> None:
    message = refused(
        pod(
            requests={},
            grace_s=99,
            priority="high",
            timeout="soon",
            user_id="me",
            device_claims=True,
        )
    )
    for part in ("cpu and memory", "at most 24", "/priority:", "/timeout:", "/user-id:", "Claims"):
        assert part in message
    assert message.count("; ") == 5


@given(st.dictionaries(st.sampled_from(sorted(SETTINGS)), st.text(), max_size=4), st.booleans())
def test_any_text_gives_a_description_or_a_message_P4(
    texts: Mapping[str, str], policy: bool
) -> None:
    configuration = configured(namespace_rules=TEAM_ALONE if policy else None)
    outcome = describe([pod(**texts)], configuration)
    if isinstance(outcome, Invalid):
        assert 0 < len(outcome.message.encode()) <= MESSAGE_MAX
        assert outcome.message.isprintable()


@given(st.from_regex(r"[0-9dhms:\- ]{1,14}", fullmatch=True))
def test_no_time_limit_is_zero_or_endless_P4(text: str) -> None:
    outcome = describe([pod(timeout=text)], CONFIGURATION)
    if isinstance(outcome, JobDescription) and text.strip():
        assert 1 <= outcome.time_limit_min <= 52_560_000


# --- P5


def test_a_user_without_a_group_has_the_group_of_that_number_P5() -> None:
    description = described(pod(user_id="1001"))
    assert (description.user_id, description.group_id) == (1001, 1001)
    description = described(pod(user_id="1001", group_id="7"))
    assert (description.user_id, description.group_id) == (1001, 7)


# --- P6


@pytest.mark.parametrize(
    ("requests", "field", "value"),
    [
        ({"cpu": 1}, "cpus", 1),
        ({"cpu": 999}, "cpus", 1),
        ({"cpu": 1000}, "cpus", 1),
        ({"cpu": 1001}, "cpus", 2),
        ({"cpu": 110_000}, "cpus", 110),
        ({"memory": 1}, "memory_mb", 1),
        ({"memory": 1 << 20}, "memory_mb", 1),
        ({"memory": (1 << 20) + 1}, "memory_mb", 2),
        ({"memory": 960 * GIB}, "memory_mb", 960 * 1024),
        ({"memory": 10**9}, "memory_mb", 954),
        ({"nvidia.com/gpu": 2}, "gres", (("gpu", 2),)),
        ({"amd.com/gpu": 2}, "gres", (("gpu", 2),)),
        ({"nvidia.com/gpu": 2, "amd.com/gpu": 3}, "gres", (("gpu", 5),)),
        ({"rdma/ib": 2}, "gres", ()),
        ({"rdma/hca_shared": 2}, "gres", ()),
        ({"ephemeral-storage": 2}, "gres", ()),
        ({"hugepages-2Mi": 2}, "gres", ()),
    ],
    ids=str,
)
def test_requests_are_rounded_up_and_mapped_P6(
    requests: Mapping[str, int], field: str, value: object
) -> None:
    assert getattr(described(pod(requests={**SMALL, **requests})), field) == value


def test_the_exact_name_wins_over_the_pattern_P6() -> None:
    for gres_map in ((("a/*", "-"), ("a/b", "fpga")), (("a/b", "fpga"), ("a/*", "-"))):
        configuration = configured(gres_map=gres_map)
        one = pod(requests={**SMALL, "a/b": 1, "a/c": 1})
        assert described(one, configuration=configuration).gres == (("fpga", 1),)


def test_a_resource_that_the_map_does_not_name_is_refused_P6() -> None:
    """Two Pods could otherwise share one device."""
    message = refused(pod(requests={**SMALL, "nvidia.com/mig-1g.5gb": 1, "smarter/fuse": 1}))
    assert message == (
        "Slurm does not know nvidia.com/mig-1g.5gb, smarter/fuse: name it in --gres-map"
    )
    described(pod(requests={**SMALL, "smarter/fuse": 0}))


def affine(*values: str, key: str = "gpu.nvidia.com/model", operator: str = "In") -> Term:
    return Term((Requirement("zone", "In", ("a",)), Requirement(key, operator, values)))


GPUS = {**SMALL, "nvidia.com/gpu": 8}


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({}, "gpu"),
        ({"node_selector": (("gpu.nvidia.com/model", "H100"),)}, "gpu:h100"),
        ({"node_selector": (("gpu.nvidia.com/class", "A100_PCIE_80GB"),)}, "gpu:a100"),
        ({"node_selector": (("gpu.nvidia.com/model", "unknown"),)}, "gpu"),
        ({"terms": (affine("H100"),)}, "gpu:h100"),
        ({"terms": (affine("A100_PCIE_80GB", key="gpu.nvidia.com/class"),)}, "gpu:a100"),
        ({"terms": (affine("A100_PCIE_80GB", "A100_NVLINK_80GB"),)}, "gpu:a100"),
        ({"terms": (affine("A100_PCIE_80GB", "H100"),)}, "gpu"),
        ({"terms": (affine("H100", "unknown"),)}, "gpu"),
        ({"terms": (affine("unknown"),)}, "gpu"),
        ({"terms": (affine("H100", operator="NotIn"),)}, "gpu"),
        ({"terms": (affine("H100"), affine("H100"))}, "gpu:h100"),
        ({"terms": (affine("H100"), affine("A100_PCIE_80GB"))}, "gpu"),
        ({"terms": (affine("H100"), Term())}, "gpu"),
        ({"terms": ()}, "gpu"),
        ({"terms": (affine("H100", key="other"),)}, "gpu"),
    ],
)
def test_a_gpu_type_is_requested_if_only_one_fits_P6(spec: Mapping[str, Any], name: str) -> None:
    """With several possible types the other hosts are excluded by P7."""
    assert described(pod(requests=GPUS, **spec)).gres == ((name, 8),)


@pytest.mark.parametrize(
    ("requests", "chosen", "gres"),
    [
        (GPUS, {"gpu_types": ()}, (("gpu", 8),)),
        (GPUS, {"gres_map": (("nvidia.com/gpu", "gpu:gold"),)}, (("gpu:gold", 8),)),
        (
            {**GPUS, "xilinx.com/fpga": 1},
            {"gres_map": (("nvidia.com/gpu", "gpu"), ("xilinx.com/fpga", "fpga"))},
            (("fpga", 1), ("gpu:h100", 8)),
        ),
        (SMALL, {}, ()),
    ],
    ids=["no map of types", "type in the map of resources", "only GPUs have it", "no GPUs"],
)
def test_the_type_is_added_to_gpus_without_one_if_there_is_a_map_of_types_P6(
    requests: Mapping[str, int], chosen: dict[str, Any], gres: tuple[tuple[str, int], ...]
) -> None:
    one = pod(requests=requests, terms=(affine("H100"),))
    assert described(one, configuration=configured(**chosen)).gres == gres


def test_the_example_manifest_of_the_first_documentation_is_its_job() -> None:
    """A whole node, eight GPUs, and affinity to a model."""
    requests = {"cpu": 110_000, "memory": 960 * GIB, "nvidia.com/gpu": 8, "rdma/ib": 1}
    terms = (Term((Requirement("gpu.nvidia.com/model", "In", ("H100_NVLINK_80GB",)),)),)
    annotations = {"account": "root", "comment": "A Kubernetes job", "exclusive": "none"}
    one = pod(requests=requests, terms=terms, grace_s=5, **annotations)
    configuration = configured(gpu_types=(("H100_NVLINK_80GB", "h100"),))
    assert described(one, configuration=configuration) == JobDescription(
        cpus=110,
        memory_mb=983_040,
        gres=(("gpu:h100", 8),),
        account="root",
        comment="A Kubernetes job",
        exclusive="none",
    )


# --- P8, P9, P27


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"device_claims": True}, "resourceClaims are not supported"),
        (
            {"daemon": True},
            "a Pod of a DaemonSet gets no Slurm job: leave schedulerName out of its template",
        ),
    ],
)
def test_devices_and_daemons_are_refused_P8(spec: dict[str, Any], why: str) -> None:
    assert refused(pod(**spec)) == why


CLASSES = (("high", "qos", "urgent"), ("high", "priority", 9), ("spare", "partition", "low"))


def test_a_class_asks_as_its_map_says_and_annotations_win_P9() -> None:
    configuration = configured(priority_map=CLASSES)

    def asked(**fields: str) -> tuple[object, ...]:
        one = described(pod(**fields), configuration=configuration)
        return one.qos, one.priority, one.partition

    assert asked(priority_class="high") == ("urgent", 9, "")
    assert asked(priority_class="high", qos="mine") == ("mine", 9, "")
    assert asked(priority_class="high", priority="0") == ("urgent", 0, "")
    assert asked(priority_class="spare") == ("", None, "low")
    assert asked(priority_class="other") == asked() == ("", None, "")


def test_pinned_cpus_are_told_or_refused_P27() -> None:
    one = pod(static_cpu=True)
    described(one)
    assert "whole CPUs" in static_cpu_warning([pod(), one])
    assert static_cpu_warning([pod()]) == ""
    assert "whole CPUs" in refused(one, configuration=configured(refuse_static_cpu=True))
    described(pod(), configuration=configured(refuse_static_cpu=True))


# --- G2, G5


def test_each_node_gets_the_largest_request_of_any_member_G5() -> None:
    leader = pod("a", requests={"cpu": 500, "memory": 64 * GIB})
    worker = pod("b", requests={"cpu": 8000, "memory": GIB, "nvidia.com/gpu": 4})
    assert described(worker, leader, pod("c")) == JobDescription(
        slurm_nodes=3, cpus=8, memory_mb=65536, gres=(("gpu", 4),)
    )


def test_the_order_of_the_pods_does_not_matter_G5() -> None:
    many, few = pod("a", requests=GPUS), pod("b", requests={**SMALL, "nvidia.com/gpu": 1})
    assert described(many, few) == described(few, many)
    assert described(many, few).gres == (("gpu", 8),)
    left, right = pod("a", account="x"), pod("b", account="y")
    assert refused(left, right) == refused(right, left)


def test_an_annotation_of_one_member_holds_for_all_G5() -> None:
    members = [pod("a"), pod("b", account="x"), pod("c", account="x", timeout="2h")]
    assert described(*members) == described(*reversed(members))
    assert described(*members).account == "x"
    assert described(*members).time_limit_min == 120


def test_two_gpu_types_in_one_gang_are_no_type_G5() -> None:
    """P7 excludes the hosts that cannot take every member."""
    h100 = pod("a", requests=GPUS, terms=(affine("H100"),))
    a100 = pod("b", requests=GPUS, terms=(affine("A100_PCIE_80GB"),))
    free = pod("c", requests={**SMALL, "nvidia.com/gpu": 9})
    assert described(h100, free).gres == (("gpu:h100", 9),)
    assert described(h100, a100).gres == (("gpu", 8),)


def test_members_that_contradict_each_other_are_refused_by_name_G5() -> None:
    message = refused(pod("a", account="x"), pod("b", account="y"), pod("c"))
    assert message == (
        "Pod team/b: sunk.coreweave.com/account 'y' differs from 'x' of team/a in the same gang"
    )
    described(pod("a", timeout="2h"), pod("b", timeout="120"))


def test_classes_contradict_too_unless_an_annotation_decides_G5() -> None:
    configuration = configured(priority_map=(("high", "qos", "h"), ("low", "qos", "l")))
    members = [pod("a", priority_class="high"), pod("b", priority_class="low")]
    message = refused(*members, configuration=configuration)
    assert message == (
        "Pod team/b: by its PriorityClass qos 'l' differs from 'h' of team/a in the same gang"
    )
    decided = described(*members, pod("c", qos="mine"), configuration=configuration)
    assert decided.qos == "mine"


def test_the_message_names_the_member_and_why_G2() -> None:
    message = refused(pod("a"), pod("b", grace_s=99), pod("c"))
    assert message.startswith("Pod team/b: terminationGracePeriodSeconds 99 must be less than")


def test_members_with_one_fault_share_a_sentence_G2() -> None:
    members = [pod(f"w{number}", requests={}) for number in range(6)]
    message = refused(pod("a", priority="x"), *members)
    first, second = message.split(". ")
    assert first.startswith("Pod team/a: annotation ")
    assert second.startswith("Pods team/w0, team/w1, team/w2 and 3 more: cpu and memory")


def test_a_gang_with_an_invalid_annotation_is_refused_with_its_problem_G1() -> None:
    gang = Gang("annotation", "g", problem="gang-size 'x' is no number")
    assert refused(pod(gang=gang)) == "gang-size 'x' is no number"
    described(pod(gang=Gang("annotation", "g", 1)))


@given(st.integers(1, 300))
def test_a_message_about_any_number_of_members_fits_into_an_event(number: int) -> None:
    members = [pod(f"p{i}", timeout=f"é{i}" * 20) for i in range(number)]
    assert len(refused(*members).encode()) <= MESSAGE_MAX


def test_a_message_is_counted_in_bytes() -> None:
    names = ("exclusive", "group_id", "priority", "timeout", "user_id")
    message = refused(pod(**dict.fromkeys(names, "é" * 60)))
    whole = refused(pod(**dict.fromkeys(names, "e" * 60)))
    assert len(whole) < MESSAGE_MAX
    assert MESSAGE_MAX - 3 < len(message.encode()) <= MESSAGE_MAX
    assert message.endswith("…")


# --- digest


def test_the_digest_of_a_description_never_changes_P20() -> None:
    """It is stored in Slurm, and other versions of sunk-sync compare with it."""
    assert digest(JobDescription()) == "4f53cda14f53cda1"
    full = JobDescription(
        slurm_nodes=2, cpus=3, gres=(("gpu", 1),), account="ä", priority=0, time_limit_min=5
    )
    assert digest(full) == "e33aa15523bb8c80"


def other(field: str) -> JobDescription:
    """Make a description that differs from the default in this field."""
    value: Any = "other" if getattr(JobDescription(), field) == "" else 2
    return replace(JobDescription(), **{field: (("gpu", 1),) if field == "gres" else value})


@pytest.mark.parametrize("field", JobDescription.__struct_fields__)
def test_every_field_counts_P20(field: str) -> None:
    assert digest(other(field)) != digest(JobDescription())
    assert len(digest(other(field))) == 16


@pytest.mark.parametrize("field", JobDescription.__struct_fields__)
def test_a_waiting_job_is_updated_only_in_fields_that_slurm_really_changes_P20(field: str) -> None:
    """In other fields Slurm reports success and changes nothing, or changes something else."""
    given = {"comment", "constraints", "prefer", "reservation", "working_directory"}
    given |= {"required_nodes", "excluded_nodes"}
    new = digest(other(field))
    assert can_update(digest(JobDescription()), new) == (field in given)
    assert can_update(new, digest(JobDescription())) == (field in given)


@pytest.mark.parametrize(
    ("old", "new", "can"),
    [
        ({"priority": 5}, {"priority": 6}, True),
        ({"priority": 0}, {"priority": 6}, False),
        ({"priority": 6}, {"priority": 0}, False),
        ({"priority": 6}, {}, False),
        ({"partition": "a"}, {"partition": "b"}, True),
        ({"partition": "a"}, {}, False),
        ({"time_limit_min": 5}, {"time_limit_min": 6}, True),
        ({"time_limit_min": 5}, {}, False),
    ],
)
def test_a_value_that_slurm_cannot_remove_needs_another_job_P20(
    old: dict[str, Any], new: dict[str, Any], *, can: bool
) -> None:
    assert can_update(digest(JobDescription(**old)), digest(JobDescription(**new))) == can


def test_a_job_without_digest_cannot_be_judged_P20() -> None:
    assert not can_update("", digest(JobDescription()))
