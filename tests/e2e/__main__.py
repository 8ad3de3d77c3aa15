"""Build what the tests with real kubelets need: `python -m tests.e2e`."""

import sys

from tests.e2e.requirements import build_all
from tests.real.testbed.cache import SLURM_SUITES
from tests.real.testbed.errors import BedError, CannotRunError
from tests.real.testbed.progress import Progress


def main() -> int:
    """Exit code 2: the machine lacks something; 1: a build failed."""
    try:
        with Progress() as progress:
            build_all(list(SLURM_SUITES), progress)
    except CannotRunError as error:
        print(f"The kubelets cannot run here: {error}", file=sys.stderr)
        return 2
    except BedError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
