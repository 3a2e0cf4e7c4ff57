"""What is stated of tables of counts: where they have their dimensions, what totals are called, which codes belong together."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError

from deid_assets.command_line.count_layouts import Layout, Names, nested_hierarchy, read_hierarchy
from deid_assets.errors import CountsError, ReleaseError
from deid_assets.store.digests import TEXT_AT_MOST, regular_bytes

_NO_MARK = ("=", "+", "-", "@")


class Declaration(Layout):
    """What holds of all files, and what differs between them.

    Attributes
    ----------
    total
        Labels of totals.
    hierarchies
        By dimension, nested groups or the name of a CSV file.
    contribution
        To how much of a count one person may add; None: 1, and of microdata with persons, these are counted.
    thousands
        What separates thousands, where the file leaves it open.
    small, hidden
        What small and other hidden counts become, and are in masked tables; None: "<11", with the threshold, and "*".
    empty_is_zero
        Whether an empty cell is a count of 0.
    name
        Who is counted; None: the name of the first file.
    files
        What differs in files of these names.
    """

    total: Names = ()
    hierarchies: dict[str, str | dict[Any, Any]] = Field(default_factory=dict)
    contribution: Annotated[int, Field(ge=1)] | None = None
    thousands: Literal[",", "."] | None = None
    small: str | None = None
    hidden: str | None = None
    empty_is_zero: bool = False
    name: str | None = None
    files: dict[str, Layout] = Field(default_factory=dict)

    def layout(self, path: Path) -> Layout:
        """The layout of a file.

        Raises
        ------
        CountsError
            If it is of no kind, or of two.
        """
        stated = (self, self.files.get(path.name, Layout()))
        found = Layout(**{name: one[name] for one in map(dict, stated) for name in Layout.model_fields if one[name]})
        if found.rows and (found.count or found.by or found.person):
            raise CountsError(f"{path}: --rows is for wide tables, --count, --by and --person are for others: say one")
        if found.count and found.person:
            raise CountsError(f"{path}: --count is for tables of counts and --person for rows of persons: say one")
        if not found.rows and not found.count and not found.by:
            raise CountsError(
                f"{path}: say how the table is made: --rows (a wide table: its columns of labels), --count (one count per row: "
                "their column), or --by (a row per person: its dimensions)"
            )
        if not found.rows and not found.count and not found.person and self.contribution is None:
            raise CountsError(
                f"{path}: is a row a person? Name the column that identifies persons with --person, or say how many rows a "
                "person has at most with --contribution"
            )
        return found

    def trees(self) -> dict[str, dict[str, str]]:
        """The parent of every code, by dimension."""
        return {
            name: read_hierarchy(Path(one)) if isinstance(one, str) else nested_hierarchy(one, f"hierarchy {name!r}")
            for name, one in self.hierarchies.items()
        }

    def marks(self, threshold: int) -> tuple[str, str]:
        """What small and other hidden counts become.

        Raises
        ------
        CountsError
            If a mark could be taken for a count or a formula.
        """
        smallest_shown = threshold * (self.contribution or 1)
        found = f"<{smallest_shown}" if self.small is None else self.small, "*" if self.hidden is None else self.hidden
        for mark in found:
            if mark[:1].isdigit() or mark != mark.strip() or (mark.startswith(_NO_MARK) and mark != "-"):
                raise CountsError(f"the mark {mark!r} could be taken for a count or a formula; choose another")
        if self.empty_is_zero and "" in found:
            raise CountsError("an empty cell cannot be both masked and 0: choose another mark, or leave out --empty-is-zero")
        return found


def read_declaration(path: Path | None, options: Mapping[str, Any], hierarchies: Sequence[str]) -> Declaration:
    """Return what a file and options say together; options count for more.

    Parameters
    ----------
    path
        YAML; None: options alone.
    options
        Of the command line, by name; None or empty where not given.
    hierarchies
        Each a dimension and a CSV file, as `age=groups.csv`.

    Raises
    ------
    CountsError
        If the file cannot be read, or says what nobody knows.
    """
    stated: object = {}
    try:
        if path is not None:
            stated = yaml.safe_load(regular_bytes(path, TEXT_AT_MOST))
        found = Declaration.model_validate(stated)
    except ReleaseError as error:
        raise CountsError(f"{path}: {error}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise CountsError(f"{path}: it is no YAML") from None
    except ValidationError as error:
        listed = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in error.errors())
        raise CountsError(f"{path}: {listed}") from None
    beside = path.parent if path is not None else Path()
    trees = {name: str(beside / one) if isinstance(one, str) else one for name, one in found.hierarchies.items()}
    for text in hierarchies:
        name, _, file = text.partition("=")
        if not name or not file:
            raise CountsError(f"--hierarchy {text}: write the name of a dimension, = and a CSV file")
        trees[name] = file
    given = {name: value for name, value in options.items() if value not in (None, (), False)}
    return found.model_copy(update={**given, "hierarchies": trees})
