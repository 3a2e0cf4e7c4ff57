"""Codes to groups, and the member-level quasi-identifiers of the whole population."""

from deid_assets.methods.preparation.grouping import grouped_claims_query, member_profiles_query

CLAIM = (
    "claim_id VARCHAR, member_id VARCHAR, provider_id VARCHAR, vendor_id VARCHAR, pcp_id VARCHAR, year INTEGER,"
    " specialty VARCHAR, place VARCHAR, cpt VARCHAR, diagnosis_1 VARCHAR, length_of_stay INTEGER, pay_delay INTEGER,"
    " days_since_first_claim INTEGER, unreadable_diagnoses INTEGER"
)
BOOK = [
    ("specialty", "x", "Internal"), ("place", "11", "Office"), ("procedure", "99213", "EM"),
    ("diagnosis", "4280", "CHF"), ("diagnosis", "99213", "not a procedure"), ("diagnosis", "000", None),
]  # fmt: skip
NO_BANDS = "SELECT NULL::VARCHAR AS claim_id, NULL::VARCHAR AS charlson WHERE false"
NOTHING = (None,) * 7


def grouped(store, rows, bands=NO_BANDS, top_code=None, unreadable=0) -> dict[str, dict]:
    claims = store.table("claims", CLAIM, [(*row, unreadable) for row in rows])
    book = store.table("book", "kind VARCHAR, code VARCHAR, group_name VARCHAR", BOOK)
    table = store.write("grouped", grouped_claims_query(claims, book, bands, top_code))
    names = list(table.columns())
    return {row[0]: dict(zip(names, row, strict=True)) for row in store.rows(f"SELECT * FROM {table.sql}")}


def test_each_code_is_looked_up_under_its_own_kind(store):
    row = ("c1", "m1", "p", "v", "pcp", 2, "x", "11", "99213", "4280", 3, 40, 7)
    assert grouped(store, [row])["c1"] == {
        "claim_id": "c1", "member_id": "m1", "provider_id": "p", "vendor_id": "v", "pcp_id": "pcp", "year": 2,
        "specialty": "Internal", "place": "Office", "procedure_group": "EM", "condition_group": "CHF",
        "charlson": "0", "length_of_stay": 3, "pay_delay": 40, "days_since_first_claim": 7,
    }  # fmt: skip


def test_a_claim_with_nothing_on_it_stays_with_blanks(store):
    found = grouped(store, [("c1", "m1", None, None, None, 1, *NOTHING)])["c1"]
    assert {name for name, value in found.items() if value is None} == {
        "provider_id", "vendor_id", "pcp_id", "specialty", "place", "procedure_group", "condition_group",
        "length_of_stay", "pay_delay", "days_since_first_claim",
    }  # fmt: skip
    assert found["charlson"] == "0"


def test_a_code_without_a_group_or_outside_the_book_is_blank_and_keeps_its_claim(store):
    rows = [
        ("c1", "m1", None, None, None, 1, None, None, None, "000", None, None, None),
        ("c2", "m1", None, None, None, 1, "unheard of", "99", None, None, None, None, None),
    ]
    found = grouped(store, rows)
    assert found["c1"]["condition_group"] is None
    assert found["c2"]["specialty"] is None and found["c2"]["place"] is None


def test_a_stay_of_no_days_counts_as_one_and_a_missing_stay_stays_missing(store):
    stays = (0, 1, 2, None)
    rows = [(f"c{days}", "m1", None, None, None, 1, None, None, None, None, days, None, None) for days in stays]
    found = grouped(store, rows)
    assert [found[f"c{days}"]["length_of_stay"] for days in stays] == [1, 1, 2, None]


def test_the_pay_delay_is_cut_at_its_top_code_and_a_missing_one_stays_missing(store):
    delays = (0, 9, 10, None)
    rows = [(f"c{delay}", "m1", None, None, None, 1, None, None, None, None, None, delay, None) for delay in delays]
    found = grouped(store, rows, top_code=9)
    assert [found[f"c{delay}"]["pay_delay"] for delay in delays] == [0, 9, 9, None]
    found = grouped(store, rows, top_code=None)
    assert [found[f"c{delay}"]["pay_delay"] for delay in delays] == [0, 9, 10, None]


def test_claims_of_a_delivery_without_diagnoses_have_no_charlson_index(store):
    """Band 0 would say that they were read and show no condition."""
    found = grouped(store, [("c1", "m1", None, None, None, 1, *NOTHING)], bands=None)
    assert found["c1"]["charlson"] is None


def test_claims_without_a_charlson_condition_are_in_band_0(store):
    rows = [(name, "m1", None, None, None, 1, *NOTHING) for name in ("c1", "c2")]
    found = grouped(store, rows, bands="SELECT 'c2' AS claim_id, '3-4' AS charlson")
    assert [found[name]["charlson"] for name in ("c1", "c2")] == ["0", "3-4"]


def test_the_index_of_a_claim_with_a_diagnosis_that_cannot_be_read_is_blank(store):
    rows = [(name, "m1", None, None, None, 1, *NOTHING) for name in ("c1", "c2")]
    found = grouped(store, rows, bands="SELECT 'c2' AS claim_id, '3-4' AS charlson", unreadable=1)
    assert [found[name]["charlson"] for name in ("c1", "c2")] == [None, None]


class TestProfiles:
    MEMBER = "member_id VARCHAR, age INTEGER, sex VARCHAR, days_in_hospital_y2 INTEGER, days_in_hospital_y3 INTEGER"

    def profiles(self, store, members, sample=(), claims=(), truncated=(), top_code=None) -> dict[str, dict]:
        flags = store.table("flags", "member_id VARCHAR, claims_truncated INTEGER", truncated)
        query = member_profiles_query(
            store.table("members", self.MEMBER, members),
            f"SELECT * FROM {store.table('sample', 'member_id VARCHAR', [(name,) for name in sample]).sql}",
            store.table("claims", "member_id VARCHAR", [(name,) for name in claims]),
            f"SELECT * FROM {flags.sql}",
            top_code,
        )
        table = store.write("profiles", query)
        names = list(table.columns())
        return {row[0]: dict(zip(names, row, strict=True)) for row in store.rows(f"SELECT * FROM {table.sql}")}

    def test_every_delivered_member_has_one_row_numbered_in_the_order_of_identifiers(self, store):
        members = [(name, 1, "F", 0, 0) for name in ("b", "c", "a")]
        found = self.profiles(store, members, sample=["c"], claims=["c", "c", "a"])
        assert [(name, row["member_number"]) for name, row in sorted(found.items())] == [("a", 0), ("b", 1), ("c", 2)]
        assert {name: row["released"] for name, row in found.items()} == {"a": False, "b": False, "c": True}
        assert {name: row["claims"] for name, row in found.items()} == {"a": 1, "b": 0, "c": 2}

    def test_members_without_a_flag_were_not_truncated(self, store):
        members = [("a", None, None, 0, None), ("b", None, None, None, 3), ("c", None, None, 1, 1)]
        found = self.profiles(store, members, truncated=[("b", 1), ("c", 0)])
        assert {name: row["claims_truncated"] for name, row in found.items()} == {"a": 0, "b": 1, "c": 0}

    def test_of_members_enrolled_in_neither_year_truncation_is_not_told(self, store):
        """ClaimsTruncated is published with the days in hospital: without a row there it is not published."""
        found = self.profiles(store, [("a", 30, "F", None, None)], truncated=[("a", 1)])
        assert found["a"]["claims_truncated"] is None

    def test_days_are_cut_at_the_top_code_and_not_enrolled_stays_missing(self, store):
        found = self.profiles(store, [("a", 30, "M", 16, None), ("b", None, None, 14, 15)], top_code=15)
        assert (found["a"]["days_in_hospital_y2"], found["a"]["days_in_hospital_y3"]) == (15, None)
        assert (found["b"]["days_in_hospital_y2"], found["b"]["days_in_hospital_y3"]) == (14, 15)
        assert (found["b"]["age"], found["b"]["sex"]) == (None, None)

    def test_without_a_top_code_nothing_is_cut(self, store):
        assert self.profiles(store, [("a", 1, "F", 300, 0)])["a"]["days_in_hospital_y2"] == 300
