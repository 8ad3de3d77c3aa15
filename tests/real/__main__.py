"""The command line of the test bed: `build` the servers, or `up` to start a test bed."""

import argparse
import sys

from tests.real.testbed import cache
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.build import build
from tests.real.testbed.errors import BedError, CannotRunError
from tests.real.testbed.progress import Progress
from tests.real.testbed.up import up


def main(argv: list[str]) -> int:
    """Run a command. Exit code 2: the machine lacks something; 1: a build or a server failed."""
    options = _parser().parse_args(argv)
    try:
        if options.command == "build":
            with Progress() as progress:
                build(options.kube, options.slurm.split(","), progress)
        else:
            up(slurm=options.slurm, kube=options.kube, hosts=options.hosts)
    except CannotRunError as error:
        print(f"The test bed cannot run here: {error}", file=sys.stderr)
        return 2
    except BedError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.real", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("build", help="build the servers in the cache")
    _add_kube(making)
    making.add_argument(
        "--slurm",
        default=",".join(cache.SLURM_SUITES),
        type=_slurm_versions,
        help="comma-separated versions (default: %(default)s)",
    )
    playing = commands.add_parser(
        "up", help="start a test bed and print how to reach it; Ctrl-C ends it"
    )
    _add_kube(playing)
    playing.add_argument("--slurm", default=SLURM_DEFAULT, choices=cache.SLURM_SUITES)
    playing.add_argument("--hosts", default=3, type=int, help="Nodes and real slurmd (default: 3)")
    return parser


def _add_kube(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kube",
        default=cache.KUBE_DEFAULT,
        choices=cache.KUBE_VERSIONS,
        help="Kubernetes version (default: $KUBE, else %(default)s)",
    )


def _slurm_versions(text: str) -> str:
    for version in text.split(","):
        if version not in cache.SLURM_SUITES:
            known = ", ".join(cache.SLURM_SUITES)
            raise argparse.ArgumentTypeError(f"{version!r} is not one of {known}")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
