"""Every ratio and scaling curve of docs/benchmarks.md with one command: the kernel, flat tables, the long tail and dates.

    python -m deid_assets_tests.benchmarks.ratios [--python INTERPRETER]

Each benchmark runs in a process of its own, one after the other, about twenty minutes on two cores.
"""

import argparse
import subprocess
import sys


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", help="an interpreter that has anjana and pycanon; without it they are left out")
    asked = parser.parse_args()
    others = [] if asked.python is None else ["--python", asked.python]
    for name, arguments in (("kernel", ["--all"]), ("flat", ["--scaling", *others]), ("dates_and_tails", [])):
        print(f"\n## {name}\n", flush=True)
        command = [sys.executable, "-m", f"deid_assets_tests.benchmarks.{name}", *arguments]
        if subprocess.run(command, check=False).returncode:
            raise SystemExit(f"the benchmark {name} failed")


if __name__ == "__main__":
    main()
