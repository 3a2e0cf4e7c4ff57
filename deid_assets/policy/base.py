"""What every policy has, whatever it releases: a name, owners, recipients, hierarchies, and hashes of its sections."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property

from pydantic import Field

from deid_assets.errors import PolicyError
from deid_assets.policy.hierarchies import Hierarchy
from deid_assets.policy.hierarchy_specs import AnyHierarchy, CsvSpec
from deid_assets.policy.sections import Name, Owner, Recipients, Said, Section

RESTRICTED_SECTIONS = ("opt_outs",)
"""Sections that name members. They never leave, not even as a digest: a guessed identifier could be tried on it."""

NOT_SHOWN = "not shown"
"""What stands in the public text of a policy for a value that it does not tell."""

_NAMES_FILES = ("file", "table")
"""Keys of a source or a table of people that name a file: file names may be made of names of people."""


class ReleasePolicy(Section):
    """The sections that all policies share, and the identity of a policy."""

    policy: Name = Field(description="name of the policy; the first part of asset keys")
    title: Said = Field(description="one line for people")
    description: Said = Field(description="what the policy is for")
    owners: tuple[Owner, ...] = Field(min_length=1, description="who answers for releases: e-mail or team:name")
    recipients: Recipients = Field(description="recipient_class and terms_of_use")
    hierarchies: dict[Name, AnyHierarchy] = Field(min_length=1, description="hierarchies by name")

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self.policy

    @property
    def files(self) -> tuple[str, ...]:
        """Files that belong to the policy, relative to it: whoever copies it must copy these."""
        return tuple(sorted({spec.file for spec in self.hierarchies.values() if isinstance(spec, CsvSpec)}))

    def hierarchy(self, name: str) -> Hierarchy:
        """Return a hierarchy by its name."""
        if name not in self.hierarchies:
            raise PolicyError(f"policy {self.name} has no hierarchy '{name}'")
        if name not in self._built:
            self._built[name] = self.hierarchies[name].build(name)
        return self._built[name]

    @cached_property
    def _built(self) -> dict[str, Hierarchy]:
        """Hierarchies as they were first asked for: a policy does not change."""
        return {}

    # Identity

    def content(self, *sections: str) -> dict:
        """Return sections (all, if none is named) as JSON values, with the contents of the files that they name.

        Restricted: it holds the identifiers of members who opted out.
        """
        unknown = [section for section in sections if section not in type(self).model_fields]
        if unknown:
            raise PolicyError(
                f"a policy has no section {', '.join(unknown)}; its sections are {', '.join(type(self).model_fields)}"
            )
        chosen = sections or tuple(type(self).model_fields)
        content = self.model_dump(mode="json", by_alias=True, include=set(chosen))
        for name, spec in self.hierarchies.items() if "hierarchies" in content else ():
            if isinstance(spec, CsvSpec):
                content["hierarchies"][name]["rows"] = [list(row) for row in spec.rows]
        return content

    def public_content(self) -> dict:
        """Return the policy as JSON values, as recipients and auditors may see it.

        Left out is who opted out. Not shown are names of files, and the size of the sample: beside the released rows it
        would tell exactly how many members were suppressed. The size of a population is rounded.
        """
        content = {section: value for section, value in self.content().items() if section not in RESTRICTED_SECTIONS}
        for place in ("source", "population", "voter_list_attack", "inpatient_attack"):
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
        """Return the SHA-256 (hexadecimal) of the canonical JSON of the sections named: what a code version needs.

        Defaults that the file leaves out count as if it stated them; the order of keys does not count.
        """
        return _digest(self.content(*names) if names else {})

    @property
    def hash(self) -> str:
        """SHA-256 of the whole policy. Restricted, as it depends on those who opted out; see `public_hash`."""
        return _digest(self.content())

    @property
    def public_hash(self) -> str:
        """SHA-256 of `public_content`: anyone who has the published policy can compute it again."""
        return _digest(self.public_content())


def _without_files(content: object) -> object:
    """A section without what names its files."""
    if not isinstance(content, dict):
        return content
    return {
        name: NOT_SHOWN if name in _NAMES_FILES and isinstance(value, str) else _without_files(value)
        for name, value in content.items()
    }


def _digest(content: Mapping) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
