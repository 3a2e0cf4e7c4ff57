"""What the command line asks to run on: nothing that was asked for is left aside in silence."""

import pytest

from deid_assets.command_line.options import Asked
from deid_assets.command_line.run import requested_delivery
from deid_assets.errors import DeliveryError
from deid_assets.policy.loading import load_policy, policy_by_name
from deid_assets.store.home import Home

FLAT = """
policy: register
kind: flat
title: A register
description: A register.
owners: ["team:privacy"]
recipients: {recipient_class: public, terms_of_use: Nobody tries to identify anybody.}
source: {kind: flat}
quasi_identifiers: [{column: sex, release_as: Sex, hierarchy: sex}]
risk: {k: 5, max_suppressed: 0.1}
hierarchies: {sex: {kind: fixed, values: [F, M]}}
"""


def asked(home: Home, policy, path, release: int | None):
    return requested_delivery(home, policy, Asked(policy.name, (path,), release=release))


def test_a_flat_table_has_no_sample_so_that_a_number_of_records_to_release_is_an_error(home, tmp_path):
    (tmp_path / "register.yaml").write_text(FLAT)
    (tmp_path / "register.csv").write_text("sex\nF\n")
    policy = load_policy(tmp_path / "register.yaml")
    with pytest.raises(DeliveryError, match="--release: policy register draws no sample, .* leave it out"):
        asked(home, policy, tmp_path / "register.csv", 5)
    assert asked(home, policy, tmp_path / "register.csv", None).parameters == {}


def test_the_number_of_members_to_release_is_kept_with_the_delivery(home, tmp_path):
    assert asked(home, policy_by_name("desynpuf"), tmp_path, 5).parameters == {"release": 5}
