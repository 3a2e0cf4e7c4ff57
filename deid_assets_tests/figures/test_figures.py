"""Every figure is readable at the sizes that occur, fits into metadata, and draws nothing of fewer than 11 members."""

import itertools
import re
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.figures import figures, rendering
from deid_assets.figures.figures import claims_per_member_figure, class_size_figure, neighbor_attack_figure
from deid_assets.figures.lattice_figures import frontier_figure, heights_figure, lattice_figure
from deid_assets.figures.rendering import markdown_image, media_type
from deid_assets_tests import examples
from deid_assets_tests.processes import WAIT

HERITAGE = ("age", "days_in_hospital", "length_of_stay", "days_since_first_claim")
THRESHOLD = 0.008


def lattice(sizes: Sequence[int], names: Sequence[str] = HERITAGE, highest: float = 0.15) -> pd.DataFrame:
    """Every node of a lattice of these sizes, with shares that fall on the way up and reach zero at the top."""
    rows = []
    for number, node in enumerate(itertools.product(*map(range, sizes))):
        progress = sum(level / max(size - 1, 1) for level, size in zip(node, sizes, strict=True)) / len(sizes)
        share = 0.0 if progress > 0.9 else highest * float(np.exp(-6 * progress))
        close = abs(share - THRESHOLD) < 0.001
        decision = "undecided" if close else "candidate" if share < THRESHOLD else "not_candidate"
        rows.append(
            {
                **dict(zip(names, node, strict=True)),
                "node": ",".join(map(str, node)),
                "height": sum(node),
                "loss": 0.9 * progress,
                "share": share,
                "lower": 0.9 * share,
                "upper": 1.1 * share + 1e-6,
                "decision": decision,
                "reached": "measured" if number % 9 == 0 else "inferred",
                "chosen": False,
            }
        )
    nodes = pd.DataFrame(rows)
    candidates = nodes[nodes["decision"] == "candidate"]
    if len(candidates):
        nodes.loc[candidates["loss"].idxmin(), "chosen"] = True
    return nodes


FLAT = [f"column_{number}" for number in range(8)]


def texts(image: bytes) -> list[str]:
    """All texts of an SVG."""
    assert media_type(image) == "image/svg+xml"
    return re.findall(r"<text[^>]*>([^<]*)</text>", image.decode())


@pytest.mark.parametrize("sizes", [(4, 3, 5, 4), (4, 5, 5, 4)])
def test_heritage_lattices_are_sharp_svg_that_fits(sizes: tuple[int, ...]) -> None:
    nodes = lattice(sizes)
    for image in (lattice_figure(nodes, THRESHOLD, HERITAGE), frontier_figure(nodes, THRESHOLD)):
        assert {"candidate", "not a candidate", "undecided", "chosen"} <= set(texts(image))
        assert len(markdown_image(image, "the lattice")) <= 50_000


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("sizes", "names"),
    [
        ((4, 3, 3, 5, 4), FLAT),
        ((5, 2, 4, 3, 3, 3, 3, 4), FLAT),
        ((4, 3), HERITAGE),
        ((5,), HERITAGE),
        ((1, 1), HERITAGE),
    ],
)
def test_lattices_of_other_shapes_fit_too(sizes: tuple[int, ...], names: list[str]) -> None:
    nodes = lattice(sizes, names[: len(sizes)])
    for image in (lattice_figure(nodes, THRESHOLD, names[: len(sizes)]), frontier_figure(nodes, THRESHOLD)):
        markdown_image(image, "the lattice")


def test_every_node_has_its_own_cell() -> None:
    nodes = lattice((4, 3, 5, 4))
    image = lattice_figure(nodes, THRESHOLD, HERITAGE).decode()
    stamped = re.findall(r'<use xlink:href="#\w+" x="([\d.]+)" y="([\d.]+)"/?', image)
    assert len({tuple(place) for place in stamped}) >= 240


def test_dimensions_are_named_with_their_levels_and_candidates_counted() -> None:
    nodes = lattice((4, 3, 5, 4))
    told = texts(lattice_figure(nodes, THRESHOLD, HERITAGE))
    assert {f"level of {name.replace('_', ' ')}" for name in HERITAGE} <= set(told)
    candidates = int((nodes["decision"] == "candidate").sum())
    assert f"{candidates} of 240 nodes are candidates: at most 0.8 % at high risk" in told


def test_the_order_of_rows_does_not_change_the_lattice_but_for_drawing_order() -> None:
    nodes = lattice((3, 3), HERITAGE[:2])
    shuffled = nodes.sample(frac=1, random_state=1)
    one, other = (lattice_figure(frame, THRESHOLD, HERITAGE[:2]).decode() for frame in (nodes, shuffled))
    assert sorted(re.findall(r"<use[^>]*>", one)) == sorted(re.findall(r"<use[^>]*>", other))


def test_without_a_candidate_there_is_no_star() -> None:
    nodes = lattice((4, 3), HERITAGE[:2], highest=0.9)
    nodes["decision"], nodes["chosen"], nodes["share"] = "not_candidate", False, 0.5
    assert "chosen" not in texts(lattice_figure(nodes, THRESHOLD, HERITAGE[:2]))
    assert "chosen" not in texts(frontier_figure(nodes, THRESHOLD))


def test_a_node_that_holds_only_without_the_suppressed_is_drawn_before_and_after() -> None:
    """Or the star lies above the threshold, under a title that says that no node is a candidate."""
    nodes = lattice((4, 3), HERITAGE[:2], highest=0.9)
    nodes["decision"], nodes["share"] = "not_candidate", 0.5
    nodes["chosen"] = nodes.index == len(nodes) - 1
    before, after = frontier_figure(nodes, THRESHOLD), frontier_figure(nodes, THRESHOLD, without_suppressed=0.0071)
    assert {"chosen, all members", "chosen, without suppressed members"} <= set(texts(after))
    assert "chosen, all members" not in texts(before) and "chosen" in texts(before)
    title = " ".join(texts(lattice_figure(nodes, THRESHOLD, HERITAGE[:2], without_suppressed=0.0071)))
    assert f"With the whole sample, 0 of {len(nodes)} nodes are candidates" in title
    assert "Without the suppressed members, the chosen node is one, with 0.71 %" in title


def contrast_on_white(color: str) -> float:
    """W3C's contrast ratio (WCAG 2.1)."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 1.05 / (sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) + 0.05)


def test_thresholds_are_drawn_in_a_colour_that_stands_out() -> None:
    """Text needs 4.5 (WCAG 2.1); the orange that they were drawn in has 2.2."""
    assert (
        min(map(contrast_on_white, (rendering.THRESHOLD, rendering.DARK_ORANGE))) >= 4.5 > contrast_on_white(rendering.ORANGE)
    )
    figure = frontier_figure(lattice((4, 3), HERITAGE[:2]), THRESHOLD).decode()
    dashed = re.findall(r'style="[^"]*stroke-dasharray[^"]*"', figure)
    assert dashed and all(f"stroke: {rendering.THRESHOLD.lower()}" in line for line in dashed)


def test_zero_has_a_place_on_the_logarithmic_axis_only_where_it_occurs() -> None:
    nodes = lattice((4, 3, 5, 4))
    assert "0" in texts(frontier_figure(nodes, THRESHOLD))
    positive = nodes.assign(share=nodes["share"].clip(lower=1e-4))
    assert "0" not in texts(frontier_figure(positive, THRESHOLD))
    all_zero = nodes.assign(share=0.0, lower=0.0, upper=0.0)
    assert "0" in texts(frontier_figure(all_zero, THRESHOLD))


def test_a_max_sup_of_zero_has_its_line_at_zero() -> None:
    nodes = lattice((4, 3, 5, 4))
    for shares in (nodes["share"], nodes["share"].clip(lower=1e-4)):
        assert {"0", "at most 0 %"} <= set(texts(frontier_figure(nodes.assign(share=shares), 0.0)))


def test_a_lattice_of_many_dimensions_is_told_by_height() -> None:
    nodes = lattice((4, 3, 5, 4))
    image = heights_figure(nodes, 12_960, "loss [bits]")
    told = set(texts(image))
    candidates = int((nodes["decision"] == "candidate").sum())
    assert f"240 of 12,960 nodes evaluated, {candidates} are candidates" in told
    assert {"candidate", "not a candidate", "undecided", "chosen", "loss [bits]"} <= told
    many = lattice((5, 2, 4, 3, 3, 3, 3, 4), FLAT)
    assert len(markdown_image(heights_figure(many, len(many)), "the lattice")) <= 50_000


def test_heights_tell_the_chosen_node_from_those_directly_below() -> None:
    nodes = lattice((4, 3, 5, 4))
    chosen = nodes[nodes["chosen"]].iloc[0]
    below = sum(int(level) > 0 for level in chosen["node"].split(","))
    assert below > 1
    without = heights_figure(nodes.assign(chosen=False), len(nodes))
    line = 'style="fill: none; stroke: #000000; stroke-width: 0.8"/>'
    assert heights_figure(nodes, len(nodes)).decode().count(line) == below
    assert line not in without.decode() and "chosen" not in texts(without)


histograms = st.dictionaries(st.integers(0, 2_000), st.integers(-5, 60), max_size=40).map(
    lambda counts: np.array(sorted(counts.items()), dtype=np.int64).reshape(-1, 2)
)


@settings(max_examples=examples.of(200), deadline=None)
@given(histograms)
def test_each_step_of_the_long_tail_stands_for_eleven_members(counts: np.ndarray) -> None:
    claims, share = figures._survival(counts)
    members = {int(value): max(0, int(count)) for value, count in counts}
    at_least = [sum(count for value, count in members.items() if value >= claim) for claim in claims]
    whole = sum(members.values())
    steps = [one - other for one, other in zip(at_least, [*at_least, 0][1:], strict=True)]
    assert all(step >= 11 for step in steps)
    assert not at_least or whole == at_least[0] or whole - at_least[0] >= 11
    assert np.allclose(share, np.array(at_least) / max(1, whole), rtol=0.051)


def test_the_long_tail_shows_both_curves_and_the_cut() -> None:
    before = np.array([[1, 500], [5, 300], [40, 120], [90, 30], [1_300, 3]])
    after = np.array([[1, 500], [5, 300], [40, 153]])
    told = texts(claims_per_member_figure(before, after, 40))
    assert "cut at 1,365" in texts(claims_per_member_figure(before, after, 1_365))
    assert {"before the cut", "after", "cut at 40"} <= set(told)
    assert texts(claims_per_member_figure(np.empty((0, 2)), [[3, 10]]))[-1:] == ["after"]
    assert "fewer than 11 members" in texts(claims_per_member_figure([], [[3, 10]]))


sized = st.lists(st.integers(-4, 40), min_size=10, max_size=10).map(
    lambda members: list(zip((0, 1, 2, 5, 10, 20, 50, 100, 1_000, 10_000), members, strict=True))
)


@settings(max_examples=examples.of(200), deadline=None)
@given(sized, st.sampled_from([2, 5, 20, 25, 50]))
def test_small_bars_merge_but_never_across_k(sizes: list[tuple[int, int]], k: int) -> None:
    bars = [(low, float(high), float(max(0, count))) for (low, count), high in zip(sizes, range(10), strict=True)]
    merged = figures._merged(bars, k)
    for at_risk in (True, False):
        own = [count for low, _, count in merged if (low < k) == at_risk]
        assert sum(own) == sum(count for low, _, count in bars if (low < k) == at_risk)
        few = [place for place, count in enumerate(own) if 0 < count < 11]
        assert few in ([], [len(own) - 1])  # written as "fewer than 11 members", without a bar


def test_class_sizes_say_where_k_is_and_hide_small_bars() -> None:
    told = texts(class_size_figure([(0, 0), (1, 3), (5, 1), (20, 0), (50, 0), (1_000, 8_000), (10_000, 12_000)], 20))
    assert "at high risk below k = 20" in told
    assert "fewer than 11 members" in told and "0 to 19" in told
    assert {"40 %", "60 %", "10,000 or more"} <= set(told)
    assert class_size_figure([(0, 0), (20, 0)], 20)


def test_a_gate_shows_value_bound_threshold_and_failure() -> None:
    rows = [
        ("neighbor_success", 0.0031, 0.0042, 0.05),
        ("given_membership", 0.048, 0.0545, 0.05),
        ("other", None, float("nan"), 0.05),
    ]
    told = set(texts(neighbor_attack_figure(rows)))
    assert {"neighbor success", "0.31 (up to 0.42)", "at most 5"} <= told
    assert {"4.8 (up to 5.45): fails", "not measured"} <= told
    assert texts(neighbor_attack_figure([("zero", 0.0, None, None)]))


def test_a_value_that_exceeds_its_threshold_without_a_bound_fails() -> None:
    assert "6: fails" in texts(neighbor_attack_figure([("share", 0.06, None, 0.05)]))


def test_same_data_same_bytes() -> None:
    nodes = lattice((4, 3, 5, 4))
    assert lattice_figure(nodes, THRESHOLD, HERITAGE) == lattice_figure(nodes.copy(), THRESHOLD, HERITAGE)
    rows = [("neighbor_success", 0.0031, 0.0042, 0.05)]
    assert neighbor_attack_figure(rows) == neighbor_attack_figure(rows)


@pytest.mark.matrix
def test_pyplot_is_never_loaded() -> None:
    program = (
        "import sys; from deid_assets.figures.figures import neighbor_attack_figure as draw; "
        "draw([('a', .1, .2, .3)]); sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=WAIT).returncode == 0


def test_frames_from_the_store_work() -> None:
    nodes = lattice((4, 3), HERITAGE[:2]).astype({"age": np.int32, "days_in_hospital": "Int32", "chosen": "boolean"})
    assert isinstance(nodes, pd.DataFrame) and lattice_figure(nodes, THRESHOLD, HERITAGE[:2])
