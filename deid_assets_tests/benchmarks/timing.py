"""How benchmarks take time: in turns, several rounds, the least of each; so that other work disturbs all alike."""

import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from deid_assets.version import version


def processor_seconds(work: Callable[[], object]) -> tuple[float, object]:
    """Processor time of some work, and its result."""
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def wall_seconds(work: Callable[[], object]) -> tuple[float, object]:
    """Time that passes during some work, and its result."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def least_seconds(
    works: Mapping[str, Callable[[], object]], rounds: int, clock: Callable = processor_seconds
) -> dict[str, tuple[float, object]]:
    """For each work, the least time of all rounds and its last result; the works take turns within a round."""
    found: dict[str, tuple[float, object]] = {}
    for _ in range(rounds):
        for name, work in works.items():
            spent, result = clock(work)
            found[name] = (min(spent, found[name][0]) if name in found else spent, result)
    return found


def load() -> str:
    """How busy the machine is, so that whoever reads a table knows what disturbed it."""
    return f"Load average {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores."


def machine() -> str:
    """What the numbers were made on, how busy it was, and the version of this code."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    model = next(
        (line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    cores = f"{os.cpu_count()} cores ({model}), {memory:.0f} GB of memory, Python {platform.python_version()}"
    return f"{cores}, version {version()}. {load()}"


def head(*columns: str) -> None:
    """Print the head of a Markdown table."""
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)


def row(*cells: object) -> None:
    """Print a row of a Markdown table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
