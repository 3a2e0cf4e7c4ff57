"""Each planted defect has its line in the code, and tests that should notice it."""

from pathlib import Path

import pytest

import deid_assets
from deid_assets_tests.planted_defects.defects import DEFECTS, Defect

CODE, TESTS = Path(deid_assets.__file__).parent, Path(__file__).parent


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_can_be_planted(defect: Defect):
    text = (CODE / defect.file).read_text()
    assert text.count(defect.old) == 1, "plant it anew, where its meaning is now"
    compile(text.replace(defect.old, defect.new), defect.file, "exec")
    assert defect.tests and all((TESTS / test).exists() for test in defect.tests)
