"""Executors for blocks of draws: threads here, or a Dask cluster. Results do not depend on the choice.

The environment variable DEID_CLUSTER names the scheduler of a Dask cluster, such as `tcp://scheduler:8786`, or `tls://`
with the certificates in Dask's own configuration (`distributed.comm.tls`). Without it, threads are used.

A population consists of parts (methods#parts). A worker gets the bit-sets of the parts that it is asked about, and what all
parts have in common. The environment variable DEID_PARTS asks for another number of parts.

Data that leaves this process is restricted: encoded demographics and histories of the delivered population, without
identifiers, the keys of random streams, and in a search bits that tell which draws are decided. Exemptions, class sizes and
what is known in single draws come back. The data goes through the scheduler into the memory of workers; workers that could
move it to disk are refused. Anyone who can reach the scheduler can read it: a cluster belongs to those who may see the
restricted store.

If a worker dies, another repeats its work, which only costs time. If a cluster is gone, an error is raised after a
bounded time. There is no fallback to threads, and no measurement ends with only part of its draws.
"""

import asyncio
import contextlib
import itertools
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import numpy as np

from deid_assets.cluster import worker
from deid_assets.cluster.worker import Call, CallFailed, Done, Missing, Stranger, Thing
from deid_assets.errors import ExecutorError
from deid_assets.methods.kernel.executor import Threads, parts_by_size
from deid_assets.methods.kernel.member_index import MemberPart

if TYPE_CHECKING:
    from distributed import Client
    from distributed import Future as DaskFuture

VARIABLE = "DEID_CLUSTER"
PARTS = "DEID_PARTS"
MOST_PARTS = 1024

Found = TypeVar("Found")
Answer: TypeAlias = Any
"""What a method returned on a worker, or Dask to a question: who asks knows its type, and the network does not."""

CONNECT_SECONDS = 10.0
"""Maximum time for a scheduler to answer."""
PATIENCE_SECONDS = 60.0
"""Maximum time that a run waits for a worker if there is none."""
ANSWER_SECONDS = 1800.0
"""Maximum time for a call, including earlier calls in the workers' queues. Most calls take a second."""
_ASK_AGAIN_SECONDS = 60.0
"""Time after which an unanswered call is repeated, in case the cluster lost it; later repeats wait longer."""
_LOOK_SECONDS = 2.0
_ATTEMPTS = 5


def search_executor() -> Threads:
    """Return the executor for draws: the cluster in DEID_CLUSTER, or else one thread per core.

    Both engines release the GIL in their loops. Populations that are measured on it have the parts that DEID_PARTS asks for.

    Raises
    ------
    ExecutorError
        If DEID_PARTS is no number of parts, or the cluster cannot be reached, has no worker, or has a worker that may not
        be used.
    """
    parts, address = asked_parts(), os.environ.get(VARIABLE)
    return ClusterExecutor(address, CONNECT_SECONDS, parts=parts) if address else Threads(os.cpu_count() or 1, parts)


def asked_parts() -> int | None:
    """Return the number of parts that DEID_PARTS asks for; None if it asks for none.

    Raises
    ------
    ExecutorError
        If it is no number of parts.
    """
    text = os.environ.get(PARTS)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_PARTS):
        raise ExecutorError(f"{PARTS} is '{text}'; it must be a whole number from 1 to {MOST_PARTS}, or unset")
    return int(text)


class _Lost(Exception):
    """A call has no answer because its worker, or its data, is gone. The call can be repeated."""


class ClusterExecutor(Threads):
    """Asks the workers of a Dask cluster about parts; each thread here waits for their answers about one batch.

    An object, a part, and arrays shared by several of them are sent to each worker once (`worker`). They must not change while
    the executor is open.

    Parameters
    ----------
    address
        Address of the scheduler.
    connect, patience, answer_within
        Seconds: see CONNECT_SECONDS, PATIENCE_SECONDS and ANSWER_SECONDS.
    parts
        As in `Threads`.

    Raises
    ------
    ExecutorError
        If the cluster cannot be reached, has no worker for `patience` seconds, or has a worker that may not be used. A
        call's result also raises it if workers kept dying, the scheduler is gone, or the method raised on a worker.
    """

    def __init__(
        self,
        address: str,
        connect: float = CONNECT_SECONDS,
        patience: float = PATIENCE_SECONDS,
        answer_within: float = ANSWER_SECONDS,
        parts: int | None = None,
    ):
        self._address, self._patience, self._answer_within = address, patience, answer_within
        self._sender = secrets.token_hex(8)
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._fit: set[str] = set()
        self._places: list[str] = []
        self._things: weakref.WeakKeyDictionary[object, tuple[Thing, bytes]] = weakref.WeakKeyDictionary()
        self._names: dict[int, str] = {}
        self._arrays: weakref.WeakValueDictionary[str, np.ndarray] = weakref.WeakValueDictionary()
        self._sent: dict[str, DaskFuture[object]] = {}
        self._client = _connected(address, connect)
        try:
            threads = sum(self._workers().values())
        except BaseException:
            self._close()
            raise
        # One running call and one queued call for every thread of the cluster.
        super().__init__(2 * threads, parts, "deid-cluster")
        # Threads of their own, because one that asks several parts waits for them.
        self._asking = ThreadPoolExecutor(4 * threads, "deid-cluster-part")

    def parts_of(self, members: int) -> int:
        """Return the number of parts of a population: what was asked for, or by its size."""
        return self.parts or parts_by_size(members)

    def answers(self, method: Callable[..., Found], parts: Sequence[MemberPart], *given: object) -> list[Found]:
        """Ask several parts at once: what a method of an object returns for each, on a worker that has this part.

        Raises
        ------
        TypeError
            If the function is not a method of an object.
        """
        owner = getattr(method, "__self__", None)
        if owner is None:
            raise TypeError("a cluster measures with methods of an object, not with plain functions")

        def asked(part: MemberPart) -> Answer:
            return self._called(owner, method.__name__, part, given)

        return [asked(parts[0])] if len(parts) == 1 else list(self._asking.map(asked, parts))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """Start nothing more, wait for running calls, and make the workers forget what was sent to them."""
        super().shutdown(wait=True, cancel_futures=True)
        self._asking.shutdown(wait=True, cancel_futures=True)
        if self._client.status == "running":
            with contextlib.suppress(Exception):  # An unreachable worker is gone, with its data.
                self._ask(self._client.run, worker.forget, self._sender, on_error="return")
        self._close()

    def _close(self) -> None:
        self._sent.clear()
        with contextlib.suppress(Exception):  # As above; this must not hide an earlier error.
            self._client.close(timeout=CONNECT_SECONDS)

    def _called(self, owner: object, method: str, part: MemberPart, args: tuple[object, ...]) -> Answer:
        """Return the answer to one call; repeat the call if it was lost."""
        deadline = time.monotonic() + self._answer_within
        for attempt in range(_ATTEMPTS):
            # A repeated call gives the same answer; a cluster may lose a call even if all its workers are alive.
            again = time.monotonic() + _ASK_AGAIN_SECONDS * 4**attempt
            (owned, content), (own, bits) = self._packed(owner), self._packed(part)
            call = Call(self._sender, owned, method, own, args)
            try:
                return self._answered(call, (content, bits), self._workers_of(part), deadline, min(again, deadline))
            except _Lost as error:
                lost = str(error)
        raise ExecutorError(
            f"the cluster at {self._address} lost the same call {_ATTEMPTS} times, most recently because {lost}; check the "
            "logs of its workers (the usual cause is too little memory)"
        )

    def _answered(
        self, call: Call, contents: tuple[bytes, bytes], workers: Sequence[str], deadline: float, again: float
    ) -> Answer:
        answer = self._asked(call, workers, deadline, again)
        if isinstance(answer, Missing):
            sent = self._sent_arrays(answer.arrays, answer.worker)
            answer = self._asked(call, [answer.worker], deadline, again, contents, answer.arrays, sent)
            # The worker has its own copy: Dask need not keep another, as it does for workers to come of what parts share.
            for name in call.part.arrays:
                self._sent.pop(name, None)
        match answer:
            case Done(value):
                return value
            case CallFailed(description):
                raise ExecutorError(f"a worker of the cluster at {self._address} failed: {description}")
            case Stranger(address):
                self._fit.discard(address)
                raise _Lost("a worker was started again")
        raise _Lost("a worker dropped what it had received")

    def _asked(
        self, call: Call, workers: Sequence[str], deadline: float, again: float, *sent: object
    ) -> Done | Missing | Stranger | CallFailed:
        """Submit a call to one of several workers and wait until it is time to repeat it or to give up."""
        future = self._client.submit(worker.answer, call, *sent, workers=workers, pure=False)
        try:
            while time.monotonic() < again:
                try:
                    answer: Done | Missing | Stranger | CallFailed = future.result(timeout=_LOOK_SECONDS)
                    return answer
                except TimeoutError:
                    if not self._workers().keys() & set(workers):
                        raise _Lost("its worker is gone") from None
            if again < deadline:
                raise _Lost("it was not answered for a long time")
            raise ExecutorError(
                f"the cluster at {self._address} did not answer a call within {self._answer_within:.0f} s, although its "
                "workers are alive; check whether they are busy with something else"
            )
        except (_Lost, ExecutorError):
            raise
        # An error of Dask's: those of the method come as an answer. Dask's text may show data; the type cannot.
        except Exception as error:
            raise _Lost(f"of {type(error).__name__}") from None
        finally:
            if not future.done():
                with contextlib.suppress(Exception):  # The connection is gone.
                    future.cancel()

    def _packed(self, thing: object) -> tuple[Thing, bytes]:
        """What an object is called, with its arrays, and its pickle; created once per object."""
        with self._lock:
            if thing not in self._things:
                content, arrays = worker.packed(thing, self._name_of)
                self._things[thing] = Thing(f"{self._sender}-{next(self._numbers)}", arrays), content
            return self._things[thing]

    def _name_of(self, array: np.ndarray) -> str:
        """A name for an array, valid as long as the array exists."""
        if id(array) not in self._names:
            name = self._names[id(array)] = f"{self._sender}-{next(self._numbers)}"
            self._arrays[name] = array
            weakref.finalize(array, self._drop, id(array), name).atexit = False
        return self._names[id(array)]

    def _drop(self, number: int, name: str) -> None:
        self._names.pop(number, None)
        self._sent.pop(name, None)

    def _sent_arrays(self, names: Sequence[str], to: str) -> "list[DaskFuture[object]]":
        """Dask's handles of arrays, each sent to the worker that lacks it; others get it from there, while it is kept."""
        handles = []
        with self._lock:
            for name in names:
                sent = self._sent.get(name)  # looked up once: another thread may forget it at any time
                if sent is None or sent.status != "finished":
                    try:
                        sent = self._sent[name] = self._ask(self._client.scatter, self._arrays[name], workers=[to], hash=False)
                    # As in `_asked`: a worker that dies while Dask looks it up makes the scheduler raise a KeyError.
                    except Exception as error:
                        raise _Lost(f"of {type(error).__name__}") from None
                handles.append(sent)
        return handles

    def _workers_of(self, part: MemberPart) -> list[str]:
        """Addresses of the workers that are asked about a part: another one only if all of them are gone.

        Part p is with worker p mod W of W workers; of more workers than parts, several have the same part. A worker that is
        started again takes the place of the one that is gone, so that the others keep their parts.
        """
        alive = self._workers()
        with self._lock:
            for address in sorted(alive.keys() - set(self._places)):
                place = next((place for place, one in enumerate(self._places) if one not in alive), len(self._places))
                self._places[place : place + 1] = [address]
            apart = min(part.parts, len(self._places))
            own = [one for place, one in enumerate(self._places) if place % apart == part.number % apart and one in alive]
        return own or [sorted(alive)[part.number % len(alive)]]

    def _workers(self) -> dict[str, int]:
        """Addresses and threads of the workers; waits for at least one, and checks each before it is used."""
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            try:
                workers = self._ask(self._client.nthreads)
            except (OSError, ValueError, RuntimeError, AttributeError) as error:
                raise ExecutorError(
                    f"the scheduler at {self._address} no longer answers ({type(error).__name__}); no partial measurement is "
                    "kept, run again when it is back"
                ) from None
            with self._lock:
                self._look_at(workers.keys() - self._fit)
                if fit := {address: threads for address, threads in workers.items() if address in self._fit}:
                    return fit
            time.sleep(0.2)
        raise ExecutorError(
            f"the cluster at {self._address} has had no worker for {self._patience:.0f} s; start some, or unset {VARIABLE}"
        )

    def _look_at(self, workers: set[str]) -> None:
        """Accept new workers if they compute the same and keep received data in memory."""
        if not workers:
            return
        try:
            found = self._ask(self._client.run, worker.worker_facts, self._sender, workers=sorted(workers), on_error="return")
        except (OSError, ValueError, RuntimeError):
            return  # Gone before it could be checked; if it is alive, it is checked again.
        here = worker.own_facts()
        for address, facts in found.items():
            if isinstance(facts, OSError):
                continue
            if isinstance(facts, Exception):
                raise ExecutorError(
                    f"worker {address} cannot run deid_assets {here['deid_assets']} ({type(facts).__name__}); "
                    f"install the same version there, with the extra 'dask'"
                )
            there, spills = facts
            unequal = [f"{what} {there.get(what)} (here {here[what]})" for what in here if there.get(what) != here[what]]
            if unequal:
                raise ExecutorError(
                    f"worker {address} has {', '.join(unequal)}; results are identical to the last byte only if these are "
                    "equal: install the same there"
                )
            if spills:
                raise ExecutorError(
                    f"worker {address} may write restricted data to disk; set distributed.worker.memory.target and "
                    f"distributed.worker.memory.spill to false where the workers start (in the environment: "
                    f"DASK_DISTRIBUTED__WORKER__MEMORY__TARGET=False and DASK_DISTRIBUTED__WORKER__MEMORY__SPILL=False)"
                )
            self._fit.add(address)

    def _ask(self, function: Callable[..., object], *args: object, **keywords: object) -> Answer:
        """Query the cluster, with a time limit."""
        if self._client.status in ("closing", "closed"):
            raise OSError("the connection is closed")
        return self._client.sync(function, *args, callback_timeout=self._patience, **keywords)


def _connected(address: str, seconds: float) -> "Client":
    """A client of the scheduler at an address."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ExecutorError(
            f"{VARIABLE} asks for a Dask cluster, but distributed cannot be imported ({error}); the extra 'dask' installs it"
        ) from error
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.scheme not in ("tcp", "tls"):
        raise ExecutorError(f"{VARIABLE} is '{address}'; it must be like tcp://scheduler:8786 or tls://scheduler:8786")
    try:
        # By itself, a client would wait for ever for a listener that is not a scheduler.
        with ThreadPoolExecutor(1) as aside:
            aside.submit(asyncio.run, _greeted(address, seconds)).result()
        return Client(address, timeout=seconds, set_as_default=False, name="deid_assets")
    except Exception as error:
        raise ExecutorError(
            f"{VARIABLE} names {address}, but no Dask scheduler answers there within {seconds:.0f} s "
            f"({str(error) or type(error).__name__}); check whether it runs, or unset {VARIABLE} to measure here"
        ) from None


async def _greeted(address: str, seconds: float) -> None:
    """Handshake with a scheduler, using the certificates in Dask's configuration if the address requires them."""
    from distributed.comm.core import connect
    from distributed.security import Security

    greeting = connect(address, timeout=seconds, **Security().get_connection_args("client"))
    (await asyncio.wait_for(greeting, seconds)).abort()
