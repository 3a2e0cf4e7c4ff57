"""Human experts as adversaries: how often they guess a member's condition from the member's released records.

El Emam and Arbuckle (2013, chapter 5) asked 31 pharmacists for the primary condition group, the ICD chapter and the three-digit
code of 20 patients each, from demographics and drugs (methods#expert-review). Deliveries here have no drugs: reviewers see
procedures, places and stays.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deid_assets.methods.statistics.confidence import clopper_pearson_interval
from deid_assets.reference.chapters import category, category_sql, chapter, chapters_of
from deid_assets.reference.codes import bare, plain_code, system_of
from deid_assets.store.tables import Table, quoted

LEVELS = ("condition_group", "chapter", "code")
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Condition:
    """A member's condition, or what a reviewer takes it for; empty where there is no answer."""

    condition_group: str
    chapter: str
    code: str

    @classmethod
    def of(cls, condition_group: str, code: str) -> "Condition":
        """The condition of a diagnosis code, which need not be of three digits."""
        return cls(condition_group, chapter(code) or "", category(code))

    def is_named_by(self, answer: "Condition", level: str) -> bool:
        """Whether an answer as written names the condition.

        Case, dots, blanks and further characters of the code do not matter, a chapter may be named by its title, and the coding
        system goes without saying: it is that of the condition.
        """
        truth, said = getattr(self, level), getattr(answer, level).strip()
        if level == "condition_group" or not truth:
            return bool(truth) and said.upper() == truth.upper()
        if level == "code":
            return (
                bool(said)
                and bare(plain_code(said)).startswith(bare(truth))
                and system_of(said) in ("icd9cm", system_of(truth))
            )
        titles = {title.upper(): bare(name) for name, _, _, title in chapters_of(system_of(truth))}
        return titles.get(said.upper(), said.upper()) in (bare(truth), truth.upper())


@dataclass(frozen=True)
class Score:
    """How often one level was guessed.

    Attributes
    ----------
    level
        One of `LEVELS`.
    right, answered, profiles
        Right answers, answers, and profiles: what was not answered is not right.
    low, high
        Exact 95 % interval of the accuracy (Clopper and Pearson 1934).
    most_frequent
        Profiles with the most frequent value: what somebody gets right who knows it and always names it.
    """

    level: str
    right: int
    answered: int
    profiles: int
    low: float
    high: float
    most_frequent: int


def conditions(claims: Table, delivered: Table, crosswalk: Table, released: Table) -> str:
    """SELECT MemberID | condition_group | code of every released member with a diagnosis.

    The condition is the most frequent condition group of the member's released claims, and the most frequent three-digit code
    within it; of equal frequency, the first.

    Parameters
    ----------
    claims
        claim_id, member_id and condition_group of the claims that are released.
    delivered
        claim_id and diagnosis_1 as delivered.
    """
    return f"""
        WITH counted AS (
            SELECT x.pseudonym AS "MemberID", c.condition_group, {category_sql("o.diagnosis_1")} AS code, count(*) AS n
            FROM {claims.sql} AS c JOIN {delivered.sql} AS o ON o.claim_id = c.claim_id
            JOIN {crosswalk.sql} AS x ON x.kind = 'member' AND x.original_id = c.member_id
            WHERE o.diagnosis_1 IS NOT NULL AND c.condition_group IS NOT NULL
            AND x.pseudonym IN (SELECT "MemberID" FROM {released.sql}) GROUP BY ALL),
        ranked AS (SELECT *, sum(n) OVER (PARTITION BY "MemberID", condition_group) AS of_group FROM counted),
        placed AS (SELECT *, row_number() OVER (PARTITION BY "MemberID" ORDER BY of_group DESC, condition_group, n DESC, code)
            AS place FROM ranked)
        SELECT "MemberID", condition_group, code FROM placed WHERE place = 1 ORDER BY "MemberID" """


def profile_rows(released: Table, numbers: Mapping[int, int], hidden: Sequence[str]) -> str:
    """SELECT the released rows of members, with the number of the profile instead of MemberID.

    Parameters
    ----------
    released
        A released table with MemberID.
    numbers
        Number of the profile, by MemberID.
    hidden
        Columns that are not shown.
    """
    own = ", ".join(f"({int(member)}, {int(number)})" for member, number in numbers.items())
    shown = [quoted(name) for name in released.columns() if name not in ("MemberID", *hidden)]
    return f"""SELECT profile, {", ".join(shown)} FROM (VALUES {own}) AS p ("MemberID", profile)
        JOIN {released.sql} USING ("MemberID") ORDER BY ALL"""


def scores(key: Mapping[tuple[int, int], Condition], answers: Mapping[tuple[int, int], Condition]) -> list[Score]:
    """Compare answers with the key.

    Parameters
    ----------
    key, answers
        By reviewer and profile. Only reviewers of whom there is an answer count.

    Examples
    --------
    >>> right = {(1, 1): Condition("CHF", "7", "428"), (1, 2): Condition("AMI", "7", "410")}
    >>> [(one.level, one.right, one.answered) for one in scores(right, {(1, 1): Condition("CHF", "7", "")})]
    [('condition_group', 1, 1), ('chapter', 1, 1), ('code', 0, 0)]
    """
    reviewers = {reviewer for reviewer, _ in answers}
    asked = {place: condition for place, condition in key.items() if place[0] in reviewers}
    found = []
    for level in LEVELS:
        truth = {place: getattr(condition, level) for place, condition in asked.items()}
        said = {place: one for place, one in answers.items() if getattr(one, level).strip()}
        right = sum(condition.is_named_by(said[place], level) for place, condition in asked.items() if place in said)
        low, high = clopper_pearson_interval(right, len(truth), CONFIDENCE) if truth else (0.0, 1.0)
        most = max(Counter(truth.values()).values(), default=0)
        found.append(Score(level, right, len(said), len(truth), low, high, most))
    return found
