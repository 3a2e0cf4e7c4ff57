"""Figures of the worst classes and members: every class is drawn, failed ones differ in shape, too."""

from deid_assets.figures.worst_figures import (
    class_shares_figure,
    column_costs_figure,
    member_flags_figure,
    value_shares_figure,
)

AXIS = "draws at high risk [%]"


def test_classes_are_drawn_with_the_limit_and_those_above_it_in_another_shape():
    within, above = (class_shares_figure([(share, share + 0.01), (0.0, 0.001)], 0.05, AXIS) for share in (0.01, 0.06))
    assert b"at most 5" in within and within != above
    assert b"at most" not in class_shares_figure([(0.01, 0.02)], None, AXIS)


def test_members_are_drawn_with_their_part_of_the_flags():
    image = member_flags_figure([(0.1, 0.9), (0.5, 0.56), (0.9, None)])
    assert b"56" in image and b"own probability" in image
    assert image == member_flags_figure([(0.1, 0.9), (0.5, 0.56), (0.9, None)])


def test_columns_and_tables_are_drawn_with_what_is_left_without_them():
    columns = [("LengthOfStay", 0.0013), ("Sex", 0.0021)]
    image = column_costs_figure(columns, [("all of fills", 0.0008)], 0.0047)
    assert all(text in image for text in (b"LengthOfStay", b"Sex", b"all of fills", b"0.13", b"0.21", b"0.08"))
    assert b"with all: 0.47" in image and image != column_costs_figure([*columns, ("all of fills", 0.0008)], [], 0.0047)
    assert column_costs_figure([("Sex", 0.0)], [], 0.0)


def test_values_are_drawn_with_their_share_and_their_part_of_all():
    image = value_shares_figure([("Sex F", 0.0062, 0.71), ("Sex M", 0.0, 0.0)], 0.0047)
    assert all(
        text in image for text in (b"Sex F", b"0.62 %; 71 % of all", b"Sex M", b"0 %; 0 % of all", b"of all draws: 0.47")
    )
    assert value_shares_figure([("Sex F", 0.0, 0.0)], 0.0), "nobody is at high risk"
    alone = value_shares_figure([("Condition " + "and another " * 20, 0.0062, float("nan"))], 0.0047)
    assert b"0.62 %" in alone and b"of all<" not in alone and "…" in alone.decode()
