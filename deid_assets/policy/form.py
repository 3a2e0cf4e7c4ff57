"""Format 2 of a policy: one section `columns` says of each column what it is read from, its role, and how it is released.

Policies are validated, hashed and compared in the earlier form, in which `source`, `columns`, `quasi_identifiers` and
`attributes` each say a part of that. This module alone knows both; a text without `format` is in the earlier form.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deid_assets.policy.cohort import CohortColumns
from deid_assets.policy.problems import Path, Problem, did_you_mean
from deid_assets.reference.known_columns import KNOWN, PROVIDER_PSEUDONYMS
from deid_assets.sources.delivery import DELIVERED_CLAIM_COLUMNS, DELIVERED_MEMBER_COLUMNS, EVENT_COLUMNS, place_of

ROLES: Mapping[str, str] = {
    "direct_identifier": "identifies a person, is read to link releases of the same people, and is never released",
    "pseudonym": "identifies a person or provider, and is released as a pseudonym",
    "quasi_identifier": "others may know it: released at a level of its `hierarchy`, or of the demographics, and measured",
    "attribute": "only the person and the publisher know it: released as it was made, and measured for what it tells of others",
    "dropped": "read because other columns or rules need it, and not released itself",
}
"""What a column of a delivery is to its release."""

FORMAT = 2
TABLES: Mapping[str, tuple[str, ...]] = {"longitudinal": ("members", "claims"), "flat": ("records",), "cohort": ("people",)}
"""The tables of each kind of policy, as `columns` names them; of claims, those that `source.events` names are further ones."""

PSEUDONYMS = ("member_id", "provider_id", "vendor_id", "pcp_id")
PASSED_ON = ("year", "pay_delay")
"""Delivered columns of claims that every release contains."""

_MAPPED: Mapping[str, tuple[str, ...]] = {"members": DELIVERED_MEMBER_COLUMNS, "claims": DELIVERED_CLAIM_COLUMNS}
_RELEASED = ("release_as", "hierarchy")
_SECTIONS = {"quasi_identifier": "quasi_identifiers", "attribute": "attributes"}
"""By role: the section of the earlier form that lists columns of it."""


@dataclass
class _EarlierForm:
    """A text of format 2 in the earlier form.

    Attributes
    ----------
    values
        The sections.
    places
        Path in the earlier form -> path in the text; what is below a path is below the other.
    problems
        What is wrong with the section `columns`; the values are then incomplete.
    """

    values: dict[str, Any]
    places: dict[Path, Path] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def in_text(self, problem: Problem) -> Problem:
        """A problem of the earlier form, at its place in the text."""
        for length in range(len(problem.path), 0, -1):
            if problem.path[:length] in self.places:
                return Problem(self.places[problem.path[:length]] + problem.path[length:], problem.message)
        return problem


def kind_of(values: Mapping[str, Any]) -> str:
    """The kind of a policy, which only some texts state."""
    stated = values.get("kind")
    return stated if isinstance(stated, str) and stated in TABLES else "longitudinal"


def earlier_form(values: Mapping[str, Any]) -> _EarlierForm:
    """Return a policy in the earlier form, whichever form its text has.

    Parameters
    ----------
    values
        The text as mappings, lists, text and numbers.

    Examples
    --------
    >>> age = {"role": "quasi_identifier", "hierarchy": "age", "release_as": "Age"}
    >>> text = {"format": 2, "kind": "flat", "source": {}, "columns": {"records": {"age": age}}}
    >>> earlier_form(text).values["quasi_identifiers"]
    [{'column': 'age', 'release_as': 'Age', 'hierarchy': 'age'}]
    """
    if "format" not in values:
        return _EarlierForm(dict(values))
    found = _EarlierForm({key: value for key, value in values.items() if key not in ("format", "columns")})
    kind, columns = kind_of(values), values.get("columns")
    tables = (*TABLES[kind], *(sorted(_events(values)) if kind == "longitudinal" else ()))
    if values["format"] != FORMAT:
        found.problems.append(Problem(("format",), f"this version reads format {FORMAT}, and texts without a format"))
        return found
    for section in ("quasi_identifiers", "attributes") if kind != "cohort" else ("attributes",):
        if section in values:
            told = f"in format {FORMAT}, each entry is in columns.{' or columns.'.join(tables)}, with its role"
            found.problems.append(Problem((section,), told))
    if not isinstance(columns, Mapping):
        found.problems.append(Problem(("columns",), f"is missing: a table of columns for {' and '.join(tables)}"))
        return found
    for table in columns:
        if table not in tables:
            told = f"no table of this policy{did_you_mean(table, tables)}; its tables: {', '.join(tables)}"
            found.problems.append(Problem(("columns", table), told))
    if kind == "longitudinal" and "diagnosis_codes" not in values:
        found.problems.append(
            Problem(
                ("diagnosis_codes",), "is missing: icd9cm, icd10cm, by_date, or {from: COLUMN}, the system of the diagnoses"
            )
        )
    _refuse_columns_in_source(found, kind)
    _TO_EARLIER[kind](found, {table: _entries(found, table, columns.get(table, {})) for table in tables})
    return found


def _events(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Tables of events beside the claims, as the source describes them, by their names."""
    source = values.get("source")
    events = source.get("events") if isinstance(source, Mapping) else None
    return {name: one for name, one in events.items() if isinstance(name, str)} if isinstance(events, Mapping) else {}


def _refuse_columns_in_source(found: _EarlierForm, kind: str) -> None:
    """Report what the source says of columns: only their entries may."""
    source = found.values.get("source")
    if not isinstance(source, Mapping):
        return
    told = f"in format {FORMAT}, only the entries in columns.{{}} say this: as {{}}"
    if kind == "flat" and "person" in source:
        found.problems.append(Problem(("source", "person"), told.format("records", "the role direct_identifier")))
    found.values["source"] = dict(source)
    if kind != "longitudinal":
        return
    for table in (*TABLES[kind], *_events(found.values)):
        own = _described(found.values["source"], table)
        if not isinstance(own, Mapping):
            continue
        for key, entry in (("columns", "from"), ("date_formats", "date_formats"), ("same_as_claims", "same_as")):
            if key in own:
                found.problems.append(Problem(("source", *place_of(table), key), told.format(table, entry)))
        _describe(found, table, _without_columns(own))


def _described(source: Mapping[str, Any], table: str) -> Any:
    """What a source says of a table; None: nothing."""
    events = source.get("events")
    of_events = events.get(table) if isinstance(events, Mapping) else None
    return source.get(table) if table in TABLES["longitudinal"] else of_events


def _describe(found: _EarlierForm, table: str, own: Mapping[str, Any]) -> None:
    """Let the source say this of a table."""
    source = found.values["source"]
    if table in TABLES["longitudinal"]:
        found.values["source"] = {**source, table: own}
    else:
        found.values["source"] = {**source, "events": {**source["events"], table: own}}


def _entries(found: _EarlierForm, table: str, columns: object) -> dict[str, dict[str, Any]]:
    """The columns of a table that say what they are."""
    entries: dict[str, dict[str, Any]] = {}
    if not isinstance(columns, Mapping):
        found.problems.append(Problem(("columns", table), "is not a table of columns, each with its role"))
        return entries
    for name, entry in columns.items():
        path: Path = ("columns", table, name)
        if not isinstance(name, str):
            found.problems.append(Problem(path, "the name of a column is text; write it in quotes"))
        elif not isinstance(entry, Mapping) or entry.get("role") not in tuple(ROLES):
            stated = entry.get("role") if isinstance(entry, Mapping) else None
            told = "is missing" if stated is None else f"is not a role{did_you_mean(str(stated), ROLES)}"
            found.problems.append(Problem((*path, "role"), f"{told}; roles: {', '.join(ROLES)}"))
        else:
            entries[name] = dict(entry)
    return entries


def _only(found: _EarlierForm, path: Path, entry: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    """Report keys that a column of this role does not have."""
    for key in entry:
        if key not in ("role", *allowed):
            listed = ", ".join(("role", *allowed))
            told = f"unknown key{did_you_mean(key, allowed)} of a column with the role {entry['role']}; allowed: {listed}"
            found.problems.append(Problem((*path, key), told))


def _wrong_role(found: _EarlierForm, path: Path, *allowed: str) -> None:
    found.problems.append(Problem((*path, "role"), f"this column can be {' or '.join(allowed)}"))


# Claims


def _longitudinal(found: _EarlierForm, tables: Mapping[str, Mapping[str, dict[str, Any]]]) -> None:
    values = found.values
    declared: dict[str, dict[str, Any]] = {}
    listed: dict[str, list[dict[str, Any]]] = {}
    attributes: list[dict[str, Any]] = []
    places = found.places
    places |= {("quasi_identifiers",): ("columns",), ("attributes",): ("columns", "claims")}
    for table, columns in tables.items():
        declared[table] = {}
        # Those of all tables of events are listed together: nothing that the adversary knows of them is different.
        level = listed.setdefault("members" if table == "members" else "claims", [])
        places.setdefault(("quasi_identifiers", table), ("columns", table))
        places[("source", *place_of(table), "columns")] = ("columns", table)
        for name, entry in columns.items():
            path: Path = ("columns", table, name)
            made = {key: value for key, value in entry.items() if key not in ("role", *_RELEASED)}
            if "kind" in entry:
                declared[table][name] = made
            else:
                _only(found, path, entry, _known_keys(table, name, entry["role"]))
                _map(found, table, name, entry)
            if entry["role"] == "quasi_identifier":
                _list(found, ("quasi_identifiers", "members" if table == "members" else "claims", len(level)), path)
                level.append({"column": name} | _part(entry, _RELEASED))
            elif entry["role"] == "attribute" and "kind" in entry:
                if table == "members":
                    _wrong_role(found, path, *_roles(name, True, table))
                _list(found, ("attributes", len(attributes)), path)
                attributes.append({"column": name} | _part(entry, _RELEASED))
            elif entry["role"] == "dropped" and "kind" in entry and table == "members":
                _only(found, path, entry, tuple(made))
            elif (roles := _roles(name, "kind" in entry, table)) and entry["role"] not in roles:
                _wrong_role(found, path, *roles)
    if any(declared.values()):
        values["columns"] = {table: columns for table, columns in declared.items() if columns}
    values["quasi_identifiers"] = listed
    if attributes:
        values["attributes"] = attributes


def _list(found: _EarlierForm, earlier: Path, path: Path) -> None:
    found.places[earlier] = found.places[(*earlier, "column")] = path


def _part(entry: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: entry[key] for key in keys if key in entry}


def _roles(name: str, is_declared: bool, table: str) -> tuple[str, ...]:
    """What a column of claims or members can be, if not a quasi-identifier."""
    if is_declared:
        return ("quasi_identifier", "dropped") if table == "members" else ("quasi_identifier", "attribute")
    if name in PSEUDONYMS:
        return ("pseudonym",)
    if name in PASSED_ON:
        return ("attribute",)
    return ("quasi_identifier", "dropped") if name in KNOWN else ("dropped",)


def _known_keys(table: str, name: str, role: str) -> tuple[str, ...]:
    mapped = ("from", "date_formats") if name in _MAPPED.get(table, EVENT_COLUMNS) else ()
    if name in PROVIDER_PSEUDONYMS and table not in TABLES["longitudinal"]:
        return (*mapped, "same_as")
    return (*mapped, *_RELEASED) if role == "quasi_identifier" else mapped


def _map(found: _EarlierForm, table: str, name: str, entry: Mapping[str, Any]) -> None:
    """Enter a delivered column into the map of the source, if that has one."""
    path: Path = ("columns", table, name)
    source = found.values.get("source")
    own = None
    if isinstance(source, Mapping) and source.get("kind") == "tables":
        own = _described(source, table) or {}
    mapped = _MAPPED.get(table, EVENT_COLUMNS)
    if name not in ((*mapped, *KNOWN) if table in TABLES["longitudinal"] else mapped):
        close = did_you_mean(name, mapped)
        told = f"no column that is known{close}; a column of your own has a kind, which says how it is made"
        found.problems.append(Problem(path, told))
    elif not isinstance(source, Mapping) or not isinstance(own, Mapping):
        if "from" in entry:
            told = "the layout of the source says where columns are; only a source of kind tables needs `from`"
            found.problems.append(Problem((*path, "from"), told))
    elif "from" not in entry and ("date_formats" in entry or entry["role"] != "quasi_identifier"):
        found.problems.append(Problem((*path, "from"), "is missing: name of the column in the delivery"))
    else:
        for section, key in (("columns", "from"), ("date_formats", "date_formats")):
            if key in entry:
                own = {**own, section: {**own.get(section, {}), name: entry[key]}}
                found.places[("source", *place_of(table), section, name)] = (*path, key)
        if (same := entry.get("same_as")) is not None:
            if same != f"claims.{name}":
                told = f"can be claims.{name}: providers of both tables then have one pseudonym each"
                found.problems.append(Problem((*path, "same_as"), told))
            own = {**own, "same_as_claims": [*own.get("same_as_claims", ()), name]}
        if own:
            _describe(found, table, own)


# One table


def _flat(found: _EarlierForm, tables: Mapping[str, Mapping[str, dict[str, Any]]]) -> None:
    listed: dict[str, list[dict[str, Any]]] = {role: [] for role in _SECTIONS}
    found.places |= {(section,): ("columns", "records") for section in _SECTIONS.values()}
    source = found.values.get("source", {})
    persons = []
    for name, entry in tables["records"].items():
        path: Path = ("columns", "records", name)
        role, column = entry["role"], entry.get("from", name)
        if role in _SECTIONS:
            _only(found, path, entry, ("from", *_RELEASED[: 1 + (role == "quasi_identifier")]))
            _list(found, (_SECTIONS[role], len(listed[role])), path)
            listed[role].append({"column": column} | _part(entry, _RELEASED))
        elif role == "direct_identifier":
            _only(found, path, entry, ("from",))
            if column is None:
                found.problems.append(Problem((*path, "from"), "nothing (null) is not the name of a column"))
            persons.append(column)
            found.places[("source", "person")] = path
        else:
            _wrong_role(found, path, "direct_identifier", *_SECTIONS)
    if len(persons) > 1:
        told = "several columns are direct identifiers: one identifies a person, and what is not listed is not read"
        found.problems.append(Problem(("columns", "records"), told))
    if isinstance(source, Mapping) and persons:
        found.values["source"] = {**source, "person": persons[0]}
    found.values["quasi_identifiers"] = listed["quasi_identifier"]
    if listed["attribute"]:
        found.values["attributes"] = listed["attribute"]


# Cohorts

_PEOPLE = tuple(name for name in CohortColumns.model_fields if name != "date_format")
"""The columns of people that every cohort may have; the others are attributes."""


def _role_of_people(name: str, entry: Mapping[str, Any]) -> str:
    """What a column of people is, if it is no attribute."""
    if name != "person":
        return "quasi_identifier"
    return "direct_identifier" if entry.get("release_as") is None else "pseudonym"


def _cohort(found: _EarlierForm, tables: Mapping[str, Mapping[str, dict[str, Any]]]) -> None:
    values, columns = found.values, dict[str, Any]()
    attributes: list[dict[str, Any]] = []
    for name, entry in tables["people"].items():
        path: Path = ("columns", "people", name)
        if "column" in entry:
            found.problems.append(Problem((*path, "column"), f"in format {FORMAT}, this key is called from"))
        made = {"column" if key == "from" else key: value for key, value in entry.items() if key not in ("role", "column")}
        if name not in _PEOPLE:
            if entry["role"] != "attribute":
                _wrong_role(found, path, "attribute")
            _list(found, ("attributes", len(attributes)), path)
            attributes.append({"column": name} | {"role" if key == "read_as" else key: one for key, one in made.items()})
            continue
        if entry["role"] != (role := _role_of_people(name, entry)):
            _wrong_role(found, path, role)
        columns[name] = made
        found.places[("columns", name)] = path
        found.places[("columns", name, "column")] = (*path, "from")
    source = values.get("source")
    if isinstance(source, Mapping) and "date_format" in source:
        columns["date_format"] = source["date_format"]
        values["source"] = {key: value for key, value in source.items() if key != "date_format"}
        found.places[("columns", "date_format")] = ("source", "date_format")
    values["columns"] = columns
    if attributes:
        values["attributes"] = attributes


_TO_EARLIER = {"longitudinal": _longitudinal, "flat": _flat, "cohort": _cohort}


# The other way


@dataclass(frozen=True)
class Column:
    """A column of a text of format 2: its table, its name, what the text says of it, and where the earlier form said it."""

    table: str
    name: str
    entry: Mapping[str, Any]
    said_at: tuple[Path, ...]


def columns_of(values: Mapping[str, Any]) -> Iterator[Column]:
    """Yield the columns of a valid policy of the earlier form, in the order in which format 2 lists them.

    Parameters
    ----------
    values
        The sections as a text states them, without defaults.
    """
    yield from {"longitudinal": _of_claims, "flat": _of_records, "cohort": _of_people}[kind_of(values)](values)


def source_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section `source` of a policy of the earlier form as format 2 has it: without columns."""
    source = dict(values["source"])
    if kind_of(values) == "flat":
        source.pop("person", None)
    elif kind_of(values) == "cohort":
        source |= _part(values["columns"], ("date_format",))
    for table in TABLES["longitudinal"]:
        if isinstance(source.get(table), Mapping):
            source[table] = _without_columns(source[table])
    if events := _events(values):
        source["events"] = {table: _without_columns(one) for table, one in events.items()}
    return source


def _without_columns(described: Mapping[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in described.items() if key not in ("columns", "date_formats", "same_as_claims")}


def _of_claims(values: Mapping[str, Any]) -> Iterator[Column]:
    declared, attributes = values.get("columns") or {}, values.get("attributes") or ()
    others = _events(values)
    of_others = {name: table for table in others for name in declared.get(table) or {}}
    for table in (*TABLES["longitudinal"], *others):
        source = _described(values["source"], table) or {}
        mapped, formats = source.get("columns") or {}, source.get("date_formats") or {}
        level = "members" if table == "members" else "claims"
        listed = {
            one["column"]: (number, one)
            for number, one in enumerate(values["quasi_identifiers"][level])
            if table == "members" or of_others.get(one["column"], "claims") == table
        }
        dropped = declared.get(table) or {} if table == "members" else {}
        for name in dict.fromkeys((*(name for name in (*mapped, *dropped) if name not in listed), *listed)):
            made = dict((declared.get(table) or {}).get(name, {}))
            if name in mapped:
                made = {"from": mapped[name]} | ({"date_formats": formats[name]} if name in formats else {})
                made |= {"same_as": f"claims.{name}"} if name in source.get("same_as_claims", ()) else {}
            at: list[Path] = [("source", *place_of(table), "columns", name)] if name in mapped else []
            at += [("columns", table, name)] if name not in mapped and made else []
            if name in listed:
                number, one = listed[name]
                role: dict[str, Any] = {"role": "quasi_identifier"} | {key: one[key] for key in ("hierarchy", "release_as")}
                at.append(("quasi_identifiers", level, number))
            else:
                role = {"role": _roles(name, name in dropped, table)[-1]}
            yield Column(table, name, made | role, tuple(at))
        for number, one in enumerate(attributes if table != "members" else ()):
            if of_others.get(one["column"], "claims") != table:
                continue
            made = dict(declared[table][one["column"]]) | {"role": "attribute", "release_as": one["release_as"]}
            yield Column(table, one["column"], made, (("columns", table, one["column"]), ("attributes", number)))


def _of_records(values: Mapping[str, Any]) -> Iterator[Column]:
    person = values["source"].get("person")
    if person is not None:
        yield Column("records", person, {"role": "direct_identifier"}, (("source", "person"),))
    for role, section in _SECTIONS.items():
        for number, one in enumerate(values.get(section) or ()):
            entry = {"role": role} | {key: value for key, value in one.items() if key != "column"}
            yield Column("records", one["column"], entry, ((section, number),))


def _of_people(values: Mapping[str, Any]) -> Iterator[Column]:
    for name in _PEOPLE:
        made = values["columns"].get(name)
        if made is None:
            continue
        entry = {"from" if key == "column" else key: value for key, value in made.items() if value is not None}
        yield Column("people", name, entry | {"role": _role_of_people(name, made)}, (("columns", name),))
    for number, one in enumerate(values.get("attributes") or ()):
        entry = {"read_as" if key == "role" else key: value for key, value in one.items() if key != "column"}
        # A column that is called like one of the demographics has another name here.
        is_taken = one["column"] in _PEOPLE
        name, read = (f"{one['column']}_attribute", {"from": one["column"]}) if is_taken else (one["column"], {})
        yield Column("people", name, read | {"role": "attribute"} | entry, (("attributes", number),))
