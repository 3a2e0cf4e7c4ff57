"""The numbers that a dossier shows, without those of sources."""

import html
import re

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def without_sources(page: bytes) -> str:
    """The visible text but what is quoted or cited."""
    text = page.decode()
    text = re.sub(r"<(style|head)\b.*?</\1>", " ", text, flags=re.DOTALL)
    text = re.sub(r'<(p|td|dd|li)[^>]*class="[^"]*\bsource\b[^"]*"[^>]*>.*?</\1>', " ", text, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", text))


def numbers_in(text: str) -> set[str]:
    """Every number of a text, or of a JSON document that contains another one as text."""
    return set(_NUMBER.findall(text.replace('\\"', '"')))
