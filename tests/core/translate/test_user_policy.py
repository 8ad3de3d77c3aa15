"""The file of --user-policy: each form, and each mistake with its line (P5)."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunk_sync.core.model.user_policy import Rules, UserPolicy
from sunk_sync.core.translate.user_policy import restricted_in_users_alone, user_policy_of
from sunk_sync.settings.yaml_file import read_sections


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "policy.yaml"


def read(file: Path, text: str) -> UserPolicy:
    file.write_text(text)
    return user_policy_of(read_sections(file))


def mistakes(file: Path, text: str) -> list[str]:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is the result
        read(file, text)
    return str(caught.value).splitlines()


WHOLE = """\
team-a:
  default-user: 1001
  default-group: 500
  default-account: games
  users: [1002, 2000-2999]
  groups: 501
  accounts: [chess, games]
  qos: low, normal
  partitions: main
  reservations: "*"
  max-priority: 1000
  exclusive: true
  required-nodes: false
  root: true
"*": {}
"""


def test_every_rule_is_read_P5(file: Path) -> None:
    others, team = read(file, WHOLE).namespaces
    assert others == ("*", Rules())
    assert team == (
        "team-a",
        Rules(
            users=((0, 0), (1001, 1001), (1002, 1002), (2000, 2999)),
            groups=((0, 0), (501, 501)),
            accounts=("chess", "games"),
            qos=("low", "normal"),
            partitions=("main",),
            reservations=None,
            priority_max=1000,
            exclusive=True,
            required_nodes=False,
            default_user=1001,
            default_group=500,
            default_account="games",
        ),
    )


def test_json_is_read_as_yaml_is_P5(file: Path) -> None:
    as_json = '{"team-a": {"users": [1002, "2000-2999"], "root": false, "qos": "low"}}'
    as_yaml = "team-a:\n  users: 1002, 2000-2999\n  qos: [low]\n"
    assert read(file, as_json) == read(file, as_yaml)


FIRST_FORM: dict[str, Any] = {
    "1001": ((1001, 1001),),
    "[7, 2000-2999]": ((7, 7), (2000, 2999)),
    "1, 3-4": ((1, 1), (3, 4)),
    "'*'": ((0, 2147483646),),
    "0": ((0, 0),),
}


@pytest.mark.parametrize("uids", FIRST_FORM)
def test_uids_alone_restrict_only_the_users_as_before_P5(file: Path, uids: str) -> None:
    policy = read(file, f"team: {uids}\nother: {{users: 5}}\n")
    assert restricted_in_users_alone(policy) == ["team"]
    rules = dict(policy.namespaces)["team"]
    assert rules.users == FIRST_FORM[uids]
    assert rules.accounts is rules.qos is rules.partitions is rules.reservations is None
    assert (rules.priority_max, rules.exclusive, rules.required_nodes) == (2**32 - 3, True, True)


WRONG = {
    "users: 0": "rule users: allowed is numbers above 0",
    "users: 0-5": "`root: true` allows 0",
    "users: alice": "rule users",
    "users: 9-3": "rule users",
    "users: 2147483647": "rule users",
    "users:": "rule users",
    "users: {a: 1}": "rule users",
    "groups: games": "rule groups",
    "default-user: 0": "rule default-user",
    "default-user: 1-2": "rule default-user",
    "default-user: '*'": "rule default-user",
    "default-user: [5]": "rule default-user",
    "default-group: games": "rule default-group",
    "default-account: [a, b]": "rule default-account: allowed is one name",
    "default-account: '*'": "rule default-account",
    "accounts: a b": "rule accounts: allowed is names such as",
    "accounts: 'a,'": "rule accounts",
    "accounts: [a, '*']": "rule accounts",
    "qos: ga*": "rule qos",
    "partitions:": "rule partitions",
    "reservations: {a: b}": "rule reservations",
    "max-priority: -1": "rule max-priority: allowed is a number from 0 to 4294967293",
    "max-priority: 4294967294": "rule max-priority",
    "max-priority: '*'": "rule max-priority",
    "exclusive: yes": "rule exclusive: allowed is true or false",
    "required-nodes: n1": "rule required-nodes",
    "root: 0": "rule root",
    "user: 5": "'user' is no rule; the rules are default-user, default-group, default-account",
}


@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_rule_is_named_with_its_line_and_what_is_allowed_P5(file: Path, rule: str) -> None:
    (mistake,) = mistakes(file, f"good: {{}}\n\nteam:\n  {rule}\n")
    assert mistake.startswith("line 4: ")
    assert WRONG[rule] in mistake


def test_every_mistake_is_reported_at_once_P5(file: Path) -> None:
    text = "A_b: 1\nb: alice\nc: {users: x, qos: a b}\nd: 5\nd: 6\ne: {root: true, root: true}\n"
    found = mistakes(file, text)
    assert [one.partition(":")[0] for one in found] == [
        "line 1", "line 2", "line 3", "line 3", "line 5", "line 6",
    ]  # fmt: skip
    assert "is no name of a namespace" in found[0]
    assert "{users: [1001, 2000-2999], accounts: games}" in found[1]
    assert found[4].endswith("namespace d is listed twice")
    assert found[5].endswith("rule root is set twice")


def test_an_empty_policy_is_a_mistake_P5(file: Path) -> None:
    """It would refuse every Pod."""
    assert mistakes(file, "# nothing\n") == ["must be a mapping: `namespace: {rules}` on each line"]


@given(
    st.dictionaries(
        st.sampled_from(["users", "groups", "default-user", "qos", "max-priority", "root", "x"]),
        st.text(max_size=12) | st.lists(st.text(max_size=5), max_size=3) | st.none(),
    )
)
def test_any_rules_are_a_policy_or_a_mistake_P5(rules: dict[str, object]) -> None:
    rows = tuple((key, value, 2) for key, value in rules.items())
    with contextlib.suppress(ValueError):
        policy = user_policy_of([("team", rows, 1)])
        assert [name for name, _ in policy.namespaces] == ["team"]
