"""Pydantic's findings about a policy in plain words: field by field, with what is allowed instead.

No message shows a value from a section that names members.
"""

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import ErrorDetails

from deid_assets.policy.base import RESTRICTED_SECTIONS
from deid_assets.policy.models import Policy
from deid_assets.policy.problems import Problem, did_you_mean

_EXPECTED = {
    "bool_type": "true or false",
    "float_type": "a number",
    "int_type": "a whole number",
    "string_type": "text; write it in quotes",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a table of keys and values",
    "model_type": "a table of keys and values",
    "model_attributes_type": "a table of keys and values",
    "mapping_type": "a table of keys and values",
    "finite_number": "a finite number",
}
_RENAMED = {("source", "first_year"): "write years: {first: ...} instead, with the same year"}
"""Keys that earlier versions had, and what to write instead."""
_LIMITS = {
    "greater_than": ("must be above", "gt"),
    "greater_than_equal": ("must be at least", "ge"),
    "less_than": ("must be below", "lt"),
    "less_than_equal": ("must be at most", "le"),
}


def problems_of(error: ValidationError, model: type[BaseModel] = Policy) -> tuple[Problem, ...]:
    """Return the problems of a policy of this model, in the order in which Pydantic found them.

    A list with invalid entries also counts as too short for Pydantic; this is not reported as a second problem.
    """
    errors = error.errors(include_url=False)
    wrong = {found["loc"][:length] for found in errors for length in range(len(found["loc"]))}
    return tuple(_problem(found, model) for found in errors if not (found["type"] == "too_short" and found["loc"] in wrong))


def _problem(found: ErrorDetails, whole: type[BaseModel]) -> Problem:
    path, model = _located(found["loc"], whole)
    kind, context = found["type"], found.get("ctx", {})
    shown = "this value" if path and path[0] in RESTRICTED_SECTIONS else _shown(found["input"])
    if kind == "missing":
        return Problem(path, f"is missing{_described(model, path[-1])}")
    if kind == "extra_forbidden" and len(path) == 1 and path[0] in Policy.model_fields and whole is not Policy:
        (own,) = get_args(whole.model_fields["kind"].annotation)
        message = f"this section does not apply to policies of kind {own}; remove it. Allowed: {', '.join(_keys(model))}"
        return Problem(path, message)
    if kind == "extra_forbidden":
        allowed = _keys(model)
        if path in _RENAMED:
            return Problem(path, f"this key of earlier versions is gone; {_RENAMED[path]}")
        message = f"unknown key{did_you_mean(path[-1], allowed)}; allowed: {', '.join(allowed)}"
        return Problem(without_members(path), message)
    if kind == "literal_error":
        close = did_you_mean(found["input"], _words(context["expected"])) if shown != "this value" else ""
        return Problem(path, f"{shown} is not allowed{close}; allowed: {context['expected']}")
    if kind == "union_tag_invalid":
        close = did_you_mean(context["tag"], _words(context["expected_tags"]))
        message = f"'{context['tag']}' is not allowed{close}; allowed: {context['expected_tags']}"
        return Problem((*path, "kind"), message)
    if kind == "union_tag_not_found":
        return Problem((*path, "kind"), "is missing: it determines what the other keys mean")
    if kind in _LIMITS:
        words, limit = _LIMITS[kind]
        return Problem(path, f"{shown} is not allowed: it {words} {context[limit]:g}{_described(model, path[-1])}")
    if kind in _EXPECTED:
        return Problem(path, f"{shown} is not {_EXPECTED[kind]}{_described(model, path[-1] if path else None)}")
    if kind == "too_short":
        return Problem(path, f"must contain at least {context['min_length']}{_described(model, path[-1])}")
    if kind == "value_error":
        return Problem(path, str(context["error"]))
    return Problem(path, found["msg"])


def without_members(path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return the path of a key that no model knows, truncated where such a key may itself identify a member."""
    return path[:1] if path and path[0] in RESTRICTED_SECTIONS else path


def _words(listed: str) -> list[str]:
    """Return the words of Pydantic's list "'a', 'b' or 'c'"."""
    return [word for word in listed.replace(" or ", ", ").replace("'", "").split(", ") if word]


def _shown(value: Any) -> str:
    """Return a value of the file as text if it is short enough to recognize, else a word for it."""
    if isinstance(value, str):
        return f"'{value}'" if len(value) <= 40 and value.isprintable() else "this text"
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return "a list" if isinstance(value, tuple | list) else "a table"


def _described(model: type[BaseModel] | None, key: str | int | None) -> str:
    """Return ': ' and the meaning of a field."""
    for name, field in model.model_fields.items() if model else ():
        if key in (name, field.alias) and field.description:
            return f": {field.description}"
    return ""


def _keys(model: type[BaseModel] | None) -> list[str]:
    """Return the keys of a model but those that are only read for earlier versions, which its schema leaves out."""
    fields = model.model_fields.items() if model else ()
    return [field.alias or name for name, field in fields if SkipJsonSchema not in map(type, field.metadata)]


def _located(location: tuple[str | int, ...], whole: type[BaseModel]) -> tuple[tuple[str | int, ...], type[BaseModel] | None]:
    """Return the path in the file, and the model of its last key.

    Pydantic's location includes the chosen kind of a source or hierarchy as if it were a key, and marks keys that are
    themselves invalid. Paths in a file have neither.
    """
    annotation: Any = whole
    owner: type[BaseModel] | None = None
    path: list[str | int] = []
    for part in location:
        if part == "[key]":
            continue
        kinds = _kinds(annotation)
        if kinds and part in kinds:
            annotation = kinds[part]
            continue
        path.append(part)
        annotation, owner = _inside(annotation, part)
    return tuple(path), owner


def _inside(annotation: Any, part: str | int) -> tuple[Any, type[BaseModel] | None]:
    """Return the annotation of a part of an annotated value, and the model that the part is a field of."""
    annotation = _bare(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            if part in (name, field.alias):
                return field.annotation, annotation
        return None, annotation
    arguments = [argument for argument in get_args(annotation) if argument is not Ellipsis]
    return (arguments[-1] if arguments else None), None


def _bare(annotation: Any) -> Any:
    """Return an annotation without `Annotated` and `| None`."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, types.UnionType):
            others = [argument for argument in get_args(annotation) if argument is not types.NoneType]
            if len(others) > 1:
                return annotation
            annotation = others[0]
        else:
            return annotation


def _kinds(annotation: Any) -> dict[str, type[BaseModel]]:
    """Return the models of a union by their `kind`; empty if it is not such a union."""
    annotation = _bare(annotation)
    if get_origin(annotation) not in (Union, types.UnionType):
        return {}
    models = [_bare(argument) for argument in get_args(annotation)]
    found: dict[str, type[BaseModel]] = {}
    for model in models:
        if isinstance(model, type) and issubclass(model, BaseModel) and "kind" in model.model_fields:
            kind = model.model_fields["kind"].annotation
            if get_origin(kind) is Literal:
                found |= dict.fromkeys(get_args(kind), model)
    return found
