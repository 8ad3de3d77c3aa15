"""The command line of chaos: exit code 1 for a violation, 2 if the servers cannot run here."""

import argparse
import random
import sys
from pathlib import Path

from tests.chaos.run import Options, Run, exit_code
from tests.real.testbed.cache import KUBE_DEFAULT, SLURM_SUITES
from tests.real.testbed.requirements import why_not

FOLDER = Path("build") / "chaos"


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    if reason := why_not(kube=KUBE_DEFAULT, slurm=options.slurm):
        print(f"Chaos cannot run here: {reason}", file=sys.stderr)
        return 2
    seed = random.randrange(1 << 30) if options.seed is None else options.seed
    made = Options(
        seed=seed,
        seconds=options.seconds,
        replicas=options.replicas,
        slurm=options.slurm,
        folder=FOLDER / str(seed),
        keep_logs=options.keep_logs,
    )
    return exit_code(Run(made, lambda text: print(text, flush=True)).go, seed=seed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="of faults (default: 600)")
    parser.add_argument("--seed", type=int, help="default: a random one, which is printed")
    parser.add_argument("--replicas", type=int, default=2, choices=(1, 2))
    parser.add_argument("--keep-logs", action="store_true", help="also without a violation")
    parser.add_argument("--slurm", default="26.05", choices=SLURM_SUITES)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
