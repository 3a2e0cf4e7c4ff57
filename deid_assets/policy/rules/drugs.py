"""Whether members with sensitive drugs can be found where a policy declares a column of drugs."""

import re
from collections.abc import Iterator

from deid_assets.policy.models import Policy
from deid_assets.policy.problems import Problem
from deid_assets.policy.sections.columns import Drugs
from deid_assets.reference.codes import is_ambiguous, ndc11
from deid_assets.sources.derivations import Derivation

_MOSTLY = 0.9
_NAMED = re.compile("(^|[^a-z])ndc([^a-z]|$)|national_?drug", re.IGNORECASE)


def drug_problems(policy: Policy) -> Iterator[Problem]:
    """A column of drugs tells of HIV as a diagnosis does, so lists must be able to read its ingredients.

    Nothing is asked where no list names drugs.
    """
    if not policy.removal.lists_drugs:
        return
    for table in ("members", "claims"):
        for name, column in getattr(policy.columns, table).items():
            here = ("columns", table, name)
            if isinstance(column, Drugs):
                if not column.names_ingredients:
                    yield Problem(
                        (*here, "file"),
                        f"the table of drugs names no ingredients, and {policy.removal.rule_of_codes} removes members with "
                        "sensitive drugs, such as those against HIV, which are found by their ingredients: add them as a third "
                        "column (ndc;group;ingredients)",
                    )
            elif _reads_drugs(column.made(table)):
                yield Problem(
                    here,
                    "reads NDCs, and no list of sensitive drugs reads a column of this kind: declare a column of claims "
                    "`{kind: ndc, file: ...}` with a table of drugs that names their ingredients",
                )


def _reads_drugs(made: Derivation) -> bool:
    """Whether a column compares cells with NDCs, or reads a column of that name."""
    forms = sum(ndc11(code.strip()) is not None or is_ambiguous(code.strip()) for code in made.codes)
    named = any(_NAMED.search(cell.column) for cell in made.cells)
    return named or (bool(made.codes) and forms >= _MOSTLY * len(made.codes))
