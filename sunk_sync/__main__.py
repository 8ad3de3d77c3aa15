"""The command line: run, demo, explain, diff, status, doctor, convert-nodeset.

Exit code 0: no problem. 1: problem found. 2: could not check, or bad usage. 141: nobody reads the
output any more. Costly modules are imported where they are used, so that --help and usage errors
are fast.
"""

import argparse
import gc
import os
import sys
import traceback
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NoReturn

from sunk_sync import __version__

if TYPE_CHECKING:
    from sunk_sync.settings.model import Settings

CANNOT = 2
INTERRUPTED = 128 + 2
BROKEN_PIPE = 128 + 13
"""As a shell reports a program that SIGPIPE ended."""

COMMANDS = {
    "run": "keep Slurm and Kubernetes in sync until stopped",
    "doctor": "check both sides and name each problem with its remedy; write nothing",
    "explain": "explain one object: both sides' facts, the decision, and what would change it",
    "diff": "list in what both sides differ from each other or from what sunk-sync wants",
    "status": "show in a few lines whether sunk-sync works, and what waits",
    "pause": "let all replicas write nothing, from now, until a time or until resume",
    "resume": "end a pause",
    "convert-nodeset": "print NodeSets of Slinky or SUNK as NodeSets of sunk-sync",
    "demo": "show sunk-sync with embedded servers and a live view; no cluster needed",
}
POSITIONAL = {"explain": " (host|pod|job|gang|nodeset) NAME", "convert-nodeset": " FILE"}
KINDS = ("host", "pod", "job", "gang", "nodeset")
QUESTIONS: Mapping[str, Mapping[str, bool]] = {
    "explain": {"--json": True, "--watch": True, "--direct": True},
    "diff": {"--json": True, "--older-than": False},
    "status": {"--json": True},
    "pause": {"--for": False, "--why": False},
    "resume": {},
}
"""Commands that ask the running service: their flags besides the settings; is it a switch?"""
FLAG_TEXTS = {
    "--json": "print JSON (version 1) instead of text (default: false)",
    "--watch": "ask every second and print each answer that differs (default: false)",
    "--for": "how long; without it until `sunk-sync resume`",
    "--why": "a reason, which the Event, the log and readyz show",
    "--direct": "read both sides with your own credentials: the service is down (default: false)",
    "--older-than": "exit code 1 if a difference is older (default: 1m)",
}
DEMO_FLAGS = {"--once": True, "--seed": False}
"""Each flag, and whether it is a switch."""
SEED_DIGITS_MAX = 18
EPILOG = (
    "Exit code: 0 no problem, 1 problem found, 2 could not check or bad usage. "
    "Paths that begin with docs/ or deploy/ are in the repository of sunk-sync."
)
_NO_VALUE = "\0"


class UsageError(Exception):
    """The command line cannot be read; the text is for the user."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            return _main(given)
        finally:
            sys.stdout.flush()  # a failure at exit would print an exception
    except BrokenPipeError:
        _leave_stdout()
        return BROKEN_PIPE


def _main(given: list[str]) -> int:
    command = next((word for word in given if word in COMMANDS), "")
    try:
        return _command(given, command)
    except UsageError as error:
        return _complain([str(error)], command)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception:  # noqa: BLE001 (a bug must not exit with 1, "problem found")
        traceback.print_exc()
        return CANNOT


def _command(given: list[str], command: str) -> int:
    parser, switches = _parser(command)
    parsed, unknown = parser.parse_known_args(_spelled_out(given, switches))
    if parsed.command == "convert-nodeset":
        return _convert(parsed, unknown)
    if parsed.command == "demo":
        return _demo(parsed, unknown)
    return _with_settings(parsed, switches, _misread(unknown, tuple(switches)))


def _convert(parsed: argparse.Namespace, unknown: Sequence[str]) -> int:
    mistakes = _misread(unknown, ())
    if mistakes:
        return _complain(mistakes, parsed.command)
    from sunk_sync.cli.convert_nodeset import convert_nodeset

    return convert_nodeset(parsed.file, out=sys.stdout, errors=sys.stderr)


def _demo(parsed: argparse.Namespace, unknown: Sequence[str]) -> int:
    once, seed = getattr(parsed, "once", "false"), getattr(parsed, "seed", "0")
    mistakes = _misread(unknown, tuple(DEMO_FLAGS))
    if once not in ("true", "false"):
        mistakes.append("--once: a switch takes =true or =false")
    if seed == _NO_VALUE:
        mistakes.append("--seed: needs a value")
    elif not (seed.isdecimal() and len(seed) <= SEED_DIGITS_MAX):
        mistakes.append("--seed: must be a whole number, 0 or greater")
    if mistakes:
        return _complain(mistakes, "demo")
    from sunk_sync.demo.show import Choice, run

    choice = Choice(once=once == "true", seed=int(seed))
    try:
        return run(choice)
    except BrokenPipeError:
        if choice.once:
            raise
        _leave_stdout()
        return 0  # it has no end of its own: its reader ends it, like Ctrl-C


def _with_settings(parsed: argparse.Namespace, known: Container[str], mistakes: list[str]) -> int:
    from sunk_sync.settings import sources

    given = {key: value for key, value in vars(parsed).items() if f"--{key}" in known}
    mistakes += [f"--{key}: needs a value" for key, value in given.items() if value == _NO_VALUE]
    given = {key: value for key, value in given.items() if value != _NO_VALUE}
    own = {flag: given.pop(flag[2:]) for flag in _own_flags(parsed.command) if flag[2:] in given}
    mistakes += _misused(own)
    try:
        settings = sources.load(given, os.environ, sources.own_namespace())
    except sources.SettingsError as error:
        mistakes += error.mistakes
    if mistakes:
        return _complain(mistakes, parsed.command)
    if parsed.command in QUESTIONS:
        return _ask(parsed, own, settings)
    return _doctor(settings) if parsed.command == "doctor" else _run(settings)


def _own_flags(command: str) -> Mapping[str, bool]:
    return QUESTIONS.get(command, {})


def _misused(own: Mapping[str, str]) -> list[str]:
    """Return the mistakes in the flags that are no settings."""
    mistakes = [
        f"{flag}: a switch takes =true or =false"
        for flag, value in own.items()
        if flag in ("--json", "--watch", "--direct") and value not in ("true", "false")
    ]
    for flag in own.keys() & {"--older-than", "--for"}:
        from sunk_sync.settings.types import parse_duration

        try:
            parse_duration(own[flag])
        except ValueError as error:
            mistakes.append(f"{flag}: {error}")
    return mistakes


def _ask(parsed: argparse.Namespace, own: Mapping[str, str], settings: "Settings") -> int:
    from sunk_sync.cli.explain import Question, explain, explain_without_service
    from sunk_sync.cli.overview import diff, status
    from sunk_sync.cli.pausing import pause, resume
    from sunk_sync.settings.types import parse_duration

    address = settings.operators_bind_address
    form: Literal["text", "json"] = "json" if own.get("--json") == "true" else "text"
    if parsed.command == "status":
        return status(address, form=form)
    if parsed.command in ("pause", "resume"):
        for_s = parse_duration(own["--for"]) if "--for" in own else None
        why = own.get("--why", "")
        return (
            pause(address, for_s=for_s, why=why) if parsed.command == "pause" else resume(address)
        )
    if parsed.command == "diff":
        bound_s = parse_duration(own.get("--older-than", "1m"))
        return diff(address, older_than_s=bound_s, form=form)
    watch = own.get("--watch") == "true"
    kind, name = parsed.kind, parsed.name
    question = Question(kind=kind, name=name, address=address, form=form, watch=watch)
    if own.get("--direct") == "true":
        return explain_without_service(question, settings)
    return explain(question)


def _run(settings: "Settings") -> int:
    gc.disable()  # an import leaves no garbage, and collections are a sixth of the start
    from sunk_sync.server.bounded import CannotListenError
    from sunk_sync.service import app

    gc.enable()
    try:
        return app.run(settings)
    except CannotListenError as error:
        return _complain([str(error)], "")


def _doctor(settings: "Settings") -> int:
    import asyncio

    from sunk_sync.cli.doctor import doctor

    return asyncio.run(doctor(settings))


def _parser(command: str) -> tuple[_Parser, Mapping[str, bool]]:
    """Return the parser, and the flags of this command: whether each is a switch."""
    parser = _Parser(
        prog="sunk-sync",
        description="Keeps Slurm and Kubernetes in sync on the same machines.",
        epilog=EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    flags: Mapping[str, bool] = {}
    for name, text in COMMANDS.items():
        sub = _add_command(commands, name, text)
        if name == command and name != "convert-nodeset":
            flags = _add_flags(name, sub)
    return parser, flags


def _add_command(
    commands: "argparse._SubParsersAction[_Parser]", name: str, text: str
) -> argparse.ArgumentParser:
    what = POSITIONAL.get(name, "")
    sub = commands.add_parser(
        name,
        help=text,
        description=text,
        epilog=EPILOG,
        allow_abbrev=False,
        usage=f"sunk-sync {name}{what}" + ("" if name == "convert-nodeset" else " [FLAGS]"),
        formatter_class=_wide,
    )
    if name == "convert-nodeset":
        sub.add_argument("file", metavar="FILE", help="YAML, several documents; - is stdin")
    elif what:
        sub.add_argument("kind", choices=KINDS)
        sub.add_argument("name", metavar="NAME", help="of a Pod, gang or NodeSet: NAMESPACE/NAME")
    return sub


def _wide(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, max_help_position=40)


def _add_flags(command: str, parser: argparse.ArgumentParser) -> Mapping[str, bool]:
    if command == "demo":
        return _add_demo_flags(parser)
    return {**_add_own_flags(command, parser), **_add_settings(parser)}


def _add_own_flags(command: str, parser: argparse.ArgumentParser) -> Mapping[str, bool]:
    own = _own_flags(command)
    for flag, switch in own.items():
        shown = "true|false" if switch else "TEXT" if flag == "--why" else "DURATION"
        parser.add_argument(
            flag,
            dest=flag[2:],
            default=argparse.SUPPRESS,
            metavar=shown,
            help=FLAG_TEXTS[flag],
        )
    return own


def _add_demo_flags(parser: argparse.ArgumentParser) -> Mapping[str, bool]:
    parser.add_argument(
        "--once",
        default=argparse.SUPPRESS,
        metavar="true|false",
        help="run a fixed scenario of a minute and check it; exit code 0 or 1 (default: false)",
    )
    parser.add_argument(
        "--seed",
        default=argparse.SUPPRESS,
        metavar="N",
        help="seed of the endless demo: the same number, the same order of events (default: 0)",
    )
    return DEMO_FLAGS


def _add_settings(parser: argparse.ArgumentParser) -> Mapping[str, bool]:
    from sunk_sync.cli.flags import add_flags

    return add_flags(parser)


def _spelled_out(given: Sequence[str], flags: Mapping[str, bool]) -> list[str]:
    """Rewrite `--flag value` as `--flag=value` and a switch as `=true`; mark a missing value."""
    words: list[str] = []
    waiting = ""
    for word in given:
        if waiting:
            value = _NO_VALUE if word.startswith("--") else word
            words.append(f"{waiting}={value}")
            waiting = ""
            if value == word:
                continue
        if flags.get(word) is False:
            waiting = word
        else:
            words.append(f"{word}=true" if flags.get(word) else word)
    return [*words, f"{waiting}={_NO_VALUE}"] if waiting else words


def _misread(words: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return a sentence for each unknown word, given the flags of the command."""
    if not words:
        return []
    from sunk_sync.settings.sources import clean, removal, suggestion

    mistakes = []
    before = ""
    for word in words:
        before, value_of = word, before
        flag = word.partition("=")[0]
        if flag in known:
            mistakes.append(f"{flag}: put flags after the command")
        elif flag.startswith("-"):
            instead = removal(flag.removeprefix("--"))
            mistakes.append(f"{clean(flag)}: {instead or 'unknown flag' + suggestion(flag, known)}")
        elif not value_of.startswith("-"):
            mistakes.append(f"{clean(word)!r}: belongs to no flag; a switch takes =true or =false")
    return mistakes


def _complain(mistakes: Sequence[str], command: str) -> int:
    for mistake in mistakes:
        print(f"sunk-sync: {mistake}", file=sys.stderr)
    print(f"sunk-sync: `sunk-sync {command or 'COMMAND'} --help` shows the usage", file=sys.stderr)
    return CANNOT


def _version() -> str:
    return f"sunk-sync {__version__}"


def _leave_stdout() -> None:
    """Send stdout to /dev/null: nobody reads it any more, and the flush at exit must not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
