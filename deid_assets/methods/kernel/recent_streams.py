"""What is kept of the streams of draws that were used last, within a number of bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


Kept = TypeVar("Kept", bound=_Sized)


class RecentStreams(Generic[Kept]):
    """What is kept of each stream; a copy in another process begins empty.

    Nodes ask for the blocks of a stream from the first on, and most stop soon. So what is kept first is worth most: it makes
    room for other streams, and not for more of its own.

    Parameters
    ----------
    begin
        Makes what a stream begins with; it can be sent to another process.

    Attributes
    ----------
    lock
        Held by the caller of everything else.
    """

    def __init__(self, begin: Callable[[], Kept]):
        self._begin, self.lock = begin, threading.Lock()
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()

    def __reduce__(self) -> tuple:
        # A lock cannot be sent to another process, and what is kept is quick to make again.
        return RecentStreams, (self._begin,)

    @property
    def nbytes(self) -> int:
        """Memory used, in bytes."""
        return sum(kept.nbytes for kept in self._kept.values())

    def of(self, stream_key: bytes) -> Kept | None:
        """Return what is kept of a stream, which is now the one used last; None if there is nothing."""
        if stream_key in self._kept:
            self._kept.move_to_end(stream_key)
        return self._kept.get(stream_key)

    def with_room(self, stream_key: bytes, size: int, limit: int) -> Kept | None:
        """Return what is kept of a stream, if so many bytes more fit beside it within a limit; for them, older streams go."""
        own = self.of(stream_key)
        own = self._begin() if own is None else own
        if own.nbytes + size > limit:
            return None
        self._kept[stream_key] = own
        while self.nbytes + size > limit and len(self._kept) > 1:
            self._kept.popitem(last=False)
        return own
