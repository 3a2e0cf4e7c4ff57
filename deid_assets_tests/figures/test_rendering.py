"""Figures become bytes that depend on the data alone and fit into metadata; numbers become text."""

import base64
import io
import threading

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from deid_assets.figures import rendering


@rendering.styled()
def drawing(points: int, title: str = "") -> bytes:
    figure, axes = rendering.new_figure(5, 4)
    random = np.random.default_rng(0)
    axes.scatter(random.random(points), random.random(points), c=random.random(points), marker="o")
    axes.set_title(title)
    return rendering.rendered(figure)


@pytest.mark.matrix
def test_a_small_figure_is_svg_and_a_large_one_png_that_fits() -> None:
    small, large = drawing(10), drawing(3_000)
    assert (rendering.media_type(small), rendering.media_type(large)) == ("image/svg+xml", "image/png")
    assert len(rendering.markdown_image(large, "many points")) < rendering.LARGEST


def test_a_figure_is_drawn_once_and_is_what_matplotlib_saves(monkeypatch) -> None:
    with rendering.styled():
        figure, axes = rendering.new_figure(5, 4)
        axes.plot([1, 3, 2], label="a line")
        axes.set_xlabel("a label")
        figure.legend(loc="outside lower center")
        draw, drawn = figure.draw, []
        monkeypatch.setattr(figure, "draw", lambda renderer: (drawn.append(renderer), draw(renderer)))
        vector, pixels = rendering._svg(figure), rendering._png(figure, 72)
        assert len(drawn) == 2
        saved = {kind: io.BytesIO() for kind in ("svg", "png")}
        figure.savefig(saved["svg"], format="svg", metadata={"Date": None, "Creator": None})
        figure.savefig(saved["png"], format="png", dpi=72)
        assert vector == rendering._compact(saved["svg"].getvalue().decode())
        colours = [np.asarray(Image.open(file).convert("RGB"), int) for file in (io.BytesIO(pixels), saved["png"])]
        # Up to 64 colours are kept: most points of a figure have one of them.
        assert colours[0].shape == colours[1].shape and (colours[0] == colours[1]).mean() > 0.95


def test_what_fits_in_no_form_is_an_error() -> None:
    with rendering.styled():
        figure, _ = rendering.new_figure(5, 4)
        with pytest.raises(ValueError, match="does not fit"):
            rendering.rendered(figure, largest=600)


@pytest.mark.matrix
def test_same_drawing_same_bytes_without_date_or_creator() -> None:
    assert drawing(10) == drawing(10)
    assert drawing(3_000) == drawing(3_000)
    assert b"metadata" not in drawing(10) and b"atplotlib.org" not in drawing(10)


def test_a_users_style_neither_changes_a_figure_nor_is_changed_by_it() -> None:
    plain_drawing = drawing(10)
    with mpl.rc_context({"axes.facecolor": "#123456", "svg.hashsalt": None, "font.size": 30, "svg.fonttype": "path"}):
        assert drawing(10) == plain_drawing
        assert mpl.rcParams["axes.facecolor"] == "#123456"


def test_threads_draw_what_one_alone_draws() -> None:
    alone, drawn = drawing(10, "a"), [b""] * 4

    def draw(place: int) -> None:
        drawn[place] = drawing(10, "a")

    threads = [threading.Thread(target=draw, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drawn == [alone] * 4


def test_text_keeps_its_digits_and_is_escaped() -> None:
    image = drawing(2, "0.123456 <b> & x=1.23456").decode()
    assert "0.123456 &lt;b&gt; &amp; x=1.23456" in image


def test_a_dollar_sign_is_no_formula() -> None:
    assert "cost in $ \\frac{ $" in drawing(2, "cost in $ \\frac{ $").decode()


def test_figures_need_nothing_from_elsewhere() -> None:
    image = drawing(10).decode().replace("http://www.w3.org/", "")
    assert "http" not in image and "<script" not in image and "<image" not in image


@pytest.mark.parametrize("alt", ["](javascript:alert(1))", "a\n\n# b", "<img src=x onerror=y>", "`**x**`", "![x](y)"])
def test_alternative_text_cannot_end_the_image(alt: str) -> None:
    text = rendering.markdown_image(b"<svg/>", alt)
    label, _, rest = text.removeprefix("![").rpartition("](data:image/svg+xml;base64,")
    assert base64.b64decode(rest.removesuffix(")")) == b"<svg/>"
    unescaped = label.replace("\\\\", "")
    assert all(unescaped[place - 1] == "\\" for place, sign in enumerate(unescaped) if sign in "[]()<>`*!")
    assert "\n" not in text


def test_what_is_no_image_or_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="neither PNG nor SVG"):
        rendering.data_uri(b"GIF89a")
    with pytest.raises(ValueError, match="more than 50,000"):
        rendering.markdown_image(b"<svg/>" + b" " * 40_000, "blank")


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.00084, "0.00084"), (1e-9, "0.000000001"), (0.0, "0"), (1234.5, "1,230"), (0.99999, "1"), (-2.5, "-2.5")],
)
def test_numbers_have_significant_digits_and_no_exponent(number: float, text: str) -> None:
    assert rendering.plain(number) == text


def test_shares_show_in_per_cent() -> None:
    assert [rendering.percent(share) for share in (0.008, 0.00412, 1, 0)] == ["0.8 %", "0.412 %", "100 %", "0 %"]
