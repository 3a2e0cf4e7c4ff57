"""Code that runs on a worker of a cluster: methods of objects that it receives once, and facts about itself.

A call is a method of an object, such as the draws of a computation, which is given a part of the population. Both are sent
in two pieces, a pickle and the large arrays in it. A worker receives each array once, however many calls and objects use it:
a computation with another adversary power shares its bit-sets with the one that it was made from. It receives only the parts
that it is asked about. The worker keeps its own copies in memory, under no key of Dask's, so Dask cannot move them to disk or
to another worker.

A call always returns an answer, even if it fails, because Dask logs the arguments of a task that raises.
"""

import hashlib
import pickle
import platform
import threading
import traceback
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

import deid_assets
from deid_assets.errors import DeidError, EngineError
from deid_assets.methods.kernel import engine
from deid_assets.methods.kernel.member_index import aligned_words

if TYPE_CHECKING:
    from distributed import Worker

LARGE_BYTES = 1 << 16
"""Arrays from this size on are sent separately."""

PACKAGES = ("numpy", "scipy", "pandas", "numba")
"""Packages whose version can change what a method returns; some of them are extras."""

MODULES = ("__init__.py", "cluster/worker.py", "errors.py", "store/tables.py")
"""Modules other than the methods that run on a worker."""

OBJECTS_KEPT = 4
"""Maximum number of objects that a worker keeps, such as the draws of a computation and of the latest one derived from it, each
with the parts that were asked about."""


@dataclass(frozen=True)
class Thing:
    """An object that a worker receives once.

    Attributes
    ----------
    name
        Its name, given by the sender.
    arrays
        The names of the large arrays in it.
    """

    name: str
    arrays: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Call:
    """A request to a worker; it has no representation, so no log can show its content.

    Attributes
    ----------
    sender
        Who sends the request.
    owner, method
        The object, and its method to call.
    part, args
        The part of the population that it is called with, and its other arguments.
    """

    sender: str
    owner: Thing
    method: str
    part: Thing
    args: tuple[object, ...]


@dataclass(frozen=True, repr=False)
class Done:
    """What the method returned."""

    value: object


@dataclass(frozen=True)
class Missing:
    """The worker at this address lacks the object or the part, and these of their arrays."""

    worker: str
    arrays: tuple[str, ...]


@dataclass(frozen=True)
class Stranger:
    """The sender has not checked the process at this address: it was restarted under an old address."""

    worker: str


@dataclass(frozen=True)
class CallFailed:
    """The method raised: what and where, without values."""

    description: str


def packed(thing: object, name_of: Callable[[np.ndarray], str]) -> tuple[bytes, tuple[str, ...]]:
    """The pickle of an object without its large arrays, and their names.

    Examples
    --------
    >>> large = np.arange(100_000)
    >>> content, names = packed({"small": 1, "large": large, "again": large}, lambda array: "numbers")
    >>> len(content) < 1000, names
    (True, ('numbers',))
    >>> bool(np.array_equal(unpacked(content, {"numbers": large})["again"], large))
    True
    """
    names: dict[str, None] = {}

    class Packing(pickle.Pickler):
        def persistent_id(self, part: object) -> str | None:
            if type(part) is not np.ndarray or part.nbytes < LARGE_BYTES or part.dtype.hasobject:
                return None
            name = name_of(part)
            names[name] = None
            return name

    content = BytesIO()
    Packing(content, pickle.HIGHEST_PROTOCOL).dump(thing)
    return content.getvalue(), tuple(names)


def unpacked(content: bytes, arrays: dict[str, np.ndarray]) -> object:
    """Restore the object."""

    class Unpacking(pickle.Unpickler):
        def persistent_load(self, name: str) -> np.ndarray:
            return arrays[name]

    return Unpacking(BytesIO(content)).load()


class _Store:
    """The objects of this process, their parts, the arrays in them (each once), and who uses them."""

    def __init__(self) -> None:
        self.senders: set[str] = set()
        self._lock = threading.Lock()
        self._objects: OrderedDict[str, tuple[object, dict[str, object]]] = OrderedDict()
        self._parts: weakref.WeakValueDictionary[str, object] = weakref.WeakValueDictionary()
        self._arrays: weakref.WeakValueDictionary[str, np.ndarray] = weakref.WeakValueDictionary()

    def found(self, call: Call, contents: Sequence[bytes], received: dict[str, np.ndarray]) -> tuple[object, object] | Missing:
        """Return the requested object and part, assembling what was just sent."""
        with self._lock:
            owner, parts = self._objects.get(call.owner.name, (None, {}))
            part = self._parts.get(call.part.name)
            lacking = [thing for thing, there in ((call.owner, owner), (call.part, part)) if there is None]
            wanted = [name for thing in lacking for name in thing.arrays]
            arrays = {name: held for name in wanted if (held := self._arrays.get(name)) is not None}
            missing = tuple(name for name in wanted if name not in arrays and name not in received)
            if lacking and (not contents or missing):
                return Missing(_own_address(), missing)
            arrays |= {name: _own_copy(received[name]) for name in wanted if name not in arrays}
            made = dict(zip((call.owner, call.part), contents, strict=bool(contents)))
            if owner is None:
                owner = unpacked(made[call.owner], arrays)
            if part is None:
                part = self._parts[call.part.name] = unpacked(made[call.part], arrays)
            self._arrays.update(arrays)
            self._objects[call.owner.name] = owner, parts | {call.part.name: part}
            self._objects.move_to_end(call.owner.name)
            while len(self._objects) > OBJECTS_KEPT:
                self._objects.popitem(last=False)
            return owner, part

    def drop(self, sender: str) -> None:
        """Drop every object whose name begins with the sender's."""
        self.senders.discard(sender)
        with self._lock:
            for owner in [owner for owner in self._objects if owner.startswith(sender)]:
                del self._objects[owner]


_store = _Store()


def answer(
    call: Call, contents: Sequence[bytes] = (), names: Sequence[str] = (), arrays: Sequence[np.ndarray] = ()
) -> Done | Missing | Stranger | CallFailed:
    """Execute a request on an object and a part that are present or sent along.

    Parameters
    ----------
    contents
        The pickles of the object and the part, if they are sent along.
    names, arrays
        The arrays of both that the worker lacks.
    """
    if call.sender not in _store.senders:
        return Stranger(_own_address())
    try:
        found = _store.found(call, contents, dict(zip(names, arrays, strict=True)))
        if isinstance(found, Missing):
            return found
        owner, part = found
        return Done(getattr(owner, call.method)(part, *call.args))
    except Exception as error:
        return CallFailed(error_without_values(error))


def forget(sender: str) -> None:
    """Drop everything that a sender has sent here."""
    _store.drop(sender)


def error_without_values(error: Exception) -> str:
    """What was raised and where, innermost last; an error's text only if the error is ours, as ours contain no values."""
    if isinstance(error, DeidError):
        return str(error)
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    return f"{type(error).__name__} at {', '.join(places[-4:])}"


def own_facts() -> dict[str, str]:
    """What must be equal here and on a worker for results to be identical to the last byte."""
    try:
        chosen = engine.chosen().name
    except EngineError as error:
        chosen = str(error)
    return {
        "deid_assets": deid_assets.__version__,
        "code of deid_assets": code_digest(Path(deid_assets.__file__).parent)[:12],
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "engine": chosen,
    }


def code_digest(package: Path) -> str:
    """Digest of this package's code that runs on a worker: every module of the methods and the modules that they use."""
    code = hashlib.sha256()
    for file in (*sorted((package / "methods").rglob("*.py")), *(package / name for name in MODULES)):
        content = file.read_bytes()
        code.update(f"{file.relative_to(package).as_posix()}\0{len(content)}\0".encode() + content)
    return code.hexdigest()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def worker_facts(sender: str, dask_worker: "Worker") -> tuple[dict[str, str], bool]:
    """The facts of this worker, and whether Dask may write its data to disk: with anything but a dict, it does or could.

    The process remembers who checked it. Dask passes in the worker.
    """
    _store.senders.add(sender)
    return own_facts(), type(dask_worker.data) is not dict


def _own_copy(array: np.ndarray) -> np.ndarray:
    """A copy in the worker's own memory, writable and aligned to a cache line as the kernel prefers."""
    order: Literal["F", "C"] = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    words = aligned_words(-(-array.nbytes // 64))
    copy = np.ndarray(array.shape, array.dtype, words.data, order=order)
    copy[...] = array
    return copy


def _own_address() -> str:
    from distributed import get_worker

    return get_worker().address
