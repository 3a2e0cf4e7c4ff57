"""How much a column published unchanged may reveal before it needs a review."""

from collections.abc import Mapping

SINGLED_OUT, REFINEMENT, SURE, MADE_OF = "singled_out", "refinement", "told_for_sure", "made_of"
IDENTIFIERS, FORMATS, RARE_NAMES, NAMED = "identifiers", "identifier_formats", "rare_names", "identifier_name"
UNIQUE = "unique_values"
TOGETHER, ALL_SINGLED_OUT = "refinement_together", "all_attributes_singled_out"
UNREVIEWED_SINGLED_OUT = "unreviewed_attributes_singled_out"
REVIEWED_TOGETHER = "reviewed_refinement_together"

LIMITS: Mapping[str, float] = {
    SINGLED_OUT: 0.01,
    REFINEMENT: 0.5,
    # On the Adult table, harmless columns reveal at most 8 % of wrong guesses for certain. A copy of ages present in only
    # 30 % of the records has a lambda below .5 and reveals 30 %.
    SURE: 0.2,
    # On the Adult table, quasi-identifiers predict at most 48 % of what would be guessed wrongly about harmless columns.
    MADE_OF: 0.7,
    IDENTIFIERS: 0.0,
    FORMATS: 0.05,
    RARE_NAMES: 0.5,
    NAMED: 0.0,
    UNIQUE: 0.5,
}
"""Largest value of each measure for a column that nobody reviewed."""

ALL_SINGLED_OUT_AT_MOST = 0.05
"""Largest share of records that all attributes together may single out, unless they were reviewed."""

TOGETHER_AT_MOST = 0.6
"""Largest lambda of columns in combination: on the Adult table harmless pairs reach .501, pairs that split a leak .77."""
