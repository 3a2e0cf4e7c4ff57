"""Every delivered row and value ends at one step, and the steps add up."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.errors import StoreError
from deid_assets.methods.lattice.information_loss import entropy
from deid_assets.methods.preparation.eligibility import NewbornRule
from deid_assets.methods.utility import ledger
from deid_assets.methods.utility.ledger import (
    CLAIM_STEPS,
    MEMBER_STEPS,
    RELEASED,
    UNACCOUNTED,
    ColumnClasses,
    Followed,
    Form,
    LedgerTables,
    RowFates,
    row_account,
    value_account,
)
from deid_assets.store.tables import Table
from deid_assets_tests import examples
from deid_assets_tests.methods.small_tables import SmallStore, small_store

MEMBERS = ("opted", "withdrew", "sensitive", "unread", "quarantine", "nobody", "undrawn", "cut", "flagged", "kept")
"""One member for each fate."""


def tables(store: SmallStore, **changes) -> LedgerTables:
    """Members of every fate with an old claim each, but 'nobody' has a newborn's; 'kept' has one of every fate of claims."""
    eligible = [member for member in MEMBERS if member != "nobody"]
    removed = [("opted", "opted out", False), ("opted", "HIV", True), ("withdrew", "withdrew", False),
               ("sensitive", "HIV", True), ("sensitive", "a claim in quarantine", False),
               ("unread", "a code that cannot be read", False), ("unread", "a claim in quarantine", False),
               ("quarantine", "a claim in quarantine", False)]  # fmt: skip
    not_removed = [member for member in eligible if member not in MEMBERS[:5]]
    drawn = [member for member in not_removed if member != "undrawn"]
    claims = [(f"of {member}", member, None if member == "nobody" else "99213") for member in MEMBERS]
    claims += [("no procedure", "kept", "X"), ("long tail", "kept", "99213")]
    old = [claim for claim, member, cpt in claims if member != "nobody" and cpt != "X"]
    content = {
        "members": ("member_id VARCHAR, age INTEGER, birth_date DATE",
                    [(m, 0 if m == "nobody" else 40, None) for m in MEMBERS]),
        "claims": (
            "claim_id VARCHAR, member_id VARCHAR, cpt VARCHAR, service_date DATE, year INTEGER, diagnosis_1 VARCHAR,"
            " diagnosis_2 VARCHAR, diagnosis_3 VARCHAR, diagnosis_4 VARCHAR, further_diagnoses VARCHAR",
            [(*c, None, 1, *(None,) * 5) for c in claims],
        ),
        "quarantined": ("source_table VARCHAR", []),
        "delivered_codes": ("source_column VARCHAR", []),
        "code_book": ("kind VARCHAR, code VARCHAR, is_procedure BOOLEAN",
                      [("procedure", "99213", True), ("procedure", "X", False)]),
        "removed": ("member_id VARCHAR, reason VARCHAR, sensitive BOOLEAN", removed),
        "eligible_members": ("member_id VARCHAR", [(member,) for member in not_removed]),
        "eligible_claims": ("claim_id VARCHAR, member_id VARCHAR", [c[:2] for c in claims if c[0] in old]),
        "sample": ("member_id VARCHAR", [(member,) for member in drawn]),
        "profiles": ("member_id VARCHAR, released BOOLEAN", [(m, m in ("flagged", "kept")) for m in MEMBERS]),
        "held": ("claim_id VARCHAR, member_id VARCHAR", [("of flagged", "flagged"), ("of kept", "kept")]),
        "suppressed": ("member_id VARCHAR", [("flagged",)]),
    }  # fmt: skip
    content |= changes
    return LedgerTables(**{name: store.table(name, *content[name]) for name in content})


def claims_of(store: SmallStore, made: LedgerTables) -> dict[str, str]:
    return by_claim(store, made, NewbornRule(28, 3), True)


def by_claim(store: SmallStore, made: LedgerTables, *rules) -> dict[str, str]:
    """The fate of each claim, which is at its place."""
    members, claims = (Table(store.file, "tests", name) for name in ("member_fates", "claim_fates"))
    ledger.write_fates(members, ledger.member_fates(made), made.members)
    ledger.write_fates(claims, ledger.claim_fates(made, members, *rules), made.claims)
    return dict(store.rows(f"SELECT claim_id, fate FROM {made.claims.sql} POSITIONAL JOIN {claims.sql}"))


class TestFates:
    def test_every_member_has_the_first_that_applies(self, store):
        found = dict(store.rows(ledger.member_fates(tables(store))))
        assert found == dict(
            zip(
                MEMBERS,
                ("opted_out", "withdrew", "sensitive", "unread_code", "claim_in_quarantine", "no_eligible_claim",
                 "sample", "long_tail", "suppression", RELEASED),
                strict=True,
            )
        )  # fmt: skip
        assert {*found.values()} == {*MEMBER_STEPS, RELEASED}

    def test_every_claim_too(self, store):
        found = claims_of(store, tables(store))
        assert found == {
            "of opted": "opted_out", "of withdrew": "withdrew", "of sensitive": "sensitive",
            "of unread": "unread_code", "of quarantine": "claim_in_quarantine", "of nobody": "newborn",
            "of undrawn": "sample", "of cut": "long_tail",
            "of flagged": "suppression", "of kept": RELEASED, "no procedure": "no_procedure", "long tail": "long_tail",
        }  # fmt: skip
        assert {*found.values()} == {*CLAIM_STEPS, RELEASED}

    def test_what_no_rule_explains_is_unaccounted(self, store):
        lost = tables(store, eligible_members=("member_id VARCHAR", [(m,) for m in ("undrawn", "cut", "flagged")]))
        assert dict(store.rows(ledger.member_fates(lost)))["kept"] == UNACCOUNTED
        assert claims_of(store, lost)["of kept"] == UNACCOUNTED
        dropped = [("of flagged", "flagged"), ("of cut", "cut"), ("of undrawn", "undrawn")]
        gone = tables(store, eligible_claims=("claim_id VARCHAR, member_id VARCHAR", dropped))
        assert claims_of(store, gone)["of kept"] == UNACCOUNTED, "an old member's claim of a procedure"
        held = [("of cut", "cut"), ("of kept", "kept")]
        kept = tables(store, held=("claim_id VARCHAR, member_id VARCHAR", held))
        assert dict(store.rows(ledger.member_fates(kept)))["cut"] == UNACCOUNTED, "they still have a claim"

    def test_a_rule_that_the_policy_does_not_have_explains_nothing(self, store):
        found = by_claim(store, tables(store), None, False)
        assert found["of nobody"] == found["no procedure"] == UNACCOUNTED

    @pytest.mark.parametrize("table", ["eligible_claims", "held"])
    def test_a_claim_that_is_twice_in_a_table_has_no_place(self, store, table):
        columns, twice = "claim_id VARCHAR, member_id VARCHAR", [("of kept", "kept"), ("of kept", "kept")]
        with pytest.raises(StoreError, match="12 rows of claims have 13 fates, because identifiers"):
            claims_of(store, tables(store, **{table: (columns, twice)}))


class TestRowFates:
    @settings(max_examples=examples.of(20), deadline=None)
    @given(
        st.lists(
            st.tuples(st.sampled_from(["sample", "long_tail", RELEASED]), st.sampled_from([None, "x", "y"]),
                      st.sampled_from([None, 1, 2])),
            max_size=12,
        ),
        st.booleans(),
    )  # fmt: skip
    def test_values_are_counted_as_one_by_one(self, rows, unique):
        with small_store() as store:
            delivered = store.table("delivered", "value VARCHAR", [(value,) for _, value, _ in rows])
            fates = store.table("fates", "fate VARCHAR", [(fate,) for fate, *_ in rows])
            released = store.table(
                "released", "value VARCHAR, h_value INTEGER", [(value, form) for fate, value, form in rows if fate == RELEASED]
            )
            made = RowFates(delivered, fates, released)
            column = Followed("claims", "value", (Form("grouping", "h_value"), Form("dates", "h_value * 10")), unique=unique)
            groups, numbers = made.followed_values(column), made.numbers()
        wanted = Counter()
        for fate, value, form in rows:
            forms = ("a key", "a key") if unique else (form and str(form), form and f"{form}0")
            wanted[fate, "a key" if unique else value, *(forms if fate == RELEASED else (None, None))] += 1
        found = groups.astype(object).where(groups.notna(), None).itertuples(index=False)
        assert {tuple(row[:-1]): row[-1] for row in found} == wanted and len(groups) == len(wanted)
        assert numbers == Counter(fate for fate, *_ in rows)

    def test_fates_stay_beside_their_rows_in_a_table_of_many(self, store):
        """Row n has the value n % 5 and the fate of this value: rows of several groups, read by several threads."""
        delivered = store.write("delivered", "SELECT n % 5 AS value FROM range(700_000) AS t(n)")
        fates = Table(store.file, "tests", "fates")
        found = "SELECT if(n % 5 < 3, 'sample', 'long_tail') AS fate FROM range(700_000) AS t(n) ORDER BY n"
        ledger.write_fates(fates, found, delivered)
        released = store.table("released", "value INTEGER", [])
        found = RowFates(delivered, fates, released).followed_values(Followed("claims", "value"))
        assert sorted(found.itertuples(index=False, name=None)) == sorted(
            ("sample" if value < 3 else "long_tail", str(value), 140_000) for value in range(5)
        )


def groups(*rows: tuple, forms: int = 1) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["fate", *(f"v{n}" for n in range(forms + 1)), "n"]).astype(
        {f"v{n}": "str" for n in range(forms + 1)}
    )


def by_step(rows: list[tuple]) -> dict[str, dict]:
    return {row[4]: dict(zip(("lost", "changed", "filled", "remaining", "bits"), row[6:], strict=True)) for row in rows}


class TestValues:
    def test_a_worked_column(self):
        """Of 12 values, 1 is in quarantine, 1 unreadable, 4 not drawn, 1 without a group; 4 share a class, 1 is alone."""
        found = by_step(
            value_account(
                Followed("claims", "place", (Form("grouping", ""),), "PlaceSvc", domain="place"),
                CLAIM_STEPS,
                groups(("sample", "a", None, 4), (RELEASED, "a", "A", 2), (RELEASED, "b", "b", 2), (RELEASED, "c", None, 1),
                       (RELEASED, "d", "d", 1), (RELEASED, None, None, 5)),
                ColumnClasses({"A": "A or b", "b": "A or b", "d": "d"}, frozenset({"A", "b"})),
                quarantined=1, unreadable=1,
            )
        )  # fmt: skip
        assert found["delivered"]["remaining"] == 12 and found["intake"]["lost"] == found["unreadable"]["lost"] == 1
        assert found["sample"] | {"bits": 0} == {"lost": 4, "changed": 0, "filled": 0, "remaining": 6, "bits": 0}
        assert found["grouping"]["lost"] == 1 and found["grouping"]["changed"] == 2, "c has no group, and a is called A"
        assert found["generalization"] == {
            "lost": 0, "changed": 2, "filled": 0, "remaining": 5, "bits": pytest.approx(entropy(np.array([4, 1])))
        }  # fmt: skip
        assert found["unreadable"]["bits"] == pytest.approx(entropy(np.array([6, 2, 1, 1])))

    def test_a_withheld_column_keeps_nothing(self):
        found = by_step(
            value_account(Followed("members", "birth_date"), MEMBER_STEPS, groups((RELEASED, "x", 3), forms=0), None, 0, 0)
        )
        assert found["withheld"] == {"lost": 3, "changed": 0, "filled": 0, "remaining": 0, "bits": 0.0}

    def test_a_blank_that_joins_a_class_fills_it(self):
        column = Followed("members", "age", (Form("grouping", ""),), "Age", domain="age", missing_is_value=True)
        rows = groups((RELEASED, None, None, 2), (RELEASED, "3", "3", 1))
        found = by_step(
            value_account(column, MEMBER_STEPS, rows, ColumnClasses({"": "0-9", "3": "0-9"}, frozenset({"", "3"})), 0, 0)
        )
        assert found["generalization"] == {"lost": 0, "changed": 1, "filled": 2, "remaining": 3, "bits": 0.0}

    def test_a_key_has_as_many_values_as_rows(self):
        column = Followed("members", "member_id", (Form("pseudonyms", "", renames=True),), "MemberID", unique=True)
        found = by_step(
            value_account(
                column, MEMBER_STEPS, groups(("sample", "a key", None, 8), (RELEASED, "a key", "a key", 8)), None, 0, 0
            )
        )
        assert found["unreadable"]["bits"] == 4 and found["pseudonyms"]["bits"] == 3 and found["pseudonyms"]["changed"] == 8

    def test_a_top_code_is_found_among_the_classes(self):
        column = Followed("members", "days", (Form("top_coding", ""),), "Days", domain="days", missing_is_value=True)
        rows = groups((RELEASED, "30", "15+", 2), (RELEASED, "2", "2", 1), (RELEASED, "0", "0", 4))
        classes = ColumnClasses({"15": "1+", "2": "1+", "0": "0"}, frozenset({"15", "2"}))
        found = by_step(value_account(column, MEMBER_STEPS, rows, classes, 0, 0))
        assert found["top_coding"]["changed"] == 2 and found["generalization"]["changed"] == 1
        assert found["generalization"]["remaining"] == 7

    @given(
        st.lists(
            st.tuples(st.sampled_from([*CLAIM_STEPS, UNACCOUNTED, RELEASED]), st.sampled_from(["a", "b", None]),
                      st.sampled_from(["a", "x", None]), st.integers(1, 5)),
            min_size=1, max_size=30,
        ),
        st.integers(0, 3),
    )  # fmt: skip
    @settings(deadline=None)
    def test_the_steps_add_up_to_what_was_delivered(self, rows, quarantined):
        rows = [(fate, delivered, shown if fate == RELEASED else None, n) for fate, delivered, shown, n in rows]
        column = Followed("claims", "place", (Form("grouping", ""),), "PlaceSvc")
        account = value_account(column, CLAIM_STEPS, groups(*rows), None, quarantined, 0)
        delivered = quarantined + sum(n for _, value, _, n in rows if value is not None)
        assert account[0][9] == delivered
        assert delivered - sum(row[6] - row[8] for row in account) == account[-1][9]
        assert account[-1][9] == sum(n for fate, _, shown, n in rows if fate == RELEASED and shown is not None)
        changed = sum(row[7] for row in account)
        assert changed == sum(n for fate, v0, v1, n in rows if fate == RELEASED and v0 and v1 and v0 != v1)


def test_rows_that_no_rule_explains_have_a_step_that_the_contract_does_not_know():
    found = by_step(row_account("claims", CLAIM_STEPS, {RELEASED: 5, "sample": 2, UNACCOUNTED: 1}, 3))
    assert found["delivered"]["remaining"] == 11 and found["suppression"]["remaining"] == 6
    assert found[UNACCOUNTED]["lost"] == 1
    assert UNACCOUNTED not in by_step(row_account("claims", CLAIM_STEPS, {RELEASED: 5}, 0))
