"""What all policies share: a name, owners, recipients, hierarchies, and hashes of their sections."""

import hashlib
import json
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, PrivateAttr

from deid_assets.errors import PolicyError
from deid_assets.policy.files import Folder
from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.hierarchies.specs import AnyHierarchy, CsvSpec
from deid_assets.policy.sections.approval import Approval
from deid_assets.policy.sections.longitudinal import ColumnName, Name, OptOuts, Owner, Recipients, Said, Section

RESTRICTED_SECTIONS = ("opt_outs",)
"""Sections that name members. They are never published, not even as a digest: identifiers could be guessed from it."""

NOT_SHOWN = "not shown"
"""Placeholder in the public text of a policy for a value that is not disclosed."""

_NAMES_FILES = ("file", "table")
"""Keys of a source or a table of people that name a file: file names may contain names of people."""

LATER_SECTIONS: dict[str, Any] = {
    "approval": None, "accepted_risks": {}, "publish_however_coarse": False, "diagnosis_codes": "icd9cm", "rotation": None,
}  # fmt: skip
_LATER_KEYS: Mapping[str, Mapping[str, Any]] = {
    "recipients": {"reference_class": None},
    "adversary": {"scenarios": [], "total": None, "everything_known_at_most": None},
    "removal": {"sets": [], "absence_factor_at_most": None, "disappearance_posterior_at_most": None},
    "risk": {"worst_class_share_at_most": None, "nodes_by_gain": None},
    "releases": {"left_out": {}},
    "counts": {"totals": []},
    "number_of_claims": {"of": ["claims"]},
    "dates": {"ordered_services_at_most": None, "intervals_known": "alone", "connected": []},
}
"""What policies of earlier versions do not have, by section, with what it means where it is missing: they keep their hashes."""

TAKEN = ("errors", "manifests")
"""Folders of the restricted store that do not belong to a policy; each policy has a folder there under its name."""


def _leave_out(content: dict[str, Any], meant: Mapping[str, Any]) -> None:
    """Remove keys that say what is meant without them."""
    for key, value in meant.items():
        if content.get(key, ...) == value:
            del content[key]


def _not_taken(name: str) -> str:
    if name in TAKEN:
        raise ValueError(f"a folder of the restricted store is called {name}; choose another name")
    return name


PolicyName = Annotated[Name, AfterValidator(_not_taken)]

Detail = Annotated[float, Field(gt=0, le=1)]
"""A share of a column's information: 1 at the finest level, 0 if all values are in one class."""


@dataclass(frozen=True)
class Origin:
    """Where a policy was read from.

    Attributes
    ----------
    folder
        Contains the files that the policy names.
    text
        SHA-256 of the policy's text; None for a policy that was built from values.
    shown
        The place of the text, for messages; empty for a policy that was built from values.
    """

    folder: Folder
    text: str | None = None
    shown: str = ""


class ReleasePolicy(Section, ABC):
    """The sections that all policies share, and the identity of a policy."""

    later_sections: ClassVar[Mapping[str, Any]] = LATER_SECTIONS
    policy: PolicyName = Field(description="name of the policy; the first part of asset keys")
    title: Said = Field(description="title in one line")
    description: Said = Field(description="what the policy is for")
    owners: tuple[Owner, ...] = Field(min_length=1, description="who answers for releases: e-mail or team:name")
    recipients: Recipients = Field(description="recipient_class and terms_of_use")
    approval: Approval | None = Field(
        None, description="who must approve a release before it is published; null: what passes the gate is published"
    )
    opt_outs: OptOuts = OptOuts()
    hierarchies: dict[Name, AnyHierarchy] = Field(min_length=1, description="hierarchies by name")
    detail_at_least: dict[ColumnName, Detail] = Field(
        {},
        description="columns, by their names in the release, each with the minimum share of its delivered information that "
        "the release must keep: a release with less is refused as useless; columns that are not listed may be generalized "
        "completely",
    )
    publish_however_coarse: bool = Field(
        False,
        description="whether a release that keeps less than detail_at_least is published; its headline then says of which "
        "columns it says too little",
    )
    accepted_risks: dict[Name, Said] = Field(
        {},
        description="assessments whose worst number the owners accept though no gate limits it, each with the reason in a "
        "sentence; the report and the determination print both",
    )
    _origin: Origin = PrivateAttr(Origin(Folder(None)))

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self.policy

    @property
    def detail_required(self) -> dict[str, float]:
        """`detail_at_least` as far as it refuses: nothing where a release is published however coarse it is."""
        return {} if self.publish_however_coarse else self.detail_at_least

    @property
    def needs_second_person(self) -> bool:
        """Whether a release is published only if somebody approves it who is not one of the owners."""
        owners = {form for owner in self.owners for form in _forms_of(owner)}
        return self.approval is not None and not any(owners & _forms_of(name) for name in self.approval.by)

    # Text and files

    def named_files(self) -> Iterator[tuple[str, str, str]]:
        """Yield each file that a section names: section, path below the policy's folder, and SHA-256 as read."""
        for spec in self.hierarchies.values():
            if isinstance(spec, CsvSpec):
                yield "hierarchies", spec.file, spec.digest
        if self.opt_outs.file is not None:
            yield "opt_outs", self.opt_outs.file, self.opt_outs.digest

    @property
    def files(self) -> tuple[str, ...]:
        """Files that belong to the policy, relative to it; a copy of the policy must include them."""
        return tuple(self.file_digests())

    def file_digests(self, *sections: str) -> dict[str, str]:
        """Return the SHA-256 of each file that some sections name (default: all sections), ordered by path."""
        named = {file: digest for section, file, digest in self.named_files() if section in (sections or (section,))}
        return dict(sorted(named.items()))

    @property
    def origin(self) -> Origin:
        """Where the policy was read from."""
        return self._origin

    def read_from(self, origin: Origin) -> Self:
        """Record where the policy was read from, and return the policy."""
        self._origin = origin
        return self

    @property
    def reading(self) -> str:
        """SHA-256 of the bytes that were read: of the policy's text and of every file that it names. Restricted.

        `hash` covers what they mean; a comment changes this digest but not `hash`.
        """
        return _digest({"text": self._origin.text, "files": self.file_digests(), "hash": self.hash})

    def changed_files(self, anew: bool = True) -> tuple[str, ...]:
        """Return the files that have changed since the policy was read.

        Each is read again now; not `anew`, only one whose place, size or times are others.
        """
        return tuple(file for file, digest in self.file_digests().items() if not self._holds(file, digest, anew))

    def _holds(self, file: str, digest: str, anew: bool) -> bool:
        try:
            return self._origin.folder.digest(file, anew=anew) == digest
        except ValueError:
            return False

    def without_withdrawn(self, members: tuple[str, ...]) -> Self:
        """Return the policy with the home's own list of members who opted out."""
        return self.model_copy(update={"opt_outs": self.opt_outs.with_withdrawn(members)})

    # Hierarchies

    def hierarchy(self, name: str) -> Hierarchy:
        """Return a hierarchy by its name."""
        if name not in self.hierarchies:
            raise PolicyError(f"policy {self.name} has no hierarchy '{name}'")
        if name not in self._built:
            self._built[name] = self.hierarchies[name].build(name)
        return self._built[name]

    @cached_property
    def _built(self) -> dict[str, Hierarchy]:
        """Hierarchies, cached at first use: a policy does not change."""
        return {}

    def identity(self, column: str) -> str:
        """What a column is, whatever this policy calls it or says about it; a known column is its name."""
        return column

    @property
    @abstractmethod
    def generalized(self) -> dict[str, str]:
        """Columns that have coarser levels, by their names in the release."""

    @property
    def records_per_person(self) -> int:
        """What one person adds to a count of members, people or records at most."""
        return 1

    @property
    def persons_checked(self) -> str:
        """Why one person adds no more to a count; empty where a row is a person, which the intake checks."""
        return ""

    # Identity

    def content(self, *sections: str) -> dict[str, Any]:
        """Return sections (default: all) as JSON values, with the contents of the files that they name.

        Restricted: contains the identifiers of members who opted out.
        """
        unknown = [section for section in sections if section not in type(self).model_fields]
        if unknown:
            raise PolicyError(
                f"a policy has no section {', '.join(unknown)}; its sections are {', '.join(type(self).model_fields)}"
            )
        chosen = sections or tuple(type(self).model_fields)
        content = self.model_dump(mode="json", by_alias=True, include=set(chosen))
        _leave_out(content, self.later_sections)
        for section, keys in _LATER_KEYS.items():
            _leave_out(content.get(section) or {}, keys)
        for name, spec in self.hierarchies.items() if "hierarchies" in content else ():
            if isinstance(spec, CsvSpec):
                content["hierarchies"][name]["rows"] = [list(row) for row in spec.rows]
        if "opt_outs" in content:
            content["opt_outs"] = {
                "members": list(self.opt_outs.all_members), "matched_at_least": self.opt_outs.matched_at_least
            }  # fmt: skip
            if self.opt_outs.withdrawn:
                content["opt_outs"]["withdrawn"] = list(self.opt_outs.withdrawn)
        return content

    def public_content(self) -> dict[str, Any]:
        """Return the policy as JSON values, as recipients and auditors may see it.

        Omits who opted out. Hides names of files and the size of the sample, which together with the released rows
        would reveal exactly how many members were suppressed. The size of a population is rounded.
        """
        content = {section: value for section, value in self.content().items() if section not in RESTRICTED_SECTIONS}
        for place in ("source", "population", "columns", "voter_list_attack", "inpatient_attack"):
            if place in content:
                content[place] = _without_files(content[place])
        for hierarchy in content["hierarchies"].values():
            hierarchy.update({name: NOT_SHOWN for name in ("file",) if name in hierarchy})
        if "sample" in content:
            content["sample"] = NOT_SHOWN
        if content.get("risk", {}).get("population_size") is not None:
            content["risk"]["population_size"] = int(float(f"{content['risk']['population_size']:.1e}"))
        return content

    def section_hash(self, *names: str) -> str:
        """Return the SHA-256 (hexadecimal) of the canonical JSON of the named sections, as a code version needs it.

        Defaults count whether or not the file states them. The order of keys does not count.
        """
        return _digest(self.content(*names) if names else {})

    @property
    def hash(self) -> str:
        """SHA-256 of the whole policy. Restricted, because it depends on who opted out; see `public_hash`."""
        return _digest(self.content())

    @property
    def public_hash(self) -> str:
        """SHA-256 of `public_content`; anyone who has the published policy can recompute it."""
        return _digest(self.public_content())


def _forms_of(name: str) -> set[str]:
    """How a person's or team's name may be spelled: neither case, accents, signs, order, nor the host of an address count.

    Examples
    --------
    >>> _forms_of("anna.muster@example.org") & _forms_of("Muster, Anna") != set()
    True
    >>> _forms_of("team:privacy") & _forms_of("Anna Muster")
    set()
    """
    plain = "".join(one for one in unicodedata.normalize("NFKD", name.casefold()) if not unicodedata.combining(one))
    words = [word for word in re.split(r"[\W_]+", plain.partition("@")[0]) if word not in ("", "team")]
    return {"".join(words), "".join(sorted(words))} - {""}


def _without_files(content: object) -> object:
    """A section without the keys that name its files."""
    if not isinstance(content, dict):
        return content
    return {
        name: NOT_SHOWN if name in _NAMES_FILES and isinstance(value, str) else _without_files(value)
        for name, value in content.items()
    }


def _digest(content: Mapping[str, object]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
