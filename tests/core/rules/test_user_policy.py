"""The policy of namespaces: what their Pods may ask of Slurm, and the effect of a change of it."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import CancelJob, SetScheduled, SubmitJob, UpdateJob
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EVENT_INVALID, EVENT_TOO_LATE
from sunk_sync.core.model.facts import NAMESPACES, Pod, SubmitRefused
from sunk_sync.core.model.job_description import SETTINGS, JobDescription
from sunk_sync.core.model.names import SCHEDULED_CONDITION
from sunk_sync.core.model.pod_spec import Gang
from sunk_sync.core.model.user_policy import (
    NO_DEFAULTS,
    Namespace,
    NamespaceDefaults,
    PolicyRead,
    UserPolicy,
)
from sunk_sync.core.rules.workload.wait import SHOWN_AFTER_S
from sunk_sync.core.translate.job_spec import Invalid, describe, digested
from sunk_sync.core.translate.user_policy import user_policy_of
from tests.kit.build import (
    POD,
    WORKLOAD,
    Core,
    deleted,
    gang_pod,
    identity,
    job,
    pod,
    two_hosts,
)

Rules = dict[str, object]


def policy(rules: object, namespace: str = "ns", **others: object) -> UserPolicy:
    """Build it from rules as the file has them: a dict for a namespace, or uids alone."""
    rows = {namespace: rules, **others}
    return user_policy_of((name, _row(value), 1) for name, value in rows.items())


def _row(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return tuple((key, one, 1) for key, one in value.items())


def asking(**settings: str) -> Pod:
    """Make Pod `ns/p` with annotations (with `_`)."""
    named = {key.replace("_", "-"): value for key, value in settings.items()}
    return pod(settings=tuple(sorted(named.items())))


def answer(rules: object, *pods: Pod, **chosen: Any) -> JobDescription | str:
    """Return the description of the job, or the whole sentence of its refusal."""
    configuration = Configuration(namespace_rules=policy(rules), **chosen)
    described = describe(pods, configuration)
    return described.message if isinstance(described, Invalid) else described


def sentence(text: str, rule: str, allowed: str) -> str:
    return f"namespace ns may not {text}: rule {rule} of ns in --user-policy allows {allowed}"


USER = "(annotation sunk.coreweave.com/user-id)"
ROOT: Rules = {"root": "true"}
REFUSED: dict[str, tuple[object, dict[str, str], str]] = {
    "user": (ROOT, {"user_id": "1001"}, sentence(f"run jobs as user 1001 {USER}", "users", "0")),
    "root by default": (
        {"users": "1001"}, {}, sentence(f"run jobs as user 0 {USER}", "root", "1001"),
    ),
    "root": (
        {"users": "*", "default-user": "5"},
        {"user_id": "0"},
        sentence(f"run jobs as user 0 {USER}", "root", "5, 1-2147483646"),
    ),
    "group": (ROOT, {"group_id": "5"}, sentence("run jobs as group 5", "groups", "0")),
    "group of root": (
        {"users": "5"},
        {"user_id": "5", "group_id": "0"},
        sentence("run jobs as group 0", "root", "none"),
    ),
    "account": (ROOT, {"account": "a"}, sentence("use account a", "accounts", "none")),
    "one of two accounts": (
        ROOT | {"accounts": ["a", "b"]},
        {"account": "a,c"},
        sentence("use account a,c", "accounts", "a, b"),
    ),
    "qos": (ROOT | {"qos": "low"}, {"qos": "high"}, sentence("use qos high", "qos", "low")),
    "partition": (ROOT, {"partition": "p"}, sentence("use partition p", "partitions", "none")),
    "reservation": (
        ROOT, {"reservation": "r"}, sentence("use reservation r", "reservations", "none"),
    ),
    "priority": (
        ROOT | {"max-priority": "9"},
        {"priority": "10"},
        sentence("ask for priority 10", "max-priority", "at most 9"),
    ),
    "any priority": (
        ROOT, {"priority": "0"}, sentence("ask for priority 0", "max-priority", "none"),
    ),
    "exclusive": (
        ROOT,
        {"exclusive": "user"},
        sentence("use annotation sunk.coreweave.com/exclusive", "exclusive", "none"),
    ),
    "required nodes": (
        ROOT,
        {"required_nodes": "n1"},
        sentence("use annotation sunk.coreweave.com/required-nodes", "required-nodes", "none"),
    ),
    "uids alone": ("7", {}, sentence(f"run jobs as user 0 {USER}", "users", "7")),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_rules_do_not_name_is_refused_with_its_rule_P5(what: str) -> None:
    rules, settings, expected = REFUSED[what]
    assert answer(rules, asking(**settings)) == expected


ALLOWED: dict[str, tuple[object, dict[str, str], dict[str, object]]] = {
    "root": (ROOT, {}, {"user_id": 0}),
    "a user of a range": ({"users": ["7", "10-12"]}, {"user_id": "11"}, {"group_id": 11}),
    "any user": ({"users": "*"}, {"user_id": "1"}, {"user_id": 1}),
    "a group": ({"users": "5", "groups": "6"}, {"user_id": "5", "group_id": "6"}, {"group_id": 6}),
    "the user's number as group": ({"users": "5"}, {"user_id": "5", "group_id": "5"}, {}),
    "the default user": ({"default-user": "5"}, {}, {"user_id": 5, "group_id": 5}),
    "the default user, named": ({"default-user": "5"}, {"user_id": "5"}, {"user_id": 5}),
    "the default group": (
        {"default-user": "5", "default-group": "6"}, {}, {"user_id": 5, "group_id": 6},
    ),
    "the default account": (ROOT | {"default-account": "a"}, {}, {"account": "a"}),
    "the default account, named": (
        ROOT | {"default-account": "a"}, {"account": "a"}, {"account": "a"},
    ),
    "another account": (
        ROOT | {"default-account": "a", "accounts": "b"}, {"account": "b"}, {"account": "b"},
    ),
    "any account": (ROOT | {"accounts": "*"}, {"account": "x"}, {"account": "x"}),
    "two partitions": (
        ROOT | {"partitions": "p, q"}, {"partition": "q,p"}, {"partition": "q,p"},
    ),
    "a reservation": (ROOT | {"reservations": "r"}, {"reservation": "r"}, {"reservation": "r"}),
    "a priority": (ROOT | {"max-priority": "9"}, {"priority": "9"}, {"priority": 9}),
    "sharing": (ROOT | {"exclusive": "true"}, {"exclusive": "none"}, {"exclusive": "none"}),
    "no sharing asked for": (ROOT, {"exclusive": "false"}, {"exclusive": ""}),
    "nodes": (ROOT | {"required-nodes": "true"}, {"required_nodes": "n1"}, {}),
    "what is no privilege": (
        ROOT,
        {"comment": "c", "constraints": "c", "excluded_nodes": "n1", "timeout": "1", "prefer": "p"},
        {"comment": "c"},
    ),
    "uids alone restrict nothing else": (
        "0",
        {"account": "a", "qos": "q", "priority": "4294967293", "group_id": "0", "exclusive": "ok"},
        {"account": "a", "priority": 4294967293},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ALLOWED)
def test_what_the_rules_name_is_in_the_job_P5(what: str) -> None:
    rules, settings, expected = ALLOWED[what]
    description = answer(rules, asking(**settings))
    assert isinstance(description, JobDescription), description
    assert expected.items() <= {key: getattr(description, key) for key in expected}.items()


PRIVILEGES = {
    "account", "exclusive", "group-id", "partition", "priority", "qos", "required-nodes",
    "reservation", "user-id",
}  # fmt: skip
HARMLESS = {
    "comment", "constraints", "current-working-dir", "excluded-nodes", "prefer", "timeout",
}  # fmt: skip


def test_every_annotation_is_a_privilege_or_harmless_P5() -> None:
    """A new annotation must get a rule, or a place in the second list with a reason."""
    assert SETTINGS.keys() == PRIVILEGES | HARMLESS
    assert {next(iter(asked)).replace("_", "-") for _, asked, _ in REFUSED.values() if asked} == (
        PRIVILEGES
    )


def test_a_namespace_has_its_own_row_or_the_row_of_all_others_P5() -> None:
    rules = policy(ROOT, "team-a", **{"*": {"users": "5"}})
    configuration = Configuration(namespace_rules=rules)
    for namespace, user, allowed in (("team-a", "0", True), ("team-a", "5", False),
                                     ("team-b", "5", True), ("team-b", "0", False)):  # fmt: skip
        one = replace(asking(user_id=user), namespace=namespace)
        described = describe([one], configuration)
        assert isinstance(described, JobDescription) is allowed
    assert isinstance(described, Invalid)
    assert "rule root of * in --user-policy" in described.message


def test_a_namespace_without_any_row_gets_no_job_P5() -> None:
    described = describe([POD], Configuration(namespace_rules=policy(ROOT, "team-a")))
    assert described == Invalid("--user-policy has neither a row for namespace ns nor a row *")


def test_no_policy_allows_everything_P5() -> None:
    one = asking(user_id="77", account="a", priority="4294967293", required_nodes="n1")
    assert isinstance(describe([one], Configuration()), JobDescription)


def test_a_priority_class_gives_no_more_than_the_policy_P5_P9() -> None:
    one = replace(POD, spec=replace(POD.spec, priority_class="first"))
    by_class = (("first", "qos", "urgent"),)
    refusal = answer(ROOT, one, priority_map=by_class)
    assert refusal == sentence("use qos urgent", "qos", "none")
    description = answer(ROOT | {"qos": "urgent"}, one, priority_map=by_class)
    assert isinstance(description, JobDescription)


def test_all_refusals_are_one_message_with_the_faults_of_the_pod_P4_P5() -> None:
    message = answer(ROOT, asking(account="a", qos="q", timeout="soon"))
    assert isinstance(message, str)
    for part in ("/timeout:", "account a", "qos q"):
        assert part in message


def test_only_the_members_with_the_annotation_are_named_P5_G2() -> None:
    first = replace(gang_pod("a"), settings=(("account", "games"),))
    message = answer(ROOT, first, gang_pod("b"))
    assert message == f"Pod ns/a: {sentence('use account games', 'accounts', 'none')}"
    message = answer({"users": "5"}, gang_pod("a"), gang_pod("b"))
    assert isinstance(message, str)
    assert message.startswith("Pods ns/a, ns/b: namespace ns may not run jobs as user 0")


def test_members_cannot_join_what_none_of_them_may_ask_P5_G2() -> None:
    """The user of one and the group of the other would be a job with a foreign group."""
    first = replace(gang_pod("a"), settings=(("user-id", "5"),))
    second = replace(gang_pod("b"), settings=(("group-id", "0"),))
    assert first.gang == second.gang == Gang("annotation", "g", 2)
    message = answer({"users": "5", "root": "false"}, first, second)
    assert message == f"Pod ns/b: {sentence('run jobs as group 0', 'root', 'none')}"


def test_the_digest_of_a_request_does_not_depend_on_the_policy_P20() -> None:
    """Else a change of the policy would replace every waiting job."""
    _, plain = digested([POD], Configuration())
    assert plain
    for rules in ({"default-user": "5", "default-account": "a"}, {"users": "5"}, ROOT):
        assert digested([POD], Configuration(namespace_rules=policy(rules)))[1] == plain
    broken = asking(timeout="soon")
    assert digested([broken], Configuration(namespace_rules=policy(ROOT)))[1] == ""


# --- A change of the policy


def ruled(rules: object, *rows: Any) -> Core:
    return two_hosts(*rows, namespace_rules=policy(rules))


def test_a_refused_pod_gets_an_event_and_no_job_until_the_policy_allows_it_P5() -> None:
    one = asking(account="games")
    core = ruled(ROOT, one)
    assert not core.workload_wants(one, SubmitJob)
    (shown,) = core.workload_wants(one, SetScheduled)
    assert shown.message == sentence("use account games", "accounts", "none")
    condition = Condition(SCHEDULED_CONDITION, "False", shown.reason, shown.message)
    core.see(replace(one, conditions=(condition,)))
    assert core.events(one) == [EVENT_INVALID]
    core.see(PolicyRead(policy(ROOT | {"accounts": "games"})))
    (submit,) = core.workload_wants(one, SubmitJob)
    assert submit.description.account == "games"


def test_a_pod_without_a_job_follows_the_defaults_of_the_latest_policy_P5() -> None:
    core = ruled({"default-user": "5"}, POD)
    core.see(PolicyRead(policy({"default-user": "6"})))
    (submit,) = core.workload_wants(POD, SubmitJob)
    assert (submit.description.user_id, submit.description.group_id) == (6, 6)
    core.see(PolicyRead(policy({"users": "5"})))
    assert not core.workload_wants(POD, SubmitJob)


@pytest.mark.parametrize("now", [{"users": "5"}, {"default-user": "5"}])
def test_a_job_that_was_submitted_outlives_a_change_of_the_policy_P5_P20(now: Rules) -> None:
    core = ruled(ROOT, POD)
    digest = core.graph.workload(WORKLOAD).request.digest
    core.see(job(POD, identity=identity(POD, digest=digest)))
    core.see(PolicyRead(policy(now)))
    assert not core.workload_wants(POD, CancelJob, UpdateJob, SubmitJob)
    core.see(asking(constraints="fast"))
    forbidden = "users" in now
    assert bool(core.workload_wants(POD, UpdateJob)) is not forbidden
    assert core.cancels(POD) == ([("7", True)] if forbidden else [])


def test_a_job_without_a_digest_outlives_a_change_of_the_policy_P5() -> None:
    core = ruled(ROOT, POD, job(POD))
    core.see(PolicyRead(policy({"users": "5"})))
    assert not core.workload_wants(POD, CancelJob)


def test_an_edit_that_the_policy_refuses_ends_the_waiting_job_P5_P20() -> None:
    core = ruled(ROOT, POD)
    digest = core.graph.workload(WORKLOAD).request.digest
    core.see(job(POD, identity=identity(POD, digest=digest)))
    core.see(asking(reservation="theirs"))
    assert core.cancels(POD) == [("7", True)]
    assert not core.workload_wants(POD, UpdateJob)


def test_a_bound_pod_is_not_warned_of_a_change_of_the_policy_P20() -> None:
    core = ruled(ROOT, POD)
    digest = core.graph.workload(WORKLOAD).request.digest
    bound = pod(node_name="kn1", job_id="7")
    runs = job(POD, state="RUNNING", slurm_nodes=("n1",), identity=identity(POD, digest=digest))
    core.see(bound, runs)
    for rules in ({"default-user": "5"}, {"users": "5"}):
        core.see(PolicyRead(policy(rules)))
        assert EVENT_TOO_LATE not in core.events(bound)


def test_another_policy_lets_a_refused_submission_be_tried_at_once_P10() -> None:
    core = ruled({"default-user": "5", "default-account": "a"}, POD)
    digest = core.graph.workload(WORKLOAD).request.digest
    core.see(SubmitRefused(WORKLOAD, 2045, "no account", "script", digest))
    assert not core.workload_wants(POD, SubmitJob)
    core.see(PolicyRead(policy({"default-user": "5", "default-account": "b"})))
    (submit,) = core.workload_wants(POD, SubmitJob)
    assert submit.description.account == "b"


def test_the_same_policy_again_changes_nothing_P10() -> None:
    core = ruled(ROOT, POD)
    digest = core.graph.workload(WORKLOAD).request.digest
    core.see(SubmitRefused(WORKLOAD, 2045, "no account", "script", digest))
    core.see(PolicyRead(policy(ROOT)))
    assert not core.workload_wants(POD, SubmitJob)


# --- Defaults that annotations of the Namespace name


OWN: Rules = {
    "namespace-defaults": "true",
    "default-user": "5",
    "users": "10-19",
    "groups": "20",
    "accounts": ["games", "chess"],
}
DEFAULTS: dict[str, tuple[NamespaceDefaults, dict[str, str], dict[str, object]]] = {
    "none": (NO_DEFAULTS, {}, {"user_id": 5, "group_id": 5, "account": ""}),
    "user": (NamespaceDefaults(user="11"), {}, {"user_id": 11, "group_id": 11}),
    "group": (NamespaceDefaults(group="20"), {}, {"user_id": 5, "group_id": 20}),
    "the user's group": (NamespaceDefaults(user="11", group="11"), {}, {"group_id": 11}),
    "account": (NamespaceDefaults(account=" games "), {}, {"account": "games"}),
    "a Pod's own value": (
        NamespaceDefaults("11", "20", "games"),
        {"user_id": "12", "account": "chess"},
        {"user_id": 12, "group_id": 20, "account": "chess"},
    ),
    "a wrong one that no Pod needs": (
        NamespaceDefaults("0", "0", "golf"),
        {"user_id": "12", "group_id": "12", "account": "chess"},
        {"user_id": 12, "group_id": 12, "account": "chess"},
    ),
}


@pytest.mark.parametrize("what", DEFAULTS)
def test_annotations_of_the_namespace_name_the_defaults_of_its_pods_P5(what: str) -> None:
    own, settings, expected = DEFAULTS[what]
    described = describe([asking(**settings)], Configuration(namespace_rules=policy(OWN)), own=own)
    assert isinstance(described, JobDescription), described.message
    assert {name: getattr(described, name) for name in expected} == expected


NUMBER = "allowed is a number from 1 to 2147483646; `root: true` allows 0"
NOT_A_DEFAULT: dict[str, tuple[NamespaceDefaults, str]] = {
    "another user": (
        NamespaceDefaults(user="99"),
        "default-user of Namespace ns is '99': rule users of ns in --user-policy allows 5, 10-19",
    ),
    "root": (NamespaceDefaults(user="0"), f"default-user of Namespace ns is '0': {NUMBER}"),
    "no number": (
        NamespaceDefaults(user="a\nb"), f"default-user of Namespace ns is 'a?b': {NUMBER}",
    ),
    "another group": (
        NamespaceDefaults(group="21"),
        "default-group of Namespace ns is '21': rule groups of ns in --user-policy allows 20",
    ),
    "another account": (
        NamespaceDefaults(account="golf"),
        (
            "default-account of Namespace ns is 'golf': "
            "rule accounts of ns in --user-policy allows chess, games"
        ),
    ),
    "two accounts": (
        NamespaceDefaults(account="games,chess"),
        "default-account of Namespace ns is 'games,chess': allowed is one name",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", NOT_A_DEFAULT)
def test_a_default_that_the_rules_do_not_allow_is_refused_once_P5(what: str) -> None:
    own, expected = NOT_A_DEFAULT[what]
    described = describe([POD], Configuration(namespace_rules=policy(OWN)), own=own)
    assert described == Invalid(f"annotation sunk.coreweave.com/{expected}")


def test_without_the_rule_annotations_of_a_namespace_mean_nothing_P5() -> None:
    own = NamespaceDefaults("11", "20", "games")
    rules = OWN | {"namespace-defaults": "false"}
    described = describe([POD], Configuration(namespace_rules=policy(rules)), own=own)
    assert isinstance(described, JobDescription)
    assert (described.user_id, described.account) == (5, "")


def test_the_digest_does_not_depend_on_the_namespace_P20() -> None:
    configuration = Configuration(namespace_rules=policy(OWN))
    own = NamespaceDefaults("11", "20", "games")
    assert digested([POD], configuration, own=own)[1] == digested([POD], configuration)[1]


def team(user: str = "", *, name: str = "ns") -> Namespace:
    return Namespace(name, "u1", NamespaceDefaults(user=user))


def taking_defaults(*listed: Namespace) -> Core:
    core = two_hosts(POD, namespace_rules=policy(OWN))
    core.see_listing(NAMESPACES, *listed)
    return core


def submitted_user(core: Core) -> int:
    (submit,) = core.workload_wants(POD, SubmitJob)
    return int(submit.description.user_id)


def test_nothing_is_written_for_a_pod_before_namespaces_were_listed_P5() -> None:
    core = two_hosts(POD, namespace_rules=policy(OWN))
    assert {kept.why for kept in core.workload_kept(POD)} <= {"not listed yet: namespaces"}
    assert not core.workload_wants(POD, SubmitJob)


def test_a_pod_waits_until_its_namespace_was_read_P5() -> None:
    """Else the first Pod of a new namespace would run as somebody else."""
    core = taking_defaults(team("11", name="other"))
    assert not core.workload_wants(POD, SubmitJob)
    core.wait(SHOWN_AFTER_S)
    (shown,) = core.workload_wants(POD, SetScheduled)
    assert shown.message == "Namespace ns has not been read yet"
    core.see(team("11"))
    assert submitted_user(core) == 11


def test_another_default_applies_to_the_next_submission_P5() -> None:
    core = taking_defaults(team("11"))
    assert submitted_user(core) == 11
    core.see(team("12"))
    assert submitted_user(core) == 12
    core.see(team("99"))
    assert not core.workload_wants(POD, SubmitJob)
    core.see(team())
    assert submitted_user(core) == 5


def test_a_waiting_job_outlives_another_default_P5_P20() -> None:
    core = taking_defaults(team("11"))
    digest = core.graph.workload(WORKLOAD).request.digest
    core.see(job(POD, identity=identity(POD, digest=digest)))
    for row in (team("12"), team("99")):
        core.see(row)
        assert not core.workload_wants(POD, CancelJob, UpdateJob, SubmitJob)


def test_another_default_lets_a_refused_submission_be_tried_at_once_P5_P10() -> None:
    core = taking_defaults(team("11"))
    digest = core.graph.workload(WORKLOAD).request.digest
    core.see(SubmitRefused(WORKLOAD, 2045, "no association", "script", digest))
    assert not core.workload_wants(POD, SubmitJob)
    core.see(team("12", name="other"))
    assert not core.workload_wants(POD, SubmitJob)
    core.see(team("12"))
    assert submitted_user(core) == 12


def test_a_new_label_of_a_namespace_lets_no_refused_submission_be_tried_P10() -> None:
    core = taking_defaults(team("11"))
    digest = core.graph.workload(WORKLOAD).request.digest
    core.see(SubmitRefused(WORKLOAD, 2045, "no association", "script", digest))
    core.see(replace(team("11"), labels=(("a", "b"),)))
    assert not core.workload_wants(POD, SubmitJob)


def test_a_namespace_that_is_gone_must_be_read_again_P5() -> None:
    core = taking_defaults(team("11"))
    core.see(deleted(NAMESPACES, team("11")))
    assert not core.workload_wants(POD, SubmitJob)
