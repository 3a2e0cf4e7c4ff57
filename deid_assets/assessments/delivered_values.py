"""How many bits a value of a generalized column has as it is delivered: the whole of which a release keeps a share."""

from collections.abc import Mapping

import numpy as np

from deid_assets.methods.lattice.information_loss import count_demographic, count_history, entropy, information_kept
from deid_assets.methods.population.longitudinal_data import LongitudinalData
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import KNOWN
from deid_assets.store.tables import Table, quoted


def delivered_bits(policy: Policy, tables: Mapping[str, Table], suppressed: Table | None = None) -> dict[str, float]:
    """Entropy of a delivered value, in bits, by generalized column, over the rows that the release is made from.

    These are the sampled members who are not suppressed, and those of their claims that have a value and are left when the
    long tail has been cut.

    Parameters
    ----------
    tables
        Members, profiles, eligible and held claims, by their assets.
    suppressed
        Suppressed members, once they are known.

    Returns
    -------
    dict of str to float
        A column that is computed from several delivered ones, such as the Charlson index, is not in it: it is delivered as
        it is computed.
    """
    members, claims, generalized = tables["members"], tables["eligible_claims"], set(policy.generalized.values())
    of_members = [name for name in members.columns() if name in generalized]
    read_from = {name: known.delivered_as for name, known in KNOWN.items() if known.delivered_as}
    read_from |= {name: name for name in policy.columns.of_events}
    of_claims = {name: read_from[name] for name in policy.claim_names if name in generalized and name in read_from}
    left_out = "" if suppressed is None else f" AND member_id NOT IN (SELECT member_id FROM {suppressed.sql})"
    sampled = f"SELECT member_id FROM {tables['member_profiles'].sql} WHERE released{left_out}"
    # A missing value of a member is a value, as in the classes; one of a claim is none.
    found = entropies(
        members, f"{members.sql} WHERE member_id IN ({sampled})", {name: (quoted(name), "true") for name in of_members}
    )
    delivered, held = (f"(SELECT * FROM {table.sql} WHERE member_id IN ({sampled}))" for table in (claims, tables["held"]))
    return found | entropies(
        claims,
        f"{delivered} AS d JOIN {held} AS h USING (claim_id)",
        {name: (f"d.{quoted(read)}", f"h.{quoted(name)} IS NOT NULL") for name, read in of_claims.items()},
    )


def entropies(table: Table, source: str, values: Mapping[str, tuple[str, str]]) -> dict[str, float]:
    """Entropy in bits of SQL expressions over rows, by name; a missing value is one value.

    Parameters
    ----------
    table
        Any table of the same store.
    source
        What follows FROM.
    values
        Expression, and the condition on the rows that count, by name.
    """
    if not values:
        return {}
    # DuckDB's entropy depends on the order of rows in its last digits.
    selects = ", ".join(
        f"coalesce(map_values(histogram(coalesce(({value})::VARCHAR, '')) FILTER ({there})), []) AS {quoted(name)}"
        for name, (value, there) in values.items()
    )
    found = table.query(f"SELECT {selects} FROM {source}").iloc[0]
    return {name: entropy(np.asarray(found[name])) for name in values}


def kept_by_level(
    policy: Policy, data: LongitudinalData, tables: Mapping[str, Table], suppressed: Table | None = None
) -> dict[str, np.ndarray]:
    """Share of the delivered information that is kept at each level, by the released name of every generalized column.

    Parameters
    ----------
    data
        Its targets are the members who are left.
    tables, suppressed
        As for `delivered_bits`.
    """
    bits = delivered_bits(policy, tables, suppressed)
    of_members, of_claims = policy.member_columns, tuple(policy.claim_names)

    def kept(column: str) -> np.ndarray:
        if column in of_members:
            place = of_members.index(column)
            return information_kept(count_demographic(data, place), data.demographic_domains[place], bits.get(column))
        place = of_claims.index(column)
        return information_kept(count_history(data, place), data.history_domains[place], bits.get(column))

    return {name: kept(column) for name, column in policy.generalized.items()}
