"""Flat policies: read, explained, and refused with what is wrong where."""

import copy

import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.loading import policy_from
from deid_assets.reports.plain_words import explain
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.test_flat_release import FLAT


def refusal(values: dict) -> str:
    with pytest.raises(PolicyError) as refused:
        policy_from(values)
    return str(refused.value)


def with_column(**change) -> dict:
    values = copy.deepcopy(FLAT)
    values["quasi_identifiers"][1] |= change
    return values


def test_it_is_read_and_knows_its_lattice():
    policy = policy_from(FLAT)
    assert isinstance(policy, FlatPolicy)
    assert policy.node_count == 3 * 3 * 1
    assert [column.release_as for column in policy.columns] == ["Town", "Age", "Sex", "Likes"]
    assert policy.hash != policy_from(changed(FLAT, risk={"k": 5, "max_suppressed": 0.05})).hash


def test_opt_outs_need_a_column_that_tells_whose_a_record_is():
    listed = FLAT | {"opt_outs": {"members": ["Ann"]}}
    assert "give the column that identifies a person the role direct_identifier" in refusal(listed)
    policy = policy_from(listed | {"source": {"kind": "flat", "file": "people.csv", "person": "name"}})
    assert (
        policy.opt_outs.all_members == ("Ann",)
        and policy.public_hash
        == policy_from(FLAT | {"source": {"kind": "flat", "file": "people.csv", "person": "name"}}).public_hash
    )


def test_it_is_explained():
    text = explain(policy_from(FLAT))
    assert "Town (home town): town > district > any" in text
    assert "every released record is in a class of at least 4 records in the release" in text
    assert "at most 5 % of the records are left out" in text
    assert "of which classes may disclose values: Likes; diversity is distinct" in text
    assert "record attribute disclosure: members whose whole class has the same value" in text


def test_the_detail_that_is_asked_for_is_explained():
    assert "no minimum is set" in explain(policy_from(FLAT))
    text = explain(policy_from(changed(FLAT, detail_at_least={"Town": 0.25})))
    assert (
        "Town keeps at least 25 % of its delivered information, or nothing is published" in text
        and "no minimum is set" not in text
    )
    text = explain(policy_from(changed(FLAT, detail_at_least={"Town": 0.25}, publish_however_coarse=True)))
    assert "Town keeps at least 25 % of its delivered information, or the headline says that it does not" in text


def test_reviewed_attributes_are_explained():
    text = explain(policy_from(changed(FLAT, reviewed_attributes={"Likes": "Everybody says\n it."})))
    assert "Likes is measured in the same way, and published whatever it discloses, because: Everybody says it." in text
    text = explain(policy_from(changed(FLAT, attributes=[{"column": "Last Name", "release_as": "Likes"}])))
    assert "published as they are, after measuring what they disclose: Likes" in text
    assert "Likes will be refused: its name says that it identifies people" in text


def test_a_quasi_identifier_with_the_name_of_a_direct_identifier_is_explained():
    named = [*FLAT["quasi_identifiers"][1:], FLAT["quasi_identifiers"][0] | {"column": "last name"}]
    text = explain(policy_from(changed(FLAT, quasi_identifiers=named)))
    assert "Town will be refused if one of its values is published as it was delivered" in text
    text = explain(
        policy_from(changed(FLAT, quasi_identifiers=named, reviewed_attributes={"Town": "They are invented names."}))
    )
    assert "Town is published although its name says that it identifies people, because: They are invented names." in text
    assert "will be refused" not in text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (changed(FLAT, reviewed_attributes={"Like": "x"}), "Like is not one of the attributes: Likes; did you mean Likes?"),
        (changed(FLAT, reviewed_attributes={"Sex": "x"}), "Sex is not one of the attributes: Likes"),
        (changed(FLAT, reviewed_attributes={"Likes": "  "}), "must not be empty"),
        (
            changed(FLAT, detail_at_least={"Towm": 0.1}),
            "Towm is not one of the columns that the lattice generalizes: Town, Age; did you mean Town?",
        ),
        (changed(FLAT, detail_at_least={"Sex": 0.1}), "Sex is not one of the columns that the lattice generalizes"),
        (changed(FLAT, detail_at_least={"Town": 1.5}), "it must be at most 1"),
        (with_column(hierarchy="agee"), "there is no hierarchy 'agee'; did you mean age?"),
        (with_column(column="sex"), "column sex is listed twice"),
        (with_column(release_as="likes"), "the release already has a column Likes"),
        (with_column(release_as="Record"), "Record is a column of the store: choose another name"),
        (with_column(release_as="class_size"), "class_size is a column of the store: choose another name"),
        (with_column(release_as="row_key"), "row_key is a column of the store: choose another name"),
        (with_column(release_as="ROWID"), "ROWID is a column of the store: choose another name"),
        (with_column(release_as="2nd"), "begins with a letter"),
        (changed(FLAT, source={"kind": "flat", "file": "../people.csv"}), "not absolute, without '..'"),
        (changed(FLAT, source={"kind": "flat", "file": "in/../../people.csv"}), "not absolute, without '..'"),
        (changed(FLAT, source={"kind": "flat", "file": "/people.csv"}), "not absolute, without '..'"),
        (changed(FLAT, population={"file": "../everyone.csv"}), "not absolute, without '..'"),
        (changed(FLAT, population={"file": "/everyone.csv"}), "not absolute, without '..'"),
        (changed(FLAT, risk={"k": 1, "max_suppressed": 0.0}), "1 is not allowed: it must be at least 2"),
        (changed(FLAT, risk={"k": 5, "max_suppressed": 1.0}), "must be below 1"),
        (changed(FLAT, rsik={}), "unknown key; did you mean risk?"),
        (changed(FLAT, risk={"k": 5, "max_suppressed": 0.1, "loss": "entropi"}), "did you mean entropy?"),
        (changed(FLAT, hierarchies__age={"kind": "intervals", "levels": [{"name": "years", "width": 1}]}), "are read as text"),
        (changed(FLAT, quasi_identifiers=[]), "must contain at least 1"),
        (
            changed(FLAT, attribute_disclosure={"sensitive": ["likes"]}),
            "attribute likes is not one of Likes; did you mean Likes?",
        ),
        (changed(FLAT, attribute_disclosure={"ordered": ["Sex"]}), "sensitive attribute Sex is not one of Likes"),
        (changed(FLAT, attribute_disclosure={"sensitive": ["Likes", "Likes"]}), "attribute Likes is listed twice"),
        (
            changed(FLAT, attribute_disclosure={"sensitive": [], "l_at_least": 2.0}),
            "cannot gate, because no attribute is sensitive",
        ),
        (
            changed(FLAT, attributes=[], attribute_disclosure={"t_at_most": 0.2}),
            "cannot gate, because no attribute is sensitive",
        ),
        (changed(FLAT, attribute_disclosure={"l_at_least": 1.0}), "must be above 1"),
    ],
)
def test_what_is_wrong_is_said(values, message):
    assert message in refusal(values)


def test_a_lattice_too_large_for_memory_is_refused_where_losses_depend_on_classes():
    values = copy.deepcopy(FLAT)
    values["hierarchies"]["deep"] = {
        "kind": "prefixes", "lengths": [None, *range(40, -1, -1)],
    }  # fmt: skip
    values["quasi_identifiers"] = [{"column": f"c{n}", "release_as": f"C{n}", "hierarchy": "deep"} for n in range(5)]
    values["risk"]["loss"] = "discernibility"
    assert "the lattice has 130,691,232 nodes, and of more than 2,000,000 the best is found by losses" in refusal(values)
    values["risk"]["loss"] = "entropy"
    assert policy_from(values).node_count == 130_691_232
