"""Names that a declared column must not have, because a column of the store or of a query of it would be mistaken for it."""

import re

from deid_assets.policy.sections.longitudinal import CLAIM_COLUMNS, DATE_COLUMNS, MEMBER_COLUMNS
from deid_assets.reference.known_columns import (
    DECLARED_CODES,
    EVENT_TABLE,
    PROVIDER_PSEUDONYMS,
    UNREADABLE,
    UNREADABLE_DECLARED,
)
from deid_assets.sources.delivery import DELIVERED_CLAIM_COLUMNS, DELIVERED_MEMBER_COLUMNS, IN_ICD10, SYSTEM_COLUMN

OWN_COLUMNS = frozenset(
    (
        *MEMBER_COLUMNS, *CLAIM_COLUMNS, *DATE_COLUMNS, *DELIVERED_MEMBER_COLUMNS, *DELIVERED_CLAIM_COLUMNS, "charlson",
        "claims", "released", "member_number", "service_day", "row_key", "rowid", "fate", "score", "further_diagnoses",
        "enrolment", "of_impossible_enrolment", *(f"n_{name}" for name in PROVIDER_PSEUDONYMS),
        *UNREADABLE.values(), EVENT_TABLE, IN_ICD10, SYSTEM_COLUMN, DECLARED_CODES, UNREADABLE_DECLARED,
    )
)  # fmt: skip
"""Columns of members and claims in any stage."""

OF_QUERIES = frozenset(
    (
        "added", "after", "alike", "all_records", "all_removed", "alone", "any", "any_claim", "at_risk", "bare", "before",
        "birth", "births", "bits", "blanks", "book", "both_of_them", "by_earlier", "by_later", "cell", "cells", "claim",
        "class", "class_size", "classes", "coarse", "code", "coded", "dated", "day", "days", "death", "deaths", "deviation",
        "diagnosis", "differing_pairs", "diversity", "drawn", "eligible", "elsewhere", "equal_pairs", "events", "exact", "fact",
        "family", "feature", "file_number", "file_row", "fine", "first", "first_date", "first_on", "first_year", "found",
        "gap", "gap_before", "grp", "held", "held_set", "id", "identifier", "kept", "key", "kind", "known", "label",
        "labels", "largest", "last", "last_year", "least", "length", "level", "linked", "listed", "mask",
        "matched", "mean", "median_claims", "meet", "member", "members", "missing", "most", "moved",
        "n_values", "name", "nearly", "nothing", "number", "occurrence", "of_", "of_group", "one", "opted",
        "opted_or_withdrew", "other", "other_system", "own", "own_id", "partner", "patients", "people", "period", "person",
        "population_size", "position", "procedure", "provider", "providers", "pseudonym", "quasi_identifier", "rank",
        "rare", "raw", "raw_row", "reason", "record", "release", "released_on", "released_size", "released_stay",
        "released_year", "remaining_count", "removed", "removed_count", "row", "rows", "rows_before", "rule", "second",
        "seen", "sensitive", "service", "shape", "shown", "singled", "singled_claims", "small",
        "smallest", "source_column", "source_file", "source_row", "source_table", "squares", "stayed", "support", "text",
        "times", "title", "top", "total", "units", "unreadable", "usual_", "value", "visits", "wanted", "weight", "who",
        "withdrawn", "words", "written",
    )
)  # fmt: skip
"""Columns that queries name beside those of members and claims."""

_NUMBERED = re.compile("[a-z][0-9]*|h_.*")
"""What queries number."""


def is_reserved(name: str) -> bool:
    """Whether a declared column must not have this name.

    Examples
    --------
    >>> [is_reserved(name) for name in ("race", "county", "age", "position", "c0")]
    [False, False, True, True, True]
    """
    return name in OWN_COLUMNS or name in OF_QUERIES or _NUMBERED.fullmatch(name) is not None
