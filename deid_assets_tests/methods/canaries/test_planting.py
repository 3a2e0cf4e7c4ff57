"""Canaries are certain, brute force says so; every attack that works finds them, and one that is broken does not."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.assessments.membership_disclosure import gains_knowing_claims
from deid_assets.methods.attacks import attack_sensitivity
from deid_assets.methods.attacks.attack_sensitivity import KNOWS
from deid_assets.methods.canaries import checks, planting
from deid_assets.methods.canaries.planting import Findings, certain_success, compare, plant_in_data, plant_in_records
from deid_assets.methods.disclosure import membership
from deid_assets.methods.kernel import class_size, drawn_blocks
from deid_assets.methods.kernel.engine import Engine
from deid_assets.methods.kernel.member_index import DemographicCells
from deid_assets.methods.kernel.node_computation import DrawnClasses, NodeComputation
from deid_assets.methods.population.longitudinal_data import Generalization
from deid_assets_tests.methods import sensitivity_oracle as oracle
from deid_assets_tests.methods.attacks.test_attack_sensitivity import many
from deid_assets_tests.methods.cases import KEY, data_of, middling_case, rich_case

K = 4


def members_of(records) -> list[oracle.Member]:
    """The oracle's members; canaries have power 2, as in the checks."""

    def claims(of, member):
        own = range(of.offsets[member], of.offsets[member + 1])
        values = [tuple(None if code < 0 else int(code) for code in of.codes[:, claim]) for claim in own]
        days = [None if day < 0 else int(day) for day in of.day[own]]
        return tuple(zip(values, of.year[own].tolist(), days, strict=True))

    return [
        oracle.Member(
            tuple(records.demographics[member].tolist()), claims(records.known, member), claims(records.held, member),
            (planting.POWER,) * (len(records.history_sizes) + 1),
        )
        for member in range(records.members)
    ]  # fmt: skip


@pytest.mark.parametrize("knows", KNOWS)
def test_their_classes_are_what_brute_force_counts(knows):
    """Whatever an adversary may know of a canary, his success is certain."""
    records, targets, canaries = plant_in_records(many(members=40))
    members, sizes = members_of(records), np.array([canary.class_size(knows) for canary in canaries])
    found = [oracle.expected_of(members[target], members, knows) for target in targets]
    assert [float(success) for success in found] == certain_success(sizes).tolist()
    assert {0, 1, 2, 5} <= set(sizes.tolist())


@pytest.mark.parametrize(("columns", "histories"), [(0, 1), (1, 1), (2, 1), (3, 6)])
def test_with_few_quasi_identifiers_they_are_still_certain(columns, histories):
    records = many(members=20)
    fewer = replace(
        records,
        demographics=records.demographics[:, [0, 1, 0][:columns]], demographic_sizes=(3,) * columns,
        history_sizes=(6,) * histories,
        held=replace(records.held, codes=records.held.codes[[0, 1, 2, 0, 1, 2][:histories]]),
        known=replace(records.known, codes=records.known.codes[[0, 1, 2, 0, 1, 2][:histories]]),
    )  # fmt: skip
    assert checks.sensitivity_of_canaries(fewer, KNOWS, KEY, 300).share == 1


def test_where_days_are_counted_across_years_canaries_are_in_order_too():
    """Released dates tell the order by days alone: a canary of another year on the same day of it had none."""
    records = many(members=20)
    dated = replace(
        records, held=replace(records.held, days_across_years=True), known=replace(records.known, days_across_years=True)
    )
    assert checks.sensitivity_of_canaries(dated, KNOWS, KEY, 300).share == 1


def gains(data, key, draws):
    return gains_knowing_claims(data, (), (), key, draws)


class TestPresence:
    """Who counts who fits, in the release and in the delivery."""

    DATA, LEVELS = middling_case()[0], Generalization((0,), (0, 0))

    def test_gains_are_certain(self):
        assert checks.gains_of_canaries(self.DATA, self.LEVELS, KEY, gains, 500) == Findings(500, 500)

    @pytest.mark.parametrize("nothing", [0.0, 1.0])
    def test_not_so_where_everybody_gains_the_same(self, nothing):
        found = checks.gains_of_canaries(self.DATA, self.LEVELS, KEY, lambda *of: np.full(of[-1], nothing), 500)
        assert found.share < 1

    def test_not_so_where_one_count_is_taken_for_the_other(self, monkeypatch):
        honest = membership.shortfalls
        monkeypatch.setattr(membership, "shortfalls", lambda released, population, alpha: honest(population, population, alpha))
        assert checks.gains_of_canaries(self.DATA, self.LEVELS, KEY, gains, 500).share < 1


@settings(deadline=None)
@given(st.integers(0, 400))
def test_the_kernel_finds_them_in_any_data(seed):
    people, demographic_domains, history_domains, _, k = rich_case(seed)
    data = data_of(people, demographic_domains, history_domains)
    levels = Generalization(
        tuple(seed % (domain.height + 1) for domain in demographic_domains),
        tuple(seed % (domain.height + 1) for domain in history_domains),
    )
    assert checks.flags_of_canaries(data, levels, k, KEY, 200) == Findings(200, 200)
    generalized, sizes = plant_in_data(data, levels)
    assert len(generalized.targets) == len(sizes) and generalized.members == data.members + len(sizes)
    if len(history_domains) and len(data.targets):
        assert checks.neighbors_of_canaries(data.released_only(), KEY, 200).share == 1


def test_nothing_is_planted_in_the_data_that_are_judged():
    data, _ = middling_case()
    before = [data.demographics.copy(), *[held.codes.copy() for held in data.held]]
    checks.flags_of_canaries(data, Generalization((0,), (0, 0)), K, KEY)
    records = many(members=50)
    kept = records.held.codes.copy()
    checks.sensitivity_of_canaries(records, KNOWS, KEY, 100)
    after = [data.demographics, *[held.codes for held in data.held]]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    assert np.array_equal(kept, records.held.codes) and records.members == 50


def test_a_large_population_is_copied_in_part_only(monkeypatch):
    monkeypatch.setattr(planting, "MEMBERS_COPIED", 30)
    data, _ = middling_case()
    planted, sizes = plant_in_data(data, Generalization((0,), (0, 0)))
    assert planted.members == 30 + len(sizes)
    records, targets, _ = plant_in_records(many(members=100))
    assert targets[0] == 30 and records.members == 30 + len(targets)
    assert checks.flags_of_canaries(data, Generalization((0,), (0, 0)), K, KEY).share == 1


class TestCompare:
    def test_no_draw_is_no_proof(self):
        assert compare([], []).share == 0 and Findings(0, 0).share == 0

    def test_nan_is_not_right(self):
        assert compare([1.0, 0.5], [np.nan, 0.5]) == Findings(1, 2)

    def test_other_draws_are_refused(self):
        with pytest.raises(ValueError, match="3 findings are expected, there are 2"):
            compare([1, 1, 1], [1, 1])


def no_classes(part, cells, cell, rows, limit=None):
    return np.zeros(len(cell), dtype=np.int32)


def too_large(part, cells, cell, rows, limit=class_size.NO_LIMIT):
    return class_size.matching_members(part, cells, cell, rows, limit) + np.int32(1)


def all_rows_but_one(part, cells, cell, rows, limit=class_size.NO_LIMIT):
    """Overlooks a quasi-identifier: whatever the last slot asks for."""
    return class_size.matching_members(part, cells, cell, rows[:-1], limit)


def no_demographics(part, cells, cell, rows, limit=class_size.NO_LIMIT):
    everybody = DemographicCells(np.array([0, len(cells.blocks) - 1]), cells.blocks, cells.masks)
    return class_size.matching_members(part, everybody, np.zeros_like(cell), rows, limit)


def with_kernel(monkeypatch, **loops):
    honest = Engine("numpy", drawn_blocks.engine.named("numpy").draw_in_order, class_size.rows_for_knowledge,
                    class_size.matching_members)  # fmt: skip
    monkeypatch.setattr("deid_assets.methods.kernel.engine.chosen", lambda: replace(honest, **loops))


def once_is_enough(codes, domain, level, rows_of):
    """Sets instead of multisets."""
    return class_size.rows_for_knowledge(codes, domain, level, np.repeat(rows_of[:, :1], rows_of.shape[1], axis=1))


KERNELS = {
    "no classes": {"matching_members": no_classes},
    "classes too large by one": {"matching_members": too_large},
    "a quasi-identifier overlooked": {"matching_members": all_rows_but_one},
    "demographics overlooked": {"matching_members": no_demographics},
    "sets instead of multisets": {"rows_for_knowledge": once_is_enough},
}


class TestBrokenAttacks:
    """Each fails its canary check, whatever risk it reports."""

    @pytest.mark.parametrize("broken", KERNELS.values(), ids=KERNELS)
    def test_kernel(self, monkeypatch, broken):
        data, _ = middling_case()
        with_kernel(monkeypatch, **broken)
        assert checks.neighbors_of_canaries(data.released_only(), KEY).share < 1
        assert checks.sensitivity_of_canaries(many(), ["values"], KEY).share < 1

    def test_flags(self, monkeypatch):
        data, _ = middling_case()
        levels = Generalization((0,), (0, 0))
        assert checks.flags_of_canaries(data, levels, K, KEY).share == 1
        for broken in ({"matching_members": too_large}, {"rows_for_knowledge": once_is_enough}):
            with monkeypatch.context() as patch:
                with_kernel(patch, **broken)
                assert checks.flags_of_canaries(data, levels, 2, KEY).share < 1

    def test_flags_nobody_or_everybody(self, monkeypatch):
        data, _ = middling_case()
        honest = NodeComputation.measure
        for flags in (np.zeros(1000, bool), np.ones(1000, bool)):
            monkeypatch.setattr(NodeComputation, "measure", lambda *a, flags=flags, **k: replace(honest(*a, **k), flags=flags))
            assert checks.flags_of_canaries(data, Generalization((0,), (0, 0)), K, KEY).share < 1

    def test_everybody_exempt(self, monkeypatch):
        """A neighbor who never matches anything has no success: so would the release's risk be nought."""
        honest = NodeComputation.drawn_classes

        def exempt(self, *args, **kwargs):
            found = honest(self, *args, **kwargs)
            return DrawnClasses(found.targets, np.zeros_like(found.sizes), np.ones_like(found.exempt))

        monkeypatch.setattr(NodeComputation, "drawn_classes", exempt)
        found = checks.neighbors_of_canaries(middling_case()[0].released_only(), KEY)
        assert 0 < found.share < 0.3, "only those whom truncation hides are right"

    def test_truncation_overlooked(self, monkeypatch):
        data, _ = middling_case()
        monkeypatch.setattr(
            drawn_blocks.DrawnBlocks, "_lost_of_history", lambda self, _, draws, *__: np.zeros(len(draws), bool)
        )
        assert checks.neighbors_of_canaries(data.released_only(), KEY).share < 1

    def test_picks_that_never_succeed(self, monkeypatch):
        honest = checks.neighbor_attack

        def never(*arguments):
            found = honest(*arguments)
            return replace(found, literal=replace(found.literal, value=0.0))

        monkeypatch.setattr(checks, "neighbor_attack", never)
        assert checks.neighbors_of_canaries(middling_case()[0].released_only(), KEY).share < 1

    @pytest.mark.parametrize(
        ("knows", "module", "name", "broken"),
        [
            ("claim", attack_sensitivity.SensitivityAnalysis, "_facts", lambda *_: ([], [])),
            ("order", attack_sensitivity.SensitivityAnalysis, "_facts", lambda *_: ([], [])),
            ("dated_values", attack_sensitivity.SensitivityAnalysis, "_dated", property(lambda self: self._plain)),
            ("values", attack_sensitivity, "with_wrong_values", lambda generator, codes, *_: codes),
            ("values", attack_sensitivity, "all_rows_hold", lambda bits, blocks, at, rows: np.ones(len(at), bool)),
            ("values", attack_sensitivity, "all_rows_hold", lambda bits, blocks, at, rows: np.zeros(len(at), bool)),
        ],
    )
    def test_what_is_known_beyond_values(self, monkeypatch, knows, module, name, broken):
        records = many()
        assert checks.sensitivity_of_canaries(records, [knows], KEY).share == 1
        monkeypatch.setattr(module, name, broken)
        assert checks.sensitivity_of_canaries(records, [knows], KEY).share < 1

    @pytest.mark.parametrize("knows", ["number", "yearly_numbers"])
    @pytest.mark.parametrize(
        "counts_in",
        [lambda counted: 0 * counted, lambda counted: np.where(counted == 1, -1, counted), lambda counted: -counted],
        ids=["all as one number", "the second number overlooked", "another number counted"],
    )
    def test_several_numbers(self, monkeypatch, knows, counts_in):
        """Claims, fills, and rows of a table whose number is not known."""
        records = many()
        kinds = np.arange(len(records.held.year)) % 3 - 1
        records = replace(records, held=replace(records.held, counted=kinds))
        assert checks.sensitivity_of_canaries(records, [knows], KEY).share == 1
        honest = attack_sensitivity.claim_bins
        monkeypatch.setattr(
            attack_sensitivity,
            "claim_bins",
            lambda of, width, by_year: honest(replace(of, counted=counts_in(of.counted)), width, by_year),
        )
        assert checks.sensitivity_of_canaries(records, [knows], KEY).share < 1

    @pytest.mark.parametrize("tables", [([0], [1, 2]), ([0, 1], [2, 3]), ([2, 1, 0],)])
    def test_a_row_of_another_table(self, monkeypatch, tables):
        """One row of a table is known jointly: canaries that only its rows tell apart are not found by rows of others."""
        records = many()
        four = replace(
            records, history_sizes=(*records.history_sizes, 6)[:4],
            held=replace(records.held, codes=records.held.codes[[0, 1, 2, 0]]),
            known=replace(records.known, codes=records.known.codes[[0, 1, 2, 0]]),
        )  # fmt: skip
        assert checks.sensitivity_of_canaries(four, ["claim"], KEY, jointly=tables).share == 1
        honest = attack_sensitivity.sample_claims
        monkeypatch.setattr(
            attack_sensitivity, "sample_claims", lambda generator, of, targets, _: honest(generator, of, targets)
        )
        assert checks.sensitivity_of_canaries(four, ["claim"], KEY, jointly=tables).share < 1

    def test_orders_read_backwards(self, monkeypatch):
        honest = attack_sensitivity.PossibleOrders.facts

        def backwards(self, pairs):
            return honest(self, replace(pairs, first=pairs.then, then=pairs.first))

        monkeypatch.setattr(attack_sensitivity.PossibleOrders, "facts", backwards)
        assert checks.sensitivity_of_canaries(many(), ["order"], KEY).share < 1
