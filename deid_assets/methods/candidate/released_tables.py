"""The candidate: the exact rows to be published, at the chosen generalization, in the Heritage formats.

Of claim columns that are published without a hierarchy: who has their values, and the labels withheld beside them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from deid_assets.methods.population.encoding import label_joins
from deid_assets.methods.preparation.top_coding import TopCode
from deid_assets.reference.known_columns import EVENT_TABLE
from deid_assets.store.tables import Table, literal, quoted


def generalized_members(profiles: Table, domains: Table, levels: Mapping[str, int]) -> str:
    """SELECT member_id, released and the label of every member-level quasi-identifier, for the whole population."""
    labels, joins = label_joins(domains, levels, profiles.columns(), "p", missing_is_value=True)
    selects = [f"{label} AS {quoted(column)}" for label, column in zip(labels, levels, strict=True)]
    return f"SELECT p.member_id, p.released, {', '.join(selects)} FROM {profiles.sql} AS p {joins}"


def generalized_claims(
    claims: Table, domains: Table, levels: Mapping[str, int], others: Sequence[str] = (), members: str | None = None
) -> str:
    """SELECT claim_id, member_id, the label of every claim-level quasi-identifier, and other columns unchanged.

    Parameters
    ----------
    members
        A SELECT of member_id; only their claims are selected. None selects all.
    """
    labels, joins = label_joins(domains, levels, claims.columns(), "c", missing_is_value=False)
    selects = [f"{label} AS {quoted(column)}" for label, column in zip(labels, levels, strict=True)]
    selects += [f"c.{quoted(column)}" for column in others]
    where = f" WHERE c.member_id IN ({members})" if members else ""
    return f"SELECT c.claim_id, c.member_id, {', '.join(selects)} FROM {claims.sql} AS c {joins}{where}"


def kept_members(profiles: Table, suppressed: Table) -> str:
    """SELECT the member_id of those in the sample who are not left out."""
    return f"SELECT member_id FROM {profiles.sql} WHERE released AND member_id NOT IN (SELECT member_id FROM {suppressed.sql})"


@dataclass(frozen=True)
class Recoding:
    """The tables of the restricted store by which released rows are recoded.

    Attributes
    ----------
    profiles, suppressed
        Delivered members, and those of the sample who are left out.
    crosswalk, domains
        Pseudonyms, and the labels of every value.
    """

    profiles: Table
    suppressed: Table
    crosswalk: Table
    domains: Table

    @property
    def kept(self) -> str:
        """SELECT the member_id of those who are released."""
        return kept_members(self.profiles, self.suppressed)


def members_query(of: Recoding, levels: Mapping[str, int], names: Mapping[str, str]) -> str:
    """SELECT the members table of the release: MemberID and the member-level quasi-identifiers released in it.

    Parameters
    ----------
    levels
        Level of every member-level quasi-identifier.
    names
        Released name of each quasi-identifier, except those in the days-in-hospital table.
    """
    released = ", ".join(f"m.{quoted(column)} AS {quoted(name)}" for column, name in names.items())
    return f"""
        SELECT x.pseudonym AS "MemberID", {released}
        FROM ({generalized_members(of.profiles, of.domains, levels)}) AS m
        JOIN ({of.kept}) AS kept USING (member_id)
        JOIN {of.crosswalk.sql} AS x ON x.kind = 'member' AND x.original_id = m.member_id
        ORDER BY x.pseudonym
    """


def days_query(of: Recoding, levels: Mapping[str, int], years: Mapping[str, str], beside: Mapping[str, str]) -> str:
    """SELECT Year, MemberID, ClaimsTruncated, DaysInHospital: one row per member and year of enrolment.

    A row shows in which year a member was enrolled, and ClaimsTruncated shows who had many claims. Both are among the
    member-level quasi-identifiers on which risk is measured (methods#hierarchies).

    Parameters
    ----------
    years
        Column of the days in hospital for each released year, such as {'Y2': 'days_in_hospital_y2'}.
    beside
        Released name of each quasi-identifier that is released beside them.
    """
    others = "".join(f"m.{quoted(column)} AS {quoted(name)}, " for column, name in beside.items())
    if not years:
        blank = "".join(f"NULL::VARCHAR AS {quoted(name)}, " for name in beside.values())
        return f"""SELECT NULL::VARCHAR AS "Year", NULL::BIGINT AS "MemberID", {blank}NULL::VARCHAR AS "DaysInHospital"
            WHERE false"""
    parts = [
        f"""SELECT '{year}' AS "Year", x.pseudonym AS "MemberID", {others}m.{quoted(column)} AS "DaysInHospital"
            FROM generalized AS m JOIN kept USING (member_id)
            JOIN {of.crosswalk.sql} AS x ON x.kind = 'member' AND x.original_id = m.member_id
            WHERE m.{quoted(column)} IS NOT NULL"""
        for year, column in years.items()
    ]
    return f"""
        WITH generalized AS ({generalized_members(of.profiles, of.domains, levels)}),
             kept AS ({of.kept})
        {" UNION ALL ".join(parts)} ORDER BY 1, 2
    """


def passed_on(pay_delay: TopCode | None, attributes: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the released columns of claims that no hierarchy generalizes: released name -> expression on the claims c.

    Parameters
    ----------
    pay_delay
        Top code of payment delays; None if no claim has one.
    attributes
        Released name of each declared attribute, and its column.
    """
    declared = {name: f"c.{quoted(column)}::VARCHAR" for name, column in attributes.items()}
    delay = "c.pay_delay::VARCHAR" if pay_delay is None else pay_delay.text("pay_delay")
    return {"Year": "'Y' || c.year", "PayDelay": delay, "CharlsonIndex": "c.charlson", "SupLOS": "0::TINYINT"} | declared


def with_connected_dates(
    claims: str, date: str, connected: Mapping[str, tuple[str, Mapping[str, tuple[int, int]] | None]]
) -> str:
    """SELECT released claims with dates that are connected to the date of service (methods#dates).

    A connected date is the date of service and a number of days within its released distance, drawn uniformly by a hash of what
    the row shows: it follows from the other columns, and rows that show the same show the same date. A distance that is blank
    or open-ended gives no date.

    Parameters
    ----------
    claims
        A SELECT of `release_claims`.
    date
        Released name of the date, or day, of service.
    connected
        By released name of the connected date: the released name of the distance, and fewest and most days of each of its
        labels that has an end; None if labels are numbers of days.
    """
    shown = []
    for name, (distance, labels) in connected.items():
        label = f"r.{quoted(distance)}"
        days = f"try_cast({label} AS INTEGER)"
        if labels is not None:
            drawn = f"md5_number_lower(concat_ws('|', r.\"MemberID\", r.{quoted(date)}, {label}))"
            cases = [f"WHEN {literal(one)} THEN {low} + {drawn} % {high - low + 1}" for one, (low, high) in labels.items()]
            days = f"(CASE {label} {' '.join(cases)} END)::INTEGER" if cases else "NULL::INTEGER"
        shown.append(f", r.{quoted(date)} + {days} AS {quoted(name)}")
    return f"SELECT r.*{''.join(shown)} FROM ({claims}) AS r ORDER BY ALL" if shown else claims


@dataclass(frozen=True)
class PublishedClaims:
    """How the columns of claims are published.

    Attributes
    ----------
    names
        Released name of every claim-level quasi-identifier.
    pay_delay
        Top code of payment delays; None if no claim has one.
    numbers
        The columns that contain whole numbers; columns that are not among the quasi-identifiers do no harm.
    dates
        Columns of released dates and their released names; they follow the year.
    attributes
        Released name of each declared attribute, and its column.
    with_table
        Whether each row begins with the table of events that it is of; that is not published, because each has a file.
    """

    names: Mapping[str, str]
    pay_delay: TopCode | None
    numbers: Collection[str]
    dates: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    with_table: bool = False


def claims_query(
    of: Recoding, claims: str, levels: Mapping[str, int], published: PublishedClaims, with_claim_id: bool = False
) -> str:
    """SELECT the claims table of the release, in the columns and formats of the Heritage files.

    SupLOS is 1 if a delivered length of stay is withheld from the release, and 0 if it is released or was not delivered.
    It is 0 always, because no rule withholds single lengths of stay.

    Parameters
    ----------
    claims
        A SELECT of truncated claims with base values, whose provider, vendor and PCP are already suppressed.
    levels
        Level of every claim-level quasi-identifier.
    with_claim_id
        Whether each row begins with its claim_id. It identifies the claim, and is for the restricted store only.
    """

    def pseudonym(kind: str, column: str, released: str) -> tuple[str, str]:
        join = f"LEFT JOIN {of.crosswalk.sql} AS {kind} ON {kind}.kind = '{kind}' AND {kind}.original_id = c.{column}"
        return f'{kind}.pseudonym AS "{released}"', join

    ids = [
        pseudonym("provider", "provider_id", "ProviderID"),
        pseudonym("vendor", "vendor_id", "Vendor"),
        pseudonym("pcp", "pcp_id", "PCP"),
    ]
    types = {column: "INTEGER" if column in published.numbers else "VARCHAR" for column in levels}
    found, label_join = label_joins(of.domains, levels, types, "c", missing_is_value=False)
    labels = [f"{label} AS {quoted(published.names[column])}" for label, column in zip(found, levels, strict=True)]
    joins = [*(join for _, join in ids), label_join]
    shown_dates = [f"c.{quoted(column)} AS {quoted(name)}" for column, name in published.dates.items()]
    passed = [
        f"{expression} AS {quoted(name)}" for name, expression in passed_on(published.pay_delay, published.attributes).items()
    ]
    year, *others = passed
    first = f"{'c.claim_id, ' if with_claim_id else ''}{f'c.{EVENT_TABLE}, ' if published.with_table else ''}"
    return f"""
        SELECT {first}member.pseudonym AS "MemberID",
               {", ".join(select for select, _ in ids)}, {", ".join([year, *shown_dates, *labels, *others])}
        FROM ({claims}) AS c
        JOIN ({of.kept}) AS kept USING (member_id)
        JOIN {of.crosswalk.sql} AS member ON member.kind = 'member' AND member.original_id = c.member_id
        {" ".join(joins)}
        ORDER BY ALL
    """


def members_by_value(staged: Table, held: Table, expressions: Mapping[str, str]) -> str:
    """SELECT singled and members: released members with a rare value of a column, or of several together, and those with any.

    Also singled_claims and claims: the released claims with such a value, and those with any. The query has one parameter, k: a
    value is rare if fewer than k members of the delivery have it. Of several columns, a blank is a value like any other.

    Parameters
    ----------
    staged
        The published claims as read back.
    held
        The claims of all delivered members.
    expressions
        Released name of each column, and how it is made of `held`, called c.
    """
    values = ", ".join(f"({expression})::VARCHAR AS v{at}" for at, expression in enumerate(expressions.values()))
    names = [f"v{at}" for at in range(len(expressions))]
    alike = " AND ".join(f"held.v{at} IS NOT DISTINCT FROM s.{quoted(name)}::VARCHAR" for at, name in enumerate(expressions))
    filled = " OR ".join(f"s.{quoted(name)} IS NOT NULL" for name in expressions)
    return f"""WITH held AS (SELECT {", ".join(names)}, count(DISTINCT member_id) AS members
                FROM (SELECT c.member_id, {values} FROM {held.sql} AS c) GROUP BY ALL)
            SELECT count(DISTINCT "MemberID") FILTER (rare) AS singled, count(DISTINCT "MemberID") AS members,
                count(*) FILTER (rare) AS singled_claims, count(*) AS claims
            FROM (SELECT s."MemberID", coalesce(held.members, 0) < ? AS rare
                FROM {staged.sql} AS s LEFT JOIN held ON {alike} WHERE {filled})"""


def released_with_codes(
    of: Recoding, held: Table, members: Sequence[str], claims: Sequence[str], expressions: Mapping[str, str]
) -> str:
    """SELECT the released claims: member_number, q0, q1 ... (value numbers of the quasi-identifiers), and other columns.

    Parameters
    ----------
    members, claims
        Member-level and claim-level quasi-identifiers, which are numbered in this order.
    expressions
        The other columns: released name, and how it is made of `held`, called c.
    """
    kept = f"(SELECT * FROM {of.profiles.sql} WHERE member_id IN ({of.kept}))"
    of_members, member_joins = label_joins(of.domains, dict.fromkeys(members, 0), of.profiles.columns(), "p", True, "base_code")
    of_claims, claim_joins = label_joins(of.domains, dict.fromkeys(claims, 0), held.columns(), "c", False, "base_code")
    own = ", ".join(f"{code} AS q{number}" for number, code in enumerate(of_members))
    theirs = ", ".join(f"{code} AS q{len(members) + number}" for number, code in enumerate(of_claims))
    passed = ", ".join(f"{expression} AS {quoted(name)}" for name, expression in expressions.items())
    demographics = ", ".join(f"m.q{number}" for number in range(len(members)))
    return f"""WITH m AS (SELECT p.member_id, p.member_number, {own} FROM {kept} AS p {member_joins})
            SELECT m.member_number, {demographics}, {theirs}, {passed}
            FROM {held.sql} AS c JOIN m USING (member_id) {claim_joins} ORDER BY ALL"""
