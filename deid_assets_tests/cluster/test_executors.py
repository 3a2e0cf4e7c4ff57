"""Where draws are measured: threads or a Dask cluster, with the same results to the last byte."""

import os
import pickle
import signal
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.cluster import executors, worker
from deid_assets.cluster.executors import PARTS, VARIABLE, ClusterExecutor, search_executor
from deid_assets.errors import ExecutorError
from deid_assets.methods.kernel import engine, node_computation
from deid_assets.methods.kernel.executor import Threads
from deid_assets.methods.kernel.member_index import MemberPart
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.longitudinal_search import SearchRule, search_lattice
from deid_assets_tests.clusters import IN_MEMORY, dask, distributed, local_cluster, needs_dask
from deid_assets_tests.methods.cases import KEY, OTHER_KEY, cases, data_of, middling_case, rich_case
from deid_assets_tests.processes import WAIT, wait_for

pytestmark = needs_dask

CANARY = "CANARY-4711"
A_PART = MemberPart(0, 1, np.zeros(1, np.int32), np.zeros((0, 8), np.uint64))


@pytest.fixture(scope="module", autouse=True)
def one_engine():
    """The compiled loops would be compiled in every new process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(engine.VARIABLE, "numpy")
        patch.setattr(engine, "chosen", lambda: engine.named("numpy"))
        yield


@pytest.fixture(scope="module")
def two_workers(one_engine):
    with local_cluster(2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def computation():
    data, dimensions = middling_case()
    return NodeComputation(data, dimensions, 100)


@pytest.fixture(scope="module")
def executor(two_workers):
    with ClusterExecutor(two_workers.scheduler_address) as executor:
        yield executor


@pytest.fixture
def every_array_is_large(monkeypatch):
    """So that small data travels as large data does."""
    monkeypatch.setattr(worker, "LARGE_BYTES", 64)


@pytest.fixture
def small_batches(monkeypatch):
    """So that few draws make many calls."""
    monkeypatch.setattr(node_computation, "BLOCKS_AT_ONCE", 1)


def searched(computation, executor=None, exhaustive=False):
    losses = LatticeLoss(computation.data, computation.dimensions).of_every_node()
    return search_lattice(computation.on(executor), losses, SearchRule(KEY, 0.01, draws_at_most=100_000), exhaustive)


def everything(computation, node, draws, executor=None) -> list:
    """What is asked of a computation, in both readings: bytes, so that nothing is nearly equal."""
    found = []
    for exemption in ("once", "literal"):
        # The last block is cut short.
        measured = computation.on(executor).measure(node, KEY, draws, exemption, keep_flags=True)
        targets = computation.on(executor).flagged_targets(node, KEY, draws, exemption)
        classes = computation.on(executor).drawn_classes(node, OTHER_KEY, draws, exemption)
        arrays = (measured.flags, targets.drawn, targets.flagged, classes.targets, classes.sizes, classes.exempt)
        found += [measured.flagged, measured.exempt, *((a.dtype.str, a.shape, a.tobytes()) for a in arrays)]
    return found + list(computation.on(executor).running_counts(node, KEY, 6))


ANY_CASE = st.one_of(cases(), st.integers(0, 2**32 - 1).map(rich_case))


def assert_same_on(executor, case) -> None:
    """Flags, classes and the whole search are the same there and here."""
    people, demographic_domains, history_domains, dimensions, k = case
    computation = NodeComputation(data_of(people, demographic_domains, history_domains), dimensions[:2], k)
    losses = LatticeLoss(computation.data, computation.dimensions).of_every_node()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_computation, "BLOCKS_AT_ONCE", 1)
        bottom = (0,) * len(computation.dimensions)
        assert everything(computation, bottom, 9_001, executor) == everything(computation, bottom, 9_001)
        one, other = (
            search_lattice(computation.on(where), losses, SearchRule(KEY, 0.2, draws_at_most=9_000))
            for where in (None, executor)
        )
    assert one == other


class TestSameResults:
    @pytest.mark.matrix
    def test_the_search_is_the_same_alone_in_threads_and_on_one_worker_or_two(
        self, computation, executor, every_array_is_large
    ):
        with Threads(2) as threads:
            alone, in_threads = searched(computation), searched(computation, threads)
        with local_cluster(1) as cluster, ClusterExecutor(cluster.scheduler_address) as one_worker:
            on_one = searched(computation, one_worker)
        assert alone == in_threads == on_one == searched(computation, executor)
        assert {result.decision for result in alone.nodes} == {"candidate", "not_candidate"}
        assert "measured" in {result.reached for result in alone.nodes}

    @pytest.mark.matrix
    def test_so_is_the_exhaustive_search(self, computation, executor, every_array_is_large):
        assert searched(computation, executor, exhaustive=True) == searched(computation, exhaustive=True)

    def test_flags_targets_and_classes_are_the_same(self, computation, executor, every_array_is_large, small_batches):
        for node in ((0, 0), (1, 1)):
            assert everything(computation, node, 20_001, executor) == everything(computation, node, 20_001)

    def test_so_are_they_over_parts(self, computation, two_workers, every_array_is_large, small_batches):
        with ClusterExecutor(two_workers.scheduler_address, parts=5) as executor:
            split = NodeComputation(computation.data, computation.dimensions, computation.k).on(executor)
            assert everything(split, (0, 0), 20_001, executor) == everything(computation, (0, 0), 20_001)
            assert len(split.index.parts) == 5

    @pytest.mark.matrix
    def test_so_are_those_of_computations_made_from_it(self, computation, executor, every_array_is_large, small_batches):
        keep = np.arange(len(computation.data.targets)) % 3 > 0
        power = [np.minimum(power, 2) for power in computation.data.power]
        for made in (computation.keeping(keep), computation.with_power(power), computation):
            assert everything(made, (0, 1), 20_001, executor) == everything(made, (0, 1), 20_001)

    @pytest.mark.matrix
    @given(case=ANY_CASE)
    @settings(max_examples=300, deadline=None)
    def test_hundreds_of_random_cases(self, executor, case):
        assert_same_on(executor, case)


class TestWhatTravels:
    def test_an_array_is_sent_once_whatever_asks_for_it(
        self, computation, two_workers, every_array_is_large, small_batches, monkeypatch
    ):
        with ClusterExecutor(two_workers.scheduler_address) as executor:
            sent = Counter()
            scatter = executor._client.scatter

            def counted(array, **options):
                sent[id(array)] += 1
                return scatter(array, **options)

            monkeypatch.setattr(executor._client, "scatter", counted)
            computation = computation.on(executor)
            searched(computation, executor)
            # Dask copies from worker to worker what all parts share; the bits of the part go to each worker that has it.
            bits = {id(array) for part in computation.index.parts for array in (part.bits, part.group_at)}

            def common() -> dict[int, int]:
                return {number: times for number, times in sent.items() if number not in bits}

            before = common()
            assert set(before.values()) == {1} and len(before) > 10
            assert bits <= sent.keys()
            powers = [np.minimum(power, 1) for power in computation.data.power]
            computation.with_power(powers).measure((0, 0), KEY, 50_000)
            # The power of each history, who was truncated, and the group of each target, which are worked out anew.
            assert set(common().values()) == {1} and len(common()) - len(before) == len(powers) + 2
            # A worker may be asked for the first time only now.
            assert all(sent[number] <= 2 for number in bits)

    def test_a_worker_holds_the_parts_that_it_was_asked_about_and_no_others(
        self, computation, two_workers, every_array_is_large, small_batches
    ):
        def held(sender: str) -> tuple[list[int], int]:
            """The numbers of a worker's parts, and the bytes of its own arrays."""
            of_sender = (
                [thing for name, thing in list(things.items()) if name.startswith(sender)]
                for things in (worker._store._parts, worker._store._arrays)
            )
            parts, arrays = of_sender
            return sorted(part.number for part in parts), sum(array.nbytes for array in arrays)

        def bytes_held(parts: int) -> list[int]:
            with ClusterExecutor(two_workers.scheduler_address, parts=parts) as executor:
                split = NodeComputation(computation.data, computation.dimensions, computation.k).on(executor)
                split.measure((0, 0), KEY, 150_000)
                there = executor._client.run(held, executor._sender)
                wanted = [[0], [0]] if parts == 1 else [list(range(0, parts, 2)), list(range(1, parts, 2))]
                assert sorted(numbers for numbers, _ in there.values()) == wanted
                for part in split.index.parts:  # Dask keeps no second copy of them
                    assert not {executor._names[id(array)] for array in (part.bits, part.group_at)} & executor._sent.keys()
                sizes = [part.bits.nbytes for part in split.index.parts]
                assert max(sizes) < 2 * min(sizes), "of some 600 members, of whom 512 are in a block"
                return [size for _, size in there.values()]

        whole, quarters = bytes_held(1), bytes_held(4)
        assert max(quarters) < min(whole)

    def test_calls_are_small(self, computation):
        for thing, arrays in ((computation._matching.draws, 10), (computation.index.parts[0], 1)):
            everything = len(pickle.dumps(thing))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(worker, "LARGE_BYTES", 1000)
                content, names = worker.packed(thing, lambda array: str(id(array)))
            assert len(names) > arrays and len(content) < everything / 5

    def test_workers_forget_what_they_were_sent(self, computation, two_workers, small_batches):
        def held() -> list[str]:
            with distributed.Client(two_workers.scheduler_address, set_as_default=False) as client:
                names = client.run(lambda: list(worker._store._objects))
                return [name for of_one in names.values() for name in of_one]

        with ClusterExecutor(two_workers.scheduler_address) as executor:
            computation.on(executor).measure((0, 0), KEY, 50_000)
            sender = executor._sender
            assert [name for name in held() if name.startswith(sender)]
        assert not [name for name in held() if name.startswith(sender)]

    @pytest.mark.matrix
    def test_a_worker_keeps_few_objects_and_gets_again_what_it_dropped(self, computation, executor, small_batches):
        wanted = computation.measure((0, 0), KEY, 30_000).flagged
        others = [computation.keeping(np.arange(len(computation.data.targets)) != i) for i in range(6)]
        for other in others:
            other.on(executor).measure((0, 0), KEY, 30_000)
        assert computation.on(executor).measure((0, 0), KEY, 30_000).flagged == wanted

    def test_who_stops_asking_leaves_nothing_running(self, computation, two_workers):
        with ClusterExecutor(two_workers.scheduler_address) as executor:
            counts = computation.on(executor).running_counts((0, 0), KEY, 64)
            for _, _, draws in counts:
                if draws > 100_000:
                    break
            del counts
        with distributed.Client(two_workers.scheduler_address, set_as_default=False) as client:
            assert not any(client.processing().values())

    def test_only_methods_travel(self, executor):
        with pytest.raises(TypeError, match="methods of an object"):
            executor.answers(lambda part, n: n, [A_PART], 1)


class TestDeath:
    def test_a_worker_that_dies_while_it_is_sent_an_array_costs_time_not_correctness(
        self, computation, two_workers, every_array_is_large, monkeypatch
    ):
        with ClusterExecutor(two_workers.scheduler_address) as executor:
            scatter, failed = executor._client.scatter, []

            def without_a_worker(array, **options):
                if not failed:
                    failed.append(array)
                    raise KeyError("tcp://a.worker:1")  # What Dask's scheduler raises for a worker that is just gone.
                return scatter(array, **options)

            monkeypatch.setattr(executor._client, "scatter", without_a_worker)
            measured = computation.on(executor).measure((0, 0), KEY, 30_000)
        assert failed and measured.flagged == computation.measure((0, 0), KEY, 30_000).flagged

    @pytest.mark.matrix
    def test_a_worker_killed_half_way_costs_time_not_correctness(self, computation, two_workers, every_array_is_large):
        draws = 1_000_000
        with ClusterExecutor(two_workers.scheduler_address) as executor:
            pids = executor._client.run(os.getpid)
            with ThreadPoolExecutor(1) as aside:
                measuring = aside.submit(computation.on(executor).measure, (0, 0), KEY, draws, keep_flags=True)
                killed = next(address for address in at_work(executor) if address in pids)
                os.kill(pids[killed], signal.SIGKILL)
                assert not measuring.done(), "half-way"
                measured = measuring.result(timeout=WAIT)
            assert searched(computation, executor) == searched(computation)
        alone = computation.measure((0, 0), KEY, draws, keep_flags=True)
        assert np.array_equal(measured.flags, alone.flags)
        assert (measured.flagged, measured.exempt, measured.draws) == (alone.flagged, alone.exempt, draws)

    @pytest.mark.matrix
    def test_a_worker_killed_with_the_parts_it_had_costs_time_not_correctness(
        self, computation, two_workers, every_array_is_large
    ):
        draws = 1_000_000
        with ClusterExecutor(two_workers.scheduler_address, parts=5) as executor:
            split = NodeComputation(computation.data, computation.dimensions, computation.k).on(executor)
            split.measure((0, 0), KEY, 100_000)  # both have their parts
            pids = executor._client.run(os.getpid)
            with ThreadPoolExecutor(1) as aside:
                measuring = aside.submit(split.measure, (0, 0), KEY, draws, keep_flags=True)
                killed = next(address for address in at_work(executor) if address in pids)
                os.kill(pids[killed], signal.SIGKILL)
                assert not measuring.done(), "half-way"
                measured = measuring.result(timeout=WAIT)
            places = list(executor._places)
            assert searched(split, executor) == searched(computation)
        assert len(places) == 2, "whoever is started again takes the place of the one that is gone"
        assert np.array_equal(measured.flags, computation.measure((0, 0), KEY, draws, keep_flags=True).flags)

    @pytest.mark.matrix
    def test_all_workers_killed_and_started_again(self, computation, two_workers, every_array_is_large):
        with ClusterExecutor(two_workers.scheduler_address) as executor:
            before = computation.on(executor).measure((0, 0), KEY, 150_000).flagged
            for pid in executor._client.run(os.getpid).values():
                os.kill(pid, signal.SIGKILL)
            assert computation.on(executor).measure((0, 0), KEY, 150_000).flagged == before

    def test_no_worker_is_left(self, computation):
        with (
            local_cluster(1, processes=False, protocol="tcp://") as cluster,
            ClusterExecutor(cluster.scheduler_address, patience=1) as executor,
        ):
            cluster.scale(0)
            executor._client.retire_workers()
            with pytest.raises(ExecutorError, match="has had no worker for 1 s; start some, or unset DEID_CLUSTER"):
                computation.on(executor).measure((0, 0), KEY, 150_000)

    def test_the_scheduler_is_gone(self, computation):
        with (
            local_cluster(1, processes=False, protocol="tcp://") as cluster,
            ClusterExecutor(cluster.scheduler_address, connect=1, patience=2) as executor,
        ):
            computation.on(executor).measure((0, 0), KEY, 9_000)
            cluster.close()
            with pytest.raises(ExecutorError, match="no longer answers"):
                computation.on(executor).measure((0, 0), KEY, 150_000)

    def test_a_worker_that_was_started_again_under_its_address_is_looked_at_again(self, computation, two_workers):
        with ClusterExecutor(two_workers.scheduler_address) as executor:
            before = computation.on(executor).measure((0, 0), KEY, 9_000).flagged
            executor._client.run(worker.forget, executor._sender)
            assert computation.on(executor).measure((0, 0), KEY, 9_000).flagged == before

    def test_a_call_that_the_cluster_lost_is_asked_again(self, computation, two_workers, monkeypatch):
        monkeypatch.setattr(executors, "_LOOK_SECONDS", 0.1)
        monkeypatch.setattr(executors, "_ASK_AGAIN_SECONDS", 0.5)
        with ClusterExecutor(two_workers.scheduler_address) as executor:
            submit, lost = executor._client.submit, iter([True])

            def losing(*call, **options):
                return (
                    distributed.Future("a key of no task", executor._client) if next(lost, False) else submit(*call, **options)
                )

            monkeypatch.setattr(executor._client, "submit", losing)
            measured = computation.on(executor).measure((0, 0), KEY, 30_000)
        assert measured.flagged == computation.measure((0, 0), KEY, 30_000).flagged
        assert next(lost, None) is None

    def test_a_call_that_takes_for_ever(self, two_workers, monkeypatch):
        monkeypatch.setattr(executors, "_LOOK_SECONDS", 0.1)
        with (
            ClusterExecutor(two_workers.scheduler_address, answer_within=0.3) as executor,
            pytest.raises(ExecutorError, match="did not answer a call within 0 s, although its workers are alive"),
        ):
            executor.answers(Sleeper().sleep, [A_PART], 2)

    @pytest.mark.matrix
    def test_a_call_that_kills_every_worker(self, two_workers, monkeypatch):
        monkeypatch.setattr(executors, "_ATTEMPTS", 2)
        with (
            ClusterExecutor(two_workers.scheduler_address) as executor,
            pytest.raises(ExecutorError, match="lost the same call 2 times, most recently because .*too little memory"),
        ):
            executor.answers(Sleeper().die, [A_PART])


def at_work(executor) -> list[str]:
    """Addresses of the workers that are measuring, as soon as there are some."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        if busy := [address for address, calls in executor._client.processing().items() if calls]:
            return busy
        time.sleep(0.01)
    pytest.fail("no worker measures, or none was seen while it did")


class Sleeper:
    """An object that misbehaves on a worker."""

    def sleep(self, part: MemberPart, seconds: float) -> None:
        time.sleep(seconds)

    def die(self, part: MemberPart) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def fail(self, part: MemberPart, value: str) -> None:
        raise ValueError(f"cannot do this with {value}")

    def refuse(self, part: MemberPart) -> None:
        raise ExecutorError("this is our own text")


class TestFailure:
    def test_says_what_and_where_and_no_value(self, executor, two_workers):
        said = r"failed: ValueError at worker.py:\d+, test_executors.py:\d+$"
        with pytest.raises(ExecutorError, match=said) as caught:
            executor.answers(Sleeper().fail, [A_PART], CANARY)
        assert caught.value.__cause__ is None and CANARY not in str(caught.value)
        assert CANARY not in str(two_workers.get_logs())

    def test_our_own_errors_keep_their_text(self, executor):
        with pytest.raises(ExecutorError, match="failed: this is our own text"):
            executor.answers(Sleeper().refuse, [A_PART])


def test_certificates_come_from_the_configuration_of_dask(computation):
    own = distributed.Security.temporary()
    for_client = {
        "distributed.comm.tls.ca-file": own.tls_ca_file,
        "distributed.comm.tls.client.cert": own.tls_client_cert,
        "distributed.comm.tls.client.key": own.tls_client_key,
    }
    with local_cluster(1, processes=False, protocol="tls://", security=own) as cluster:
        assert cluster.scheduler_address.startswith("tls://")
        with dask.config.set(for_client), ClusterExecutor(cluster.scheduler_address) as executor:
            assert computation.on(executor).measure((0, 0), KEY, 70_000).draws == 70_000


class TestRefused:
    def test_threads_where_no_cluster_is_named(self, monkeypatch):
        for value in (None, ""):
            monkeypatch.delenv(VARIABLE, raising=False) if value is None else monkeypatch.setenv(VARIABLE, value)
            with search_executor() as executor:
                assert type(executor) is Threads and executor.parts is None

    def test_the_number_of_parts_is_asked_for(self, monkeypatch):
        for value, parts in (("", None), ("1", 1), ("16", 16), ("1024", 1024)):
            monkeypatch.setenv(PARTS, value)
            with search_executor() as executor:
                assert executor.parts == parts

    @pytest.mark.parametrize("value", ["0", "-1", "1025", "4.0", "many", "\u0664", " 4"])
    def test_what_is_no_number_of_parts(self, value, monkeypatch):
        monkeypatch.setenv(PARTS, value)
        with pytest.raises(ExecutorError, match=f"DEID_PARTS is '{value}'; it must be a whole number from 1 to 1024, or unset"):
            search_executor()

    def test_the_cluster_that_is_named(self, two_workers, monkeypatch, computation):
        monkeypatch.setenv(VARIABLE, two_workers.scheduler_address)
        with search_executor() as executor:
            assert isinstance(executor, ClusterExecutor)

    @pytest.mark.parametrize(
        "address", ["scheduler", "scheduler:8786", "http://scheduler:8786", "tcp://scheduler", "tcp://a:b"]
    )
    def test_what_is_no_address(self, address, monkeypatch):
        monkeypatch.setenv(VARIABLE, address)
        with pytest.raises(ExecutorError, match=f"DEID_CLUSTER is '{address}'; it must be like tcp://scheduler:8786"):
            search_executor()

    def test_nobody_there(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            with pytest.raises(ExecutorError, match="no Dask scheduler answers there within 1 s .*or unset DEID_CLUSTER"):
                ClusterExecutor(f"tcp://127.0.0.1:{free.getsockname()[1]}", connect=1)

    def test_somebody_else_is_there(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            with pytest.raises(ExecutorError, match="no Dask scheduler answers there within 1 s"):
                ClusterExecutor(f"tcp://127.0.0.1:{silent.getsockname()[1]}", connect=1)

    def test_an_address_that_asks_for_certificates_where_none_are_configured(self):
        with pytest.raises(ExecutorError, match="TLS expects a `ssl_context`"):
            ClusterExecutor("tls://127.0.0.1:8786")

    def test_the_extra_is_not_installed(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "distributed", None)
        with pytest.raises(ExecutorError, match="distributed cannot be imported.*the extra 'dask' installs it"):
            ClusterExecutor("tcp://127.0.0.1:8786")

    @pytest.mark.parametrize("what", sorted(worker.own_facts()))
    def test_workers_that_compute_something_else(self, two_workers, monkeypatch, what):
        facts = worker.own_facts() | {what: "another"}
        monkeypatch.setattr(worker, "own_facts", lambda: facts)
        with pytest.raises(ExecutorError, match=rf"has {what} \S+ \(here another\); .*install the same there"):
            ClusterExecutor(two_workers.scheduler_address)

    def test_workers_that_cannot_run_it(self, two_workers, monkeypatch):
        monkeypatch.setattr(worker, "worker_facts", lambda sender: __import__("no_such_module"))
        with pytest.raises(ExecutorError, match="cannot run deid_assets .*ModuleNotFoundError.*extra 'dask'"):
            ClusterExecutor(two_workers.scheduler_address)

    @pytest.mark.parametrize("setting", ["target", "spill"])
    def test_workers_that_may_write_to_disk(self, setting):
        to_disk = IN_MEMORY | {f"distributed.worker.memory.{setting}": 0.7}
        with (
            local_cluster(1, settings=to_disk, processes=False, protocol="tcp://", memory_limit="1GB") as cluster,
            pytest.raises(ExecutorError, match="may write restricted data to disk; set distributed.worker.memory"),
        ):
            ClusterExecutor(cluster.scheduler_address)

    @pytest.mark.matrix
    def test_a_worker_that_comes_later_is_looked_at_too(self, computation, monkeypatch):
        here = {"processes": False, "protocol": "tcp://"}
        with local_cluster(1, **here) as cluster, ClusterExecutor(cluster.scheduler_address) as executor:
            facts = worker.own_facts()
            monkeypatch.setattr(worker, "worker_facts", lambda sender: (facts | {"numpy": "1.0"}, False))
            cluster.scale(2)
            wait_for("the second worker", lambda: len(executor._client.nthreads()) == 2)
            with pytest.raises(ExecutorError, match="has numpy 1.0"):
                computation.on(executor).measure((0, 0), KEY, 150_000)
