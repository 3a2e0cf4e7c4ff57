"""Declared columns must not have the names of columns that queries of the store name."""

import re
from pathlib import Path

import deid_assets
from deid_assets.policy.rules.reserved_names import is_reserved

FOLDERS = ("assets", "assessments", "methods", "release", "sources")
OF_OTHERS = re.compile("cohort|flat|record_|demographic|synthetic|desynpuf|joining|counts|safe_harbor|omop")
"""Modules that never see the members and claims of a policy that declares columns, or only under other names."""


def test_every_name_that_a_query_gives_is_reserved():
    root = Path(deid_assets.__file__).parent
    files = [file for folder in FOLDERS for file in (root / folder).rglob("*.py")]
    seen = [file for file in files if not OF_OTHERS.search(str(file.relative_to(root)))]
    given = {name for file in seen for name in re.findall(r'\bAS "?([a-z][a-z_0-9]*)\b(?! [a-z ]*")', file.read_text())}
    assert len(given) > 150 and {name for name in given if not is_reserved(name)} == set()
