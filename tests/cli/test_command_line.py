"""The command line: exit codes, help, mistakes, commands that do not exist yet."""

import os
import re
import subprocess
import sys
from types import ModuleType

import pytest

import sunk_sync.service
from sunk_sync.__main__ import COMMANDS, main
from sunk_sync.cli.flags import ABOUT
from sunk_sync.server.bounded import CannotListenError
from sunk_sync.settings.model import Settings, flag_of

Capture = pytest.CaptureFixture[str]


class Service(ModuleType):
    """Replaces `sunk_sync.service.app`, and keeps the settings."""

    def __init__(self) -> None:
        super().__init__("sunk_sync.service.app")
        self.settings: Settings | None = None
        self.trouble: Exception | None = None

    def run(self, settings: Settings) -> int:
        self.settings = settings
        if self.trouble is not None:
            raise self.trouble
        return 0


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    double = Service()
    monkeypatch.setitem(sys.modules, "sunk_sync.service.app", double)
    monkeypatch.setattr(sunk_sync.service, "app", double, raising=False)
    return double


def help_of(capsys: Capture, *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        main([*words])
    assert end.value.code == 0
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in list(os.environ):
        if variable.startswith("SUNK_SYNC_"):
            monkeypatch.delenv(variable)


def ran_with(service: Service) -> Settings:
    assert service.settings is not None
    return service.settings


def test_run_passes_the_flags_to_the_service(service: Service) -> None:
    words = ["run", "--cluster-name", "c1", "--slurm-kill-wait=1m30s", "--dry-run"]
    assert main(words) == 0
    settings = ran_with(service)
    chosen = (settings.cluster_name, settings.slurm_kill_wait_s, settings.dry_run)
    assert chosen == ("c1", 90.0, True)


def test_a_flag_wins_over_its_variable(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUNK_SYNC_DRY_RUN", "true")
    main(["run"])
    assert ran_with(service).dry_run
    main(["run", "--dry-run=false"])
    assert not ran_with(service).dry_run


def test_a_flag_may_have_an_empty_value(service: Service) -> None:
    assert main(["run", "--metrics-bind-address=", "--health-probe-bind-address", "[::1]:0"]) == 0
    assert ran_with(service).metrics_bind_address is None
    assert str(ran_with(service).health_probe_bind_address) == "[::1]:0"


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["run", "--dryrun"], "--dryrun: unknown flag; did you mean --dry-run?"),
        (["run", "--cluster-name"], "--cluster-name: needs a value"),
        (["run", "--cluster-name", "--dry-run"], "--cluster-name: needs a value"),
        (["run", "--dry-run", "false"], "'false': belongs to no flag"),
        (["run", "extra"], "'extra': belongs to no flag"),
        (["run", "--log-level=loud"], "--log-level (SUNK_SYNC_LOG_LEVEL, file key log-level)"),
        (["run", "--config=/nowhere"], "--config (SUNK_SYNC_CONFIG): /nowhere: No such file"),
        (["run", "--not-ready-grace", "-5s"], "'-5s' from the command line is wrong"),
        (["--dry-run", "run"], "--dry-run: put flags after the command"),
        (["runn"], "invalid choice: 'runn'"),
        ([], "required: COMMAND"),
        (["explain", "thing", "n1"], "invalid choice: 'thing'"),
        (["explain", "host"], "required: NAME"),
        (["explain", "host", "n1", "--json=maybe"], "--json: a switch takes =true or =false"),
        (["explain", "host", "n1", "--older-than", "1m"], "--older-than: unknown flag"),
        (["diff", "--older-than", "soon"], "--older-than: allowed is a duration"),
        (["diff", "--older-than"], "--older-than: needs a value"),
        (["status", "--operators-bind-address", ":1"], "an address of this machine alone"),
        (["run", "--clus", "x"], "--clus: unknown flag"),
    ],
)
def test_bad_usage_is_exit_code_2_and_a_sentence_on_stderr(
    service: Service, capsys: Capture, words: list[str], reported: str
) -> None:
    assert main(words) == 2
    output = capsys.readouterr()
    assert reported in output.err
    assert output.out == ""
    assert service.settings is None


def test_mistakes_of_flags_and_values_come_together(service: Service, capsys: Capture) -> None:
    assert main(["run", "--dryrun", "--gate=x", "--cluster-name"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 4
    assert service.settings is None


def test_the_value_of_an_unknown_flag_is_not_repeated(service: Service, capsys: Capture) -> None:
    """It may be a token after a misspelled --slurm-auth-token."""
    main(["run", "--slurm-auth-tokn", "s3cr3t"])
    main(["run", "--slurm-auth-tokn=s3cr3t"])
    assert "s3cr3t" not in capsys.readouterr().err
    assert service.settings is None


class Demo(ModuleType):
    """Replaces `sunk_sync.demo.show`, and keeps the choice."""

    def __init__(self) -> None:
        super().__init__("sunk_sync.demo.show")
        self.chosen: list[dict[str, object]] = []

    def Choice(self, **chosen: object) -> dict[str, object]:
        return chosen

    def run(self, choice: dict[str, object]) -> int:
        self.chosen.append(choice)
        return 0


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> Demo:
    double = Demo()
    monkeypatch.setitem(sys.modules, "sunk_sync.demo.show", double)
    return double


@pytest.mark.parametrize(
    ("words", "once", "seed"),
    [
        ([], False, 0),
        (["--once"], True, 0),
        (["--once=true", "--seed", "7"], True, 7),
        (["--once=false", "--seed=8"], False, 8),
    ],
)
def test_the_demo_runs_with_its_flags(demo: Demo, words: list[str], once: bool, seed: int) -> None:
    assert main(["demo", *words]) == 0
    assert demo.chosen == [{"once": once, "seed": seed}]


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["--onec"], "--onec: unknown flag; did you mean --once?"),
        (["--kubeconfig=x"], "--kubeconfig: unknown flag"),
        (["--seed"], "--seed: needs a value"),
        (["--seed", "--once"], "--seed: needs a value"),
        (["--seed", "many"], "--seed: must be a whole number"),
        (["--seed=-1"], "--seed: must be a whole number"),
        (["--seed", "9" * 5000], "--seed: must be a whole number"),
        (["--once=perhaps"], "--once: a switch takes =true or =false"),
        (["more"], "'more': belongs to no flag"),
    ],
)
def test_the_demo_refuses_mistakes(
    demo: Demo, capsys: Capture, words: list[str], reported: str
) -> None:
    assert main(["demo", *words]) == 2
    output = capsys.readouterr()
    assert reported in output.err
    assert "sunk-sync demo --help" in output.err
    assert output.out == ""
    assert demo.chosen == []


def test_an_address_in_use_ends_without_a_traceback(service: Service, capsys: Capture) -> None:
    service.trouble = CannotListenError("--metrics-bind-address: cannot listen on :80")
    assert main(["run"]) == 2
    reported = capsys.readouterr().err
    assert "--metrics-bind-address: cannot listen on :80" in reported
    assert "Traceback" not in reported


def test_a_crash_is_exit_code_2_with_a_traceback(service: Service, capsys: Capture) -> None:
    """1 means that doctor found a problem."""
    service.trouble = RuntimeError("a bug")
    assert main(["run"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"demo", "convert-nodeset"}))
def test_help_of_each_command_has_every_flag_in_its_group(capsys: Capture, command: str) -> None:
    text = help_of(capsys, command, "--help")
    for about in ABOUT:
        assert flag_of(about.field) in text
        assert f"\n{about.group}:" in text


def test_help_of_demo_has_its_own_flags_alone(capsys: Capture) -> None:
    text = help_of(capsys, "demo", "--help")
    assert "--once" in text
    assert "--seed" in text
    assert not [about.field for about in ABOUT if flag_of(about.field) in text]


def test_help_of_convert_nodeset_has_no_settings(capsys: Capture) -> None:
    """It asks no server."""
    text = help_of(capsys, "convert-nodeset", "--help")
    assert "sunk-sync convert-nodeset FILE" in text
    assert not [about.field for about in ABOUT if flag_of(about.field) in text]


def test_version_is_that_of_the_package(capsys: Capture) -> None:
    assert re.fullmatch(r"sunk-sync 0\S+\n", help_of(capsys, "--version"))


def test_help_imports_no_large_library() -> None:
    costly = ("pydantic", "aiohttp", "kubernetes_asyncio", "httptools", "structlog", "rich")
    code = (
        "import sys\nfrom sunk_sync.__main__ import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        f"print([name for name in {costly} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("command", [["status"], ["explain", "pod", "a/b"], ["pause"]], ids=str)
def test_a_question_to_the_service_imports_no_client_of_kubernetes(command: list[str]) -> None:
    """It takes a second."""
    code = (
        "import sys\nfrom sunk_sync.__main__ import main\n"
        f"code = main({[*command, '--operators-bind-address=127.0.0.1:1']})\n"
        "print(code, 'kubernetes_asyncio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2 False"


def test_a_closed_pipe_is_no_traceback() -> None:
    command = f"{sys.executable} -m sunk_sync run --help | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("usage: sunk-sync run")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 141),
        (["--version"], 141),
        (["doctor"], 141),
        (["demo", "--once"], 141),
        (["demo"], 0),
    ],
)
def test_a_reader_that_is_gone_ends_a_command_quietly_and_is_no_problem_found(
    words: list[str], code: int
) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    environment = {key: one for key, one in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-m", "sunk_sync", *words],
        env=environment,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write_end)
    assert done.returncode == code
    assert "Pipe" not in done.stderr
