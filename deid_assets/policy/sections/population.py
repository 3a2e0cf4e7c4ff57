"""Policy sections of attacks 2 and 3: which table of people an adversary holds, and how it maps to the release.

Without a table, the identified file is the delivery itself: all its members, with the claims before the long tail is
cut. No register that contains all members of the delivery has smaller classes, so the result is an upper bound.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from deid_assets.methods.attacks.identified_file import MEMBER_LEVEL, VISIT_LEVEL
from deid_assets.policy.files import Folder
from deid_assets.policy.sections.longitudinal import Delimiter, OneOf, People, Probability, Said, Section
from deid_assets.reference.known_columns import CLAIMS

PersonColumn = Annotated[str, OneOf(MEMBER_LEVEL)]
VisitorColumn = Annotated[str, OneOf((*MEMBER_LEVEL, *VISIT_LEVEL))]
DATES = "service_date"
"""Columns that attack 3 does not match even if a policy releases them; it assumes that a table lacks them."""
CODED_COLUMNS = tuple(column for column in VISIT_LEVEL if CLAIMS[column].codes)


class TableColumn(Section):
    """A column of a population table, and how its values map to those of the delivery."""

    name: Said = Field(description="name in the table")
    values: dict[Said, Said] = Field(
        {}, description="value in the table to value of the delivery, where they differ; other values stay as they are"
    )
    width: Annotated[int, Field(ge=1, le=1000)] = Field(
        1, description="how many whole numbers a value represents, starting from itself: 5 if 5-year ages are 0, 5, 10"
    )
    top: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None, description="value that represents itself and everything above, such as 85 for 85 and over"
    )
    coded: bool | Literal["icd10cm"] = Field(
        False,
        description="whether the column contains codes, which are grouped like those of claims: true for CPT, HCPCS and "
        "ICD-9-CM, icd10cm for ICD-10-CM",
    )


class PopulationTable(Section):
    """A table of people whom an adversary can identify: CSV, Parquet or DuckDB, beside the policy."""

    file: Said = Field(description="path of the file, below the policy's folder")
    table: Said | None = Field(None, description="for a DuckDB file: table or schema.table")
    delimiter: Delimiter = ","
    only: dict[Said, tuple[Said, ...]] = Field(
        {}, description="rows to use: column of the table to the required values, such as a state or a year"
    )
    leave_out: dict[Said, tuple[Said, ...]] = Field(
        {}, description="rows to leave out: column of the table to values, such as those of totals"
    )
    count: Said | None = Field(
        None, description="column with the number of people that a row represents; null: a row represents one person"
    )
    columns: dict[PersonColumn, TableColumn] = Field(min_length=1, description="column of the delivery to column of the table")
    lacks: tuple[Said, ...] = Field(
        (),
        description="published columns that the table does not contain; a gate accepts missing columns only if they are listed "
        "here. Where dates are released this includes service_date, which attack 3 does not compare",
    )
    people_at_most: People | None = Field(
        None,
        description="highest number of people that the table may represent: those of the area of the release. A larger area "
        "counts more people than there are; a gate needs it",
    )
    _folder: Folder = PrivateAttr(Folder(None))
    _digest: str = PrivateAttr("")

    @model_validator(mode="after")
    def _find(self, info: ValidationInfo) -> "PopulationTable":
        if not self._digest:  # a section that was already read may become part of another policy
            folder = info.context if isinstance(info.context, Folder) else Folder(None)
            self._digest = folder.digest(self.file)
            self._folder = folder
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of the file as the policy was read; a different file means a different policy that needs new evidence."""
        return self._digest

    def copy_to(self, folder: Path) -> Path:
        """Copy the table into a folder and return its path there, so that what is read afterwards cannot be swapped.

        Raises
        ------
        ValueError
            If the file has changed since the policy was read.
        """
        target = folder / self.file.split("/")[-1]
        if self._folder.copy(self.file, target) != self._digest:
            raise ValueError(f"file {self.file} changed while it was used; run again")
        return target


class DischargeTable(PopulationTable):
    """A table of inpatient visits: one row per discharge if it identifies persons, else one person per row."""

    columns: dict[VisitorColumn, TableColumn] = Field(min_length=1, description="column of the delivery to column of the table")
    person: Said | None = Field(None, description="column that identifies persons; null: each row is a person with one visit")
    year: TableColumn | None = Field(
        None, description="column of the visit's year, with values to 1, 2 or 3; null: all visits are in year 1"
    )

    @model_validator(mode="after")
    def _one_row_is_one_visit(self) -> "DischargeTable":
        if self.count is not None and self.person is not None:
            raise ValueError("count is for rows that name no person: a discharge of a named person is one visit")
        return self


class VoterListAttack(Section):
    """Attack 2 (methods#voter-list): the release is matched with a list of everybody's age and sex."""

    table: PopulationTable | None = Field(None, description="the list; null: the members of the delivery")
    at_most: Probability | None = Field(
        None, description="highest acceptable expected share of released members who are matched; null: only reported"
    )


class InpatientAttack(Section):
    """Attack 3 (methods#inpatient-database): the release's inpatient visits are matched with a discharge database.

    All visits of a person count together.
    """

    table: DischargeTable | None = Field(
        None, description="the database; null: the inpatient claims of the delivery, before the long tail is cut"
    )
    at_most: Probability | None = Field(
        None,
        description="highest acceptable expected share of released members with inpatient visits who are matched, in the worst "
        "year and with the worst choice of columns; null: only reported",
    )
