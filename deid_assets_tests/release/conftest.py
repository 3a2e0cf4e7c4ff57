"""Fixtures of the release tests."""

import pytest

from deid_assets.release.publication.publish import Published, Releases
from deid_assets_tests.release.making import publish, releases_in


@pytest.fixture
def releases(tmp_path) -> Releases:
    return releases_in(tmp_path)


@pytest.fixture
def published(releases) -> Published:
    """A release with a Parquet and a CSV file and a report."""
    return publish(releases, "first")
