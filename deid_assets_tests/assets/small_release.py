"""A small delivery from the grouped claims to the candidate, with everything that can be missing missing somewhere."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from deid_assets.methods.candidate import released_tables
from deid_assets.methods.population.encoding import value_domain
from deid_assets.methods.population.released_population import ReleasedTables, released_profiles
from deid_assets.methods.preparation.top_coding import TopCode
from deid_assets.store.tables import Table, connect, write_table
from deid_assets_tests.methods.small_tables import SmallStore

MEMBER_COLUMNS = ("age", "sex", "days_in_hospital_y2", "days_in_hospital_y3", "claims_truncated")
NUMBERS = ("length_of_stay",)
CLAIM_NAMES = {"length_of_stay": "LengthOfStay", "condition_group": "PrimaryConditionGroup"}
LISTED = {"age": "AgeAtFirstClaim", "sex": "Sex"}
YEARS = {"Y2": "days_in_hospital_y2", "Y3": "days_in_hospital_y3"}
GROUPS = ("AMI", "CHF", "RENAL3", "UTI")

PROFILE = (
    "member_id VARCHAR, member_number BIGINT, age INTEGER, sex VARCHAR, days_in_hospital_y2 INTEGER,"
    " days_in_hospital_y3 INTEGER, claims_truncated INTEGER, claims BIGINT, released BOOLEAN"
)
CLAIM = (
    "claim_id VARCHAR, member_id VARCHAR, provider_id VARCHAR, vendor_id VARCHAR, pcp_id VARCHAR, year INTEGER,"
    " length_of_stay INTEGER, condition_group VARCHAR, pay_delay INTEGER, charlson VARCHAR"
)


@dataclass(frozen=True)
class SmallRelease:
    """Tables of the restricted store, and the rows that they were made from.

    `members` are (age, sex, days in year 2, days in year 3, truncated, released), `claims` are (member, length of
    stay, condition group, held), both without identifiers: member number i is 'm00i'.
    """

    store: SmallStore
    members: tuple[tuple, ...]
    claims: tuple[tuple, ...]
    profiles: Table
    known: Table
    held: Table
    domains: Table
    power: Table
    crosswalk: Table
    suppressed: Table

    @property
    def released(self) -> list[int]:
        """Numbers of the sampled members."""
        return [number for number, member in enumerate(self.members) if member[-1]]

    @property
    def recoding(self) -> released_tables.Recoding:
        """The tables by which the rows of the release are made."""
        return released_tables.Recoding(self.profiles, self.suppressed, self.crosswalk, self.domains)

    def read_back(self, level: int, member_columns) -> tuple[ReleasedTables, list[int]]:
        """The release and what may be known of it, and the numbers of its members in the order of their pseudonyms."""
        members, claims, days = self.candidate(level, member_columns)
        kept = f'SELECT original_id FROM {self.crosswalk.sql} WHERE pseudonym IN (SELECT "MemberID" FROM {members.sql})'
        levels = dict.fromkeys(CLAIM_NAMES, level)
        known = self.store.write(
            "known_claims", released_tables.generalized_claims(self.known, self.domains, levels, members=kept)
        )
        order = self.store.rows(
            f'SELECT original_id FROM {self.crosswalk.sql} JOIN {members.sql} ON pseudonym = "MemberID" ORDER BY pseudonym'
        )
        profiles = self.profiles_of(members, days, member_columns)
        tables = ReleasedTables(profiles, claims, known, self.crosswalk, member_columns, CLAIM_NAMES)
        return tables, [int(row[0][1:]) for row in order]

    def candidate(self, level: int, member_columns=MEMBER_COLUMNS) -> tuple[Table, Table, Table]:
        """Members, claims and days in hospital as they would be published, all columns at one level."""
        levels = dict.fromkeys(member_columns, level)
        listed = {column: name for column, name in LISTED.items() if column in member_columns}
        members = released_tables.members_query(self.recoding, dict.fromkeys(listed, level), listed)
        beside = {"claims_truncated": "ClaimsTruncated"} if "claims_truncated" in member_columns else {}
        days = released_tables.days_query(self.recoding, levels, YEARS, beside)
        published = released_tables.PublishedClaims(CLAIM_NAMES, TopCode(9), NUMBERS)
        held = f"SELECT * FROM {self.held.sql}"
        claims = released_tables.claims_query(self.recoding, held, dict.fromkeys(CLAIM_NAMES, level), published)
        return (
            self.store.write("release_members", members),
            self.store.write("release_claims", claims),
            self.store.write("release_days_in_hospital", days),
        )

    def profiles_of(self, members: Table, days: Table, member_columns=MEMBER_COLUMNS) -> Table:
        """`released_profiles` of a candidate, as a table."""
        listed = {column: name for column, name in LISTED.items() if column in member_columns}
        return self.store.write("released_profiles", released_profiles(members.sql, days.sql, listed, member_columns))


def label(value, level: int, missing: str | None = None) -> str | None:
    """The label of a value: itself at level 0; joined in pairs of numbers or of first letters at level 1."""
    if value is None:
        return missing
    if level == 0:
        return str(value)
    return f"{value // 2 * 2}-{value // 2 * 2 + 1}" if isinstance(value, int) else "A-M" if value < "N" else "N-Z"


def small_release(store: SmallStore, members, claims, suppressed=()) -> SmallRelease:
    """Write the tables; the order of `claims` is the order in the files.

    As in `member_profiles`, whether claims were truncated is missing for who was enrolled in neither year.
    """
    members = tuple((*m[:4], None if m[2] is None and m[3] is None else m[4], m[5]) for m in members)
    claims = tuple(claims)
    ids = [f"m{number:03}" for number in range(len(members))]
    people = [(ids[i], i, *member[:5], sum(claim[0] == i for claim in claims), member[5]) for i, member in enumerate(members)]
    rows = [
        (f"c{i:04}", ids[member], f"p{member % 2}", None, "pcp", 1 + i % 3, stay, group, i % 12, "0")
        for i, (member, stay, group, _) in enumerate(claims)
    ]
    kept = [row for row, claim in zip(rows, claims, strict=True) if claim[3]]
    columns = {
        **{name: [member[i] for member in members] for i, name in enumerate(MEMBER_COLUMNS)},
        **{name: [claim[i] for claim in claims] for i, name in enumerate(CLAIM_NAMES, start=1)},
    }
    frames = []
    for name, found in columns.items():
        values = sorted({value for value in found if value is not None})
        levels = [np.array([label(value, level) for value in values], dtype=object) for level in (0, 1)]
        codes = [np.unique(level, return_inverse=True)[1] if len(level) else np.zeros(0, int) for level in levels]
        codes[0] = np.arange(len(values))
        frames.append(value_domain(name, values, levels, codes, name in MEMBER_COLUMNS))
    released = [i for i, member in enumerate(members) if member[5]]
    power = [(ids[i], name, 1 + (i + j) % 3) for i in released for j, name in enumerate(CLAIM_NAMES)]
    # Pseudonyms in another order than identifiers, as in life.
    crosswalk = [("member", name, 10**14 + (7 * i) % 1009) for i, name in enumerate(ids)]
    crosswalk += [("provider", f"p{i}", 2 * 10**14 + i) for i in (0, 1)]
    crosswalk += [("pcp", "pcp", 3 * 10**14), ("vendor", "pcp", 4 * 10**14)]
    domains = Table(store.file, "tests", "domains")
    write_table(domains, pd.concat(frames, ignore_index=True))
    tables = _written(
        store,
        profiles=(PROFILE, people),
        known=(CLAIM, rows),
        held=(CLAIM, kept),
        power=("member_id VARCHAR, quasi_identifier VARCHAR, power INTEGER", power),
        crosswalk=("kind VARCHAR, original_id VARCHAR, pseudonym BIGINT", crosswalk),
        suppressed=("member_id VARCHAR", [(ids[i],) for i in suppressed]),
    )
    return SmallRelease(store, members, claims, domains=domains, **tables)


def _written(store: SmallStore, **tables: tuple[str, list[tuple]]) -> dict[str, Table]:
    """Write tables through one connection: opening the file is most of what a small test waits for."""
    with connect(store.file) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS tests")
        for name, (columns, rows) in tables.items():
            pairs = [column.split() for column in columns.split(", ")]
            lists = ", ".join(f"unnest(?::{kind}[]) AS {column}" for column, kind in pairs)
            values = [[row[i] for row in rows] for i in range(len(pairs))]
            connection.execute(f"CREATE OR REPLACE TABLE tests.{name} AS SELECT {lists}", values)
    return {name: Table(store.file, "tests", name) for name in tables}


def random_rows(seed: int, members: int = 12, claims: int = 60) -> tuple[list[tuple], list[tuple]]:
    """Members and claims with much missing and some truncated; no column is missing throughout.

    The first two members are released; the second was enrolled in neither of the years after the first.
    """
    generator = np.random.default_rng(seed)

    def one_of(*values):
        return values[int(generator.integers(len(values)))]

    people = [(30, "F", 0, 0, 0, True), (31, None, None, None, 1, True)]
    people += [
        (one_of(30, 31, 44, None), one_of("F", "M", None), one_of(0, 1, 5, None), one_of(0, 1, None), one_of(0, 1),
         bool(generator.random() < 0.6))
        for _ in range(members - 2)
    ]  # fmt: skip
    rows = [(0, 1, "AMI", True)]
    rows += [
        (
            int(generator.integers(members)),
            one_of(1, 2, 3, None, None),
            one_of(*GROUPS, None),
            bool(generator.random() < 0.8),
        )
        for _ in range(claims - 1)
    ]
    return people, rows
