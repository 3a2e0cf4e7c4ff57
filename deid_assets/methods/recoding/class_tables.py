"""Recoding by class in the tables of the restricted store: labels that depend on the demographic class of a claim's member.

Claims get the number of their member's class. The domain of a claim-level quasi-identifier then has a row for each class and
value, and what joins labels to claims also joins classes (`value_domains.label_joins`). Level 0 of such a domain is what is
released; level l is the level of the class or l, whichever is coarser. Levels therefore nest, and the top is the old top.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from deid_assets.methods.population.value_domains import CLASS, HIERARCHY_CODE, SHOWN_LEVEL, label_joins
from deid_assets.store.tables import Table, quoted

_FURTHER = (CLASS, HIERARCHY_CODE, SHOWN_LEVEL)


def class_domains(domains: pd.DataFrame, levels: pd.DataFrame, claim_columns: Sequence[str]) -> pd.DataFrame:
    """Return the value domains of a release by class.

    Parameters
    ----------
    domains
        The rows of `value_domains`.
    levels
        One row per class, numbered 0, 1, ..: `class`, and the level of each claim-level quasi-identifier by its column.
    claim_columns
        The claim-level quasi-identifiers. The rows of the others stay as they are, without a class.

    Returns
    -------
    pandas.DataFrame
        The columns of `domains`, `class`, `hierarchy_code` and `shown_level` (Int32). Values are ordered by their old number
        first, so that numbers keep their meaning where values are ordered.

    Examples
    --------
    >>> stay = pd.DataFrame({"quasi_identifier": "stay", "base_code": [0, 1] * 2, "value": ["1", "2"] * 2,
    ...     "level": [0, 0, 1, 1], "level_code": [0, 1, 0, 0], "label": ["1", "2", "1-2", "1-2"]})
    >>> found = class_domains(stay, pd.DataFrame({"class": [0, 1], "stay": [0, 1]}), ["stay"])
    >>> found[found["level"] == 0][["class", "value", "label"]].values.tolist()
    [[0, '1', '1'], [1, '1', '1-2'], [0, '2', '2'], [1, '2', '1-2']]
    >>> information_kept(found, pd.DataFrame({"class": [0, 0, 1], "finest": [0, 1, 0], "n": [1, 2, 1]})).tolist()
    [0.75, 0.0]
    """
    others = domains[~domains["quasi_identifier"].isin(claim_columns)]
    unknown = pd.array([pd.NA] * len(others), dtype="Int32")
    parts = [others.assign(**dict.fromkeys(_FURTHER, unknown))]
    for column in claim_columns:
        own = domains[domains["quasi_identifier"] == column]
        parts.append(_by_class(own, levels[column].to_numpy(np.int64)))
    return pd.concat(parts, ignore_index=True).astype(dict(domains.dtypes) | dict.fromkeys(_FURTHER, "Int32"))


def _by_class(own: pd.DataFrame, of_class: np.ndarray) -> pd.DataFrame:
    """The rows of one quasi-identifier for every class.

    Parameters
    ----------
    of_class
        (C,) int: the level of each class.
    """
    classes, height = len(of_class), int(own["level"].max())
    base = own["base_code"].nunique()
    own = own.assign(**{SHOWN_LEVEL: own["level"]})
    parts = []
    for level in range(height + 1):
        shown = np.maximum(of_class, level)
        in_hierarchy = own[own["level"] == level].set_index("base_code")["level_code"]
        frame = pd.concat(
            [own[own["level"] == shown[number]].assign(**{CLASS: number}) for number in range(classes)], ignore_index=True
        )
        # A label of one level is another value than a label of another level, even if they read alike.
        pairs = np.stack([frame[SHOWN_LEVEL].to_numpy(np.int64), frame["level_code"].to_numpy(np.int64)], axis=1)
        _, code = np.unique(pairs, axis=0, return_inverse=True)
        own_code = {HIERARCHY_CODE: frame["base_code"].map(in_hierarchy)}
        base_code = frame["base_code"] * classes + frame[CLASS]
        parts.append(frame.assign(level=level, level_code=code.ravel(), base_code=base_code, **own_code))
    found = pd.concat(parts, ignore_index=True)
    if len(found) != base * classes * (height + 1):
        raise ValueError("a value lacks a level; value_domains is not complete")
    return found.sort_values(["level", "base_code"], ignore_index=True)


def levels_of_classes(domains: pd.DataFrame, levels: Mapping[str, int]) -> pd.DataFrame:
    """Return the level of every class: class, quasi_identifier and shown_level, one row for each.

    Parameters
    ----------
    domains
        The rows of `class_domains`.
    levels
        Level of each quasi-identifier in the release.
    """
    own = domains[domains[CLASS].notna() & (domains["level"] == domains["quasi_identifier"].map(levels))]
    columns = [CLASS, "quasi_identifier", SHOWN_LEVEL]
    return own[columns].drop_duplicates().sort_values(columns, ignore_index=True)


def finest_values(claims: Table, profiles: Table, domains: Table, column: str) -> str:
    """SELECT class, finest and n of a claim-level quasi-identifier: how many released claims have each value.

    `finest` is the number of the value's class at the finest level of the hierarchy.

    Parameters
    ----------
    claims, domains
        Claims with the class of their member, and the domains of a release by class.
    """
    (finest,), join = label_joins(domains, {column: 0}, claims.columns(), "c", missing_is_value=False, what=HIERARCHY_CODE)
    return f"""SELECT c.{CLASS}, {finest} AS finest, count(*) AS n FROM {claims.sql} AS c {join}
        WHERE c.{quoted(column)} IS NOT NULL AND c.member_id IN (SELECT member_id FROM {profiles.sql} WHERE released)
        GROUP BY ALL"""


def information_kept(domain: pd.DataFrame, counts: pd.DataFrame) -> np.ndarray:
    """Return the share of a column's information that is left at every level, as `information_loss.information_kept` does.

    A value of class c that is joined with others loses log2(count(joined values) / count(value)) bits, with counts over all
    classes.

    Parameters
    ----------
    domain
        The rows of `class_domains` of one claim-level quasi-identifier.
    counts
        The rows of `finest_values`.

    Returns
    -------
    np.ndarray
        (levels,) float between 0 and 1.
    """
    of_value = counts.groupby("finest")["n"].sum().astype("float64")
    everything = of_value.sum()
    most = float((of_value * np.log2(everything / of_value)).sum())
    by_class = counts.set_index([CLASS, "finest"])["n"].astype("float64")
    finest = domain[domain["level"] == 0].set_index("base_code")[HIERARCHY_CODE].rename("finest")
    kept = []
    for _, rows in domain.groupby("level"):
        own = rows.join(finest, on="base_code").drop_duplicates([CLASS, "finest"])
        number = own["finest"].map(of_value).fillna(0.0)
        joined = number.groupby([own[CLASS], own["level_code"]]).transform("sum")
        there = pd.Series(by_class.reindex(pd.MultiIndex.from_frame(own[[CLASS, "finest"]])).fillna(0.0).to_numpy(), own.index)
        lost = float((there * np.log2((joined / number).where(there > 0, 1.0))).sum())
        kept.append(1.0 - lost / most if most > 0 else 1.0)
    return np.clip(np.array(kept), 0.0, 1.0)


def member_classes(profiles: Table, domains: Table, class_levels: Table, levels: Mapping[str, int]) -> str:
    """SELECT member_id and class of every member.

    Parameters
    ----------
    domains
        `value_domains`.
    class_levels
        One row per class: `class`, and the number of its label for each member-level quasi-identifier, by its column.
    levels
        Level of each member-level quasi-identifier in the release.
    """
    codes, joins = label_joins(domains, levels, profiles.columns(), "p", missing_is_value=True, what="level_code")
    same = " AND ".join(f"k.{quoted(column)} = {code}" for column, code in zip(levels, codes, strict=True))
    return f"SELECT p.member_id, k.{CLASS} FROM {profiles.sql} AS p {joins} JOIN {class_levels.sql} AS k ON {same}"


def classed_claims(claims: Table, classes: str) -> str:
    """SELECT the claims, each with the class of its member.

    Parameters
    ----------
    classes
        The SELECT of `member_classes`.

    Notes
    -----
    A claim whose member has no class keeps none; the contract of the claims does not allow that.
    """
    return f"SELECT c.*, k.{CLASS}::INTEGER AS {CLASS} FROM {claims.sql} AS c LEFT JOIN ({classes}) AS k USING (member_id)"
