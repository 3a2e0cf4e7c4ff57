"""Which members and claims may not be released (El Emam et al. 2012, Multimedia Appendix 1, section 2; methods#removal)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from deid_assets.reference.codes import ICD10CM_PREFIX
from deid_assets.reference.digits import digits
from deid_assets.reference.known_columns import CODE_COLUMNS, DECLARED_CODES, DIAGNOSES, UNREADABLE, UNREADABLE_DECLARED
from deid_assets.store.tables import Query, Table, is_of

_FURTHER = "string_split(further_diagnoses, ' ')"

LIVEBORN_INFANT = f"{ICD10CM_PREFIX}Z38"
"""Beginning of the codes of ICD-10-CM for liveborn infants: they are for the newborn's own record of birth only."""

NEWBORN_YEARS = 3
"""Members below this age may have been born within a delivery of so many years, or of fewer."""

UNREAD_CODE = "a code that cannot be read"
"""Reason to remove a member, in a policy that removes members for codes."""


def codes_of_claims(claims: Table) -> str:
    """SELECT every code of every claim: claim_id, member_id, kind, listed, code.

    `listed` is the position of a diagnosis on its claim, from 1; further diagnoses follow the fourth. Codes of declared columns
    have the kind by which lists read them.
    """
    single = " UNION ALL ".join(
        f"SELECT claim_id, member_id, '{kind}' AS kind, {listed} AS listed, {column} AS code"
        f" FROM {claims.sql} WHERE {column} IS NOT NULL"
        for kind in UNREADABLE
        for listed, column in enumerate(CODE_COLUMNS[kind], start=1)
    )
    return (
        f"{single} UNION ALL SELECT claim_id, member_id, 'diagnosis' AS kind,"
        f" {len(DIAGNOSES)} + generate_subscripts({_FURTHER}, 1) AS listed, unnest({_FURTHER}) AS code"
        f" FROM {claims.sql} WHERE further_diagnoses IS NOT NULL"
        + "".join(f" UNION ALL SELECT claim_id, member_id, kind, 1 AS listed, code FROM ({one})" for one in _declared(claims))
    )


def _declared(claims: Table) -> Iterator[str]:
    """Yield SQL of the codes of declared columns, if the claims have any: claim_id, member_id, kind, code."""
    if DECLARED_CODES in claims.columns():
        each = (
            f"SELECT claim_id, member_id, unnest(string_split({DECLARED_CODES}, ';')) AS written"
            f" FROM {claims.sql} WHERE {DECLARED_CODES} IS NOT NULL"
        )
        yield (
            "SELECT claim_id, member_id, split_part(written, ':', 1) AS kind, substr(written, strpos(written, ':') + 1) AS code"
            f" FROM ({each})"
        )


def distinct_codes(claims: Table) -> str:
    """SELECT the distinct codes of a delivery with their kind, in order."""
    parts = " UNION ".join(
        f"SELECT DISTINCT '{kind}' AS kind, {column} AS code FROM {claims.sql} WHERE {column} IS NOT NULL"
        for kind, columns in CODE_COLUMNS.items()
        for column in columns
    )
    further = f"SELECT DISTINCT 'diagnosis' AS kind, unnest({_FURTHER}) AS code FROM {claims.sql}"
    declared = "".join(f" UNION SELECT DISTINCT kind, code FROM ({one})" for one in _declared(claims))
    return f"SELECT kind, code FROM ({parts} UNION {further} WHERE further_diagnoses IS NOT NULL{declared}) ORDER BY kind, code"


def removed_members_query(
    members: Table,
    claims: Table,
    quarantined: Table,
    code_book: Table,
    opted_out: Sequence[str],
    listed_kinds: Sequence[str],
    withdrawn: Sequence[str] = (),
    removed_before: Sequence[str] = (),
    reads_declared: bool = True,
) -> Query:
    """SELECT the members who may not be released, one row per member and reason.

    A member with a sensitive code on any claim is removed with all claims, because the other claims would let an adversary
    infer what was deleted. Members who opted out are removed too; their absence discloses only that. Members with a claim in
    quarantine are also removed, because its content is not known to be harmless. If such a claim names no member exactly, it
    may belong to members whose identifier differs only in case, white space, quotes or leading zeros. (A line that could not
    be split into fields names nobody and removes nobody.) A code that cannot be read may be a sensitive one, so that members
    with one are removed, too, where codes of its kind are looked for.

    Parameters
    ----------
    members, claims
        The canonical tables.
    quarantined
        Rows that broke a rule, with `source_table` and the row as JSON under canonical names in `raw_row`.
    code_book
        Distinct codes with `removal_reason`, null if the code is no reason for removal.
    opted_out
        Identifiers of members who opted out; `opt_out_match` counts those not in the delivery.
    listed_kinds
        Kinds of codes (keys of `UNREADABLE`) in the lists by which members are removed.
    withdrawn
        Identifiers of members who opted out of all releases of the home; they need not be in the delivery.
    removed_before
        Identifiers of members who stay removed, because an earlier release removed them for what their claims disclosed.
    reads_declared
        Whether these lists read the codes of declared columns, too.

    Returns
    -------
    Query
        member_id, reason, sensitive (whether the reason is in the member's claims).
    """
    columns = [UNREADABLE[kind] for kind in listed_kinds]
    if listed_kinds and reads_declared and UNREADABLE_DECLARED in claims.columns():
        columns.append(UNREADABLE_DECLARED)
    unread = " OR ".join(f"{column} > 0" for column in columns) or "false"
    sql = f"""
        WITH named AS (
            -- A row in quarantine is as it was delivered; identifiers of members have no surrounding blanks.
            SELECT DISTINCT trim(json_extract_string(raw_row, '$.member_id')) AS id FROM {quarantined.sql}
            WHERE source_table <> 'members' AND json_valid(raw_row)
              AND json_extract_string(raw_row, '$.member_id') IS NOT NULL
        )
        SELECT DISTINCT coded.member_id, book.removal_reason AS reason, true AS sensitive
        FROM ({codes_of_claims(claims)}) AS coded
        JOIN {code_book.sql} AS book USING (kind, code)
        WHERE book.removal_reason IS NOT NULL
        UNION ALL
        SELECT member_id, 'a claim in quarantine' AS reason, false AS sensitive
        FROM {members.sql}
        WHERE member_id IN (SELECT id FROM named)
          OR {_alike("member_id")} IN (
            SELECT {_alike("id")} FROM named WHERE id NOT IN (SELECT member_id FROM {members.sql})
          )
        UNION ALL
        SELECT DISTINCT member_id, '{UNREAD_CODE}' AS reason, false AS sensitive FROM {claims.sql} WHERE {unread}
        UNION ALL
        SELECT member_id, 'opted out' AS reason, false AS sensitive
        FROM {members.sql}
        WHERE member_id IN (SELECT unnest(?::VARCHAR[]))
        UNION ALL
        SELECT member_id, 'withdrew' AS reason, false AS sensitive
        FROM {members.sql}
        WHERE member_id IN (SELECT unnest(?::VARCHAR[]))
        UNION ALL
        SELECT member_id, 'an earlier release removed them' AS reason, true AS sensitive
        FROM {members.sql}
        WHERE member_id IN (SELECT unnest(?::VARCHAR[]))
        ORDER BY member_id, reason
    """
    return Query(sql, (list(opted_out), list(withdrawn), list(removed_before)))


def _alike(identifier: str) -> str:
    """Return SQL for an identifier without the differences that are common between two files.

    These are case, white space, quotes, commas, semicolons, leading zeros, the .0 of a number with decimals, invisible
    characters, the encoding of accents, and digits, letters and dashes of another script or width that look the same.
    """
    plain = rf"lower(nfc_normalize(regexp_replace({identifier}, '[\s\pZ\pC''\",;]+', '', 'g')))"
    like = _LETTERS | digits()
    same = f"translate({plain}, '{''.join(like)}', '{''.join(like.values())}')"
    same = f"regexp_replace({same}, '[\\p{{Pd}}−]', '-', 'g')"
    # Hardly any identifier has other characters, and these take a hundred times as long.
    either = rf"CASE WHEN regexp_matches({plain}, '[^\x00-\x7F]') THEN {same} ELSE {plain} END"
    return f"ltrim(regexp_replace({either}, '([0-9])[.]0+$', '\\1'), '0')"


_LETTERS = {chr(0xFF41 + place): chr(ord("a") + place) for place in range(26)} | dict(
    zip("авекмнорстхуіѕјαβεικνορτυχ", "abekmhopctxyisjabeiknoptux", strict=True)
)
"""Wide letters, and Cyrillic and Greek ones that look like Latin ones, as which they count."""


@dataclass(frozen=True)
class OptOutMatch:
    """How a list of members who opted out matches a delivery.

    Attributes
    ----------
    listed
        Number of distinct identifiers on the list.
    matched
        Number of these that belong to delivered members.
    nearly
        Number of these that belong to no delivered member, but would if case, white space, quotes, commas, semicolons,
        leading zeros, a final .0, invisible characters and the encoding of accents were ignored.
    """

    listed: int
    matched: int
    nearly: int

    def problems(self, matched_at_least: float) -> tuple[str, ...]:
        """Explain why the list cannot be trusted to exclude the intended members, without revealing how many matched."""
        found = []
        if self.listed and self.matched < matched_at_least * self.listed:
            found.append(
                f"opt_outs: of {self.listed:,} identifiers listed fewer than the share {matched_at_least:g} (matched_at_least) "
                "are those of delivered members, so that members who opted out may be released; check whether the list is of "
                "this delivery, and writes identifiers as it does: prefixes, leading zeros, upper and lower case, white space. "
                "Where a delivery has few of those listed, state a smaller share; 0 asks for none"
            )
        if self.nearly:
            found.append(f"opt_outs: {self._misspelled}; write them as the delivery does, or take those out who are not meant")
        return tuple(found)

    @property
    def problems_of_home(self) -> tuple[str, ...]:
        """Explain why the home's own list cannot be trusted; of its members, none need be in the delivery."""
        if not self.nearly:
            return ()
        return (
            f"the home's list of opt-outs: {self._misspelled}; add them as the delivery writes them (`deid member opt-out`), "
            "and take the others off the list (`deid member opt-in`)",
        )

    @property
    def _misspelled(self) -> str:
        return (
            f"among {self.listed:,} identifiers listed are some that match no delivered member as they are "
            "written, but would if upper and lower case, white space, quotes, commas, leading zeros, a final .0, "
            "invisible characters and the encoding of accents did not count"
        )


def opt_out_match(members: Table, opted_out: Sequence[str]) -> OptOutMatch:
    """Count the listed identifiers that match, or nearly match, those of members.

    Parameters
    ----------
    members
        Has the member_id of every delivered member.
    opted_out
        Distinct identifiers.
    """
    found = members.query(match_query(members.sql, "member_id"), [list(opted_out)]).iloc[0]
    return OptOutMatch(int(found["listed"]), int(found["matched"]), int(found["nearly"]))


def match_query(relation: str, column: str) -> str:
    """SELECT listed, matched and nearly of an `OptOutMatch`; the list of identifiers is its one parameter.

    Parameters
    ----------
    relation, column
        SQL for a table of people, and for the column that identifies them.
    """
    return f"""WITH delivered AS (SELECT DISTINCT {column}::VARCHAR AS id FROM {relation} WHERE {column} IS NOT NULL),
            listed AS (SELECT DISTINCT unnest(?::VARCHAR[]) AS id),
            missed AS (SELECT id FROM listed WHERE id NOT IN (FROM delivered))
            SELECT (SELECT count(*) FROM listed) AS listed,
              (SELECT count(*) FROM listed) - (SELECT count(*) FROM missed) AS matched,
              (SELECT count(*) FROM missed WHERE {_alike("id")} IN (SELECT {_alike("id")} FROM delivered)) AS nearly"""


def matching_query(relation: str, column: str) -> str:
    """SELECT id and exact: listed identifiers that people have, or would if `_alike` differences did not count.

    Parameters
    ----------
    relation, column
        As for `match_query`; the list of identifiers is its one parameter.
    """
    return f"""WITH delivered AS (SELECT DISTINCT {column}::VARCHAR AS id FROM {relation} WHERE {column} IS NOT NULL),
            listed AS (SELECT DISTINCT unnest(?::VARCHAR[]) AS id)
            SELECT id, id IN (FROM delivered) AS exact FROM listed
            WHERE id IN (FROM delivered) OR {_alike("id")} IN (SELECT {_alike("id")} FROM delivered)"""


@dataclass(frozen=True, repr=False)
class OptedOut:
    """People who opted out, by their identifiers; restricted, and without a repr that could show one.

    Attributes
    ----------
    listed, matched_at_least
        Those whom the policy lists, and the share of them who must be in the delivery.
    withdrawn
        Those who opted out of all releases of the home, of whom none need be in the delivery.
    """

    listed: tuple[str, ...] = ()
    matched_at_least: float = 0.0
    withdrawn: tuple[str, ...] = ()

    @property
    def everybody(self) -> list[str]:
        """All of them, each once."""
        return sorted({*self.listed, *self.withdrawn})

    def problems(self, match: Callable[[Sequence[str]], OptOutMatch]) -> tuple[str, ...]:
        """Explain why the lists cannot be trusted to exclude the intended people.

        Parameters
        ----------
        match
            Compares a list with the people of the delivery.
        """
        return (*match(self.listed).problems(self.matched_at_least), *match(self.withdrawn).problems_of_home)


NOBODY = OptedOut()
"""Nobody opted out."""


@dataclass(frozen=True)
class LeftOut:
    """What an intake found of the people who opted out.

    Attributes
    ----------
    people
        Identifiers of those whom the delivery has; restricted.
    problems
        Why the lists cannot be trusted to exclude the intended people, `OptedOut.problems`.
    """

    people: tuple[str, ...] = field(default=(), repr=False)
    problems: tuple[str, ...] = ()


NOBODY_LEFT_OUT = LeftOut()
"""Nobody who opted out was looked for."""


def newborn_years(claims: Table) -> int:
    """Return the age below which members may have been born within the years of a delivery, of which these are all claims."""
    (age,) = claims.arrays(f"SELECT greatest({NEWBORN_YEARS}, coalesce(max(year), 0)) AS n FROM {claims.sql}")["n"]
    return int(age)


def may_be_newborn(years: int, members: str = "members") -> str:
    """Return SQL that is true for members who may have been born within the years of a delivery: those below this age."""
    return f"(coalesce({members}.age, 0) < {years})"


@dataclass(frozen=True)
class NewbornRule:
    """Which claims are a newborn's.

    Attributes
    ----------
    days
        Claims up to and including so many days after birth are.
    years
        `newborn_years` of the delivery.
    """

    days: int
    years: int


def newborn_rule(days: int | None, claims: Table) -> NewbornRule | None:
    """Return the rule of a policy for a delivery, of which these are all claims; None if the policy has none."""
    return None if days is None else NewbornRule(days, newborn_years(claims))


def eligible_claims_query(
    members: Table, claims: Table, code_book: Table, newborn: NewbornRule | None, drop_non_procedures: bool
) -> str:
    """SELECT the claims that pass the claim-level rules, for every delivered member.

    A newborn's claims and claims whose code is not a medical procedure are
    dropped. A claim of a young member, or of one of unknown age, counts as a newborn's unless the dates of birth and service
    show otherwise, and so does a claim that ICD-10-CM codes as that of a liveborn infant, whatever its dates.

    These rules apply to claims, not to members; as reasons to remove members they would remove nearly everyone. Claims of
    removed members stay, because class sizes in the population include them; `removed_members` decides who may be released.
    """
    rules = ["true"]
    if newborn is not None:
        rules.append(is_no_newborn(newborn, "members", "claims"))
    if drop_non_procedures:
        rules.append(is_procedure("claims", "book"))
    return f"""
        SELECT claims.*
        FROM {claims.sql} AS claims
        JOIN {members.sql} AS members USING (member_id)
        LEFT JOIN (SELECT code, is_procedure FROM {code_book.sql} WHERE kind = 'procedure') AS book
          ON book.code = claims.cpt
        WHERE {" AND ".join(rules)}
    """


def is_no_newborn(newborn: NewbornRule, members: str, claims: str) -> str:
    """Return SQL that is true for claims that are no newborn's."""
    young = may_be_newborn(newborn.years, members)
    dated = f"coalesce({claims}.service_date - {members}.birth_date > {newborn.days}, NOT {young})"
    codes = ", ".join(f"{claims}.{column}" for column in (*DIAGNOSES, "further_diagnoses"))
    return f"({dated} AND NOT contains(concat_ws(' ', '', {codes}), ' {LIVEBORN_INFANT}'))"


def is_procedure(claims: str, book: str) -> str:
    """Return SQL that is true for claims without a code, or with one that the code book lists as a procedure."""
    return f"({claims}.cpt IS NULL OR {book}.is_procedure)"


def eligible_members_query(members: Table, removed: Table, claims: Table) -> str:
    """SELECT the members who may be released: not removed, and with at least one eligible claim."""
    return f"""
        SELECT member_id FROM {members.sql}
        WHERE member_id NOT IN (SELECT member_id FROM {removed.sql})
          AND member_id IN (SELECT member_id FROM {claims.sql} WHERE {is_of(claims)})
        ORDER BY member_id
    """


def diagnosis_codes(code_book: Table) -> str:
    """SELECT the distinct diagnosis codes of a delivery, in ascending order."""
    return f"SELECT code FROM {code_book.sql} WHERE kind = 'diagnosis' ORDER BY code"
