"""Where draws are measured: batches of them here or on threads, and each part of the population here or where it is.

Results do not depend on the executor, nor on the number of parts (methods#parts).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from deid_assets.methods.kernel.member_index import MemberPart

Found = TypeVar("Found")

MEMBERS_OF_A_PART = 250_000
"""On a cluster, a part has at least so many members by default."""


class Threads(ThreadPoolExecutor):
    """Threads of this process.

    Parameters
    ----------
    max_workers
        Number of threads.
    parts
        Number of parts of the populations that are measured on them; None: one, because here more would save no memory.
    """

    def __init__(self, max_workers: int, parts: int | None = None, thread_name_prefix: str = ""):
        super().__init__(max_workers, thread_name_prefix)
        self.parts = parts

    def parts_of(self, members: int) -> int:
        """Return the number of parts of a population."""
        return self.parts or 1

    def answers(self, method: Callable[..., Found], parts: Sequence[MemberPart], *given: object) -> list[Found]:
        """Ask several parts: what a method of an object returns for each of them."""
        return answers(method, parts, *given)


def answers(method: Callable[..., Found], parts: Sequence[MemberPart], *given: object) -> list[Found]:
    """Ask several parts, here, one after the other."""
    return [method(part, *given) for part in parts]


def parts_by_size(members: int) -> int:
    """Return the number of parts of a population that is not all in one place.

    Examples
    --------
    >>> [parts_by_size(members) for members in (200_000, 499_999, 500_000, 1_130_000)]
    [1, 1, 2, 4]
    """
    return max(1, members // MEMBERS_OF_A_PART)
