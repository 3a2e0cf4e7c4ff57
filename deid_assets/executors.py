"""The compute seam: where blocks of draws are measured. Threads here; results do not depend on the executor."""

import os
from concurrent.futures import Executor, ThreadPoolExecutor


def search_executor() -> Executor:
    """A pool of one thread per core; both engines release the interpreter's lock in their loops."""
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
