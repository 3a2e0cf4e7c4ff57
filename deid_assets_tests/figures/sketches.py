"""Figures in runs whose figures no test looks at."""

from collections.abc import Iterator
from contextlib import contextmanager
from xml.sax.saxutils import escape

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from deid_assets.figures import rendering


@contextmanager
def sketched_figures() -> Iterator[None]:
    """Figures are their texts, without layout: drawing them takes a sixth of a small run.

    They are made as ever, of the run's own numbers. Runs of `deid` in a process of its own draw them, and the tests of
    figures look at them.
    """

    def sketch(figure: Figure) -> bytes:
        texts = dict.fromkeys(text.get_text() for text in figure.findobj(Text))
        return f'<svg xmlns="http://www.w3.org/2000/svg"><text>{escape(" ".join(texts))}</text></svg>'.encode()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rendering, "_svg", sketch)
        yield
