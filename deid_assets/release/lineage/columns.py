"""From a published column back to the columns of the delivery, along the column lineage that every asset recorded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deid_assets.reference.known_columns import KNOWN
from deid_assets.release.counts.published import FILES as COUNTS
from deid_assets.release.lineage.graph import Lineage, Materialized
from deid_assets.sources.flat import RECORDS

TABLES = ("members", "claims")
"""The tables of a longitudinal delivery, called like the assets that take them in."""

_NAMING = ("column", "age", "birth_date", "birth_year", "state", "zip", "county")
"""Keys under which the policy of a cohort names columns of the delivery."""

COUNTED = "published_counts"
"""The asset of the tables of counts, whose columns are computed and derive from none."""

_INGREDIENTS: Mapping[str, tuple[str, ...]] = {
    **{name: known.ingredients for name, known in KNOWN.items()}, "year": ("service_date",),
    "pay_delay": ("service_date", "paid_date"),
}  # fmt: skip
"""Canonical columns of a policy's source that are computed from others if they are not delivered."""


@dataclass(frozen=True)
class DerivedColumn:
    """A published column, and what it derives from.

    Attributes
    ----------
    table, column
        As in the release's dictionary.
    candidate
        The asset whose rows are published in this table; None if the event log records none with these columns.
    steps
        "asset.column" of everything on the way back, nearest first.
    delivered
        Where it begins: columns of the delivery under the names that the policy maps.
    """

    table: str
    column: str
    candidate: str | None
    steps: tuple[str, ...]
    delivered: tuple[str, ...]


def derived_columns(lineage: Lineage, dictionary: Mapping[str, Any], policy: Mapping[str, Any]) -> tuple[DerivedColumn, ...]:
    """Trace every column of a release.

    Parameters
    ----------
    lineage
        From the event log.
    dictionary
        `data/dictionary.json` of the release.
    policy
        The policy's public text, which maps the columns of the delivery.
    """
    found = []
    for table, described in dictionary["tables"].items():
        columns = [column["name"] for column in described["columns"]]
        candidate = _candidate(lineage, table, columns)
        for column in columns:
            trail = [] if candidate is None or table in COUNTS else _trail(lineage, candidate.asset, column)
            steps = tuple(f"{asset.removeprefix(f'{lineage.prefix}/')}.{name}" for asset, name in trail)
            ends = [(asset, name) for asset, name in trail if not _sources(lineage, asset, name)]
            delivered = tuple(sorted({one for asset, name in ends for one in _delivered(policy, asset, name)}))
            found.append(DerivedColumn(table, column, None if candidate is None else candidate.name, steps, delivered))
    return tuple(found)


def _candidate(lineage: Lineage, table: str, columns: Iterable[str]) -> Materialized | None:
    """The asset that has all columns of a published table and as few others as possible; the gate compared their rows."""
    if table in COUNTS:
        return lineage.named(COUNTED)
    wanted = set(columns)
    fitting = [made for made in lineage.before.values() if wanted and wanted <= set(made.columns)]
    return min(fitting, key=lambda made: (len(made.columns), -lineage.depths[made.asset], made.asset), default=None)


def _trail(lineage: Lineage, asset: str, column: str) -> list[tuple[str, str]]:
    """Every (asset, column) on the way back, later assets first."""
    seen = [(asset, column)]
    for one in seen:  # grows meanwhile
        seen += [source for source in _sources(lineage, *one) if source not in seen]
    return sorted(seen, key=lambda one: (-lineage.depths.get(one[0], 0), seen.index(one)))


def _sources(lineage: Lineage, asset: str, column: str) -> tuple[tuple[str, str], ...]:
    made = lineage.before.get(asset)
    return () if made is None else made.sources.get(column, ())


def _delivered(policy: Mapping[str, Any], asset: str, column: str) -> tuple[str, ...]:
    """The columns of the delivery behind one at which the lineage ends; none if it was made here, such as a pseudonym."""
    table = asset.rpartition("/")[2]
    if policy.get("kind") == "cohort":
        return _of_cohort(policy, column)
    if policy.get("kind") == "flat":
        listed = [*policy["quasi_identifiers"], *policy["attributes"]] if table == RECORDS else []
        return tuple(one["column"] for one in listed if one["release_as"] == column)
    if table not in TABLES:
        return ()
    described = {table: policy["source"].get(table), **(policy["source"].get("events", {}) if table == "claims" else {})}
    for own in described:  # rows of other tables of events are beside the claims
        declared = policy.get("columns", {}).get(own, {}).get(column)
        if declared is not None:
            if "anchor" in declared:  # counted from the dates of several tables
                return tuple(one for of in declared["of"] for one in _delivered_dates(policy, of))
            of = declared.get("of", "claims") if declared["kind"].endswith("_of_claims") else own
            return tuple(f"{of}.{declared[key]}" for key in ("from", "until") if key in declared)
    if (described[table] or {}).get("columns") is None:  # read by an adapter that knows the columns of its format
        return (f"{table}.{column}",)
    found = []
    for own, mapped in ((own, one["columns"]) for own, one in described.items()):
        names = (column,) if column in mapped else _INGREDIENTS.get(column, ())
        found += [f"{own}.{mapped[name]}" for name in names if name in mapped]
    return tuple(found)


def _delivered_dates(policy: Mapping[str, Any], table: str) -> tuple[str, ...]:
    """The delivered column of the dates of service of a table of events."""
    described = policy["source"].get(table) or policy["source"].get("events", {}).get(table)
    name = described["columns"].get("service_date") if described and described.get("columns") else "service_date"
    return (f"{table}.{name}",) if name else ()


def _of_cohort(policy: Mapping[str, Any], column: str) -> tuple[str, ...]:
    """The columns that a cohort's policy names for a released one; its levels are made of them in one step."""
    sections = [*(one for one in policy["columns"].values() if isinstance(one, Mapping)), *policy["attributes"]]
    of_column = [one for one in sections if one.get("release_as") == column]
    return tuple(one[key] for one in of_column for key in _NAMING if isinstance(one.get(key), str))
