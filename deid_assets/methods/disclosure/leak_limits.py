"""What a column that is published as it is may tell before somebody has to answer for it."""

from collections.abc import Mapping

SINGLED_OUT, REFINEMENT, SURE, MADE_OF = "singled_out", "refinement", "told_for_sure", "made_of"
IDENTIFIERS, FORMATS, RARE_NAMES, NAMED = "identifiers", "identifier_formats", "rare_names", "identifier_name"
TOGETHER, ALL_SINGLED_OUT = "refinement_together", "all_attributes_singled_out"

LIMITS: Mapping[str, float] = {
    SINGLED_OUT: 0.01,
    REFINEMENT: 0.5,
    # On the Adult table benign columns tell at most 8 % of what would be guessed wrongly for sure; a copy of ages that is
    # there for 30 % of the records only has a lambda below .5 and tells 30 %.
    SURE: 0.2,
    # On the Adult table quasi-identifiers foretell at most 48 % of what would be guessed wrongly of benign columns.
    MADE_OF: 0.7,
    IDENTIFIERS: 0.0,
    FORMATS: 0.05,
    RARE_NAMES: 0.5,
    NAMED: 0.0,
}
"""What a column may reach that nobody reviewed."""

TOGETHER_AT_MOST = 0.6
"""Lambda that columns may reach together: on the Adult table benign pairs reach .501, and pairs that split a leak .77."""
