"""What was used last, within a number of bytes: of streams of draws, and of levels."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


Key = TypeVar("Key", bound=Hashable)
Kept = TypeVar("Kept", bound=_Sized)


class _Recent(Generic[Key, Kept]):
    """What is kept by a key; the one used last goes last.

    Attributes
    ----------
    lock
        Held by the caller of everything else that is declared here.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._kept: OrderedDict[Key, Kept] = OrderedDict()

    @property
    def nbytes(self) -> int:
        """Memory used, in bytes."""
        return sum(kept.nbytes for kept in self._kept.values())

    def of(self, key: Key) -> Kept | None:
        """Return what is kept of a key, which is now the one used last; None if there is nothing."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def _keep(self, key: Key, kept: Kept, limit: int) -> None:
        """Keep this, however large, and of the others the ones used last, as far as all together are within a limit."""
        self._kept[key] = kept
        while self.nbytes > limit and len(self._kept) > 1:
            self._kept.popitem(last=False)


class RecentStreams(_Recent[bytes, Kept]):
    """What is kept of each stream; a copy in another process begins empty.

    Nodes ask for the blocks of a stream from the first on, and most stop soon. So what is kept first is worth most: it makes
    room for other streams, and not for more of its own.

    Parameters
    ----------
    begin
        Makes what a stream begins with; it can be sent to another process.
    """

    def __init__(self, begin: Callable[[], Kept]):
        super().__init__()
        self._begin = begin

    def __reduce__(self) -> tuple:
        # A lock cannot be sent to another process, and what is kept is quick to make again.
        return RecentStreams, (self._begin,)

    def with_room(self, stream_key: bytes, size: int, limit: int) -> Kept | None:
        """Return what is kept of a stream, if so many bytes more fit beside it within a limit; for them, older streams go."""
        own = self.of(stream_key)
        own = self._begin() if own is None else own
        if own.nbytes + size > limit:
            return None
        self._keep(stream_key, own, limit - size)
        return own


class RecentlyMade(_Recent[Key, Kept]):
    """What was made for the latest keys, up to so many bytes; a copy in another process begins empty."""

    def __init__(self, limit: int):
        super().__init__()
        self._limit = limit

    def __reduce__(self) -> tuple:
        return RecentlyMade, (self._limit,)

    def made(self, key: Key, make: Callable[[Key], Kept]) -> Kept:
        """Return what is kept of a key, or make it and keep it; the caller does not hold the lock."""
        with self.lock:
            kept = self.of(key)
        if kept is None:
            kept = make(key)
            with self.lock:
                self._keep(key, kept, self._limit)
        return kept
