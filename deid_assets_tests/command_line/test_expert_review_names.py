"""An export of an expert review is named by what it shows and what it asks."""

from deid_assets.command_line.expert_review_files import _name

SEED, MEMBERS, ROWS = b"secret", [17, 4], [[1, 1, "CHF", "7", "428"], [1, 2, "AMI", "7", "410"]]


def test_the_same_export_has_the_same_name():
    assert _name(SEED, MEMBERS, ROWS) == _name(SEED, list(MEMBERS), [*ROWS])


def test_other_members_answers_or_secrets_have_another_name_and_so_another_key():
    """Else the key of a candidate that was made again would replace the one that sheets under way are scored with."""
    others = [
        _name(SEED, [17, 5], ROWS),
        _name(SEED, MEMBERS, [ROWS[0], [1, 2, "CHF", "7", "428"]]),
        _name(b"another", MEMBERS, ROWS),
    ]
    assert len({_name(SEED, MEMBERS, ROWS), *others}) == 4
