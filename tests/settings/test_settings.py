"""Settings: every flag of the contract, three sources, the text of mistakes."""

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sunk_sync.cli.flags import ABOUT
from sunk_sync.settings.model import FIELDS, Settings, flag_of, key_of, variable_of
from sunk_sync.settings.sources import SettingsError, load, own_namespace
from sunk_sync.settings.types import Address, parse_address, parse_duration
from tools import reference

CONTRACT = """
    components cluster-name kubeconfig context watch-namespace slurmd-namespace scheduler-name
    slurm-api-base slurm-api-version slurm-auth-token slurm-auth-token-file slurm-user-name
    slurm-kill-wait slurm-poll-interval slurmd-selector metrics-bind-address
    health-probe-bind-address hooks-api-bind-address hooks-url hooks-key-file gate dry-run
    leader-elect leader-elect-lease-duration log-level log-format not-ready-grace
    node-not-ready-grace max-drains-per-minute
    drain-taints drain-conditions cordon-on-slurm-drain termination-offset user-policy
    gpu-types gres-map
    priority-map resubmit-cancelled refuse-static-cpu watch-all-pods node-overhead lost-job
    max-pod-ends-per-minute placeholder lock lock-wait lock-late lock-linger
"""


def mistakes_of(
    flags: dict[str, str] | None = None, environment: dict[str, str] | None = None
) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(flags or {}, environment or {})
    return caught.value.mistakes


def one_mistake_of(flags: dict[str, str]) -> str:
    (mistake,) = mistakes_of(flags)
    return mistake


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


def test_taints_and_conditions_are_lists_of_names_with_or_without_a_value_S21() -> None:
    settings = load({"drain-taints": "a/b, c=d", "drain-conditions": "K,G=False"}, {})
    assert settings.drain_taints == (("a/b", ""), ("c", "d"))
    assert settings.drain_conditions == (("K", "True"), ("G", "False"))
    assert ("karpenter.sh/disrupted", "") in load({}, {}).drain_taints
    assert load({"drain-taints": "none"}, {}).drain_taints == ()
    assert "allowed is" in one_mistake_of({"drain-taints": "a b"})
    assert "allowed is" in one_mistake_of({"drain-conditions": "K=Maybe"})


def test_every_flag_of_the_contract_exists() -> None:
    """Scripts depend on these flags. A new flag needs no line here."""
    assert set(CONTRACT.split()) <= {key_of(field) for field in FIELDS}


def test_every_setting_has_a_text_a_default_and_a_group() -> None:
    for about in ABOUT:
        assert len(about.text) > 10, about
        assert about.default, about
        assert about.group, about


def test_defaults_are_those_of_the_contract() -> None:
    settings = load({}, {}, "tenant-slurm")
    assert settings.components == ("syncer", "scheduler")
    assert settings.watch_namespace == settings.slurmd_namespace == ("tenant-slurm",)
    assert settings.scheduler_name == "tenant-slurm-slurm"
    assert settings.slurm_api_base == ("http://slurm-restd:6820",)
    assert settings.slurm_kill_wait_s is None
    assert settings.slurm_poll_interval_s == 1.0
    assert (settings.not_ready_grace_s, settings.node_not_ready_grace_s) == (5.0, 40.0)
    assert settings.metrics_bind_address == Address("", 8080)
    assert settings.health_probe_bind_address == Address("", 8081)
    assert settings.hooks_api_bind_address == Address("", 8000)
    assert settings.operators_bind_address == Address("127.0.0.1", 8082)
    assert not settings.dry_run
    assert not settings.cordon_on_slurm_drain


def test_outside_a_cluster_the_namespace_is_default() -> None:
    settings = load({"cluster-name": "c1"}, {})
    assert settings.own_namespace == "default"
    assert settings.scheduler_name == "default-c1"


def test_own_namespace_is_read_from_the_service_account(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("slurm\n")
    assert own_namespace(tmp_path / "namespace") == "slurm"
    assert own_namespace(tmp_path / "nothing") == ""


def test_flags_win_over_environment_and_environment_over_file(file: Path) -> None:
    file.write_text("cluster-name: from-file\nlog-level: debug\nslurm-kill-wait: 7s\n")
    environment = {"SUNK_SYNC_CLUSTER_NAME": "from-env", "SUNK_SYNC_LOG_LEVEL": "error"}
    settings = load({"config": str(file), "cluster-name": "from-flag"}, environment)
    assert settings.cluster_name == "from-flag"
    assert settings.log_level == "error"
    assert settings.slurm_kill_wait_s == 7.0


def test_the_file_can_be_named_by_the_environment(file: Path) -> None:
    file.write_text("cluster-name: c2\n")
    assert load({}, {"SUNK_SYNC_CONFIG": str(file)}).cluster_name == "c2"


DURATIONS = {
    "30s": 30.0, "1m30s": 90.0, "500ms": 0.5, "2h": 7200.0, "5": 5.0, "0.25": 0.25, "1.5m": 90.0,
    "0": 0.0, " 3s ": 3.0, "1d": 86400.0,
}  # fmt: skip


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
def test_durations_have_units_or_are_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "s", "-5s", "5 s", "1e3", "inf", "nan", "5sec", "9999h", "٣s"]
)
def test_other_texts_are_no_duration_and_the_mistake_says_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="allowed is"):
        parse_duration(text)


@given(st.text(max_size=12))
def test_any_text_is_a_finite_duration_or_a_mistake(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except ValueError:
        return
    assert 0.0 <= seconds <= 7 * 86400.0


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", Address("", 8080)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:80", Address("::1", 80)),
        ("localhost:1", Address("localhost", 1)),
        ("", None),
    ],
)
def test_bind_addresses_are_read_and_spelled_back(text: str, address: Address | None) -> None:
    assert parse_address(text) == address
    if address is not None:
        assert str(address) == text


@pytest.mark.parametrize(
    "text", ["8080", "1:x", ":65536", "::1:80", "[127.0.0.1]:80", "a b:1", ":"]
)
def test_other_texts_are_no_bind_address(text: str) -> None:
    with pytest.raises(ValueError, match="allowed is HOST:PORT"):
        parse_address(text)


def test_a_mistake_names_flag_variable_key_value_and_the_allowed_values(file: Path) -> None:
    file.write_text("\nslurm-kill-wait: soon\n")
    (mistake,) = mistakes_of({"config": str(file)})
    for part in ("--slurm-kill-wait", "SUNK_SYNC_SLURM_KILL_WAIT", "file key slurm-kill-wait"):
        assert part in mistake
    assert "'soon'" in mistake
    assert f"{file} line 2"[-70:] in mistake or "line 2" in mistake
    assert "30s, 1m30s, 500ms, 2h" in mistake


def test_all_mistakes_of_all_sources_are_reported_at_once(file: Path) -> None:
    file.write_text("log-level: loud\n")
    flags = {"config": str(file), "gate": "maybe"}
    environment = {"SUNK_SYNC_SLURM_API_BASE": "ftp://x", "SUNK_SYNC_CLUSTERNAME": "x"}
    reported = "\n".join(mistakes_of(flags, environment))
    assert len(reported.splitlines()) == 4
    assert "did you mean CLUSTER_NAME?" in reported


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("dry-run", "perhaps", "true or false"),
        ("max-drains-per-minute", "-1", "whole number"),
        ("max-drains-per-minute", "many", "whole number"),
        ("components", "scheduler", "rest on syncer: name it too"),
        ("components", "synced", "allowed is 'syncer', 'scheduler'"),
        ("components", "syncer,", "without empty entries"),
        ("cluster-name", "a/b", "label value"),
        ("cluster-name", "", "label value"),
        ("slurmd-selector", "", "label selector"),
        ("slurmd-selector", "a=b,,", "label selector"),
        ("slurmd-namespace", "*", "a name of a namespace"),
        ("watch-namespace", "a,*", "a name of a namespace"),
        ("slurm-api-base", "slurm:6820", "http://HOST:PORT"),
        ("slurm-api-base", "http://user:pw@slurm:6820", "http://HOST:PORT"),
        ("slurm-api-base", "http://slurm:99999", "http://HOST:PORT"),
        ("slurm-api-base", "http://slurm:0", "http://HOST:PORT"),
        ("slurm-api-base", "http://[::1", "http://HOST:PORT"),
        ("slurm-api-version", "v0.0.39", "v0.0.40"),
        ("slurm-poll-interval", "0", "greater than or equal to 0.05"),
        ("slurm-kill-wait", "0", "greater than or equal to 1"),
        ("log-format", "xml", "'json'"),
        ("metrics-bind-address", "8080", "HOST:PORT"),
        ("slurm-user-name", "a\nb", "no control characters"),
        ("slurm-user-name", " ", "not empty"),
        ("kubeconfig", "/nowhere/kubeconfig", "cannot be read: No such file"),
        ("slurm-auth-token-file", "/nowhere/token", "cannot be read: No such file"),
        ("user-policy", "/nowhere/users.yaml", "cannot be read: No such file"),
        ("user-policy", "", "path of a file"),
        ("gres-map", "nvidia.com/gpu", "KEY=VALUE"),
        ("gres-map", "cpu=gpu", "extended resource"),
        ("node-overhead", "disk=1", "cpu=AMOUNT and memory=AMOUNT"),
        ("node-overhead", "cpu=0", "cpu=AMOUNT and memory=AMOUNT"),
        ("node-overhead", "cpu=much", "'much' is no quantity"),
        ("gres-map", "nvidia.com/gpu=gpu:a:b", "a GRES of Slurm"),
        ("gres-map", "a/b=gpu,a/b=-", "a/b stands there twice"),
        ("gpu-types", "A100=a b", "LABELVALUE=TYPE"),
        ("gpu-types", "A100=a,A100=b", "A100 stands there twice"),
        ("priority-map", "high=account=x", "PRIORITYCLASS=qos=NAME"),
        ("priority-map", "high=priority=-1", "PRIORITYCLASS=priority=NUMBER"),
        ("priority-map", "high=priority=4294967294", "PRIORITYCLASS=priority=NUMBER"),
        ("priority-map", "high=qos", "PRIORITYCLASS=qos=NAME"),
        ("priority-map", "high=qos=a,high=qos=b", "high=qos stands there twice"),
        ("termination-offset", "soon", "30s, 1m30s"),
    ],
)
def test_a_wrong_value_is_one_sentence_with_its_flag(key: str, value: str, allowed: str) -> None:
    mistake = one_mistake_of({key: value})
    assert mistake.startswith(f"--{key} (")
    assert allowed in mistake
    assert "\n" not in mistake


@pytest.mark.parametrize(
    "selector",
    ["app=slurmd", "app==x,tier!=y", "a in (b, c),!d", "a notin (b)", "example.org/x=y", "slurmd"],
)
def test_selectors_of_kubernetes_are_accepted(selector: str) -> None:
    assert load({"slurmd-selector": selector}, {}).slurmd_selector == selector


def test_a_secret_is_in_no_text_and_no_mistake(file: Path) -> None:
    settings = load({"slurm-auth-token": "s3cr3t"}, {})
    assert "s3cr3t" not in repr(settings) + str(settings)
    assert settings.slurm_auth_token is not None
    assert settings.slurm_auth_token.get_secret_value() == "s3cr3t"
    file.write_text("slurm-auth-token: [s3cr3t, s3cr3t]\n")
    for flags in ({"slurm-auth-token": "s3cr3t with space"}, {"config": str(file)}):
        assert "s3cr3t" not in "".join(mistakes_of(flags))


def test_two_tokens_are_a_mistake(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("x")
    mistake = one_mistake_of({"slurm-auth-token": "x", "slurm-auth-token-file": str(token)})
    assert "give only one" in mistake


def test_unknown_keys_of_the_file_are_mistakes_with_line_and_suggestion(file: Path) -> None:
    file.write_text("cluster-name: x\nslurm-api-bse: http://a:1\nslurm_kill_wait: 3s\nzzz: 1\n")
    first, second, third = mistakes_of({"config": str(file)})
    assert "line 2: unknown key 'slurm-api-bse'; did you mean slurm-api-base?" in first
    assert "line 3" in second
    assert "did you mean slurm-kill-wait?" in second
    assert third.endswith("line 4: unknown key 'zzz'")


def test_values_of_the_file_are_read_as_text(file: Path) -> None:
    """YAML 1.1 would make `on` true and `22:30` a number."""
    file.write_text("gate: on\ncluster-name: 12\nwatch-namespace: [a, b]\nslurmd-namespace: x,y\n")
    settings = load({"config": str(file)}, {})
    assert settings.gate == "on"
    assert settings.cluster_name == "12"
    assert settings.watch_namespace == ("a", "b")
    assert settings.slurmd_namespace == ("x", "y")


def test_a_mapping_of_the_file_is_the_comma_list_of_the_flag(file: Path) -> None:
    file.write_text("gres-map:\n  nvidia.com/gpu: gpu\n  rdma/*: '-'\n")
    expected = (("nvidia.com/gpu", "gpu"), ("rdma/*", "-"))
    assert load({"config": str(file)}, {}).gres_map == expected
    assert load({"gres-map": "nvidia.com/gpu=gpu, rdma/*=-"}, {}).gres_map == expected


def test_flags_and_file_map_gpu_types_and_priority_classes_P6_P9(file: Path) -> None:
    file.write_text(
        "priority-map: [high=qos=urgent, high=partition=fast]\ngpu-types: {A100_PCIE_80GB: a100}\n"
    )
    classes = "high=qos=urgent,high=partition=fast"
    flags = {"priority-map": classes, "gpu-types": "A100_PCIE_80GB=a100"}
    for settings in (load({"config": str(file)}, {}), load(flags, {})):
        assert settings.priority_map == (("high", "qos", "urgent"), ("high", "partition", "fast"))
        assert settings.gpu_types == (("A100_PCIE_80GB", "a100"),)
    assert load({"priority-map": "a=priority=7"}, {}).priority_map == (("a", "priority", 7),)
    assert load({"gres-map": ""}, {}).gres_map == ()


def test_node_overhead_is_in_millicores_and_bytes_P28(file: Path) -> None:
    file.write_text("node-overhead: {cpu: 1500m, memory: 4Gi}\n")
    expected = (("cpu", 1500), ("memory", 4 << 30))
    assert load({"config": str(file)}, {}).node_overhead == expected
    assert load({"node-overhead": "cpu=1.5,memory=4Gi"}, {}).node_overhead == expected


def test_each_wrong_entry_of_a_list_is_a_mistake_of_its_own() -> None:
    reported = mistakes_of({"slurmd-namespace": "a,B,c_", "slurm-api-base": "http://a:1,ftp://b"})
    assert [line.partition("): ")[2].partition(" ")[0] for line in reported] == [
        "'B'", "'c_'", "'ftp://b'",
    ]  # fmt: skip


def test_a_default_from_a_wrong_setting_is_no_second_mistake() -> None:
    assert "--cluster-name (" in one_mistake_of({"cluster-name": "a/b"})


def test_the_user_policy_is_read_with_its_path_P5(tmp_path: Path) -> None:
    table = tmp_path / "users.yaml"
    table.write_text("team: {root: true}\n")
    file = load({"user-policy": str(table)}, {}).user_policy
    assert file is not None
    assert file.path == table
    ((namespace, rules),) = file.policy.namespaces
    assert (namespace, rules.users) == ("team", ((0, 0),))


def test_every_mistake_in_a_table_of_users_has_its_line_P5(tmp_path: Path) -> None:
    table = tmp_path / "users.yaml"
    table.write_text("A_b: 1\nb: alice\nc: 9-3\nd: 2147483647\ne:\nf: {a: 1}\nf: 1\nok: 5\n")
    reported = mistakes_of({"user-policy": str(table)})
    assert len(reported) == 7
    assert all(f"line {place}: " in line for place, line in enumerate(reported, 1))
    assert all(line.startswith("--user-policy (SUNK_SYNC_USER_POLICY, ") for line in reported)
    assert "twice" in reported[-1]
    assert "[1001, 2000-2999]" in reported[1]


@given(
    st.sampled_from(["gres-map", "gpu-types", "priority-map", "metrics-bind-address"]),
    st.text(max_size=30),
)
def test_any_text_is_a_value_or_a_mistake(key: str, text: str) -> None:
    with contextlib.suppress(SettingsError):
        load({key: text}, {})


def test_a_key_without_value_and_a_key_given_twice_are_mistakes(file: Path) -> None:
    file.write_text("log-level:\ncluster-name: a\ncluster-name: b\n")
    empty, twice = mistakes_of({"config": str(file)})
    assert "has no value" in empty
    assert "line 1" in empty
    assert "set twice" in twice
    assert "line 3" in twice


UNUSABLE = [
    *(
        (key, content, why)
        for key in ("config", "user-policy")
        for content, why in (
            (b"- a\n- b\n", "must be a mapping"),
            (b"\xff", "not UTF-8"),
            (b"\xff\xfe\xfa", "not UTF-8"),
            (b"#" * (1 << 20) + b"##", "larger than 1 MiB"),
            (b"a: " + b"[" * 5000, "nested too deeply"),
        )
    ),
    ("config", b"a: [1\n", "line 2: not YAML"),
    ("config", b"a: 1\n---\nb: 2\n", "not YAML"),
    ("config", b"\x00", "unacceptable character"),
    ("user-policy", b"", "must be a mapping"),
    ("user-policy", b"a: [1", "line 1: not YAML"),
]


@pytest.mark.parametrize(("key", "content", "why"), UNUSABLE)
def test_an_unusable_file_is_one_mistake_P5(file: Path, key: str, content: bytes, why: str) -> None:
    """Without its table of users, the service would let users act as anybody."""
    file.write_bytes(content)
    mistake = one_mistake_of({key: str(file)})
    assert mistake.startswith(f"--{key} (SUNK_SYNC_{key.upper().replace('-', '_')}")
    assert why in mistake


def test_a_missing_file_is_a_mistake_and_an_empty_one_is_not(file: Path) -> None:
    (mistake,) = mistakes_of({"config": str(file)})
    assert "No such file" in mistake
    file.write_text("# nothing\n")
    assert load({"config": str(file)}, {}) == load({}, {})


@pytest.mark.parametrize("key", ["config", "user-policy"])
@given(content=st.binary(max_size=60))
def test_any_bytes_in_a_file_are_settings_or_mistakes_P5(
    tmp_path_factory: pytest.TempPathFactory, key: str, content: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(content)
    with contextlib.suppress(SettingsError):
        load({key: str(file)}, {})


def test_unknown_variables_are_mistakes_but_service_links_are_not() -> None:
    """Kubernetes sets SUNK_SYNC_PORT and others for a Service named sunk-sync."""
    links = {
        "SUNK_SYNC_SERVICE_HOST": "10.0.0.1",
        "SUNK_SYNC_SERVICE_PORT": "8080",
        "SUNK_SYNC_SERVICE_PORT_METRICS": "8080",
        "SUNK_SYNC_PORT": "tcp://10.0.0.1:8080",
        "SUNK_SYNC_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "SUNK_SYNC_PORT_8080_TCP_ADDR": "10.0.0.1",
        "SUNK_SYNC_HOOKS_SERVICE_HOST": "10.0.0.2",
        "OTHER": "x",
    }
    load({}, links)
    assert mistakes_of(environment=links | {"SUNK_SYNC_DRYRUN": "true"}) == (
        "SUNK_SYNC_DRYRUN: unknown environment variable; did you mean DRY_RUN?",
    )


def test_settings_without_effect_are_accepted_and_listed() -> None:
    settings = load({"components": "syncer,nodes", "dry-run": "true"}, {})
    assert settings.without_effect == ("--components=nodes",)
    assert load({}, {}).without_effect == ()


def test_the_default_of_hooks_url_is_the_service_of_the_manifests() -> None:
    assert load({}, {}, "slurm").hooks_url == "http://sunk-sync-hooks.slurm.svc:8000"
    flags = {"hooks-api-bind-address": ":9000"}
    assert load(flags, {}, "a").hooks_url == "http://sunk-sync-hooks.a.svc:9000"
    given = {"hooks-url": "https://hooks.example:1/"}
    assert load(given, {}).hooks_url == "https://hooks.example:1"


HOSTS = ("", "x/$(id)", "x 1", "x'", "[$(id):]", "x/a;b", "a@b")


@pytest.mark.parametrize("given", ["hooks:8000", "ftp://x", *(f"http://{host}" for host in HOSTS)])
def test_hooks_url_allows_no_character_with_a_meaning_in_a_shell(given: str) -> None:
    """It is written into batch scripts."""
    (mistake,) = mistakes_of({"hooks-url": given})
    assert "allowed is http://HOST:PORT or https://HOST:PORT" in mistake


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        load({}, {}).dry_run = True


def test_flag_and_variable_follow_from_the_field_without_its_unit() -> None:
    assert flag_of("slurm_kill_wait_s") == "--slurm-kill-wait"
    assert variable_of("slurm_kill_wait_s") == "SUNK_SYNC_SLURM_KILL_WAIT"
    assert len({variable_of(field) for field in FIELDS}) == len(FIELDS)


def test_no_source_can_set_the_own_namespace(file: Path) -> None:
    file.write_text("own-namespace: x\n")
    assert "unknown key 'own-namespace'" in "".join(mistakes_of({"config": str(file)}))
    for name in ("SUNK_SYNC_OWN_NAMESPACE", "SUNK_SYNC_own_namespace"):
        assert "unknown environment variable" in "".join(mistakes_of(environment={name: "x"}))


def test_only_the_given_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUNK_SYNC_CLUSTER_NAME", "c1")
    assert load({}, {}).cluster_name == Settings().cluster_name == "slurm"
    assert load({}, {"sunk_sync_cluster_name": "c2", "cluster_name": "c3"}).cluster_name == "slurm"


def test_the_reference_is_up_to_date() -> None:
    """Otherwise run `python -m tools.reference`."""
    assert reference.FILE.read_text(encoding="utf-8") == reference.renewed()
    assert re.search(r"--slurm-kill-wait.*SUNK_SYNC_SLURM_KILL_WAIT", reference.renewed())
