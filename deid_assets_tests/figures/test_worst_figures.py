"""Figures of the worst classes and members: every class is drawn, failed ones differ in shape, too."""

import pytest

from deid_assets.figures.worst_figures import class_shares_figure, member_flags_figure

AXIS = "draws at high risk [%]"


def test_classes_are_drawn_with_the_limit_and_those_above_it_in_another_shape():
    within, above = (class_shares_figure([(share, share + 0.01), (0.0, 0.001)], 0.05, AXIS) for share in (0.01, 0.06))
    assert b"at most 5" in within and within != above
    assert b"at most" not in class_shares_figure([(0.01, 0.02)], None, AXIS)


def test_members_are_drawn_with_their_part_of_the_flags():
    image = member_flags_figure([(0.1, 0.9), (0.5, 0.56), (0.9, None)])
    assert b"56" in image and b"own probability" in image
    assert image == member_flags_figure([(0.1, 0.9), (0.5, 0.56), (0.9, None)])


def test_nothing_to_draw_is_an_error():
    with pytest.raises(ValueError, match="needs a class"):
        class_shares_figure([], 0.05, AXIS)
    with pytest.raises(ValueError, match="needs rows"):
        member_flags_figure([])
