"""The value domains of a policy's columns."""

from deid_assets.policy.domains import value_domains_of
from deid_assets.policy.loading import policy_from
from deid_assets_tests.methods.small_tables import small_store
from deid_assets_tests.policy.policy_texts import public_values

EARLIER = "days_in_hospital_before"


def test_only_the_known_days_in_hospital_are_top_coded():
    """A declared column has values of its own, whatever it is called: its label for 3 days is not that of 3 and more."""
    values = public_values()
    column = {"kind": "integer", "from": "Before", "meaning": "days in hospital before year 1"}
    values["columns"] = {"members": {EARLIER: column}}
    values["quasi_identifiers"]["members"].append({"column": EARLIER, "release_as": "Before", "hierarchy": "days_in_hospital"})
    values["dimensions"].append({"name": "before", "columns": [EARLIER]})
    values["number_of_claims"]["reference"]["before"] = values["number_of_claims"]["reference"]["days_in_hospital"]
    policy = policy_from(values)
    of_members, of_claims = list(policy.member_columns), list(policy.claim_names)
    with small_store() as store:
        days = [(0, 3)] * 200 + [(3, 0)] * 200
        members = store.table("members", "days_in_hospital_y2 INTEGER, days_in_hospital_y3 INTEGER", days)
        types = ", ".join(f"{name} {'INTEGER' if name in policy.numbers else 'VARCHAR'}" for name in (*of_members, *of_claims))
        row = {"age": 40, "sex": "F", "days_in_hospital_y2": 3, "days_in_hospital_y3": 3, EARLIER: 3}
        held = store.table("held", types, [[row.get(name) for name in (*of_members, *of_claims)]])
        domains = value_domains_of(policy, members, held, held)
    labels = domains[(domains["value"] == "3") & (domains["level"] == 0)].set_index("quasi_identifier")["label"]
    assert labels["days_in_hospital_y2"] != labels[EARLIER] == "3"
