"""A section that reads a table from a file beside the policy."""

from pydantic import PrivateAttr, ValidationInfo

from deid_assets.errors import how_many
from deid_assets.policy.files import read_rows
from deid_assets.policy.sections.longitudinal import Said, Section


class TableFile(Section):
    """A table of text, without a header: semicolons between the columns."""

    file: Said | None
    _rows: tuple[tuple[str, ...], ...] = PrivateAttr(())
    _digest: str = PrivateAttr("")

    def read_file(self, info: ValidationInfo) -> None:
        """Read the file once: a section that was already read may become part of another policy."""
        if not self._rows and self.file is not None:
            self._rows, self._digest = read_rows(info.context, self.file)

    def require_columns(self, numbers: tuple[int, ...], what: str) -> None:
        """Refuse a file with another number of columns than one of these; `what` says what they are."""
        if len(self.rows[0]) not in numbers:
            raise ValueError(f"file {self.file} has {how_many(len(self.rows[0]), 'column')}; {what}")

    def require_groups(self) -> None:
        """Refuse a file in which the second column, of groups, has blanks."""
        if no_group := sum(not row[1].strip() for row in self.rows):
            raise ValueError(f"file {self.file}: {how_many(no_group, 'row has no group', 'rows have no group')}")

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Contents of the file."""
        return self._rows

    @property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return self._digest
