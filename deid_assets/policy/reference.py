"""The reference of policies in Markdown, made from the models: every key with its type, its default and its meaning."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined

from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.form import FORMAT, PASSED_ON, PSEUDONYMS, ROLES, TABLES
from deid_assets.policy.models import Policy
from deid_assets.policy.rules.limits import COHORT, FLAT, LONGITUDINAL, NumberRange
from deid_assets.reference.known_columns import CLAIMS as KNOWN_CLAIMS
from deid_assets.reference.known_columns import DATES
from deid_assets.reference.known_columns import MEMBERS as KNOWN_MEMBERS
from deid_assets.sources.delivery import DELIVERED_CLAIM_COLUMNS, DELIVERED_MEMBER_COLUMNS

Schema = Mapping[str, Any]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


_WORDS = {"string": "text", "boolean": "true or false", "integer": "whole number", "number": "number", "null": "null"}
_REFERENCE = re.compile(r"methods#([a-z0-9-]+)")


def _known(delivered: Sequence[str], others: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*delivered, *others)))


_SAID_BY_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "": ("quasi_identifiers", "attributes"),
    "MembersMap": ("columns", "date_formats"),
    "ClaimsMap": ("columns", "date_formats"),
    "EventsMap": ("columns", "date_formats", "same_as_claims"),
    "FlatSource": ("person",),
    "CohortColumns": ("date_format",),
}
"""By model ('': the policy), what only the earlier form has there."""
_WITH_FROM = ("PersonColumn", "SexColumn", "RaceColumn", "DateColumn")
"""Models of columns that have `column` in the earlier form."""


def _of_format_2(schema: dict[str, Any]) -> Schema:
    """The schema of the earlier form with what `columns` says left out."""
    models = {"": schema, **schema["$defs"]}
    for name in models.keys() & _SAID_BY_COLUMNS.keys():
        for key in _SAID_BY_COLUMNS[name]:
            models[name]["properties"].pop(key, None)
    for name in models.keys() & {*_WITH_FROM}:
        own = models[name]["properties"]
        models[name]["properties"] = {"from" if key == "column" else key: own[key] for key in own}
        models[name]["required"] = ["from" if key == "column" else key for key in models[name].get("required", ())]
    form = {"const": FORMAT, "description": "the form of this text"}
    schema["properties"] = {"format": form, **schema["properties"]}
    schema["required"] = [
        *schema.get("required", ()),
        "format",
        *(["diagnosis_codes"] if "diagnosis_codes" in schema["properties"] else []),
    ]
    return schema


def reference() -> str:
    """Return the reference of all kinds of policies.

    Examples
    --------
    >>> print(reference().splitlines()[0])
    # Policy reference
    """
    longitudinal = _Pages(_of_format_2(Policy.model_json_schema()), LONGITUDINAL)
    made = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)  # noqa: S701 - Markdown
    made.filters["listed"] = _listed
    return made.from_string((resources.files(__package__) / "reference.md.j2").read_text("utf-8")).render(
        longitudinal=longitudinal.text(),
        flat=_Pages(_of_format_2(FlatPolicy.model_json_schema()), FLAT, longitudinal, "flat").text(),
        cohort=_Pages(_of_format_2(CohortPolicy.model_json_schema()), COHORT, longitudinal, "cohort").text(),
        tables=TABLES,
        roles=ROLES,
        known_members=_known(DELIVERED_MEMBER_COLUMNS, KNOWN_MEMBERS),
        known_claims=_known(DELIVERED_CLAIM_COLUMNS, (*KNOWN_CLAIMS, *DATES)),
        quasi_identifiers=(*KNOWN_MEMBERS, *KNOWN_CLAIMS, *DATES),
        pseudonyms=PSEUDONYMS,
        passed_on=PASSED_ON,
    )


class _Pages:
    """The models of one kind of policy, each under the path at which it first occurs.

    Parameters
    ----------
    schema
        The JSON schema of the policy.
    limits
        Narrower ranges of its numbers.
    before
        The other kind, written before: models that both have are not written twice.
    name
        Begins the headings of a further kind.
    """

    def __init__(self, schema: Schema, limits: tuple[NumberRange, ...], before: "_Pages | None" = None, name: str = "") -> None:
        self._schema = schema
        self._prefix = f"{name}: " if name else ""
        self._limits = {limit.field: limit for limit in limits}
        self._waiting: list[tuple[str, str]] = []
        self._headings: dict[str, str] = {}
        if before:
            same = {name for name, model in schema["$defs"].items() if before._schema["$defs"].get(name) == model}
            self._headings = {name: heading for name, heading in before._headings.items() if name in same}

    def text(self) -> str:
        """Return the policy's own keys, and then the table of each model in the order of its first use."""
        parts = ["\n".join(self._table(self._schema, ""))]
        while self._waiting:
            model, path = self._waiting.pop(0)
            later, self._waiting = self._waiting, []
            content = self._schema["$defs"][model]
            lines = [f"### {self._headings[model]}", "", _linked(_summary(content)), "", *self._table(content, path)]
            parts.append("\n".join(lines))
            self._waiting += later  # models of a model follow it
        return "\n\n".join(parts) + "\n"

    def _table(self, model: Schema, path: str) -> Iterator[str]:
        yield "| key | type | default | meaning |"
        yield "|---|---|---|---|"
        explained, required = _parameters(model.get("description", "")), model.get("required", ())
        for key, field in model.get("properties", {}).items():
            place = f"{path}.{key}" if path else key
            kind = self._type(field, place)
            default = "required" if key in required else _default(field)
            meaning = field.get("description") or explained.get(key) or self._meaning(key, field)
            cells = (f"`{key}`", kind, default, _linked(meaning))
            yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    def _meaning(self, key: str, field: Schema) -> str:
        """What the model of a field is for, where the field itself says nothing."""
        models = [part["$ref"] for part in (field, *field.get("anyOf", ())) if "$ref" in part]
        if models:
            return _summary(self._schema["$defs"][_model_of(models[0])])
        return "which variant this is" if key == "kind" else ""

    def _narrowed(self, field: Schema, place: str) -> Schema:
        """The range of a number, with the narrower ends of `rules.limits`, which hold beside the schema's."""
        limit = self._limits.get(place)
        if limit is None:
            return field
        narrowed = dict(field)
        if limit.least is not None:
            narrowed |= {"minimum": f"{float(limit.least):.4g}", "exclusiveMinimum": None}
        if limit.most is not None:
            narrowed |= {"maximum": f"{float(limit.most):.4g}", "exclusiveMaximum": None}
        return narrowed

    def _type(self, field: Schema, place: str) -> str:
        """A type in words; models that it names are written later, each once."""
        if "$ref" in field:
            return self._link(_model_of(field["$ref"]), place)
        for several in ("anyOf", "oneOf"):
            if several in field:
                return " or ".join(dict.fromkeys(self._type(part, place) for part in field[several]))
        if "const" in field:
            return f"`{field['const']}`"
        if "enum" in field:
            return ", ".join(f"`{value}`" for value in field["enum"])
        if field.get("type") == "array":
            parts = field.get("prefixItems")
            if parts:
                return "list: " + ", ".join(self._type(part, place) for part in parts)
            return f"list of: {self._type(field.get('items', {}), place)}"
        if field.get("type") == "object":
            inner = next(iter(field.get("patternProperties", {}).values()), field.get("additionalProperties"))
            return f"names, each with: {self._type(inner, place)}" if isinstance(inner, Mapping) else "names with values"
        return _WORDS.get(field.get("type", ""), "any value") + _interval(self._narrowed(field, place))

    def _link(self, model: str, place: str) -> str:
        if not self._schema["$defs"][model].get("properties"):
            return "`{}`"
        if model not in self._headings:
            kind = self._schema["$defs"][model].get("properties", {}).get("kind", {}).get("const")
            self._headings[model] = f"{self._prefix}{place}" + (f", {kind}" if kind else "")
            self._waiting.append((model, place))
        heading = self._headings[model]
        return f"[{heading.removeprefix(self._prefix)}](#{_anchor(heading)})"


def _model_of(link: str) -> str:
    return link.rpartition("/")[2]


def _anchor(heading: str) -> str:
    """The anchor that Markdown gives a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _interval(field: Schema) -> str:
    """The range of a number or the number of characters or entries, as the schema has it."""
    least, above = field.get("minimum"), field.get("exclusiveMinimum")
    most, below = field.get("maximum"), field.get("exclusiveMaximum")
    words = [
        *([f"at least {least}"] if least is not None else [f"above {above}"] if above is not None else []),
        *([f"at most {most}"] if most is not None else [f"below {below}"] if below is not None else []),
    ]
    return f", {' and '.join(words)}" if words else ""


def _default(field: Schema) -> str:
    default = field.get("default")
    if isinstance(default, Mapping) and default:
        return "its own defaults"
    return "none" if default in ([], {}, "") else f"`{json.dumps(default)}`"


def _summary(model: Schema) -> str:
    return " ".join(model.get("description", "").partition("\n\n")[0].split())


def _parameters(docstring: str) -> dict[str, str]:
    """What a docstring says of its parameters."""
    found: dict[str, str] = {}
    section = docstring.partition("Parameters\n----------\n")[2]
    for block in re.split(r"\n(?=\S)", section):
        names, _, text = block.partition("\n")
        if text.startswith(" "):
            for name in names.split(","):
                found[name.strip()] = " ".join(text.split())
    return found


def _linked(text: str) -> str:
    """Text in which references to the methods are links."""
    return _REFERENCE.sub(lambda match: f"[methods](methods.md#{match[1]})", text)
