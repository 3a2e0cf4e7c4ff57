"""Crashes at every system call of a publication and of each decision; the tests of the release crash at some of them."""

import pytest

from deid_assets_tests.release.test_approval import leaves_it_waiting_published_or_rejected
from deid_assets_tests.release.test_crashes import DECISIONS, forgets_nothing, leaves_no_release_or_a_whole_one
from deid_assets_tests.release.test_keyring import leaves_the_old_key_or_the_new_one_with_its_entry

pytestmark = pytest.mark.matrix


def test_of_a_publication_leave_no_release_or_a_whole_one(tmp_path):
    leaves_no_release_or_a_whole_one(tmp_path, every=1)


@pytest.mark.parametrize("decision", DECISIONS)
def test_of_a_decision_forget_nothing(tmp_path, decision):
    forgets_nothing(tmp_path, 1, (decision,))


def test_of_an_approval_leave_it_waiting_published_or_rejected(tmp_path):
    leaves_it_waiting_published_or_rejected(tmp_path, every=1)


def test_of_a_rotation_leave_the_old_key_or_the_new_one_with_its_entry(tmp_path):
    leaves_the_old_key_or_the_new_one_with_its_entry(tmp_path, every=1)
