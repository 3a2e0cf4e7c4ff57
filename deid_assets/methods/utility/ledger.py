"""The why ledger: every delivered row and value that a release lacks, with the one step that left it out.

Rows come first: each delivered row ends at the first step, in a fixed order, whose rule applies to it. The values of the rows
that are left are then followed through the steps that change values. So each value is lost or first changed at one step, and
the steps add up to what was delivered (methods#why-ledger).

A fate is found from the rule of the step, never as the rest of a subtraction: a row that no rule explains is `unaccounted`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deid_assets.errors import StoreError
from deid_assets.methods.lattice.information_loss import entropy
from deid_assets.methods.preparation.eligibility import UNREAD_CODE, NewbornRule, is_no_newborn, is_procedure
from deid_assets.store.tables import Table, is_of, literal, quoted, write_table

RELEASED, UNACCOUNTED = "released", "unaccounted"

_OF_MEMBERS = ("opted_out", "withdrew", "sensitive", "unread_code", "claim_in_quarantine")
MEMBER_STEPS = (*_OF_MEMBERS, "no_eligible_claim", "sample", "long_tail", "suppression")
CLAIM_STEPS = ("newborn", "no_procedure", *_OF_MEMBERS, "sample", "long_tail", "suppression")
OTHER_EVENT_STEPS = ("newborn", *_OF_MEMBERS, "no_eligible_claim", "sample", "long_tail", "suppression")
"""The steps that leave out rows, in the order in which the first that applies counts; the last are of other events."""

REASONS: Mapping[str, str] = {
    "delivered": "",
    "intake": "the row broke a rule of the intake, and is kept in quarantine",
    "unreadable": "the code is not known; the intake blanked it",
    "newborn": "claims of newborns",
    "no_procedure": "the claim's code is no medical procedure",
    "opted_out": "the member opted out",
    "withdrew": "the member opted out of all releases",
    "sensitive": "the member has a sensitive code, or a rare and visible disease",
    "unread_code": "the member has a code that cannot be read, and may be a sensitive one",
    "claim_in_quarantine": "the member has a claim in quarantine",
    "no_eligible_claim": "the member has no eligible claim",
    "sample": "the member was not drawn for the random sample",
    "long_tail": "the long tail of claims was cut, and so were numbers of claims that too few members share",
    "suppression": "the member was flagged, or stands out beside an earlier release",
    UNACCOUNTED: "no rule explains it",
    "withheld": "the column is not published",
    "grouping": "values are replaced by groups; a value without a group is blank",
    "top_coding": "large values are one class",
    "dates": "dates are redrawn, and what is derived from them is computed again",
    "provider_suppression": "too few providers share the pattern of care",
    "pseudonyms": "identifiers are replaced by pseudonyms",
    "generalization": "values are replaced by classes of the chosen level",
}
"""Every step, and why it leaves out or changes something."""

STEP_ORDER = "place"
"""The column with the order of the steps of one delivered table or column."""

COLUMNS = (
    "source_table", "source_column", "released_as", STEP_ORDER, "step", "reason", "lost", "changed", "filled", "remaining",
    "bits",
)  # fmt: skip


@dataclass(frozen=True)
class LedgerTables:
    """The tables from which fates follow.

    Attributes
    ----------
    members, claims, quarantined, delivered_codes
        The delivery in canonical form, what the intake quarantined, and how many codes it blanked.
    code_book, removed, eligible_members, eligible_claims, sample, profiles, suppressed
        What the steps decided.
    held
        Claims left after the long tail is cut.
    """

    members: Table
    claims: Table
    quarantined: Table
    delivered_codes: Table
    code_book: Table
    removed: Table
    eligible_members: Table
    eligible_claims: Table
    sample: Table
    profiles: Table
    held: Table
    suppressed: Table


def member_fates(tables: LedgerTables) -> str:
    """SELECT member_id and fate of every delivered member, in the order of their rows.

    The fate is a step of MEMBER_STEPS, RELEASED or UNACCOUNTED.
    """
    t = tables
    # DISTINCT, because in a CASE the whole list becomes a hash table.
    return f"""
        WITH removed AS (
            SELECT member_id, CASE WHEN bool_or(reason = 'opted out') THEN 'opted_out'
                WHEN bool_or(reason = 'withdrew') THEN 'withdrew' WHEN bool_or(sensitive) THEN 'sensitive'
                WHEN bool_or(reason = '{UNREAD_CODE}') THEN 'unread_code'
                WHEN bool_or(reason = 'a claim in quarantine') THEN 'claim_in_quarantine'
                ELSE '{UNACCOUNTED}' END AS fate
            FROM {t.removed.sql} GROUP BY member_id)
        SELECT m.member_id, CASE
            WHEN r.fate IS NOT NULL THEN r.fate
            WHEN m.member_id NOT IN (SELECT DISTINCT member_id FROM {t.eligible_claims.sql} WHERE {is_of(t.eligible_claims)})
                THEN 'no_eligible_claim'
            WHEN m.member_id NOT IN (SELECT member_id FROM {t.eligible_members.sql}) THEN '{UNACCOUNTED}'
            WHEN m.member_id NOT IN (SELECT member_id FROM {t.sample.sql}) THEN 'sample'
            WHEN p.released IS DISTINCT FROM true THEN
                CASE WHEN m.member_id IN (SELECT DISTINCT member_id FROM {t.held.sql} WHERE {is_of(t.held)})
                    THEN '{UNACCOUNTED}' ELSE 'long_tail' END
            WHEN m.member_id IN (SELECT member_id FROM {t.suppressed.sql}) THEN 'suppression'
            ELSE '{RELEASED}' END AS fate
        FROM {t.members.sql} AS m
        LEFT JOIN removed AS r USING (member_id) LEFT JOIN {t.profiles.sql} AS p USING (member_id)
        ORDER BY m.rowid"""


def claim_fates(tables: LedgerTables, members: Table, newborn: NewbornRule | None, drop_non_procedures: bool) -> str:
    """SELECT the fate of every delivered claim, in the order of their rows: a step, RELEASED or UNACCOUNTED.

    Parameters
    ----------
    members
        `member_fates`.
    newborn, drop_non_procedures
        As for `eligible_claims`.
    """
    t = tables
    of_newborn = "false" if newborn is None else f"NOT {is_no_newborn(newborn, 'm', 'c')}"
    no_procedure = f"{is_procedure('c', 'book')} IS NOT TRUE" if drop_non_procedures else "false"
    return f"""
        SELECT CASE
            WHEN f.fate IS NULL THEN '{UNACCOUNTED}'
            WHEN e.claim_id IS NULL THEN CASE WHEN {of_newborn} THEN 'newborn'
                WHEN {no_procedure} THEN 'no_procedure' ELSE '{UNACCOUNTED}' END
            WHEN f.fate = 'no_eligible_claim' AND {is_of(t.claims, alias="c.")} THEN '{UNACCOUNTED}'
            WHEN f.fate NOT IN ('suppression', '{RELEASED}') THEN f.fate
            WHEN h.claim_id IS NULL THEN 'long_tail'
            ELSE f.fate END AS fate
        FROM {t.claims.sql} AS c
        LEFT JOIN {t.members.sql} AS m ON m.member_id = c.member_id
        LEFT JOIN {members.sql} AS f ON f.member_id = c.member_id
        LEFT JOIN (SELECT code, is_procedure FROM {t.code_book.sql} WHERE kind = 'procedure') AS book ON book.code = c.cpt
        LEFT JOIN (SELECT claim_id FROM {t.eligible_claims.sql}) AS e USING (claim_id)
        LEFT JOIN (SELECT claim_id FROM {t.held.sql} WHERE member_id IN (
            SELECT member_id FROM {members.sql} WHERE fate IN ('suppression', '{RELEASED}'))) AS h USING (claim_id)
        ORDER BY c.rowid"""


def write_fates(fates: Table, found: str, rows: Table) -> Table:
    """Write the fate of each row of a delivered table, so that it stands at the place of its row.

    Parameters
    ----------
    found
        `member_fates` or `claim_fates`.
    rows
        The delivered table.

    Raises
    ------
    StoreError
        If a row has several fates, because an identifier is not unique in a table that tells them.
    """
    # As an enumeration, because all rows are grouped by their fates once for each column.
    steps = ", ".join(map(literal, dict.fromkeys((*CLAIM_STEPS, *MEMBER_STEPS, RELEASED, UNACCOUNTED))))
    small = f"SELECT * REPLACE (fate::ENUM ({steps}) AS fate) FROM ({found})"
    written, delivered = write_table(fates, small), rows.count()
    if written != delivered:
        raise StoreError(
            f"{delivered} rows of {rows.name} have {written} fates, because identifiers in the store are not unique; "
            "run again from the intake"
        )
    return fates


@dataclass(frozen=True)
class Form:
    """A column after a step that changes values.

    Attributes
    ----------
    step
        The step.
    sql
        Its value as text; NULL where blank.
    renames
        Whether the step replaces every value by another name, which says as much.
    """

    step: str
    sql: str
    renames: bool = False


@dataclass(frozen=True)
class Followed:
    """A delivered column and what becomes of it.

    Attributes
    ----------
    table, column
        The delivered table, and the canonical column.
    forms
        The steps after those that leave out rows, in order; without one, the column is withheld.
    released_as
        Its name in the release; empty if it is withheld.
    domain
        Column of `value_domains` by which the last form is generalized; None if nothing generalizes it.
    level
        Its level.
    missing_is_value
        Whether a blank is a value that may join a class.
    unique
        Whether every row has a value of its own.
    """

    table: str
    column: str
    forms: tuple[Form, ...] = ()
    released_as: str = ""
    domain: str | None = None
    level: int = 0
    missing_is_value: bool = False
    unique: bool = False


@dataclass(frozen=True)
class RowFates:
    """The fate of every row of a delivered table.

    Only the released rows are copied: what becomes of a value in another row, its fate says.

    Attributes
    ----------
    delivered
        The delivered table.
    fates
        What `write_fates` wrote: the fate of each of its rows, in their order.
    released
        The released rows, with all that was delivered and what the steps made of it, as the forms name it.
    """

    delivered: Table
    fates: Table
    released: Table

    def numbers(self) -> dict[str, int]:
        """How many rows have each fate."""
        found = self.fates.query(f"SELECT fate::VARCHAR AS fate, count(*) AS n FROM {self.fates.sql} GROUP BY ALL")
        return dict(zip(found["fate"], found["n"].tolist(), strict=True))

    def followed_values(self, column: Followed) -> pd.DataFrame:
        """Each fate, v0 (the delivered text), v1 .. (each form) and n: how many rows have them."""
        # A key needs no text for each row: its values are as many as its rows.
        delivered = "'a key'" if column.unique else f"{quoted(column.column)}::VARCHAR"
        forms = ["'a key'" if column.unique else f"({form.sql})::VARCHAR" for form in column.forms]
        # The rows of two tables side by side: a join would first build a table of all rows.
        return self.delivered.query(
            f"""SELECT fate::VARCHAR AS fate, * EXCLUDE (fate) FROM (
                  SELECT fate, {delivered} AS v0{"".join(f", NULL::VARCHAR AS v{n}" for n, _ in enumerate(forms, 1))},
                    count(*) AS n
                  FROM (SELECT {quoted(column.column)} FROM {self.delivered.sql})
                    POSITIONAL JOIN (SELECT fate FROM {self.fates.sql})
                  WHERE fate <> '{RELEASED}' GROUP BY ALL)
                UNION ALL
                SELECT '{RELEASED}', {delivered} AS v0{"".join(f", {form} AS v{n}" for n, form in enumerate(forms, 1))},
                  count(*) AS n
                FROM {self.released.sql} GROUP BY ALL HAVING count(*) > 0"""
        )


@dataclass(frozen=True)
class ColumnClasses:
    """The classes of a column at the released level.

    Attributes
    ----------
    labels
        Label by value, as text; '' is the missing value. Values without a label are not in it.
    coarse
        The values whose class holds others.
    """

    labels: Mapping[str, str]
    coarse: frozenset[str]

    @classmethod
    def of(cls, domain: pd.DataFrame) -> "ColumnClasses":
        """From the rows of `value_domains` of one column and level."""
        sizes = domain.groupby("level_code")["value"].transform("nunique")
        values, there = domain["value"], domain["label"].notna()
        return cls(dict(zip(values[there], domain.loc[there, "label"], strict=True)), frozenset(values[sizes > 1].tolist()))


def row_account(table: str, steps: Sequence[str], fates: Mapping[str, int], quarantined: int) -> list[tuple]:
    """The rows of the ledger about the rows of a table.

    Parameters
    ----------
    steps
        MEMBER_STEPS, CLAIM_STEPS or OTHER_EVENT_STEPS.
    fates
        Number of canonical rows by fate.
    quarantined
        Rows that the intake quarantined.
    """
    account = _Account(table, "", "", quarantined + sum(fates.values()))
    account.step("intake", lost=quarantined)
    for step in (*steps, *([UNACCOUNTED] if fates.get(UNACCOUNTED) else [])):
        account.step(step, lost=int(fates.get(step, 0)))
    return account.rows


def value_account(
    column: Followed,
    steps: Sequence[str],
    groups: pd.DataFrame,
    classes: ColumnClasses | None,
    quarantined: int,
    unreadable: int,
) -> list[tuple]:
    """The rows of the ledger about the values of a column.

    Parameters
    ----------
    steps
        MEMBER_STEPS, CLAIM_STEPS or OTHER_EVENT_STEPS.
    groups
        Rows of `RowFates.followed_values`.
    classes
        If a hierarchy generalizes the column.
    quarantined, unreadable
        Values in quarantined rows, and those that the intake blanked.
    """
    values = groups[groups["v0"].notna()]
    numbers, fates = values["n"].to_numpy(), values["fate"].to_numpy()
    account = _Account(column.table, column.column, column.released_as, quarantined + unreadable + int(numbers.sum()))
    account.step("intake", lost=quarantined)
    account.step("unreadable", lost=unreadable)
    # A blank that has a label in the release is a value before, too: otherwise the release would seem to add information.
    blank_counts = column.missing_is_value and classes is not None and classes.labels.get("") is not None
    valued = groups.fillna({"v0": ""}) if blank_counts else values
    codes, _ = pd.factorize(valued["v0"])
    left = np.bincount(codes, valued["n"])
    account.bits(_bits(left, column.unique))
    for step in (*steps, *([UNACCOUNTED] if (fates == UNACCOUNTED).any() else [])):
        account.step(step, lost=int(numbers[fates == step].sum()))
        gone = (valued["fate"] == step).to_numpy()
        left = left - np.bincount(codes[gone], valued["n"].to_numpy()[gone], len(left))
        account.bits(_bits(left, column.unique))
    released = groups[groups["fate"] == RELEASED]
    if not column.forms:
        account.step("withheld", lost=int(left.sum()))
        account.bits(0.0)
        return account.rows
    before, same = released["v0"], released["v0"].notna()
    for number, form in enumerate(column.forms, 1):
        now = released[f"v{number}"]
        changed = same & now.notna() & ((now != before) | form.renames)
        _value_step(account, form.step, released["n"], before, now, changed)
        same &= ~changed
        account.bits(_bits(_counts(now.fillna("") if blank_counts else now, released["n"]), column.unique))
        before = now
    if classes is not None:
        values_now = before.fillna("") if column.missing_is_value else before
        key = values_now.str.removesuffix("+")
        now = key.map(classes.labels)
        changed = same & now.notna() & key.isin(classes.coarse)
        _value_step(account, "generalization", released["n"], before, now, changed)
        account.bits(_bits(_counts(now, released["n"]), column.unique))
    return account.rows


def _value_step(account: "_Account", step: str, n: pd.Series, before: pd.Series, now: pd.Series, changed: pd.Series) -> None:
    lost, filled = before.notna() & now.isna(), before.isna() & now.notna()
    account.step(step, int(n[lost].sum()), int(n[changed].sum()), int(n[filled].sum()))


def _counts(values: pd.Series, numbers: pd.Series) -> np.ndarray:
    """How often each value occurs; blanks are none."""
    codes, _ = pd.factorize(values)
    return np.bincount(codes + 1, numbers)[1:]


def _bits(counts: np.ndarray, unique: bool) -> float:
    return float(np.log2(max(counts.sum(), 1))) if unique else entropy(counts)


class _Account:
    """The steps of one column, or of the rows of a table; what remains after each follows from those before."""

    def __init__(self, table: str, column: str, released_as: str, delivered: int) -> None:
        self._of = (table, column, released_as)
        self._remaining = delivered
        self.rows: list[tuple] = []
        self.step("delivered")

    def step(self, name: str, lost: int = 0, changed: int = 0, filled: int = 0) -> None:
        self._remaining += filled - lost
        place = len(self.rows)
        self.rows.append((*self._of, place, name, REASONS[name], lost, changed, filled, self._remaining, None))

    def bits(self, bits: float) -> None:
        """Entropy of the values after the last step."""
        self.rows[-1] = (*self.rows[-1][:-1], bits)


def ledger_frame(rows: Sequence[tuple]) -> pd.DataFrame:
    """The ledger as a table."""
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    texts = dict.fromkeys(("source_table", "source_column", "released_as", "step", "reason"), "str")
    numbers = dict.fromkeys((STEP_ORDER, "lost", "changed", "filled", "remaining"), "int64")
    return frame.astype({**texts, **numbers, "bits": "float64"})
