"""Verdicts on policies, and tables in the form of Malin et al. (2011, Tables 3 and 4) (methods#demographics-risk)."""

from collections.abc import Collection

import pandas as pd

from deid_assets.methods.demographics.risk import no_riskier


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
