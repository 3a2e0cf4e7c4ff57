"""Cells that are spelled otherwise count the same people, and are refused."""

import pytest

from deid_assets.errors import CountsError
from deid_assets.methods.counts.spelling import require_one_spelling
from deid_assets.methods.counts.tables import CellName

PLAIN = CellName("visits", "age=0-17; name=Jos\u00e9 Ruiz; zip=1234", "people")


def spelled(old: str, new: str) -> CellName:
    return PLAIN._replace(row=PLAIN.row.replace(old, new))


@pytest.mark.parametrize(
    "other",
    [
        PLAIN._replace(table="Visits"),
        PLAIN._replace(column=" People"),
        spelled("age", "Age"),
        spelled("0-17", "0\u201317"),
        spelled("0-17", "00-17"),
        spelled("\u00e9", "e\u0301"),
        spelled("Ruiz", "\uff32uiz"),
        spelled("Jos\u00e9 Ruiz", "Jos\u00e9\u00a0Ruiz"),
        spelled("Ruiz", "Ru\u00adiz"),
        spelled("1234", "01234"),
        spelled("1234", "1234.0"),
        spelled("1234", "'1234'"),
        PLAIN._replace(row="zip=1234; age=0-17; name=Jos\u00e9 Ruiz"),
    ],
)
def test_what_does_not_tell_cells_apart_is_refused(other):
    with pytest.raises(CountsError, match="1 cell is spelled otherwise than in the ledger"):
        require_one_spelling([other], [PLAIN], "the ledger")


@pytest.mark.parametrize(
    "other",
    [
        PLAIN,
        spelled("0-17", "1-7"),
        spelled("0-17", "0-170"),
        spelled("1234", "12340"),
        spelled("1234", "1.234"),
        spelled("age=0-17", "age=<17"),
        spelled("\u00e9", "e"),
        PLAIN._replace(column="records"),
    ],
)
def test_other_names_are_other_cells(other):
    require_one_spelling([other], [PLAIN], "the ledger")


def test_codes_that_both_sides_have_as_they_are_written_are_two_codes():
    lower, upper = PLAIN, spelled("Jos", "jos")
    require_one_spelling([lower, upper], [lower, upper], "the ledger")
    require_one_spelling([lower, upper], [lower], "the ledger")
    require_one_spelling([lower], [lower, upper], "the ledger")
