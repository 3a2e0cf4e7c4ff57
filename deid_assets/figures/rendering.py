"""From a figure to bytes, and from bytes to where they are shown: the Dagster UI's Markdown, and the HTML report.

The bytes are a function of the data alone: no date, no random identifiers, no font of the machine. Figures are made
with matplotlib's object API, so that two runs in one process share no state.

And numbers and tables as the report shows them: shares in per cent, bounds rounded to the side that does not flatter.
"""

import base64
import contextlib
import functools
import io
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.typing import RcKeyType


LARGEST = 50_000
"""Characters of a Markdown image, at most : metadata go into the event log, and into every page."""

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
"""Okabe and Ito's palette, which the colour-blind can tell apart; no figure relies on colour alone."""
GREY, PALE = "#555555", "#D0D0D0"
THRESHOLD = BLACK
"""Of every line that a number is compared with: dashed, so that it differs from others without colour, too."""
DARK_ORANGE = "#A85300"
"""Orange of which text and thin lines are legible on white (contrast 5.3; Okabe and Ito's has 2.2)."""

STYLE: Mapping["RcKeyType", Any] = MappingProxyType(
    {
        # Text stays text: smaller than outlines, sharp at any size, and shown in whatever sans-serif the reader has.
        # DejaVu Sans comes with matplotlib, so that the layout is the same everywhere; it is wide, so that no other
        # font overflows the space measured for it.
        "svg.fonttype": "none",
        "svg.hashsalt": "deid_assets",
        "font.family": ["DejaVu Sans"],
        "font.size": 9.0,
        "axes.titlesize": 10.0,
        "axes.labelsize": 9.0,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "hatch.linewidth": 0.8,
        "path.simplify": True,
        # Names come from policies: a dollar sign in one is no formula.
        "text.usetex": False,
        "text.parse_math": False,
        "axes.unicode_minus": True,
    }
)

_PNG = b"\x89PNG\r\n\x1a\n"
_DPI = (160, 120, 96, 72, 50)
_ROOM_FOR_ALT = 500
_LEAST_MARKER = '<use xlink:href="#m0" x="1" y="1"/>'
# rcParams belong to the process: a figure of another run must not be drawn while they are ours.
_STYLE_LOCK = threading.RLock()


@functools.cache
def _look() -> dict["RcKeyType", Any]:
    """Every setting that a matplotlibrc can change: matplotlib's own, and this module's style."""
    import matplotlib as mpl

    own = {name: value for name, value in mpl.rcParamsDefault.items() if name not in ("backend", "backend_fallback")}
    return {**own, **STYLE}


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Context, or decorator, in which figures are made and drawn: this module's style, whatever a matplotlibrc says."""
    import matplotlib as mpl

    with _STYLE_LOCK, mpl.rc_context(_look()):
        yield


def new_figure(width: float, height: float) -> "tuple[Figure, Axes]":
    """A white figure with one set of axes; width and height in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    return figure, figure.subplots()


def sample(label: str, **style: Any) -> "Line2D":
    """What a legend shows of a line or a mark."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **style)


def name_rows(axes: "Axes", names: Sequence[str], below: float = 0.5, above: float = 0.5, **look: Any) -> None:
    """Name what was drawn at 0, 1, ... from the top; room in rows below and above; `look` is what else the labels look like."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 1 + below, -above)
    axes.tick_params(axis="y", length=0, **look)


def beside(axes: "Axes", text: str, at: tuple[Any, Any], points: tuple[float, float], **look: Any) -> None:
    """Write a text so many points beside a place; `look` is what else it looks like."""
    axes.annotate(text, at, xytext=points, textcoords="offset points", **{"fontsize": 8, **look})


def rendered(figure: "Figure", largest: int = LARGEST) -> bytes:
    """Draw the figure as SVG; as PNG, at the highest resolution that fits, where the SVG would be too large.

    Parameters
    ----------
    figure
        Made within `styled`.
    largest
        Characters that the image may have as Markdown.

    Returns
    -------
    bytes
        Equal for equal figures.

    Raises
    ------
    ValueError
        If not even the coarsest PNG fits.
    """
    ways: tuple[Callable[[Figure], bytes], ...] = (_svg, *(functools.partial(_png, dpi=dpi) for dpi in _DPI))
    for draw in ways[_too_many_markers(figure, largest) :]:
        image = draw(figure)
        if len(data_uri(image)) <= largest - _ROOM_FOR_ALT:
            return image
        figure.set_layout_engine("none")  # what is laid out stays where it is, at any resolution
    raise ValueError(f"the figure does not fit into {largest:,} characters, even at {_DPI[-1]} dots per inch")


def _too_many_markers(figure: "Figure", largest: int) -> bool:
    """Whether the SVG is certainly too large, so that it need not be drawn; one of 100,000 markers takes seconds.

    A figure with a layout is laid out by its first drawing, which is that of the SVG.
    """
    lines = [line for axes in figure.axes for line in axes.lines if line.get_marker() != "None" and not line.get_clip_on()]
    markers = sum(int(np.isfinite(line.get_xydata()).all(axis=1).sum()) for line in lines if line.get_markevery() is None)
    return figure.get_layout_engine() is None and markers * len(_LEAST_MARKER) > largest


def data_uri(image: bytes) -> str:
    """Return the image as a data URI.

    Raises
    ------
    ValueError
        If it is neither PNG nor SVG.

    Examples
    --------
    >>> data_uri(b"<svg/>")
    'data:image/svg+xml;base64,PHN2Zy8+'
    """
    return f"data:{media_type(image)};base64,{base64.b64encode(image).decode()}"


def media_type(image: bytes) -> str:
    """Return 'image/png' or 'image/svg+xml'.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if image.startswith(_PNG):
        return "image/png"
    if image.lstrip().startswith((b"<?xml", b"<svg")):
        return "image/svg+xml"
    raise ValueError("the image is neither PNG nor SVG")


def markdown_image(image: bytes, alt: str, largest: int = LARGEST) -> str:
    r"""Return Markdown that shows the image in the Dagster UI, which renders neither mermaid nor raw HTML.

    Parameters
    ----------
    image
        SVG or PNG, such as `rendered` returns: it has chosen between the two.
    alt
        What the image shows, for those who do not see it; any text, escaped here.
    largest
        Characters at most.

    Raises
    ------
    ValueError
        If the image is neither PNG nor SVG, or is too large.

    Examples
    --------
    >>> markdown_image(b"<svg/>", "shares [%]")
    '![shares \\[%\\]](data:image/svg+xml;base64,PHN2Zy8+)'
    """
    escaped = re.sub(r"([\\\[\]()<>&`*_!])", r"\\\1", " ".join(alt.split()))
    text = f"![{escaped}]({data_uri(image)})"
    if len(text) > largest:
        raise ValueError(f"the image has {len(text):,} characters as Markdown, more than {largest:,}")
    return text


def _svg(figure: "Figure") -> bytes:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.BytesIO()
    # `savefig` would draw everything once more beforehand.
    FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return _compact(buffer.getvalue().decode())


def _png(figure: "Figure", dpi: int) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba())
    # Few colours are in use: a palette shows them all in a third of the space. Maximum coverage keeps the rare ones.
    reduced = drawn.convert("RGB").quantize(64, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    reduced.save(buffer, format="png", optimize=True)
    return buffer.getvalue()


def _compact(svg: str) -> bytes:
    """Leave out what does not show: comments, metadata, indentation, and digits below a tenth of a point.

    Only coordinates are shortened (attributes d, x, y, transform), never a number in a text. Markers get short names,
    and their style once for a run of them.
    """
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<!DOCTYPE[^>]*>", "", svg, flags=re.DOTALL)
    svg = re.sub(r">\s+<", "><", svg)
    svg = re.sub(r'(?<=\s)(?:d|x|y|transform)="[^"]*"', _short_coordinates, svg)
    svg = re.sub(r' transform="rotate\(-0 [^)]*\)"|(?<=<g) id="\w+"', "", svg)
    svg = re.sub(r"<g/>", "", svg)
    for number, name in enumerate(dict.fromkeys(re.findall(r'id="(m[0-9a-f]{10})"', svg))):
        svg = svg.replace(f'"{name}"', f'"m{number}"').replace(f'"#{name}"', f'"#m{number}"')
    svg = re.sub(rf"{_MARKER}(?:{_SAME_MARKER})+", _with_one_style, svg)
    return svg.replace("'DejaVu Sans'", "'DejaVu Sans',sans-serif").strip().encode()


_MARKER = r'<use xlink:href="(#\w+)" x="[^"]*" y="[^"]*" style="([^"]*)"/>'
_SAME_MARKER = r'<use xlink:href="\1" x="[^"]*" y="[^"]*" style="\2"/>'


def _short_coordinates(attribute: re.Match[str]) -> str:
    shortened = re.sub(r"\d+\.\d\d+", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), attribute[0])
    return re.sub(r"(?<=[A-Za-z]) | (?=[A-Za-z\"])", "", re.sub(r"\s+", " ", shortened))


def _with_one_style(markers: re.Match[str]) -> str:
    style = f' style="{markers[2]}"'
    return f"<g{style}>{markers[0].replace(style, '')}</g>"


def percent(share: float, digits: int = 3) -> str:
    """Return a share in per cent, at so many significant digits and without an exponent.

    Examples
    --------
    >>> percent(.008), percent(.0004), percent(1.0), percent(0.0), percent(.123456)
    ('0.8 %', '0.04 %', '100 %', '0 %', '12.3 %')
    """
    return f"{plain(100 * share, digits)} %"


def plain(number: float, digits: int = 3) -> str:
    """Return a number at so many significant digits, without exponent or trailing zeros.

    Examples
    --------
    >>> plain(.00084), plain(1234567.0), plain(2.0), plain(-0.0)
    ('0.00084', '1,230,000', '2', '0')
    """
    rounded = Decimal(f"{number:.{digits - 1}e}")
    return f"{rounded.normalize():,f}" if rounded else "0"


def words(name: str) -> str:
    """Return an identifier as words.

    Examples
    --------
    >>> words("days_in_hospital")
    'days in hospital'
    """
    return name.replace("_", " ")


NOT_SHOWN = "not shown"
_IN_PERCENT = ("share of", "probability")
_DIGITS = 3


def shown(number: float | int | str | None, unit: str = "") -> str:
    """Return a number as text: shares and probabilities in per cent, counts with all their digits.

    Examples
    --------
    >>> shown(.0076, "share of draws"), shown(19998, "members"), shown("T", "members"), shown(None)
    ('0.76 %', '19,998', 'T', 'not shown')
    """
    if number is None or isinstance(number, str):
        return NOT_SHOWN if number is None else number
    if not math.isfinite(number):
        return "not measured"
    if unit.startswith(_IN_PERCENT):
        return percent(number, _DIGITS)
    return f"{int(number):,}" if number == int(number) else plain(number, _DIGITS)


def shown_bound(number: float | int | str | None, unit: str = "", upper: bool = True) -> str:
    """Return a bound as text, rounded away from the value: a bound above a threshold never looks equal to it.

    Examples
    --------
    >>> shown_bound(.0080004, "probability"), shown_bound(.008, "probability")
    ('0.801 %', '0.8 %')
    >>> shown_bound(.0080004, "probability", upper=False)
    '0.8 %'
    """
    if isinstance(number, float) and math.isfinite(number) and not number.is_integer():
        # Fifteen digits are what a double is sure of: .008 must not become .00801.
        sure = Context(prec=15).create_decimal_from_float(number)
        number = float(Context(prec=_DIGITS, rounding=ROUND_CEILING if upper else ROUND_FLOOR).plus(sure))
    return shown(number, unit)


@dataclass(frozen=True)
class ComparisonRow:
    """A number or level of the Heritage Health Prize as published, and of this release."""

    what: str
    heritage: str
    here: str


@dataclass(frozen=True)
class ReportTable:
    """A table of numbers that the public may see, as text, with a heading and a sentence on how to read it.

    Attributes
    ----------
    name
        Its anchor in the page.
    title, text
        Heading, and what the numbers say.
    columns
        (heading, "name" or "number") of each column.
    rows
        One text for each column; the first names the row.
    """

    name: str
    title: str
    text: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]


Published: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Measurements of a public manifest, by name."""


def written(found: Published, name: str) -> str:
    """A published value as text, with its bound if it has one, and "about" if it has noise; empty if it was not measured."""
    if name not in found:
        return ""
    one = found[name]
    noisy = one.get("protected") is True and isinstance(one["value"], int | float)
    text = f"{'about ' if noisy else ''}{shown(one['value'], one['unit'])}"
    return (
        f"{text} (up to {shown_bound(one['bound'], one['unit'])})"
        if one["bound"] is not None and one["value"] is not None
        else text
    )
