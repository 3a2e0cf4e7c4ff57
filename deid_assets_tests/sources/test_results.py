"""Laboratory results: a number in bins of its own test, and units that are mixed within one test."""

import pytest

from deid_assets.errors import DeliveryError, PolicyError
from deid_assets.policy.loading import policy_from
from deid_assets.sources.delivery import EventsMap
from deid_assets.sources.derivations import Declared, MeasuredTest, ResultCells, result_bin
from deid_assets_tests.policy.policy_texts import public_values
from deid_assets_tests.sources.deliveries import SOURCE, claim, member, take_in, write_tables
from deid_assets_tests.sources.test_declared_columns import rules, taken, values

GLUCOSE = MeasuredTest("glucose", ("2345-7", "2339-0"), "mg/dL", (0, 100, 126))
A1C = MeasuredTest("hemoglobin A1c", ("4548-4",), "%", (0, 5.7))
MADE = result_bin("claims", ResultCells("VALUE", "LOINC", "UNIT"), [GLUCOSE, A1C])

DECLARED = Declared({}, {"claims": {"c_result": MADE}})


def results(tmp_path, *rows: tuple[str, str, str]):
    """Claims with a test, a number and a unit each."""
    return taken(tmp_path, [{}], [dict(zip(("LOINC", "VALUE", "UNIT"), row, strict=True)) for row in rows], c_result=MADE)


def test_a_number_is_in_the_bin_of_its_test(tmp_path):
    found = results(
        tmp_path, ("2345-7", "99.9", "mg/dL"), ("2339-0", " 100 ", "mg/dL "), ("2345-7", "1e3", "mg/dL"),
        ("4548-4", "5.7", "%"), ("4548-4", "5.699", "%"),
    )  # fmt: skip
    assert not rules(found) and values(found, "claims", "c_result") == [
        "glucose 0 to below 100 mg/dL", "glucose 100 to below 126 mg/dL", "glucose from 126 mg/dL",
        "hemoglobin A1c from 5.7 %", "hemoglobin A1c 0 to below 5.7 %",
    ]  # fmt: skip


def test_what_is_no_result_of_a_listed_test_is_blank(tmp_path):
    found = results(tmp_path, ("718-9", "positive", "g/L"), ("2345-7", "", ""), ("", "5", "%"))
    assert not rules(found) and values(found, "claims", "c_result") == [None, None, None]


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        (("2345-7", "5.5", "mmol/L"), "glucose not in mg/dL"),
        (("2345-7", "99", ""), "glucose not in mg/dL"),
        (("2345-7", "99", "MG/DL"), "glucose not in mg/dL"),
        (("4548-4", "39", "mmol/mol"), "hemoglobin A1c not in %"),
        (("2345-7", "high", "mg/dL"), "glucose: not a number"),
        (("2345-7", "inf", "mg/dL"), "glucose: not a number"),
        (("2345-7", "nan", "mg/dL"), "glucose: not a number"),
        (("2345-7", "<5", "mg/dL"), "glucose: not a number"),
        (("4548-4", "-1", "%"), "hemoglobin A1c below 0, where the first bin begins"),
    ],
)
def test_nothing_is_guessed(tmp_path, row, rule):
    found = results(tmp_path, ("2345-7", "99.9", "mg/dL"), row)
    assert rules(found) == [("LOINC", rule, 1)] and values(found, "claims", "c_result") == ["glucose 0 to below 100 mg/dL"]


def test_units_that_are_mixed_in_one_test_refuse_the_delivery_and_the_test_is_named(tmp_path):
    """And nothing of the rows is."""
    rows = [("2345-7", "99.25", "mg/dL")] * 30 + [("2345-7", "5.125", "mmol/L")] * 3
    results(tmp_path, *rows)
    with pytest.raises(DeliveryError, match="glucose not in mg/dL") as refused:
        take_in(
            tmp_path / "in", at_most=0.05, store=tmp_path / "s.duckdb", declared=Declared({}, {"claims": {"c_result": MADE}})
        )
    assert "LOINC" in str(refused.value), "and so is the column"
    assert not any(told in str(refused.value) for told in ("mmol", "5.125", "c31"))


def test_results_may_be_a_table_of_events_of_their_own(tmp_path):
    """A row in another unit removes its member, as any row that breaks a rule."""
    folder = write_tables(tmp_path / "in", [member("m1"), member("m2")], [claim("c1"), claim("c2", "m2")])
    rows = ["m1,2008-03-06,2345-7,126,mg/dL", "m1,2008-03-07,718-9,14,g/dL", "m2,2008-03-06,2345-7,7,mmol/L"]
    (folder / "results.csv").write_text("\n".join(["member,day,LOINC,VALUE,UNIT", *rows, ""]))
    table = EventsMap(file="results.csv", columns={"member_id": "member", "service_date": "day"})
    made = result_bin("results", ResultCells("VALUE", "LOINC", "UNIT"), [GLUCOSE])
    found = take_in(
        folder,
        SOURCE.model_copy(update={"events": {"results": table}}),
        declared=Declared({}, {"claims": {}, "results": {"result": made}}),
    )
    assert rules(found) == [("LOINC", "glucose not in mg/dL", 1)]
    taken_in = found.frame("claims")
    results = taken_in.loc[taken_in["event_table"] == "results", ["member_id", "result"]].fillna("").values.tolist()
    assert sorted(results) == [["m1", ""], ["m1", "glucose from 126 mg/dL"]]


def test_bins_that_begin_close_together_have_names_of_their_own():
    bins = MeasuredTest("platelets", ("777-3",), "G/L", (100_000.1, 100_000.2, 1_000_000)).bins
    assert bins[0] == "platelets 100000.1 to below 100000.2 G/L" and bins[2] == "platelets from 1000000 G/L"


class TestPolicy:
    def result(self, **changes):
        test = {"codes": ["2345-7"], "unit": "mg/dL", "starts": [0, 100]} | changes
        column = {
            "kind": "result",
            "from": "VALUE",
            "test": "LOINC",
            "unit": "UNIT",
            "tests": {"glucose": test},
            "meaning": "m",
        }
        return policy_from(public_values(columns={"claims": {"result": column}}))

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"starts": [100, 0]}, "starts must ascend"),
            ({"codes": ["2345-7", "2345-7"]}, "a code stands for two tests, or twice for one"),
            ({"unit": " mg/dL"}, "has blanks around it"),
        ],
    )
    def test_what_could_not_be_read_is_refused(self, changes, said):
        with pytest.raises(PolicyError, match=said):
            self.result(**changes)

    def test_results_among_claims_are_refused_where_codes_remove_members(self):
        """No list reads them, and claims cannot say why theirs tell of no listed condition."""
        with pytest.raises(PolicyError, match="deliver results as a table of events, and say in its without_codes why not"):
            self.result()
