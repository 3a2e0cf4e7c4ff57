"""What tests of several sources share."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path) -> Path:
    """An empty folder for a delivery."""
    made = tmp_path / "in"
    made.mkdir()
    return made
