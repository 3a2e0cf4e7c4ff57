"""The compute seam: where blocks of draws are measured. Threads here, or a Dask cluster; results do not depend on it.

The environment variable DEID_CLUSTER names the scheduler of a Dask cluster, such as `tcp://scheduler:8786`, or `tls://`
with the certificates that Dask's own configuration names (`distributed.comm.tls`). Without it, threads measure.

What leaves this process is restricted: encoded demographics and histories of the whole delivered population, without
identifiers, and the keys of random streams; back come flags, class sizes and row numbers of members. It goes through
the scheduler into the memory of workers, and is refused to workers that could move it to disk. Whoever can reach the
scheduler can read it: a cluster belongs to those who may see the restricted store.

A worker that dies costs time: what it was doing is done by another. A cluster that is gone is an error after a
bounded time. Nothing falls back to threads, and no measurement ends with a part of its draws.
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
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from urllib.parse import urlsplit

import numpy as np

from deid_assets.cluster import worker as cluster_worker
from deid_assets.cluster.worker import Call, Done, Failed, Missing, Stranger
from deid_assets.errors import ExecutorError

VARIABLE = "DEID_CLUSTER"

CONNECT_SECONDS = 10.0
"""How long a scheduler may take to answer."""
PATIENCE_SECONDS = 60.0
"""How long a run waits for a worker where there is none."""
ANSWER_SECONDS = 1800.0
"""How long a call may take, the calls before it in the workers' queues included. Most take a second."""
_ASK_AGAIN_SECONDS = 60.0
"""After how long a call without answer is asked a second time, in case that the cluster lost it; then after longer."""
_LOOK_SECONDS = 2.0
_ATTEMPTS = 5


def search_executor() -> Executor:
    """Where draws are measured: the cluster that DEID_CLUSTER names, else one thread per core.

    Both engines release the interpreter's lock in their loops.

    Raises
    ------
    ExecutorError
        If the cluster cannot be reached, has no worker, or has one that may not be used.
    """
    address = os.environ.get(VARIABLE)
    return ClusterExecutor(address, CONNECT_SECONDS) if address else ThreadPoolExecutor(max_workers=os.cpu_count() or 1)


class _Lost(Exception):
    """A call has no answer, because the worker that had it, or the data, is gone. It can be repeated."""


class ClusterExecutor(ThreadPoolExecutor):
    """Calls methods of large objects on the workers of a Dask cluster; each thread here waits for one call.

    An object is sent to each worker once, and arrays that objects share are (`worker`). Functions must be
    methods of an object, as they are or with arguments bound by `functools.partial`. The object may not be changed
    while the executor is open.

    Parameters
    ----------
    address
        Of the scheduler.
    connect, patience, answer_within
        Seconds: see CONNECT_SECONDS, PATIENCE_SECONDS and ANSWER_SECONDS.

    Raises
    ------
    ExecutorError
        If the cluster cannot be reached, has no worker for so long, or one that may not be used; from a call's result
        also if workers kept dying, the scheduler is gone, or the method raised on a worker.
    """

    def __init__(
        self,
        address: str,
        connect: float = CONNECT_SECONDS,
        patience: float = PATIENCE_SECONDS,
        answer_within: float = ANSWER_SECONDS,
    ):
        self._address, self._patience, self._answer_within = address, patience, answer_within
        self._sender = secrets.token_hex(8)
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._fit: set[str] = set()
        self._objects: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._names: dict[int, str] = {}
        self._arrays: weakref.WeakValueDictionary[str, np.ndarray] = weakref.WeakValueDictionary()
        self._sent: dict[str, object] = {}
        self._client = _connected(address, connect)
        try:
            threads = sum(self._workers().values())
        except BaseException:
            self._close()
            raise
        # One call in work and one in the queue of every thread of the cluster.
        super().__init__(max_workers=2 * threads, thread_name_prefix="deid-cluster")

    def submit(self, function: Callable, /, *args, **keywords):
        """Call a method on some worker.

        Raises
        ------
        TypeError
            If the function is not a method of an object.
        """
        while isinstance(function, partial):
            args, keywords = function.args + args, function.keywords | keywords
            function = function.func
        if getattr(function, "__self__", None) is None:
            raise TypeError("a cluster measures with methods of an object, not with plain functions")
        return super().submit(self._called, function.__self__, function.__name__, args, keywords)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """Start nothing more, wait for the calls at work, and let the workers forget what was sent to them."""
        super().shutdown(wait=True, cancel_futures=True)
        if self._client.status == "running":
            with contextlib.suppress(Exception):  # A worker that cannot be told is gone, and what it held with it.
                self._ask(self._client.run, cluster_worker.forget, self._sender, on_error="return")
        self._close()

    def _close(self) -> None:
        self._sent.clear()
        with contextlib.suppress(Exception):  # As above; and what went wrong before must not be hidden by this.
            self._client.close(timeout=CONNECT_SECONDS)

    def _called(self, owner: object, method: str, args: tuple, keywords: dict) -> object:
        """The answer to one call; asked again where it was lost."""
        deadline = time.monotonic() + self._answer_within
        for attempt in range(_ATTEMPTS):
            # Asked again, a call gives the same answer; a cluster may lose one though all its workers live.
            again = time.monotonic() + _ASK_AGAIN_SECONDS * 4**attempt
            try:
                return self._answered(owner, method, args, keywords, deadline, min(again, deadline))
            except _Lost as error:
                lost = str(error)
        raise ExecutorError(
            f"the cluster at {self._address} lost the same call {_ATTEMPTS} times, most recently because {lost}; check the "
            "logs of its workers (the usual cause is too little memory)"
        )

    def _answered(self, owner: object, method: str, args: tuple, keywords: dict, deadline: float, again: float) -> object:
        name, content, arrays = self._packed(owner)
        call = Call(self._sender, name, arrays, method, args, keywords)
        answer = self._asked(call, list(self._workers()), deadline, again)
        if isinstance(answer, Missing):
            sent = self._sent_arrays(answer.arrays)
            answer = self._asked(call, [answer.worker], deadline, again, content, answer.arrays, sent)
        match answer:
            case Done(value):
                return value
            case Failed(description):
                raise ExecutorError(f"a worker of the cluster at {self._address} failed: {description}")
            case Stranger(worker):
                self._fit.discard(worker)
                raise _Lost("a worker was started again")
        raise _Lost("a worker dropped what it had received")

    def _asked(
        self, call: Call, workers: Sequence[str], deadline: float, again: float, *sent
    ) -> Done | Missing | Stranger | Failed:
        """Give a call to one of some workers and wait until it is time to ask again, or to give up."""
        future = self._client.submit(cluster_worker.answer, call, *sent, workers=workers, pure=False)
        try:
            while time.monotonic() < again:
                try:
                    return future.result(timeout=_LOOK_SECONDS)
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
        # Not the method's: what it raises comes as an answer. The text is Dask's and may show data; the type cannot.
        except Exception as error:
            raise _Lost(f"of {type(error).__name__}") from None
        finally:
            if not future.done():
                with contextlib.suppress(Exception):  # Of a connection that is gone.
                    future.cancel()

    def _packed(self, owner: object) -> tuple[str, bytes, tuple[str, ...]]:
        """An object's name, pickle and the names of its arrays; made once for each object."""
        with self._lock:
            if owner not in self._objects:
                name = f"{self._sender}-{next(self._numbers)}"
                self._objects[owner] = (name, *cluster_worker.packed(owner, self._name_of))
            return self._objects[owner]

    def _name_of(self, array: np.ndarray) -> str:
        """A name for an array, as long as it lives."""
        if id(array) not in self._names:
            name = self._names[id(array)] = f"{self._sender}-{next(self._numbers)}"
            self._arrays[name] = array
            weakref.finalize(array, self._drop, id(array), name).atexit = False
        return self._names[id(array)]

    def _drop(self, number: int, name: str) -> None:
        self._names.pop(number, None)
        self._sent.pop(name, None)

    def _sent_arrays(self, names: Sequence[str]) -> list:
        """Dask's handles of arrays; each is sent to one worker, others get it from there; again if that is gone."""
        with self._lock:
            for name in names:
                if name not in self._sent or self._sent[name].status != "finished":
                    try:
                        self._sent[name] = self._ask(
                            self._client.scatter, self._arrays[name], workers=list(self._workers()), hash=False
                        )
                    except (OSError, ValueError, RuntimeError) as error:
                        raise _Lost(f"of {type(error).__name__}") from None
            return [self._sent[name] for name in names]

    def _workers(self) -> dict[str, int]:
        """Addresses and threads of the workers; waits for one, and looks at each before it is used."""
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
        """Take in new workers, if they compute the same and keep what they are sent in memory."""
        if not workers:
            return
        try:
            found = self._ask(
                self._client.run, cluster_worker.worker_facts, self._sender, workers=sorted(workers), on_error="return"
            )
        except (OSError, ValueError, RuntimeError):
            return  # Gone before it could be asked; if it lives it is asked again.
        here = cluster_worker.own_facts()
        for worker, facts in found.items():
            if isinstance(facts, OSError):
                continue
            if isinstance(facts, Exception):
                raise ExecutorError(
                    f"worker {worker} cannot run deid_assets {here['deid_assets']} ({type(facts).__name__}); "
                    f"install the same version there, with the extra 'dask'"
                )
            there, spills = facts
            unequal = [f"{what} {there.get(what)} (here {here[what]})" for what in here if there.get(what) != here[what]]
            if unequal:
                raise ExecutorError(
                    f"worker {worker} has {', '.join(unequal)}; results are identical to the last byte only if these are "
                    "equal: install the same there"
                )
            if spills:
                raise ExecutorError(
                    f"worker {worker} may write restricted data to disk; set distributed.worker.memory.target and "
                    f"distributed.worker.memory.spill to false where the workers start (in the environment: "
                    f"DASK_DISTRIBUTED__WORKER__MEMORY__TARGET=False and DASK_DISTRIBUTED__WORKER__MEMORY__SPILL=False)"
                )
            self._fit.add(worker)

    def _ask(self, function: Callable, *args, **keywords):
        """Ask the cluster something, for so long and no longer."""
        if self._client.status in ("closing", "closed"):
            raise OSError("the connection is closed")
        return self._client.sync(function, *args, callback_timeout=self._patience, **keywords)


def _connected(address: str, seconds: float):
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
        # A client by itself would wait for ever for somebody who listens and is no scheduler.
        with ThreadPoolExecutor(1) as aside:
            aside.submit(asyncio.run, _greeted(address, seconds)).result()
        return Client(address, timeout=seconds, set_as_default=False, name="deid_assets")
    except Exception as error:
        raise ExecutorError(
            f"{VARIABLE} names {address}, but no Dask scheduler answers there within {seconds:.0f} s "
            f"({str(error) or type(error).__name__}); check whether it runs, or unset {VARIABLE} to measure here"
        ) from None


async def _greeted(address: str, seconds: float) -> None:
    """Say hello to a scheduler; with certificates of Dask's configuration where the address asks for them."""
    from distributed.core import connect
    from distributed.security import Security

    greeting = connect(address, timeout=seconds, **Security().get_connection_args("client"))
    (await asyncio.wait_for(greeting, seconds)).abort()
