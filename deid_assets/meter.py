"""How long an asset took and how much memory the process had at its peak meanwhile."""

import resource
import time
from dataclasses import dataclass, field
from pathlib import Path

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


@dataclass
class Meter:
    """Started when an asset begins, read when its table is written.

    On Linux the kernel's high-water mark of resident memory is reset at the start, so that each asset shows its own;
    elsewhere the figure is the peak of the process so far, which is what `getrusage` knows.
    """

    _started: dict[tuple[str, str], float] = field(default_factory=dict)

    def start(self, run: str, step: str) -> None:
        """Begin to measure a step of a run."""
        self._started[run, step] = time.perf_counter()
        if _CLEAR.exists():
            try:
                _CLEAR.write_text("5")
            except OSError:
                return  # a container may forbid it; the figure is then the peak of the process so far

    def read(self, run: str, step: str) -> dict[str, float]:
        """Return `seconds` (absent where the asset did not start the meter) and `peak_memory_gb`."""
        measured = {"peak_memory_gb": round(peak_memory_gb(), 3)}
        started = self._started.pop((run, step), None)
        if started is not None:
            measured["seconds"] = round(time.perf_counter() - started, 3)
        return measured


def peak_memory_gb() -> float:
    """Peak resident memory of this process in gigabytes, since the last reset where the system allows one."""
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


meter = Meter()
