"""Contracts of longitudinal releases before the candidate: intake, preparation, adversary, generalization and accounting."""

from collections.abc import Iterable
from itertools import chain
from typing import get_args

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.methods.disclosure.absence import NO_BOUND
from deid_assets.methods.lattice.candidate_gates import REASONS as REASONS_OF_NODES
from deid_assets.methods.lattice.choice import HIGH_RISK, WORST_CLASS
from deid_assets.methods.lattice.reachable_risk import GATES
from deid_assets.methods.preparation.exclusion_comparison import TABLES as COMPARISONS
from deid_assets.methods.utility.ledger import REASONS, STEP_ORDER, UNACCOUNTED
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.longitudinal import CLAIM_COLUMNS
from deid_assets.reference import known_columns
from deid_assets.reference.charlson import CHARLSON_BANDS
from deid_assets.reference.codes import ICD10CM_PREFIX
from deid_assets.reference.groups import GROUP_NAMES, KINDS, RARE_VISIBLE_REASON
from deid_assets.reference.known_columns import KnownColumn
from deid_assets.reference.tables import read_table
from deid_assets.schemas.contract import (
    YEAR_NUMBER,
    Role,
    column,
    contract,
    count,
    days,
    domains_contract,
    flag,
    identifier,
    measure,
    number,
    one_of,
    pseudonym,
    quasi_identifier,
    share,
    text,
    within,
)
from deid_assets.store.tables import number_of

_CODE = rf"((V[0-9]{{2}}|E[0-9]{{3}}|[0-9]{{3}})[0-9]{{0,2}}|{ICD10CM_PREFIX}[A-Z][0-9][0-9A-Z]{{1,5}})"
_DIAGNOSIS = Check.str_matches(f"^{_CODE}$", error="dotless code of ICD-9-CM, or of ICD-10-CM with its system")
_DIAGNOSES = Check.str_matches(
    f"^{_CODE}( {_CODE})*$", error="dotless codes of ICD-9-CM, or of ICD-10-CM with their system, separated by blanks"
)


MEMBER_ID = identifier("the insurer's identifier of the member")


DELIVERED_CLAIMS = contract(
    {
        "claim_id": identifier("the insurer's identifier of the claim"),
        "member_id": MEMBER_ID,
        "provider_id": identifier("provider who gave care", nullable=True),
        "vendor_id": identifier("vendor who billed", nullable=True),
        "pcp_id": identifier("the member's primary care provider", nullable=True),
        "year": number("claim year", YEAR_NUMBER, dt.int32),
        "service_date": column(dt.date, Role.DIRECT_IDENTIFIER, "date of service", nullable=True),
        **{
            known.delivered_as: quasi_identifier(
                f"{known.codes} code" if known.codes else known.meaning, known.limits, unit=known.unit
            )
            for known in known_columns.CLAIMS.values()
            if known.delivered_as is not None
        },
        "pay_delay": days(Role.OTHER, "from service to payment"),
        "diagnosis_1": text("first-listed diagnosis", _DIAGNOSIS, Role.QUASI_IDENTIFIER, nullable=True),
        **{
            f"diagnosis_{place}": text(f"{which} diagnosis", _DIAGNOSIS, Role.SENSITIVE_ATTRIBUTE, nullable=True)
            for place, which in ((2, "second"), (3, "third"), (4, "fourth"))
        },
        "further_diagnoses": text(
            "diagnoses after the fourth and that of admission, separated by blanks",
            _DIAGNOSES,
            Role.SENSITIVE_ATTRIBUTE,
            nullable=True,
        ),
        **{
            name: number(f"codes of the kind {kind} that cannot be read, and are blank", dtype=dt.int32, unit="codes")
            for kind, name in known_columns.UNREADABLE.items()
        },
    },
    unique=["claim_id"],
)

CODES_OF_DECLARED = {
    known_columns.DECLARED_CODES: text(
        "codes of declared columns, each behind its kind, separated by semicolons", role=Role.SENSITIVE_ATTRIBUTE, nullable=True
    ),
    known_columns.UNREADABLE_DECLARED: number(
        "codes of declared columns that cannot be read, and are blank", dtype=dt.int32, unit="codes"
    ),
}
"""Columns of the claims where a policy declares columns of codes."""


INTAKE = {
    "members": contract(
        {
            "member_id": MEMBER_ID,
            **{
                known.delivered_as: quasi_identifier(known.meaning, known.limits, known.values, known.unit)
                for known in known_columns.MEMBERS.values()
                if known.delivered_as is not None
            },
            "birth_date": column(dt.date, Role.DIRECT_IDENTIFIER, "date of birth", nullable=True),
            "death_date": column(dt.date, Role.DIRECT_IDENTIFIER, "date of death", nullable=True),
        },
        unique=["member_id"],
    ),
    "claims": DELIVERED_CLAIMS,
    # A line lost inside an unclosed quote has neither number nor text, and there may be several, so there is no key.
    "quarantined_rows": contract(
        {
            "source_table": text("the table for which the row was meant", one_of(["members", "claims"], "members or claims")),
            "source_file": text("the file that contains it"),
            "source_row": number(
                "its line in a CSV file, else its row; blank where a line was lost", within(1, None), nullable=True
            ),
            "rule": text("the first rule that it breaks"),
            "source_column": text("the column judged; empty where a whole line is at fault"),
            "raw_row": identifier("the row as JSON, or the line as it was", nullable=True),
        }
    ),
    "delivered_codes": contract(
        {
            "source_column": text("column of codes of the claims"),
            "kind": text("kind of code", one_of(get_args(known_columns.ListedKind), "a kind of code")),
            "written": number("codes on the claims kept, as delivered", unit="codes"),
            "unreadable": number("codes that the product does not know; they are blank in the claims", unit="codes"),
            "other_system": number("diagnoses in the form of the coding system that the policy does not say", unit="codes"),
        },
        unique=["source_column"],
    ),
}


def _in(values: Iterable[str], what: str) -> Check:
    listed = sorted(set(values))
    return one_of(listed, f"one of the {len(listed)} {what}")


def _percentage(of_whom: str) -> Column:
    what = f"of {of_whom}: per cent; claims where the table is a median; the distance where it is one"
    return measure(what, within(0, None), nullable=True)


_CHARLSON = read_table("charlson_conditions.csv")


def _prepared(known: KnownColumn) -> Column:
    """A known column as prepared: groups instead of codes, and whole numbers from the smallest that is left."""
    limits = known.limits if known.limits is None else (known.prepared_from or known.limits[0], known.limits[1])
    return quasi_identifier(known.meaning, limits, GROUP_NAMES[known.codes] if known.codes else known.values, known.unit)


def grouped_claims_columns() -> dict[str, Column]:
    """The columns of grouped claims."""
    return {
        **{name: DELIVERED_CLAIMS.columns[name] for name in ("claim_id", "member_id", "provider_id", "vendor_id")},
        "pcp_id": identifier("primary care provider", nullable=True),
        "year": DELIVERED_CLAIMS.columns["year"],
        **{name: _prepared(known) for name, known in known_columns.CLAIMS.items()},
        "charlson": text(
            "Charlson index in bands; blank where a diagnosis cannot be read",
            _in(CHARLSON_BANDS, "Charlson bands"),
            Role.SENSITIVE_ATTRIBUTE,
            nullable=True,
        ),
        "pay_delay": days(Role.OTHER, "from service to payment, top-coded"),
    }


def patterns_contract(pattern: dict[str, Column]) -> DataFrameSchema:
    """The contract of how many identifiers show a pattern of care, which has these columns of grouped claims."""
    of_whom = dict(zip(known_columns.PROVIDER_PSEUDONYMS, ("providers", "vendors", "primary care providers"), strict=True))
    numbers = {f"n_{name}": count(f"{whom} of the delivery who show it", whom) for name, whom in of_whom.items()}
    return contract(pattern | numbers, unique=list(pattern))


_INTERVAL = Check.str_matches(r"^([0-9]+|[0-9]+-[0-9]+)$", error="days, or first and last day of a bin")
_ORDER = Check.str_matches(r"^([0-9]+|[0-9]+-[0-9]+) then ([0-9]+|[0-9]+-[0-9]+)$", error="two bins, the earlier one first")
_PERIOD = Check.str_matches(r"^[0-9]{4}(-[0-9]{2}|-Q[1-4]|-H[12])?$", error="a month, quarter, half year or year")


def of_other_events(policy: Policy) -> dict[str, dict[str, Column]]:
    """By asset: what it tells of tables of events beside the claims."""
    others = policy.event_tables[1:]
    tables = ("members", *policy.event_tables)
    return {
        "quarantined_rows": {
            "source_table": text("the table for which the row was meant", one_of(tables, "a table of the delivery"))
        },
        "why_ledger": {"source_table": text("delivered table", one_of(tables, "a table of the delivery"))},
        "member_profiles": {
            number_of(one): number(f"rows of {one} before the long tail is cut", unit="rows") for one in others
        },
    }


def date_contracts(policy: Policy) -> dict[str, DataFrameSchema]:
    """The contracts that are changed or added under a policy with dates; empty otherwise."""
    if policy.dates is None:
        return {}
    columns = grouped_claims_columns() | {
        # If days are released instead of dates, a claim without a date has no year either.
        "year": number("year of the released date", YEAR_NUMBER, dt.int32, nullable=True),
        "service_date": column(dt.date, Role.QUASI_IDENTIFIER, "date of service, redrawn", nullable=True),
        "service_day": days(Role.QUASI_IDENTIFIER, "days since the member's first service, redrawn"),
        "service_interval": text(
            "bin of the days since the previous service", _INTERVAL, Role.QUASI_IDENTIFIER, nullable=True, unit="days"
        ),
        "service_period": text("period of the service", _PERIOD, Role.QUASI_IDENTIFIER, nullable=True),
    }
    if "service_order" in policy.dates.columns:
        columns["service_order"] = text(
            "bins of the two intervals before the service, the earlier one first",
            _ORDER,
            Role.QUASI_IDENTIFIER,
            nullable=True,
            unit="days",
        )
    # Rows of `truncated_claims` and of `grouped_claims`; the latter's contract checks the key.
    return {"dated_claims": contract(columns), "known_claims": contract(columns)}


PREPARATION = {
    "code_book": contract(
        {
            "kind": text("kind of code", _in(KINDS, "kinds of code")),
            "code": text("a code in the delivery", role=Role.QUASI_IDENTIFIER),
            "group_name": text(
                "the group that replaces it; blank if there is none",
                _in(chain(*GROUP_NAMES.values()), "groups"),
                Role.QUASI_IDENTIFIER,
                nullable=True,
            ),
            "is_procedure": flag("whether it stands for a medical procedure"),
            "removal_reason": text(
                "why it removes a member; blank if it does not",
                _in((*(row["reason"] for row in read_table("sensitive_codes.csv")), RARE_VISIBLE_REASON), "reasons"),
                Role.SENSITIVE_ATTRIBUTE,
                nullable=True,
            ),
        },
        unique=["kind", "code"],
    ),
    "comorbidity_codes": contract(
        {
            "code": text("a diagnosis code that the delivery holds", role=Role.QUASI_IDENTIFIER),
            "condition": text(
                "a Charlson condition that it stands for",
                _in((row["condition"] for row in _CHARLSON), "Charlson conditions"),
                Role.SENSITIVE_ATTRIBUTE,
            ),
            "family": text(
                "conditions of one family count once, the severest",
                _in((row["family"] for row in _CHARLSON), "families of Charlson conditions"),
                Role.SENSITIVE_ATTRIBUTE,
            ),
            "weight": column(
                dt.int64,
                Role.MEASUREMENT,
                "what the condition adds to the index",
                one_of(sorted({int(row["weight"]) for row in _CHARLSON}), "a Charlson weight"),
                unit="index points",
            ),
        },
        unique=["code", "condition"],
    ),
    "pseudonym_crosswalk": contract(
        {
            "kind": text("kind of identifier", _in(("member", "provider", "vendor", "pcp"), "kinds of identifier")),
            "original_id": identifier("the insurer's identifier"),
            "pseudonym": pseudonym("the pseudonym that the release shows instead"),
        },
        # In both directions: two pseudonyms for one identifier would multiply rows; one for two would merge two people.
        unique=[["kind", "original_id"], ["kind", "pseudonym"]],
    ),
    "removed_members": contract(
        {
            "member_id": identifier("a member who must not be released"),
            "reason": text("the rule that removed the member", role=Role.SENSITIVE_ATTRIBUTE),
            "sensitive": column(dt.boolean, Role.SENSITIVE_ATTRIBUTE, "whether absence would disclose a condition"),
        },
        unique=["member_id", "reason"],
    ),
    # The columns of the canonical claims. Here, in `claim_support_scores` and in `truncated_claims`, `claim_id` is a key by
    # construction and is not grouped again: for 42 million claims that takes 13 seconds of processor time and 2.3 GB each.
    # These rows are those of `claims` joined on the keys of `members` and `code_book`. All three keys are checked, and a
    # duplicate claim would still be found in `grouped_claims`.
    "eligible_claims": contract(dict(DELIVERED_CLAIMS.columns)),
    "eligible_members": contract({"member_id": identifier("a member who may be released")}, unique=["member_id"]),
    "rule_needs": contract(
        {
            "rule": text("key of the rule in the policy"),
            "figure": text("what was measured"),
            "count": count("how many have it"),
            "of": count("out of how many"),
            "at_least": column(dt.float64, Role.OTHER, "the share that the rule needs", unit="share"),
            "met": flag("whether the delivery has it"),
        },
        unique=["rule", "figure"],
    ),
    "exclusion_comparison": contract(
        {
            "table": text("what is compared", _in(COMPARISONS, "comparisons")),
            "value": text("class of values, or what the distance is of"),
            "excluded": _percentage("removed members"),
            "remaining": _percentage("remaining members"),
            "low": share("lower bound of the distance", "", nullable=True),
            "high": share("upper bound of the distance", "", nullable=True),
            "p_value": share("of equal distributions, by a bootstrap over members", "", nullable=True),
        },
        unique=["table", "value"],
    ),
    "released_sample": contract({"member_id": identifier("a member drawn for the release")}, unique=["member_id"]),
    "grouped_claims": contract(grouped_claims_columns(), unique=["claim_id"]),
    "claim_support_scores": contract(  # a row for each row of `grouped_claims`, joined on values that are grouped
        {
            "claim_id": identifier("the insurer's identifier of the claim"),
            "score": share(
                "support: 1 - (other members with its rarest value) / members, cut from the highest; balanced: cut from the "
                "lowest",
                "share of members",
            ),
        }
    ),
    "truncated_claims": contract(grouped_claims_columns()),  # `grouped_claims` without those that were cut
    "member_profiles": contract(
        {
            "member_id": MEMBER_ID,
            "member_number": number("position of the member in the order of identifiers, from 0"),
            **{name: _prepared(known) for name, known in known_columns.MEMBERS.items()},
            "claims_truncated": column(
                dt.int32,
                Role.QUASI_IDENTIFIER,
                "1 if any claim was cut; blank where the member was enrolled in neither year",
                one_of([0, 1], "0 or 1"),
                nullable=True,
            ),
            "claims": number("claims before the long tail is cut", unit="claims"),
            "released": flag("whether the member is in the random sample"),
        },
        unique=["member_id"],
    ),
}


MEASURED_COLUMNS = ("year", *CLAIM_COLUMNS)
"""Columns whose diversity is measured: those of Table 5 of Multimedia Appendix 1 (El Emam et al. 2012)."""


def _quasi_identifier(names: tuple[str, ...]) -> Column:
    return text("name of a column of the claims", one_of(names, f"one of the {len(names)} columns"))


def adversary_contracts(further: tuple[str, ...] = ()) -> dict[str, DataFrameSchema]:
    """The contracts of the stage if an adversary may also know these columns: of dates, and those that the policy declares."""
    measured = (*MEASURED_COLUMNS, *further)
    return {
        "value_diversity": contract(
            {
                "member_id": identifier("a released member"),
                "quasi_identifier": _quasi_identifier(measured),
                "n_values": count("claims with a value", "claims"),
                "differing_pairs": count("ordered pairs of claims with different values", "pairs"),
                "diversity": share("1 - Simpson's index: that two values differ", "probability"),
            },
            unique=["member_id", "quasi_identifier"],
        ),
        "diversity_correlation": contract(
            {
                "quasi_identifier": _quasi_identifier(measured),
                **{
                    name: measure(
                        f"with the diversity of {name.replace('_', ' ')}; blank where one of the two does not vary",
                        within(-1, 1),
                        nullable=True,
                        unit="correlation",
                    )
                    for name in measured
                },
            },
            unique=["quasi_identifier"],
        ),
        "adversary_power": contract(
            {
                "member_id": identifier("a released member"),
                "quasi_identifier": _quasi_identifier(measured[1:]),
                "power": column(dt.int32, Role.MEASUREMENT, "values known to the adversary", within(1, None), unit="values"),
            },
            unique=["member_id", "quasi_identifier"],
        ),
    }


def _gain(what: str) -> Column:
    return measure(what, Check.in_range(-1e6, 1e6, error="a number"), nullable=True, unit="share of gain")


_SHARE_OR_FACTOR = Check.in_range(0, NO_BOUND, error="0 to 1, or a factor")


GENERALIZATION = {
    "reachable_risk": contract(
        {
            "gate": text("a gate that can be predicted", one_of(GATES, "one of the 5 gates")),
            "measured": measure("at the coarsest node", _SHARE_OR_FACTOR, unit="share"),
            "least": measure("lower bound for every node, whoever is left out", _SHARE_OR_FACTOR, unit="share"),
            "limit": measure("the threshold of the policy", within(0, None), unit="share"),
            "proven": flag("whether members were counted; otherwise it is a bound from draws"),
            "ruled_out": flag("whether no node can pass the gate"),
            "against": text("what speaks against a release, and what helps; empty where nothing does"),
        },
        unique=["gate"],
    ),
    "lattice_diagnosis": contract(
        {
            "kind": text(
                "kind of change, or of members",
                one_of(["as it is", "coarser", "without", "members with", "population", "suppressing"], "one of the 6 kinds"),
            ),
            "what": text("what is changed, or which members"),
            "share": share("share of draws at high risk with the change, before suppression"),
            "threshold": column(dt.float64, Role.OTHER, "highest allowed share", within(0, 1), unit="share"),
            "suppressed": share("share of sampled members left out, where the change passed"),
            "against": text("the gate that the change fails; empty where it passed"),
            "would_pass": flag("whether the coarsest node passed with the change"),
            "change": text("the changed sections of the policy as YAML; empty where the change did not pass"),
        },
        unique=["kind", "what"],
    ),
    "passed_over_nodes": contract(
        {
            "node": text("the levels of a node that was passed over, in the order of the dimensions"),
            "gate": text(
                "the gate that the node failed, or why it was not tried",
                one_of([HIGH_RISK, WORST_CLASS, *REASONS_OF_NODES], "one of the 12 reasons"),
            ),
        },
        unique=["node"],
    ),
    "compared_nodes": contract(
        {
            "node": text("the levels of a node that passes, in the order of the dimensions"),
            "loss": share("information lost, as a part of the largest loss in the lattice"),
            "share_of_gain_kept": _gain(
                "share of the gain that the release keeps on the folds that choose; blank if nothing is predicted"
            ),
            "judged": _gain("the same on fresh folds; blank if the node is not reported"),
            "judged_lower": _gain("lower end of its 95 % interval"),
            "judged_upper": _gain("upper end of its 95 % interval"),
            "chosen": flag("the node to be published"),
        },
        unique=["node"],
    ),
    "suppressed_members": contract(
        {"member_id": identifier("a sampled member who is left out of the release")},
        unique=["member_id"],
    ),
}


def generalization_contracts(policy: Policy) -> dict[str, DataFrameSchema]:
    """The contracts that depend on the policy, by the name of their asset."""
    return {
        "value_domains": _value_domains(policy),
        "coded_histories": _coded_histories(policy),
        "generalization_lattice": _generalization_lattice(policy),
        "chosen_generalization": _chosen_generalization(policy),
    }


def _value_domains(policy: Policy) -> DataFrameSchema:
    names = [qi.column for qi in policy.quasi_identifiers.all]
    levels = max(policy.hierarchy_of(name).levels for name in names)
    of = one_of(names, "a quasi-identifier of the policy")
    return domains_contract(text("name of a column that an adversary may know", of), levels)


def _coded_histories(policy: Policy) -> DataFrameSchema:
    # A row for each run of equal values in a sorted history: a member, a quasi-identifier and a code are a key by how it is
    # made, and more than one row would be read as one.
    return contract(
        {
            "quasi_identifier": _quasi_identifier(tuple(policy.claim_names)),
            "held": flag("of claims after the long tail is cut, of all members; otherwise before it, of released members"),
            "member_number": number("position of the member in the order of identifiers, from 0", dtype=dt.int32),
            "code": column(dt.int32, Role.QUASI_IDENTIFIER, "number of the value at the finest level, from 0", within(0, None)),
            "times": column(dt.int32, Role.MEASUREMENT, "claims of the member with the value", within(1, None), unit="claims"),
        }
    )


def _generalization_lattice(policy: Policy) -> DataFrameSchema:
    tops = [levels - 1 for levels in policy.dimension_levels]
    normalised = policy.risk.loss == "entropy_normalised"
    measured_in_order = number(
        "how many nodes were measured up to this one, on which the error of its decision depends; blank if it was not measured",
        within(1, None),
        nullable=True,
        unit="nodes",
    )
    return contract(
        {
            "node": _node("the levels of the node"),
            **{
                dimension.name: _level(f"level of {dimension.name.replace('_', ' ')}", top + 1, dt.int64)
                for dimension, top in zip(policy.dimensions, tops, strict=True)
            },
            "height": _level("sum of the levels", sum(tops) + 1, dt.int64),
            "loss": measure(
                "information lost, as entropy" + (", relative to the most that can be lost" if normalised else ""),
                within(0, 1 if normalised else None),
                unit="share" if normalised else "bits",
            ),
            "flagged": count("simulated adversaries at high risk", "draws", nullable=True),
            "draws": count("simulated adversaries; blank if there were none", "draws", least=1, nullable=True),
            "share": _share("share of draws at high risk", nullable=True),
            "lower": _share("lower bound of the share: Wilson's, 95 per cent, or that of a measured node above"),
            "upper": _share("upper bound of the share: Wilson's, 95 per cent, or that of a measured node below"),
            "decision": text(
                "whether the share is below what the search accepts; an undecided node is not a candidate, and an open one "
                "loses too much to be needed",
                one_of(["candidate", "not_candidate", "undecided", "open"], "one of the 4 decisions"),
            ),
            "reached": text(
                "how the decision was reached",
                one_of(["measured", "inferred", "not_reached"], "measured, inferred or not reached"),
            ),
            "inferred_from": _node("the node that decided it; blank if it was measured", nullable=True),
            "minimal": flag("a candidate with no candidate below"),
            "chosen": flag("the candidate of least loss"),
            "certificate": flag("directly below the chosen node, and not a candidate"),
            "to_suppress": _share(
                "smallest share of released members without whom the node would be safe, on the draws that choose them; blank "
                "if that was not measured",
                nullable=True,
            ),
            **({} if policy.lists_lattice else {"measured_in_order": measured_in_order}),
        },
        unique=["node"],
    )


def _chosen_generalization(policy: Policy) -> DataFrameSchema:
    dimensions, first = zip(*((one.name, one.columns[0]) for one in policy.dimensions), strict=True)
    names = sorted({name for column in first for name in policy.hierarchy_of(column).level_names})
    return contract(
        {
            "dimension": text("dimension of the lattice", one_of(dimensions, "a dimension of the policy")),
            "level": _level("its level in the release", max(policy.dimension_levels, default=1)),
            "level_name": text("the level's name", one_of(names, "a level of the policy")),
        },
        unique=["dimension"],
    )


def _level(what: str, levels: int, dtype: dt.DataType = dt.int32) -> Column:
    return number(what, within(0, levels - 1), dtype)


def _node(what: str, nullable: bool = False) -> Column:
    return text(f"{what}, in the order of the dimensions", nullable=nullable)


def _share(what: str, nullable: bool = False) -> Column:
    return share(what, "share of draws", nullable=nullable)


_STEPS = [step for step in REASONS if step != UNACCOUNTED]
"""A row or value that no rule explains breaks the contract."""


ACCOUNTING = {
    "why_ledger": contract(
        {
            "source_table": text("delivered table", one_of(["members", "claims"], "members or claims")),
            "source_column": text("delivered column; empty for the rows of the table"),
            "released_as": text("its name in the release; empty if it is withheld, and for rows"),
            STEP_ORDER: number("order of the steps"),
            "step": text("the step", one_of(_STEPS, "a step with a rule")),
            "reason": text("why the step leaves out or changes something"),
            "lost": count("rows or values that end at this step", "rows or values"),
            "changed": count("values that this step is the first to change", "rows or values"),
            "filled": count("blanks that join a class of values", "rows or values"),
            "remaining": count("rows or values after the step", "rows or values"),
            "bits": measure("entropy of the values after the step", within(0, None), nullable=True, unit="bits a value"),
        },
        unique=["source_table", "source_column", "step"],
    ),
    "analyst_questions": contract(
        {
            "question": text("the question"),
            "group": text("whom it is about: labels as released", role=Role.QUASI_IDENTIFIER),
            "delivered": count("delivered members with the property", "rows or values"),
            "of_delivered": count("delivered members of the group", "rows or values"),
            "released": count("released members with the property", "rows or values"),
            "of_released": count("released members of the group", "rows or values"),
            "standard_errors": measure(
                "difference of the two rates; blank where the group is too small",
                nullable=True,
                unit="standard errors of sampling",
            ),
        },
        unique=["question", "group"],
    ),
}
