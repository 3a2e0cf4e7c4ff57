"""Policies that are refused before the search: what is said to whom."""

import pandas as pd
import pytest

from deid_assets.assessments.reachable_risk import require_reachable
from deid_assets.errors import RefusedError


def reached(*proven: bool) -> pd.DataFrame:
    rows = [("share at high risk", 0.4713, 0.4, 0.008, one, True, "share at high risk: 0.4713 at ...") for one in proven]
    rows.append(("factor of absence", 1.1, 1.0, 1.25, True, False, ""))
    return pd.DataFrame(rows, columns=["gate", "measured", "least", "limit", "proven", "ruled_out", "against"])


@pytest.mark.parametrize(("proven", "can"), [(True, "can pass"), (False, "is likely to pass")])
def test_who_may_not_see_exact_numbers_is_told_the_failed_gates_and_where_the_remedy_is(proven, can):
    with pytest.raises(RefusedError, match=r"0\.4713 at .*--go-on") as raised:
        require_reachable(reached(proven))
    assert raised.value.sentence == (
        f"no generalization of this policy {can} (failed gates: share at high risk, at most 0.0080); the report of the "
        "refusal, in the restricted store, says what helps, such as a larger population or coarser quasi-identifiers"
    )


def test_a_policy_that_nothing_rules_out_is_searched():
    require_reachable(reached())
