"""A window of years from a longer history: rows outside are left out before anything is judged, and counted."""

import duckdb

from deid_assets.errors import DeliveryError
from deid_assets.sources.layout import Delivered


def open_window(connection: duckdb.DuckDBPyConnection, delivered: Delivered) -> None:
    """Create the views `typed_members` and `typed_claims`: the rows of `layout` to be judged.

    If the policy leaves out claims of other years, it also leaves out members not known to belong to these years: all
    their claims are of other years, or they have none and were born after the years or died before. They would enlarge
    the classes in which released members hide, although nobody would look for them in the release.

    Raises
    ------
    DeliveryError
        If all claims are of other years.
    """
    years = delivered.years
    if years is None or years.outside != "leave_out":
        for table in ("members", "claims"):
            connection.execute(f"CREATE TEMP VIEW typed_{table} AS SELECT * FROM laid_{table}")
        return
    # A claim whose year cannot be read is judged, not left out.
    outside = f"coalesce(year NOT BETWEEN 1 AND {delivered.last_year}, false)"
    connection.execute(f"CREATE TEMP VIEW typed_claims AS SELECT * FROM laid_claims WHERE NOT {outside}")
    of_claims = f"SELECT member_id, bool_and({outside}) AS elsewhere FROM laid_claims GROUP BY member_id"
    connection.execute(
        f"""
        CREATE TEMP TABLE left_out_members AS
        SELECT row_key FROM laid_members AS m
        LEFT JOIN ({of_claims}) AS c USING (member_id)
        WHERE coalesce(c.elsewhere,
            m.birth_date >= getvariable('years_end') OR m.death_date < getvariable('year_1_start'), false)
        """
    )
    connection.execute(
        "CREATE TEMP VIEW typed_members AS SELECT * FROM laid_members AS m"
        " WHERE NOT EXISTS (SELECT 1 FROM left_out_members AS l WHERE l.row_key = m.row_key)"
    )
    laid, kept = (connection.execute(f"SELECT count(*) FROM {view}_claims").fetchall()[0][0] for view in ("laid", "typed"))
    if laid and not kept:
        raise DeliveryError(
            f"claims: none of {laid:,} claims is from the years {years.first} to {years.first + years.count - 1} "
            "(source.years): correct the years of the policy"
        )
