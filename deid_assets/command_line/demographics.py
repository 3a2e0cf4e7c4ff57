"""`deid demographics`: may a cohort's demographics be shared in more detail than Safe Harbor allows? This command says it."""

import datetime
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from deid_assets.command_line.options import FILE, errors_as_json, require_new
from deid_assets.errors import DeliveryError

if TYPE_CHECKING:
    from deid_assets.assessments.demographic_verdicts import Question
    from deid_assets.command_line.demographics_document import DemographicsRequest
    from deid_assets.methods.demographics.attributes import DemographicPolicy
    from deid_assets.sources.census import PopulationFiles
    from deid_assets.sources.cohort import CohortLayout

_Function = TypeVar("_Function", bound=Callable[..., None])
_KINDS = ("pct12", "pct12-2020", "p12", "estimates", "tidy")
_STATE_KINDS = ("postal", "fips", "ssa", "name")
_MEASURES = ("total", "graduated", "non-graduated", "largest")


def _pairs(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """VALUE=MEANING, repeated."""
    found: dict[str, str] = {}
    for text in values:
        value, equals, meaning = text.partition("=")
        if not (value and equals and meaning) or value in found:
            raise click.BadParameter("write each VALUE=MEANING once")
        found[value] = meaning
    return found


def _day(_context: click.Context, _option: click.Parameter, value: datetime.datetime | None) -> datetime.date | None:
    return None if value is None else value.date()


_OPTIONS = (
    click.option(
        "--population", "population", multiple=True, metavar="FILE",
        help="Population table; or A=FILE to G=FILE, one for each table by race.",
    ),
    click.option("--population-kind", type=click.Choice(_KINDS), default="pct12", show_default=True, help="What the table is."),
    click.option("--count", default="CENSUS2010POP", show_default=True, help="Estimates: column of the number of people."),
    click.option("--race-bands", type=FILE, help="Estimates: file of counts by race and band, to share people among races."),
    click.option("--race-year", type=int, help="Year of --race-bands."),
    click.option("--person", default="person", show_default=True, help="Column that identifies a person."),
    click.option("--age", help="Column of the age; by default age, unless a birth is named."),
    click.option("--birth-date", help="Column of the date of birth; needs --reference."),
    click.option("--birth-year", help="Column of the year of birth; needs --reference."),
    click.option("--birthday", is_flag=True, help="Let policies tell the day of birth, or its month or quarter."),
    click.option("--reference", type=click.DateTime(["%Y-%m-%d"]), callback=_day, help="Day to which ages are counted."),
    click.option("--date-format", default="%Y-%m-%d", show_default=True, help="Format of dates of birth."),
    click.option("--sex", default="sex", show_default=True, help="Column of the sex."),
    click.option("--sex-value", "sexes", multiple=True, callback=_pairs, metavar="VALUE=M|F", help="Meaning of a value."),
    click.option("--race", help="Column of the race; without it, races are not compared."),
    click.option(
        "--race-value", "races", multiple=True, callback=_pairs, metavar="VALUE=RACE",
        help="Meaning of a value of race: a race of the census, or White, Black and Other.",
    ),
    click.option("--state", default="state", show_default=True, help="Column of the state."),
    click.option("--state-kind", type=click.Choice(_STATE_KINDS), default="postal", show_default=True, help="Kind of codes."),
    click.option("--zip", "zip_code", help="Column of the ZIP code, if a tidy table has a column zip."),
    click.option("--county", help="Column of the county, if a tidy table has a column county."),
    click.option("--table", help="Table of a DuckDB file."),
    click.option("--delimiter", default=",", show_default=True, help="Of a CSV file."),
    click.option(
        "--unusable-at-most", type=click.FloatRange(0, 1), default=0.0, show_default=True,
        help="Share of rows that may be unusable; they are left out and counted.",
    ),
    click.option("--policy", "policies", multiple=True, metavar="NAME|FILE.yaml",
                 help="Policy to judge beside the five published; can be repeated. A file of kind cohort states columns too."),
    click.option(
        "--measure", "measures", type=click.Choice(_MEASURES), multiple=True, default=["total"], show_default=True,
        help="Measure that decides; can be repeated.",
    ),
    click.option(
        "--threshold", "thresholds", type=click.IntRange(min=1), multiple=True, default=[10], show_default=True,
        help="T of graduated and non-graduated risk; can be repeated.",
    ),
    click.option(
        "--compare", type=click.Choice(["upper", "expected"]), default="upper", show_default=True,
        help="What is compared with Safe Harbor's expected risk: an upper bound of a policy's risk, or its expected risk.",
    ),
    click.option("--no-riskier-than", type=click.Choice(["safe_harbor"]), help="Exit with 2 if a --policy is riskier."),
    click.option(
        "--crowded-at-most", type=click.FloatRange(0, 1), default=0.0, show_default=True,
        help="Gate: share of the cohort that may be in rows of the table that are smaller than the cohort there.",
    ),
    click.option("--discover", is_flag=True, help="Search all policies for what may be shared instead."),
    click.option("--out", type=FILE, help="New folder for the report (HTML), tables (CSV) and the document (JSON)."),
    click.option("--write-policies", type=FILE, help="New folder for a policy file of each policy that may be used instead."),
    click.option("--json", "as_json", is_flag=True, help="Print the document as JSON."),
)  # fmt: skip


def _with_options(command: _Function) -> _Function:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_BESIDE_A_FILE = ("cohorts", "population", "policies", "no_riskier_than", "discover", "out", "write_policies", "as_json")
"""Parameters that are no sections of a policy file."""


@click.command()
@click.argument("cohorts", type=FILE, nargs=-1, required=True, metavar="COHORT...")
@_with_options
def demographics(
    cohorts: tuple[Path, ...], out: Path | None, write_policies: Path | None, as_json: bool, **options: Any
) -> None:
    """Compare policies for the demographics of a cohort with Safe Harbor, against a table of the population.

    COHORT is a CSV, Parquet or DuckDB file with one record for each person. Several cohorts with the same columns are shown
    side by side; each is called after its file.

    Exit code 0: measured, and with --no-riskier-than each --policy is no riskier in the whole cohort and in every state;
    2: one is riskier, in one of the cohorts; 1: error; 64: wrong command line; 130 and 143: interrupted.
    """
    from deid_assets.command_line.demographics_document import (
        as_json_text,
        judged_document,
        printed,
        side_by_side,
        write_folder,
    )

    with errors_as_json(as_json):
        require_new(out, write_policies)
        named = _named_after_files(cohorts)
        if write_policies is not None and len(cohorts) > 1:
            raise click.UsageError("--write-policies writes what passes the gate of one cohort; name one")
        judged = {}
        for name, cohort in named.items():
            asked = _asked(click.get_current_context(), cohort, options)
            if write_policies is not None and asked.file is None:
                raise click.UsageError("--write-policies takes all but the levels from a policy file: add --policy FILE.yaml")
            try:
                judged[name] = judged_document(
                    cohort,
                    asked,
                    discover=options["discover"] or write_policies is not None,
                    with_files=out is not None,
                    with_policies=write_policies is not None,
                )
            except DeliveryError as error:
                if len(cohorts) == 1:
                    raise
                raise DeliveryError(f"{name}: {error}") from None
        found = side_by_side(judged) if len(judged) > 1 else judged.popitem()[1]
        for folder, files in ((out, found.files), (write_policies, found.policies)):
            if folder is not None:
                write_folder(folder, files)
    click.echo(as_json_text(found.document) if as_json else printed(found.document), nl=not as_json)
    sys.exit(found.document["exit_code"])


def _asked(context: click.Context, cohort: Path, options: Mapping[str, Any]) -> "DemographicsRequest":
    """What is asked: by a policy file, or by options alone."""
    from deid_assets.command_line.demographics_document import DemographicsRequest, asked_by, cohort_policy
    from deid_assets.methods.demographics.attributes import birthday_attribute

    files = [text for text in options["policies"] if text.lower().endswith((".yaml", ".yml"))]
    further = [text for text in options["policies"] if text not in files]
    gate = options["no_riskier_than"] is not None
    if not files:
        if not options["population"]:
            raise click.UsageError("--population: name a table, or a policy file that does")
        if gate and not further:
            raise click.UsageError("--no-riskier-than judges the policies that you name: add --policy")
        question = _question(options, further)
        return DemographicsRequest(
            _layout(options),
            _source(options),
            question,
            gate,
            options["crowded_at_most"],
            dates=(birthday_attribute(),) if options["birthday"] else (),
        )
    if len(files) > 1:
        raise click.UsageError("--policy: name one policy file")
    stated = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name is not None
        and parameter.name not in _BESIDE_A_FILE
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]
    if stated:
        raise click.UsageError(f"the policy file states it: leave {', '.join(stated)} out, or change the file")
    asked = asked_by(cohort_policy(Path(files[0])), cohort, _files(options), _named(further))
    return replace(asked, gate=asked.gate or gate)


def _named_after_files(cohorts: Sequence[Path]) -> dict[str, Path]:
    """Cohorts by the names of their files without what says their format, which become names of folders."""
    named = {re.sub(r"(\.(csv|parquet|duckdb|gz|zip))+$", "", cohort.name, flags=re.IGNORECASE): cohort for cohort in cohorts}
    if len(named) < len(cohorts):
        raise click.UsageError("COHORT: cohorts are called after their files; give each file a name of its own")
    if len(cohorts) > 1 and not all(re.fullmatch(r"\w[\w -]*", name) for name in named):
        raise click.UsageError("COHORT: cohorts are called after their files; use letters, digits, blanks, '_' and '-' only")
    return named


_AS_STATED = (
    "person", "birth_date", "birth_year", "reference", "birthday", "date_format", "sex", "race", "state", "state_kind",
    "county", "table", "delimiter", "unusable_at_most",
)  # fmt: skip
"""Options that are fields of the layout of a cohort by the same names."""


def _layout(options: Mapping[str, Any]) -> "CohortLayout":
    from deid_assets.sources.census import RACES
    from deid_assets.sources.cohort import CohortLayout

    births = [options["birth_date"], options["birth_year"]]
    if (options["age"] and any(births)) or all(births):
        raise click.UsageError("name one of --age, --birth-date and --birth-year")
    if any(births) != (options["reference"] is not None):
        raise click.UsageError("--reference is the day to which ages are counted from a birth: give both or neither")
    if options["birthday"] and not options["birth_date"]:
        raise click.UsageError("--birthday needs dates of birth: add --birth-date")
    if options["races"] and not options["race"]:
        raise click.UsageError("--race-value needs the column of the race: add --race")
    if not set(options["sexes"].values()) <= {"M", "F"}:
        raise click.UsageError("--sex-value: sexes become M or F")
    races = options["races"] or {race: race for race in RACES.values()}
    return CohortLayout(
        age=None if any(births) else options["age"] or "age",
        sexes=options["sexes"] or {"M": "M", "F": "F"},
        races=races if options["race"] else {},
        usual_spellings=not options["races"],
        zip=options["zip_code"],
        **{name: options[name] for name in _AS_STATED},
    )


def _source(options: Mapping[str, Any]) -> "PopulationFiles":
    from deid_assets.errors import PolicyError
    from deid_assets.sources.census import PopulationFiles

    if options["race_bands"] and not options["race"]:
        raise click.UsageError("--race-bands gives the shares of races, and the cohort has none: add --race")
    try:
        return PopulationFiles(
            options["population_kind"], _files(options), options["count"], options["race_bands"], options["race_year"]
        )
    except PolicyError as error:
        raise click.UsageError(str(error)) from None


def _files(options: Mapping[str, Any]) -> dict[str, Path]:
    """Files of the population by the letter of their table."""
    found: dict[str, Path] = {}
    for text in options["population"]:
        letter, file = (text[0], text[2:]) if re.match(r"[A-G]=", text) else ("", text)
        if letter in found:
            raise click.UsageError("--population: name one file, or one for each letter A to G")
        found[letter] = Path(file)
    return found


def _question(options: Mapping[str, Any], named: Sequence[str]) -> "Question":
    from deid_assets.assessments.demographic_verdicts import Question

    thresholds = tuple(sorted(set(options["thresholds"])))
    return Question(tuple(dict.fromkeys(options["measures"])), thresholds, _named(named), options["compare"] == "upper")


def _named(texts: Sequence[str]) -> "tuple[DemographicPolicy, ...]":
    from deid_assets.assessments.demographic_verdicts import policy_named
    from deid_assets.errors import PolicyError

    try:
        return tuple(policy_named(text) for text in texts)
    except PolicyError as error:
        raise click.UsageError(f"--policy: {error}") from None
