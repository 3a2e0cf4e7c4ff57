"""Who is removed and which claims are dropped (methods#removal)."""

import datetime

import pytest

from deid_assets.methods.preparation import eligibility
from deid_assets.reference.groups import code_book_of
from deid_assets.reference.known_columns import UNREADABLE
from deid_assets.reference.sensitive import sensitive_codes
from deid_assets.reference.tables import read_table
from deid_assets_tests.methods.small_tables import small_store

CLAIM = (
    "claim_id VARCHAR, member_id VARCHAR, service_date DATE, specialty VARCHAR, place VARCHAR, cpt VARCHAR,"
    " diagnosis_1 VARCHAR, diagnosis_2 VARCHAR, diagnosis_3 VARCHAR, diagnosis_4 VARCHAR, further_diagnoses VARCHAR,"
    " unreadable_diagnoses INTEGER, unreadable_procedures INTEGER, unreadable_places INTEGER, year INTEGER"
)
MEMBER = "member_id VARCHAR, birth_date DATE, age INTEGER"
BORN = datetime.date(2001, 1, 31)


def claim(name: str, member: str, **values):
    """A claim with nothing in it but what is named."""
    diagnoses = ("diagnosis_1", "diagnosis_2", "diagnosis_3", "diagnosis_4", "further_diagnoses")
    names = ("service_date", "specialty", "place", "cpt", *diagnoses)
    unreadable = ("unreadable_diagnoses", "unreadable_procedures", "unreadable_places")
    return (
        name,
        member,
        *(values.get(column) for column in names),
        *(values.get(column, 0) for column in unreadable),
        values.get("year", 1),
    )


class Delivery:
    """A small delivery with its code book."""

    def __init__(self, store, claims, members=None, code_list="literal", rare_visible=True):
        self.store = store
        self.claims = store.table("claims", CLAIM, claims)
        names = sorted({row[1] for row in claims})
        self.members = store.table("members", MEMBER, members or [(name, None, 40) for name in names])
        codes = self.claims.query(eligibility.distinct_codes(self.claims))
        frame = code_book_of(codes, code_list, rare_visible)
        rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False)
        self.book = store.table(
            "book", "kind VARCHAR, code VARCHAR, group_name VARCHAR, is_procedure BOOLEAN, removal_reason VARCHAR", rows
        )

    def query(self, opted_out=(), quarantined=(), kinds=tuple(UNREADABLE), **further):
        rows = self.store.table("quarantined", "source_table VARCHAR, raw_row VARCHAR", quarantined)
        return eligibility.removed_members_query(self.members, self.claims, rows, self.book, opted_out, kinds, **further)

    def removed(self, opted_out=(), quarantined=(), kinds=tuple(UNREADABLE), **further):
        return self.store.rows(self.query(opted_out, quarantined, kinds, **further))

    def kept_claims(self, newborn_days=28, drop_non_procedures=True):
        newborn = eligibility.newborn_rule(newborn_days, self.claims)
        query = eligibility.eligible_claims_query(self.members, self.claims, self.book, newborn, drop_non_procedures)
        return {row[0] for row in self.store.rows(query)}


@pytest.fixture
def delivery():
    with small_store() as store:
        yield lambda claims, **options: Delivery(store, claims, **options)


def test_every_code_of_every_claim_is_found_once_with_its_place_on_the_claim(store):
    row = claim("c1", "m", place="21", cpt="99213", diagnosis_1="4280", diagnosis_3="V501", further_diagnoses="25000 042")
    claims = store.table("claims", CLAIM, [row, claim("c2", "m")])
    found = sorted(store.rows(eligibility.codes_of_claims(claims)))
    assert found == sorted(
        [
            ("c1", "m", "diagnosis", 1, "4280"),
            ("c1", "m", "diagnosis", 3, "V501"),
            ("c1", "m", "diagnosis", 5, "25000"),
            ("c1", "m", "diagnosis", 6, "042"),
            ("c1", "m", "procedure", 1, "99213"),
            ("c1", "m", "place", 1, "21"),
        ]
    )


def test_distinct_codes_are_in_order_and_one_code_may_be_of_two_kinds(store):
    rows = [claim("c1", "m", cpt="897", diagnosis_1="897", specialty="x"), claim("c2", "m", cpt="897")]
    rows.append(claim("c3", "m", further_diagnoses="897 042"))
    found = store.rows(eligibility.distinct_codes(store.table("claims", CLAIM, rows)))
    assert found == [("diagnosis", "042"), ("diagnosis", "897"), ("procedure", "897"), ("specialty", "x")]


class TestRemovedMembers:
    # One code of every reason, and where it stands on the claim.
    SENSITIVE = [
        ("diagnosis_1", "042"), ("diagnosis_2", "6340"), ("diagnosis_3", "6331"), ("diagnosis_4", "E9505"),
        ("diagnosis_1", "E9600"), ("diagnosis_1", "V154"), ("diagnosis_2", "30390"), ("diagnosis_1", "3051"),
        ("diagnosis_4", "30285"), ("diagnosis_1", "317"), ("diagnosis_1", "V501"), ("diagnosis_3", "V510"),
        ("cpt", "55970"), ("cpt", "59840"), ("cpt", "897"),
        ("place", "54"), ("place", "55"), ("place", "57"),
        ("diagnosis_2", "7564"), ("further_diagnoses", "042"),
    ]  # fmt: skip

    def test_one_sensitive_code_removes_the_member_whatever_its_place(self, delivery):
        sensitive = [claim(f"c{n}", f"m{n:02}", **{column: code}) for n, (column, code) in enumerate(self.SENSITIVE)]
        others = [claim(f"other {n}", f"m{n:02}", diagnosis_1="4280") for n in range(len(self.SENSITIVE) + 1)]
        kinds = {"cpt": "procedure", "place": "place"}
        expected = [
            (f"m{n:02}", sensitive_codes([code], kinds.get(column, "diagnosis"))["reason"].iloc[0], True)
            for n, (column, code) in enumerate(self.SENSITIVE)
        ]
        assert delivery(sensitive + others).removed() == expected

    def test_every_reason_of_the_published_list_occurs_above(self):
        kinds = {"cpt": "procedure", "place": "place"}
        found = {sensitive_codes([c], kinds.get(k, "diagnosis"))["reason"].iloc[0] for k, c in self.SENSITIVE}
        listed = {row["reason"] for row in read_table("sensitive_codes.csv") if row["code_list"] in ("literal", "rare visible")}
        assert found == listed

    def test_the_same_digits_elsewhere_are_no_reason(self, delivery):
        harmless = [
            ("diagnosis_1", "897"), ("cpt", "89700"), ("cpt", "8970"), ("place", "56"),
            ("diagnosis_1", "V50"), ("cpt", "042"),
        ]  # fmt: skip
        rows = [claim(f"c{n}", f"m{n}", **{column: code}) for n, (column, code) in enumerate(harmless)]
        assert delivery(rows).removed() == []

    def test_a_member_is_listed_once_per_reason(self, delivery):
        one = claim("c1", "m1", diagnosis_1="042", diagnosis_2="0430")
        other = claim("c2", "m1", diagnosis_1="042", cpt="59840")
        reasons = [row[1] for row in delivery([one, other]).removed()]
        assert len(reasons) == len(set(reasons)) == 2

    def test_lists_of_the_policy_decide(self, delivery):
        rows = [claim("c1", "m1", diagnosis_1="V08"), claim("c2", "m2", diagnosis_1="7564")]
        assert [row[0] for row in delivery(rows, code_list="extended", rare_visible=False).removed()] == ["m1"]
        assert [row[0] for row in delivery(rows, code_list="literal", rare_visible=True).removed()] == ["m2"]
        assert delivery(rows, code_list=None, rare_visible=False).removed() == []

    def test_opting_out_is_a_reason_that_discloses_no_condition(self, delivery):
        made = delivery([claim("c1", "m1"), claim("c2", "m2", diagnosis_1="042"), claim("c3", "m3")])
        found = made.removed(["m1", "m2", "not delivered"])
        assert ("m1", "opted out", False) in found and ("m2", "opted out", False) in found
        assert [row[:1] + row[2:] for row in found if row[1] != "opted out"] == [("m2", True)]
        assert {row[0] for row in found} == {"m1", "m2"}

    def test_who_stays_removed_is_removed_for_what_claims_disclosed(self, delivery):
        made = delivery([claim("c1", "m1"), claim("c2", "m2", diagnosis_1="042"), claim("c3", "m3")])
        query = eligibility.removed_members_query(
            made.members, made.claims, made.store.table("none", "source_table VARCHAR, raw_row VARCHAR", []), made.book,
            (), tuple(UNREADABLE), removed_before=["m1", "m2", "not delivered"],
        )  # fmt: skip
        found = made.store.rows(query)
        assert {row[0] for row in found} == {"m1", "m2"} and all(sensitive for _, _, sensitive in found)
        assert [row[0] for row in found if row[1] == "an earlier release removed them"] == ["m1", "m2"]

    def test_an_opted_out_identifier_is_bound_never_written_into_the_text(self, delivery):
        made = delivery([claim("c1", "m1")])
        hostile = "x') OR ('a' = 'a"
        query = made.query([hostile])
        assert hostile not in query.sql
        assert made.store.rows(query) == []

    def test_a_claim_in_quarantine_removes_its_member_once(self, delivery):
        """What it would have said is not known to be harmless."""
        made = delivery([claim("c1", "m1"), claim("c2", "m2"), claim("c3", "m3", diagnosis_1="042")])
        quarantined = [
            ("claims", '{"claim_id": "c7", "member_id": "m1"}'),
            ("claims", '{"claim_id": "c8", "member_id": "m1", "cpt": null}'),
            ("claims", '{"claim_id": "c9", "member_id": "m3"}'),
            ("claims", '{"member_id": "not delivered"}'),
            ("claims", '{"member_id": null}'),
            ("claims", "a line, cut off"),
            ("claims", None),
            ("members", '{"member_id": "m2"}'),
        ]
        found = made.removed(quarantined=quarantined)
        assert [row for row in found if row[1] == "a claim in quarantine"] == [
            ("m1", "a claim in quarantine", False),
            ("m3", "a claim in quarantine", False),
        ]
        assert len(found) == 3

    @pytest.mark.parametrize(
        ("kinds", "left"),
        [(tuple(UNREADABLE), ["d", "p", "s"]), (("diagnosis",), ["d"]), ((), [])],
        ids=["all", "diagnoses", "none"],
    )
    def test_a_code_that_cannot_be_read_removes_its_member_where_codes_of_its_kind_are_looked_for(self, delivery, kinds, left):
        """It may be a sensitive one; but no list found it."""
        rows = [
            claim("c1", "d", unreadable_diagnoses=1), claim("c2", "d", unreadable_diagnoses=2), claim("c3", "k"),
            claim("c4", "p", unreadable_procedures=1), claim("c5", "s", unreadable_places=1),
        ]  # fmt: skip
        assert delivery(rows).removed(kinds=kinds) == [(name, "a code that cannot be read", False) for name in left]

    def test_members_without_any_code_stay(self, delivery):
        assert delivery([claim("c1", "m1")]).removed() == []


class TestEligibleClaims:
    def test_claims_up_to_28_days_after_birth_are_dropped(self, delivery):
        days = (0, 27, 28, 29, 400)
        rows = [claim(f"{n} days", "m1", service_date=BORN + datetime.timedelta(n)) for n in days]
        assert delivery(rows, members=[("m1", BORN, 0)]).kept_claims() == {"29 days", "400 days"}

    def test_a_claim_coded_as_that_of_a_liveborn_infant_is_a_newborns_whatever_its_dates(self, delivery):
        coded = {
            "first": {"diagnosis_1": "icd10cm:Z3800"},
            "fourth": {"diagnosis_4": "icd10cm:Z381"},
            "further": {"further_diagnoses": "icd10cm:I10 icd10cm:Z388"},
            "other": {"diagnosis_1": "icd10cm:Z37", "further_diagnoses": "icd10cm:I10"},
            "icd9": {"diagnosis_1": "Z38"},
        }
        later = BORN + datetime.timedelta(400)
        rows = [claim(name, "m1", service_date=later, **codes) for name, codes in coded.items()]
        made = delivery(rows, members=[("m1", BORN, 1)])
        assert made.kept_claims() == {"other", "icd9"}
        assert made.kept_claims(newborn_days=None) == set(coded)

    def test_without_the_rule_a_newborns_claims_stay(self, delivery):
        made = delivery([claim("c1", "m1", service_date=BORN)], members=[("m1", BORN, 0)])
        assert made.kept_claims(newborn_days=None) == {"c1"}

    @pytest.mark.parametrize(("age", "kept"), [(0, set()), (2, set()), (None, set()), (3, {"c1", "c2"}), (40, {"c1", "c2"})])
    def test_where_a_date_is_missing_the_claims_of_the_young_are_taken_for_newborns(self, delivery, age, kept):
        rows = [claim("c1", "m1", service_date=BORN), claim("c2", "m2")]
        made = delivery(rows, members=[("m1", None, age), ("m2", BORN, age)])
        assert made.kept_claims() == kept
        assert made.kept_claims(newborn_days=None) == {"c1", "c2"}

    def test_of_a_longer_history_the_young_are_older(self, delivery):
        """Who is 6 in the last of 8 years may have been born in one of them; who is 8 was born before."""
        rows = [claim("c1", "m1"), claim("c2", "m2"), claim("c3", "m2", year=8)]
        assert delivery(rows, members=[("m1", None, 6), ("m2", None, 8)]).kept_claims() == {"c2", "c3"}

    def test_claims_that_are_no_procedure_are_dropped(self, delivery):
        kept, dropped = ("99213", "0016T"), ("J1100", "450", "0450", "897")
        rows = [claim(code, "m1", cpt=code) for code in (*kept, *dropped)] + [claim("no code", "m1")]
        made = delivery(rows)
        assert made.kept_claims() == {*kept, "no code"}
        assert made.kept_claims(drop_non_procedures=False) == {*kept, *dropped, "no code"}

    def test_897_removes_the_member_although_its_claim_is_dropped(self, delivery):
        """The order matters (methods#removal): three-digit codes are dropped, but not before 897 was seen."""
        made = delivery([claim("c1", "m1", cpt="897"), claim("c2", "m1", cpt="99213")])
        assert made.kept_claims() == {"c2"}
        assert [row[0] for row in made.removed()] == ["m1"]

    def test_removed_members_claims_stay_because_the_population_counts_them(self, delivery):
        made = delivery([claim("c1", "m1", diagnosis_1="042")])
        assert made.removed() and made.kept_claims() == {"c1"}

    def test_every_column_of_a_claim_is_kept(self, delivery):
        made = delivery([claim("c1", "m1", cpt="99213", diagnosis_2="4280")])
        query = eligibility.eligible_claims_query(made.members, made.claims, made.book, eligibility.NewbornRule(28, 3), True)
        assert made.store.rows(query) == made.store.rows(f"SELECT * FROM {made.claims.sql}")


class TestEligibleMembers:
    def test_not_removed_and_with_an_eligible_claim(self, store):
        members = store.table("members", MEMBER, [(name, None, 40) for name in ("d", "a", "b", "c")])
        removed = store.table("removed", "member_id VARCHAR, reason VARCHAR", [("b", "one"), ("b", "two")])
        claims = store.table("claims", "member_id VARCHAR", [("a",), ("a",), ("b",), ("d",)])
        assert store.rows(eligibility.eligible_members_query(members, removed, claims)) == [("a",), ("d",)]

    def test_nobody_is_removed_when_the_list_is_empty(self, store):
        members = store.table("members", MEMBER, [("a", None, 40)])
        removed = store.table("removed", "member_id VARCHAR, reason VARCHAR", [])
        assert store.rows(eligibility.eligible_members_query(members, removed, members)) == [("a",)]


@pytest.mark.parametrize("written", ["m1", "m1  ", " M1", "'m1'", "0m1", "m1\\t"])
def test_a_quarantined_claim_removes_the_member_whom_it_means(delivery, written):
    made = delivery([claim("c1", "m1"), claim("c2", "m2")])
    quarantined = [("claims", f'{{"member_id": "{written}", "diagnosis_1": "042"}}')]
    assert made.removed(quarantined=quarantined) == [("m1", "a claim in quarantine", False)]


def test_a_quarantined_claim_that_names_a_member_exactly_removes_no_other(delivery):
    made = delivery([claim("c1", "1"), claim("c2", "001")])
    assert made.removed(quarantined=[("claims", '{"member_id": "001 "}')]) == [("001", "a claim in quarantine", False)]


class TestCodesOfDeclaredColumns:
    """A sensitive code in a declared column removes the member as in the columns that every policy knows."""

    COLUMNS = f"{CLAIM}, declared_codes VARCHAR, unreadable_declared INTEGER"

    def delivered(self, store, *rows):
        made = Delivery(store, [claim(f"c{number}", member) for number, (member, *_) in enumerate(rows)])
        written = [(*claim(f"c{number}", member), codes, unread) for number, (member, codes, unread) in enumerate(rows)]
        made.claims = store.table("coded_claims", self.COLUMNS, written)
        frame = code_book_of(made.claims.query(eligibility.distinct_codes(made.claims)), "extended", True, ("substance_use",))
        values = frame.astype(object).where(frame.notna(), None).itertuples(index=False)
        made.book = store.table(
            "declared_book",
            "kind VARCHAR, code VARCHAR, group_name VARCHAR, is_procedure BOOLEAN, removal_reason VARCHAR",
            values,
        )
        return made

    def test_removes_the_member(self, store):
        made = self.delivered(
            store, ("drug", "drug:abacavir / lamivudine", 0), ("rev", "drug:metformin;procedure:0944", 0),
            ("clinic", "taxonomy:261QM2800X", 0), ("h", "procedure:H0020", 0), ("well", "drug:metformin;procedure:0450", 0),
            ("none", None, 0),
        )  # fmt: skip
        removed = {member: (reason, sensitive) for member, reason, sensitive in made.removed()}
        assert removed == {
            "drug": ("human immunodeficiency virus (HIV) infection", True),
            "rev": ("substance use", True),
            "clinic": ("substance abuse treatment facility", True),
            "h": ("substance use", True),
        }

    @pytest.mark.parametrize(
        ("kinds", "reads", "who"),
        [
            (tuple(UNREADABLE), True, {"unread"}),
            (("diagnosis",), False, set()),
            (("diagnosis",), True, {"unread"}),
            ((), True, set()),
        ],
    )
    def test_one_that_cannot_be_read_removes_the_member_where_lists_read_it(self, kinds, reads, who, store):
        made = self.delivered(store, ("unread", "drug:metformin", 1), ("well", "drug:metformin", 0))
        assert {row[0] for row in made.removed(kinds=kinds, reads_declared=reads)} == who
