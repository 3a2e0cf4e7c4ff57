"""What an outsider reads in the files of a release: every number, with its place, and what can be derived from two."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from deid_assets.assessments.evidence import LEFT_OUT, Exposure, Measurement

_NUMBER = re.compile(
    r"((?<![\w.#-])-?\d{1,3}(?:,\d{3})+(?![\w.])|(?<![\w.#])-?\d+(?:\.\d+)?(?:[eE]-?\d+)?(?![\w.]))((?:\s|&nbsp;|\u202f)?%)?"
)
_IMAGE = re.compile(r"data:image/svg\+xml;base64,([\w+/=]+)")
_DIGESTS = re.compile(r"\b[0-9a-f]{16,}\b")
_RATIO_DIGITS = 1e-6
_TOLD_BY_FILES = ("published ", "share of published ")

Numbers = Mapping[str, set[float]]
"""Numbers by the place where they are read."""


def numbers_in(release: Path, registry: Path) -> dict[str, set[float]]:
    """Every number of the public files but for the data themselves: fields, texts, figures with their coordinates."""
    found: dict[str, set[float]] = {}

    def add(place: str, numbers: Iterator[float]) -> None:
        found.setdefault(place, set()).update(numbers)

    manifest = json.loads((release / "manifest.json").read_text())
    for item in manifest["evidence"]:
        # What is counted in the published files alone follows from them, and is like anything else by accident.
        item["measurements"] = [one for one in item["measurements"] if not one["unit"].startswith(_TOLD_BY_FILES)]
    for name, content in (
        ("manifest.json", manifest),
        ("certificate.json", json.loads((release / "certificate.json").read_text())),
    ):
        for place, number in _of_json(content, name):
            add(place, iter([number]))
    for line in registry.read_text().splitlines():
        for place, number in _of_json(json.loads(line), "registry"):
            add(place, iter([number]))
    if (release / "data/dates.json").exists():
        for place, number in _of_json(json.loads((release / "data/dates.json").read_text()), "dates.json"):
            add(place, iter([number]))
    page = (release / "report.html").read_text()
    for number, image in enumerate(_IMAGE.findall(page)):
        drawn = re.sub(r'<path id="DejaVu[^>]*>', "", base64.b64decode(image).decode())  # the shapes of letters
        add(f"report figure {number}", _of_text(re.sub(r"<style.*?</style>|\bid=\"[^\"]*\"", "", drawn, flags=re.S)))
    add("report text", _of_text(re.sub(r"<[^>]*>", " ", re.sub(r"<style.*?</style>", "", page, flags=re.S))))
    # Who has the files knows their sizes.
    sizes = {path.stat().st_size for path in release.rglob("*")}
    return {place: numbers - sizes for place, numbers in found.items()}


def restricted_counts(restricted: Mapping, rows: set[int]) -> dict[str, int]:
    """Exact counts that only the restricted edition may tell, by what they count: of stages, between them, measured."""
    found = {}
    for step in restricted["attrition"]:
        found[step["stage"]] = step["rows_out"]
        if step["rows_in"] is not None:
            found[f"left out: {step['stage']}"] = step["rows_in"] - step["rows_out"]
    for item in restricted["evidence"]:
        for told in item["measurements"]:
            one = Measurement.from_json(told)
            if not one.exposure.counts_people or one.exposure is Exposure.IN_FILES:
                continue
            if one.sample_size is not None and one.exposure is not Exposure.WHOLE_IN_FILES:
                found[f"size: {one.name}"] = one.sample_size
            if one.sample_size and one.value is not None and one.unit != LEFT_OUT:
                found[f"part: {one.name}"] = round(one.value * one.sample_size)
            if one.unit in ("members", "records") and one.value is not None:
                found[one.name] = int(one.value)
    return {name: count for name, count in found.items() if count not in rows}


def derived(numbers: Numbers, rows: set[int], secrets: Mapping[str, int]) -> set[tuple[str, str]]:
    """(secret, place): exact counts that are read in a place, or follow from it by a sum, difference or ratio.

    Small numbers are found everywhere by accident. Counts below 100 are looked for beside the rows of a file only, those
    below 10 not at all; in figures, whose coordinates are many, nothing below 500. Numbers of two digits are rounded.

    Parameters
    ----------
    rows
        Rows of the released files.
    """
    hits = set()
    for name, count in secrets.items():
        beside = {abs(count + sign * row) for row in rows for sign in (1, -1)} if count >= 10 else set()
        readings = {reading for reading in beside | {count} if reading >= 100}
        others = rows | {other for other in secrets.values() if other > count}
        ratios = [count / other for other in others if other] + [row / count for row in rows if count]
        for place, found in numbers.items():
            least = 500 if "figure" in place else 100
            if {reading for reading in readings if reading >= least} & {
                abs(number) for number in found if number == int(number)
            }:
                hits.add((name, place))
            shares = [number for number in found if number != float(f"{number:.2g}")]
            if count >= 10 and any(abs(share - ratio) < _RATIO_DIGITS * ratio for share in shares for ratio in ratios):
                hits.add((name, place))
    return hits


def _of_json(value: object, place: str) -> Iterator[tuple[str, float]]:
    """Numbers in JSON values, with their paths; a text may be JSON itself, or hold numbers."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _of_json(part, f"{place}/{key}")
    elif isinstance(value, list):
        for part in value:
            named = isinstance(part, Mapping) and (
                part.get("stage") or part.get("asset") or part.get("name") or part.get("path")
            )
            yield from _of_json(part, f"{place}/{named}" if named else place)
    elif isinstance(value, str):
        if value.startswith("{"):
            yield from _of_json(json.loads(value), place)
        else:
            yield from ((place, number) for number in _of_text(value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place, value


def _of_text(text: str) -> Iterator[float]:
    """Numbers in a text. Per cent are shares: of noise as large as here, shares can be of any size, and are no counts."""
    for number, per_cent in _NUMBER.findall(_DIGESTS.sub(" ", text)):
        yield float(number.replace(",", "")) / (100 if per_cent else 1)
