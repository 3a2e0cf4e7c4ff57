"""Where draws are measured: batches of them here or on threads, and each part of the population here or where it is.

Results do not depend on the executor, nor on the number of parts (methods#parts).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from deid_assets.methods.kernel.member_index import MemberPart

Found = TypeVar("Found")

MEMBERS_OF_A_PART = 250_000
"""By default, a part has at least so many members."""


class Threads(ThreadPoolExecutor):
    """Threads of this process.

    Parameters
    ----------
    max_workers
        Number of threads.
    parts
        Number of parts of the populations that are measured on them; None: by their size.
    """

    def __init__(self, max_workers: int, parts: int | None = None, thread_name_prefix: str = ""):
        super().__init__(max_workers, thread_name_prefix)
        self.parts = parts

    def answers(self, method: Callable[..., Found], parts: Sequence[MemberPart], *given: object) -> list[Found]:
        """Ask several parts: what a method of an object returns for each of them."""
        return answers(method, parts, *given)


def answers(method: Callable[..., Found], parts: Sequence[MemberPart], *given: object) -> list[Found]:
    """Ask several parts, here, one after the other."""
    return [method(part, *given) for part in parts]


def parts_of(members: int, asked: int | None) -> int:
    """Return the number of parts of a population: what was asked for, or by its size.

    Examples
    --------
    >>> [parts_of(members, None) for members in (200_000, 499_999, 500_000, 1_130_000)], parts_of(200_000, 16)
    ([1, 1, 2, 4], 16)
    """
    return asked or max(1, members // MEMBERS_OF_A_PART)
