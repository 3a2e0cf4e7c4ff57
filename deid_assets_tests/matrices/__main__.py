"""Print a matrix of harm: python -m deid_assets_tests.matrices [NAME ...]."""

import argparse
import sys
import tempfile
from pathlib import Path

from deid_assets_tests.matrices import MATRICES
from deid_assets_tests.matrices.table import render


def main() -> int:
    """Print the matrices that are asked for, else all; 1 if a row is not as it should be or rows are missing."""
    parser = argparse.ArgumentParser(prog="python -m deid_assets_tests.matrices", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(MATRICES)}; all when none is given")
    names = parser.parse_args().names or list(MATRICES)
    if unknown := [name for name in names if name not in MATRICES]:
        parser.error(f"there is no matrix {', '.join(unknown)}; matrices: {', '.join(MATRICES)}")
    failed = False
    for name in names:
        matrix = MATRICES[name]
        print(f"== {matrix.title}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            outcomes = list(matrix.outcomes(Path(folder)))
        print(render(outcomes), flush=True)
        failed |= len(outcomes) < matrix.at_least or not all(outcome.ok for outcome in outcomes)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
