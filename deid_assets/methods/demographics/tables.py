"""Verdicts on policies, and tables in the form of Malin et al. (2011, Tables 3 and 4) (methods#demographics-risk)."""

from collections.abc import Collection

import pandas as pd

from deid_assets.methods.demographics.risk import no_riskier

RISKIER = "*"
"""Mark of a policy that is riskier than the reference."""


def verdicts(
    risks: pd.DataFrame, reference: str = "Safe Harbor", at_upper_bound: bool = False, same: Collection[str] = ()
) -> pd.DataFrame:
    """Return risks with a column `riskier`: whether the policy exceeds the reference in this group by this measure.

    Parameters
    ----------
    risks
        As `policy_risks` returns them; several cohorts may be stacked if their groups have different labels.
    reference
        Name of the policy to compare with.
    at_upper_bound
        Compare the upper bound with the expected risk of the reference, for a population that is only estimated.
    same
        Policies of other names with the levels of the reference. They are as risky as it is; by an upper bound, they would seem
        riskier.

    Raises
    ------
    ValueError
        If the reference was not measured in each group by each measure, or bounds are missing.
    """
    own = risks.loc[risks["policy"] == reference, ["group", "measure", "risk"]].rename(columns={"risk": "of_reference"})
    joined = risks.merge(own, on=["group", "measure"], how="left", validate="many_to_one")
    compared = (
        joined["upper"].where(~joined["policy"].isin([reference, *same]), joined["risk"]) if at_upper_bound else joined["risk"]
    )
    if joined["of_reference"].isna().any() or compared.isna().any():
        raise ValueError(f"the risk of {reference}, and the bounds compared with it, must be known for each group and measure")
    return joined.assign(riskier=~no_riskier(compared.to_numpy(), joined["of_reference"].to_numpy()))


def reference_table(risks: pd.DataFrame, reference: str = "Safe Harbor") -> pd.DataFrame:
    """Return the risk of the reference by measure and group in per cent, as text (Table 3)."""
    own = risks[risks["policy"] == reference]
    shown = own.assign(shown=[_in_per_cent(value, (3, 3, 3)) for value in own["percent"]])
    return _wide(shown, ["measure"])


def alternatives_table(risks: pd.DataFrame, reference: str = "Safe Harbor", at_upper_bound: bool = False) -> pd.DataFrame:
    """Return the risk of all other policies by measure, policy and group in per cent, as text (Table 4).

    A policy that is riskier than the reference is marked with an asterisk. The verdict compares exact risks, not those shown.
    """
    found = verdicts(risks, reference, at_upper_bound)
    others = found[found["policy"] != reference]
    marks = others["riskier"].map({True: RISKIER, False: ""})
    shown = [_in_per_cent(value, (2, 1, 0)) + mark for value, mark in zip(others["percent"], marks, strict=True)]
    return _wide(others.assign(shown=shown), ["measure", "policy"])


def _wide(shown: pd.DataFrame, index: list[str]) -> pd.DataFrame:
    """Spread groups over columns, with rows and columns in the order in which they come."""
    wide = shown.set_index([*index, "group"])["shown"].unstack("group", sort=False)
    return wide.rename_axis(columns=None)


def _in_per_cent(value: float, decimals: tuple[int, int, int]) -> str:
    """Return a percentage with the decimals for numbers below 10, below 100, and of 100.

    0 is exactly 0; what would be rounded to it is shown as less than the smallest number.
    """
    if value == 0:
        return "0"
    below_ten, below_hundred, hundred = decimals
    shown = f"{value:.{hundred if value >= 99.95 else below_hundred if value >= 9.995 else below_ten}f}"
    return f"<{10**-below_ten:.{below_ten}f}" if float(shown) == 0 else shown
