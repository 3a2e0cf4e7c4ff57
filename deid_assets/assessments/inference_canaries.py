"""Canaries of inference channels: a channel through every released field, which must be found, and none, which must not be.

Most planted members have a common value. Of each released field, forty have a value of their own, and with it their own
withheld value: only a model that uses the field can guess it. Members whose fields are all alike have two withheld values
at random: no model can do better than to name the more frequent one.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path

from deid_assets.assessments.inference_predictions import WITHOUT_IDENTIFIERS, Inferred
from deid_assets.assessments.inference_rows import IDENTIFIERS, IDENTIFYING, LINKED, SAMPLE, channels_of, usual_columns
from deid_assets.assessments.kernel_input import member_columns
from deid_assets.assessments.planting import plant, planted_store
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.methods.inference.boosting import CODES_AT_MOST
from deid_assets.methods.inference.rows import CLAIM, MEMBER, Channel
from deid_assets.policy.models import Policy
from deid_assets.reference.code_systems import ICD10CM_PREFIX
from deid_assets.reference.known_columns import BESIDE_DAYS, CLAIMS, MEMBERS, WITHHELD, YEARS
from deid_assets.sources.diagnosis_systems import systems_of
from deid_assets.store.tables import Table

COMMON, OWN = 120, 40
"""Members with the common value, and with the value of each field: the common one is the most frequent in every fold, and of
the others enough are left to learn from, however a random fold falls.
"""
_FIRST = 5_000_000
"""Pseudonyms start here."""
_KINDS: dict[str, tuple[object, object]] = {
    "VARCHAR": ("common", "own"),
    "DATE": (date(2001, 1, 1), date(2001, 7, 1)),
    "INTEGER": (0, 180),
}

Attack = Callable[[Mapping[str, Table], int], Sequence[Inferred]]
"""Predicts from tables about as many members."""


def channels_of_canaries(policy: Policy, like: Mapping[str, Table], attack: Attack) -> Findings:
    """Whether exactly the planted channels are found, each completely.

    Parameters
    ----------
    like
        The tables of `linked_tables`: only their columns are read.
    """
    fields = _fields(policy, like)
    # Boosting guesses few codes, so that the fields take turns.
    at_once = CODES_AT_MOST - 1 if "gradient_boosting" in policy.inference.models else len(fields)
    turns = [fields[start : start + at_once] for start in range(0, len(fields), at_once)]
    found = Findings(0, 0)
    for turn in (*turns, []):
        own: list[str | None] = [*turn] or [None]
        people = [None] * COMMON + [field for field in own for _ in range(OWN)]
        with planted_store() as file:
            tables = _planted(file, policy, like, people)
            inferred = {one.name: one for one in attack(tables, len(people))}
        for channel in channels_of(policy):
            found += _compared(policy, channel, inferred[channel.name], turn)
    return found


def _fields(policy: Policy, like: Mapping[str, Table]) -> list[str]:
    """The released fields: columns of members, then of claims."""
    return [*member_columns(policy), *(name for name in like[LINKED].columns() if name not in (CLAIM, MEMBER))]


def _gives_away(policy: Policy, channel: Channel, field: str, model: str) -> bool:
    """Whether a model is shown what a field says of the withheld value.

    Of columns of claims, rows of members have the most frequent values of some, and profiles count the labels of all that do
    not identify a provider.
    """
    identifying = field in IDENTIFYING
    if not channel.of_members:
        return not (identifying and model == WITHOUT_IDENTIFIERS)
    return field in (*member_columns(policy), *usual_columns(policy)) or (model == "gradient_boosting" and not identifying)


def _compared(policy: Policy, channel: Channel, found: Inferred, turn: Sequence[str]) -> Findings:
    """Compare groups, and the shares that every model and the baseline guess, with what they must be.

    The channel's own label makes a group of its own, and where an identifier is shown nothing is withheld.
    """
    group = channel.group.partition(".")[2].strip('"') if channel.group else None
    blanked = IDENTIFIERS[channel.name][1] if channel.name in IDENTIFIERS else None
    fields, own = [field for field in turn if field not in (group, blanked)], sum(field == group for field in turn)
    cases = COMMON + OWN * (len(fields) if turn else 1)
    something = bool(fields) or not turn
    expected: list[float] = [float(something), float(own + (not something))]
    measured: list[float] = [found.groups, found.single]
    for model, outcome in found.together.items():
        told = sum(_gives_away(policy, channel, field, model) for field in fields)
        expected += [(COMMON + OWN * told) / cases, COMMON / cases]
        measured += [float(outcome.right.mean()), float(outcome.right_by_majority.mean())]
    return compare(expected, measured)


def _planted(file: Path, policy: Policy, like: Mapping[str, Table], people: Sequence[str | None]) -> dict[str, Table]:
    """Members with one claim each, whose withheld values tell which field is their own; the last OWN without one differ too."""
    codes = _codes(people)
    system = ICD10CM_PREFIX if "icd10cm" in systems_of(policy.diagnosis_codes) else ""
    claims, columns = like[LINKED].columns(), member_columns(policy)

    def shown(field: str | None, name: str, kind: str = "VARCHAR") -> object:
        if name in IDENTIFYING:
            return 1 if field == name else None
        return _KINDS.get(kind, (1, 2))[field == name]

    rows: dict[str, list[dict[str, object]]] = {
        SAMPLE: [{MEMBER: _FIRST + number, "position": number} for number in range(len(people))],
        LINKED: [
            {CLAIM: f"claim {number}", MEMBER: _FIRST + number}
            | {name: shown(field, name, kind) for name, kind in claims.items() if name not in (CLAIM, MEMBER)}
            for number, field in enumerate(people)
        ],
        "pseudonym_crosswalk": [
            {"kind": "member", "original_id": f"canary {number}", "pseudonym": _FIRST + number} for number in range(len(people))
        ],
        "member_profiles": [
            {"member_id": f"canary {number}", **{name: code for name in WITHHELD if name in MEMBERS}}
            for number, code in enumerate(codes)
        ],
        "eligible_claims": [
            {
                CLAIM: f"claim {number}",
                "diagnosis_1": f"{system}{410 + code}0",
                **{name: 1 + code for name in WITHHELD if name in CLAIMS},
            }
            | {column: f"{column} {code}" for column, _ in IDENTIFIERS.values()}
            for number, code in enumerate(codes)
        ],
        "release_members": [
            {MEMBER: _FIRST + number} | {name: shown(field, column) for column, name in policy.member_names.items()}
            for number, field in enumerate(people)
        ],
        "release_days_in_hospital": [
            {"Year": year, MEMBER: _FIRST + number, "DaysInHospital": shown(field, column)}
            | {name: shown(field, beside) for beside, name in BESIDE_DAYS.items() if beside in columns}
            for year, column in YEARS.items()
            if column in columns
            for number, field in enumerate(people)
        ],
    }
    return {name: plant(file, like[name], rows_of_table, name) for name, rows_of_table in rows.items()}


def _codes(people: Sequence[str | None]) -> list[int]:
    """The withheld value of each: 0 is common, and every field has the next one."""
    numbers = {field: 1 + number for number, field in enumerate(dict.fromkeys(field for field in people if field))}
    codes = [numbers[field] if field else 0 for field in people]
    return codes if numbers else [*codes[:COMMON], *[1] * (len(people) - COMMON)]
