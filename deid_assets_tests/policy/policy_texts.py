"""Policies to break: the default policy's text and values, with something in it changed."""

from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from deid_assets.errors import PolicyError
from deid_assets.policy import load_policy, policy_from
from deid_assets.policy.loading import SHIPPED

PUBLIC = Path(str(SHIPPED)) / "heritage-public.yaml"
REMOVED = object()
"""Stands for a key that is taken out."""


@lru_cache
def public_text() -> str:
    return PUBLIC.read_text(encoding="utf-8")


def public_values(**changes: Any) -> dict:
    """The default policy as plain values; `risk__gate__draws=10` changes one of them, REMOVED takes it out."""
    values = deepcopy(yaml.safe_load(public_text()))
    for path, value in changes.items():
        *parents, last = path.split("__")
        table = values
        for key in parents:
            table = table[key]
        if value is REMOVED:
            del table[last]
        else:
            table[last] = value
    return values


def refusal(folder: Path | None = None, **changes: Any) -> list[str]:
    """The problems, one per line, for which the changed policy is refused."""
    with pytest.raises(PolicyError) as caught:
        policy_from(public_values(**changes), folder)
    assert caught.value.__cause__ is None and caught.value.__context__ is None, "the original error shows values"
    return [line.strip() for line in str(caught.value).splitlines()[1:] if not line.startswith("  (")]


def file_refusal(folder: Path, text: str) -> list[str]:
    """The lines of the message with which a policy file is refused; the first has the file's name only."""
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        load_policy(file)
    assert caught.value.__cause__ is None
    return str(caught.value).replace(f"{folder}/", "").splitlines()
