"""The graph of what a release was made from, as SVG of our own: boxes with names, and arrows.

Nothing depends on colour. The newest asset stands at the bottom. Rows hold few boxes, so that the picture can be read
on a phone, where it scrolls sideways. Nodes with the same arrows share one box, so that no arrow runs behind another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from deid_assets.figures.rendering import GREY, words

_ACROSS = 3
_WIDTH, _LINE, _PADDING = 190, 15, 12
_GAP, _ROW_GAP = 22, 34
_MARGIN = 12
_LONGEST = 27

Arrow = tuple[str, str]


@dataclass(frozen=True)
class GraphNode:
    """An asset: its key, its name, a second line, its distance from the inputs, and whether its frame is bold."""

    key: str
    name: str
    below: str
    depth: int
    marked: bool = False


@dataclass(frozen=True)
class _Box:
    """Nodes with the same arrows, and where they stand."""

    nodes: tuple[GraphNode, ...]
    x: int
    y: int

    @property
    def height(self) -> int:
        return _height(self.nodes)


def lineage_figure(nodes: Sequence[GraphNode], arrows: Sequence[Arrow]) -> bytes:
    """Draw the nodes in rows by depth, with an arrow from each input to what was made of it.

    Parameters
    ----------
    nodes
        Every asset once.
    arrows
        (input, made) by the keys of the nodes.

    Returns
    -------
    bytes
        SVG in UTF-8; equal for equal graphs.

    Examples
    --------
    >>> drawn = lineage_figure([GraphNode("a", "a", "", 0), GraphNode("b", "b", "", 1)], [("a", "b")])
    >>> drawn.startswith(b"<svg"), drawn.count(b"<rect"), drawn.count(b"marker-end")
    (True, 2, 1)
    """
    boxes = _placed(_together(nodes, arrows))
    of = {node.key: box for box in boxes for node in box.nodes}
    width = 2 * _MARGIN + _ACROSS * _WIDTH + (_ACROSS - 1) * _GAP
    height = max((box.y + box.height for box in boxes), default=0) + _MARGIN
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="DejaVu Sans,sans-serif">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{GREY}"/></marker></defs>',
        *dict.fromkeys(_arrow(of[source], of[made]) for source, made in arrows),
        *(_drawn(box) for box in boxes),
        "</svg>",
    ]
    return "".join(drawn).encode()


def _together(nodes: Sequence[GraphNode], arrows: Sequence[Arrow]) -> list[tuple[GraphNode, ...]]:
    """Nodes of one depth with the same inputs that lead to the same nodes."""
    groups: dict[object, list[GraphNode]] = {}
    for node in nodes:
        inputs = frozenset(source for source, made in arrows if made == node.key)
        outputs = frozenset(made for source, made in arrows if source == node.key)
        groups.setdefault((node.depth, inputs, outputs), []).append(node)
    return [tuple(group) for group in groups.values()]


def _placed(groups: Sequence[tuple[GraphNode, ...]]) -> list[_Box]:
    """The groups in rows; a depth with many takes several."""
    by_depth: dict[int, list[tuple[GraphNode, ...]]] = {}
    for group in groups:
        by_depth.setdefault(group[0].depth, []).append(group)
    placed, y = [], _MARGIN
    for depth in sorted(by_depth):
        for start in range(0, len(by_depth[depth]), _ACROSS):
            row = by_depth[depth][start : start + _ACROSS]
            placed += [_Box(group, _MARGIN + column * (_WIDTH + _GAP), y) for column, group in enumerate(row)]
            y += max(map(_height, row)) + _ROW_GAP
    return placed


def _height(nodes: tuple[GraphNode, ...]) -> int:
    return (len(nodes) + 1) * _LINE + _PADDING


def _drawn(box: _Box) -> str:
    first, middle = box.nodes[0], box.x + _WIDTH // 2
    stroke = 3 if any(node.marked for node in box.nodes) else 1
    # Several nodes share a box: their second lines differ, and are left to the table beside the figure.
    below = first.below if len(box.nodes) == 1 else f"{len(box.nodes)} with the same arrows"
    lines = [
        f'<text x="{middle}" y="{box.y + _LINE * (place + 1) + 2}" font-size="11" text-anchor="middle">{_name(node)}</text>'
        for place, node in enumerate(box.nodes)
    ]
    return (
        f'<rect x="{box.x}" y="{box.y}" width="{_WIDTH}" height="{box.height}" rx="4" fill="#ffffff" stroke="#000000" '
        f'stroke-width="{stroke}"/>{"".join(lines)}<text x="{middle}" y="{box.y + box.height - 8}" font-size="9" '
        f'text-anchor="middle" fill="{GREY}">{escape(below)}</text>'
    )


def _name(node: GraphNode) -> str:
    name = words(node.name)
    return escape(name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…")


def _arrow(source: _Box, made: _Box) -> str:
    """A line from the lower edge of one box to the upper edge of another; a long one runs between the columns."""
    x1, y1 = source.x + _WIDTH // 2, source.y + source.height
    x2, y2 = made.x + _WIDTH // 2, made.y
    bend = _ROW_GAP // 2
    path = f"M{x1} {y1}C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}"
    if y2 - y1 > _ROW_GAP:
        to_the_left = source.x < made.x or made.x > _MARGIN + _WIDTH + _GAP
        between = made.x - _GAP // 2 if to_the_left else made.x + _WIDTH + _GAP // 2
        path = (
            f"M{x1} {y1}C{x1} {y1 + bend} {between} {y1 + bend} {between} {y1 + _ROW_GAP}V{y2 - _ROW_GAP}"
            f"C{between} {y2 - bend} {x2} {y2 - bend} {x2} {y2}"
        )
    return f'<path d="{path}" fill="none" stroke="{GREY}" stroke-width="1" marker-end="url(#tip)"/>'


def alt_text(arrows: Sequence[Arrow], names: Mapping[str, str]) -> str:
    """The arrows in words, for those who do not see the picture."""
    return "; ".join(f"{names[source]} to {names[made]}" for source, made in arrows)
