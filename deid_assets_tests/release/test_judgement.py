"""What the gate says of staged rows that are not those of a small restricted store; each rule by itself."""

from collections.abc import Iterator

import pytest

from deid_assets.assessments.demographic_risk import DEMOGRAPHIC, demographic_measurements
from deid_assets.assessments.longitudinal_risk import high_risk_measurements
from deid_assets.methods.disclosure.demographic_classes import demographic_risk
from deid_assets.methods.kernel.node_computation import NodeMeasurement
from deid_assets.methods.preparation.pseudonyms import pseudonyms
from deid_assets.policy.loading import policy_by_name
from deid_assets.policy.models import Policy
from deid_assets.release.gate import judgement
from deid_assets.schemas.candidate import release_contracts
from deid_assets_tests.assets.small_release import SmallRelease, random_rows, small_release
from deid_assets_tests.methods.small_tables import small_store

POLICY = policy_by_name("heritage_public")
LEVEL = 0


@pytest.fixture(scope="module")
def small() -> Iterator[SmallRelease]:
    with small_store() as store:
        yield small_release(store, *random_rows(1))


@pytest.fixture(scope="module")
def staged(small) -> judgement.Staged:
    return judgement.Staged(*small.candidate(LEVEL))


def edited(small: SmallRelease, name: str, select: str):
    return small.store.write(f"edited_{name}", select)


def columns_changed(policy: Policy, keep) -> Policy:
    """The policy with some of its columns of claims."""
    columns = policy.quasi_identifiers
    claims = tuple(qi for qi in columns.claims if keep(qi.column))
    return policy.model_copy(update={"quasi_identifiers": columns.model_copy(update={"claims": claims})})


def with_section(policy: Policy, section: str, **values) -> Policy:
    return policy.model_copy(update={section: getattr(policy, section).model_copy(update=values)})


# Every cell


def test_staged_rows_are_those_of_the_store_cell_for_cell(small, staged):
    tables = staged.by_name()
    expected = {name: f"SELECT * FROM {table.sql}" for name, table in tables.items()}
    assert judgement.identity_refusals(tables, expected) == []
    for name, table in tables.items():
        (found,) = judgement.identity_refusals(tables, expected | {name: f"SELECT * FROM {table.sql} OFFSET 1"})
        assert (found.rule, found.name, found.measured) == ("inconsistent_rows", name, 1.0)


def test_rows_of_one_table_keep_their_contract_and_are_those_of_the_store(small, staged):
    name, members, contract = "release_members", staged.members, release_contracts(POLICY)["release_members"]
    same = judgement.row_refusals(name, members, contract, f"SELECT * FROM {members.sql}")
    assert same == judgement.contract_refusals({name: members}, {name: contract})
    twice = edited(small, "twice", f"SELECT * FROM {members.sql} UNION ALL SELECT * FROM {members.sql}")
    found = judgement.row_refusals(name, twice, contract, f"SELECT * FROM {members.sql}")
    assert {one.rule for one in found} == {"broken_contract", "inconsistent_rows"} and {one.name for one in found} == {name}
    (differing,) = [one for one in found if one.rule == "inconsistent_rows"]
    assert differing.measured == members.count()


# Members


def membership(small: SmallRelease, staged: judgement.Staged, policy=POLICY, sample=None, removed=None) -> dict[str, float]:
    """Rules that refuse, with the number of members each is about."""
    drawn = sample or edited(small, "sample", f"SELECT member_id FROM {small.profiles.sql} WHERE released")
    nobody = removed or edited(small, "removed", f"SELECT member_id FROM {small.profiles.sql} WHERE false")
    found = judgement.membership_refusals(policy, staged, small.crosswalk, drawn, nobody)
    assert all("m0" not in refusal.text for refusal in found), "a refusal names nobody"
    return {refusal.rule: refusal.measured for refusal in found}


def test_members_drawn_and_not_removed_may_be_staged(small, staged):
    assert membership(small, staged) == {}


def test_members_who_opted_out_under_the_current_policy_refuse(small, staged):
    opted_out = with_section(POLICY, "opt_outs", members=("m000",))
    assert membership(small, staged, opted_out) == {"opted_out_member": 1.0}


def test_removed_members_refuse(small, staged):
    removed = edited(small, "removed_one", "SELECT 'm000' AS member_id")
    assert membership(small, staged, removed=removed) == {"removed_member": 1.0}


def test_members_who_were_not_drawn_refuse(small, staged):
    sample = edited(small, "others", f"SELECT member_id FROM {small.profiles.sql} WHERE released AND member_id <> 'm000'")
    assert membership(small, staged, sample=sample) == {"member_not_drawn": 1.0}


def test_members_of_another_delivery_and_members_without_demographics_refuse(small, staged):
    claims = edited(small, "claims", f'SELECT * REPLACE (17 AS "MemberID") FROM {staged.claims.sql} LIMIT 1')
    found = membership(small, judgement.Staged(staged.members, claims, staged.days_in_hospital))
    assert found == {"unknown_member": 1.0, "member_without_demographics": 1.0}


def test_a_list_of_opt_outs_that_matches_no_delivered_member_refuses(small):
    assert judgement.opt_out_refusals(POLICY, small.profiles) == []
    listed = with_section(POLICY, "opt_outs", members=("x1", "x2", "m000"), matched_at_least=0.5)
    (found,) = judgement.opt_out_refusals(listed, small.profiles)
    assert found.rule == "opt_outs_not_matched" and "m000" not in found.text


# Identifiers


def test_every_pseudonym_is_computed_again(small):
    key = b"k" * 32
    rows = [("member", "m000"), ("member", "m001"), ("provider", "p0"), ("pcp", "pcp")]
    made = [(kind, name, int(pseudonyms(kind, [name], key)["pseudonym"].iloc[0])) for kind, name in rows]
    columns = "kind VARCHAR, original_id VARCHAR, pseudonym BIGINT"
    assert judgement.pseudonym_refusals(small.store.table("right", columns, made), lambda kind: key) == []
    swapped = [("member", "m000", made[1][2]), ("member", "m001", made[0][2]), *made[2:]]
    (found,) = judgement.pseudonym_refusals(small.store.table("swapped", columns, swapped), lambda kind: key)
    assert (found.rule, found.name, found.measured) == ("wrong_pseudonym", "member", 2.0)


def providers(small: SmallRelease, staged: judgement.Staged, policy: Policy) -> set[str]:
    levels = dict.fromkeys(("length_of_stay", "condition_group"), LEVEL)
    found = judgement.provider_refusals(policy, staged, levels, small.known, small.domains)
    assert {refusal.rule for refusal in found} <= {"unsuppressed_identifier"}
    return {refusal.name for refusal in found}


def test_an_identifier_beside_a_pattern_of_care_that_too_few_share_refuses(small, staged):
    """Two providers and one PCP; vendors are not delivered."""
    policy = columns_changed(POLICY, ("length_of_stay", "condition_group").__contains__)
    assert providers(small, staged, with_section(policy, "provider_suppression", providers_at_least=20)) == {
        "ProviderID",
        "PCP",
    }
    assert providers(small, staged, with_section(policy, "provider_suppression", providers_at_least=1)) == set()


def test_without_a_released_pattern_there_is_nothing_beside_which_to_show_an_identifier(small, staged):
    policy = columns_changed(POLICY, "length_of_stay".__eq__)
    assert providers(small, staged, with_section(policy, "provider_suppression", providers_at_least=20)) == set()


@pytest.mark.parametrize("name", ["side_of_rows", "more_rows", "n"])
def test_rows_of_one_side_are_counted_whatever_a_column_is_called(name):
    with small_store() as store:
        table = store.table("released", f'"{name}" BIGINT, other VARCHAR', [(0, "a"), (0, "a"), (0, "b")])
        expected = f"SELECT 0 AS \"{name}\", 'a' AS other UNION ALL SELECT 1, 'b'"
        assert judgement.rows_either_way(table, expected) == 3


def refusals(population, released, staged_members):
    """What the gate says of the demographic classes, as `release` asks for it."""
    risk = demographic_risk(population, released, k=20)
    measured = demographic_measurements(POLICY, risk, 0.1, 0.1)
    return [*judgement.demographic_refusals(risk, staged_members), *judgement.measurement_refusals("gate", measured)]


def test_too_many_members_in_small_classes_are_one_refusal():
    (found,) = refusals((500, 19), (990, 10), 1_000)
    assert found.name == f"gate/{DEMOGRAPHIC}" and found.measured == 0.01


def test_classes_of_other_members_than_those_staged_are_refused():
    (found,) = refusals((500,), (990,), 991)
    assert found.rule == "inconsistent_rows"
    assert refusals((500,), (990,), 990) == []
    assert refusals((500,), (0,), 0)


def test_a_bound_that_refuses_is_called_a_bound():
    """Value and bound on different sides of the threshold: the text says which number was compared."""
    found = NodeMeasurement(7_900, 0, 1_000_000)
    refused, _ = judgement.measurement_refusals("gate", high_risk_measurements(POLICY, found, found, "c" * 64, 1))
    assert refused.text == "gate: high_risk_share, its upper bound, is not at most its threshold"
    assert refused.measured > refused.threshold == 0.008
