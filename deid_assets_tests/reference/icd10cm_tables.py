"""Write the tables of ICD-10-CM anew from the public sources: `python -m deid_assets_tests.reference.icd10cm_tables FOLDER`.

The folder has `2018_I10gem.txt` (CMS), `icd10cm-codes-2024.txt` (CDC) and, if blocks are to be written too, the tabular list of
the CDC as XML (`icd10c-tabular-*.xml`, as the package simple-icd-10-cm 1.5.0 holds it).
"""

import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import deid_assets
from deid_assets.reference import icd10cm
from deid_assets.reference.chapters import block, chapter
from deid_assets.reference.codes import bare
from deid_assets.reference.groups import condition_groups

REFERENCE = Path(deid_assets.__file__).parent / "reference"
GEM, CODES, TABULAR = "2018_I10gem.txt", "icd10cm-codes-2024.txt", "icd10c-tabular-*.xml"
LIKENESS = {"U070": "J680", "U071": "B9729", "U099": "B948"}
"""Codes for special purposes, and whose group they take: of a lung disease by inhalation, of another disease by a coronavirus,
of the sequelae of an infection."""


def listed_codes(folder: Path) -> list[str]:
    return [line.split()[0] for line in (folder / CODES).read_text(encoding="utf-8").splitlines()]


def mappings(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Target and flags (approximate, no map, combination, scenario, choice list) of every code of the mapping, as published."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for line in (folder / GEM).read_text(encoding="utf-8").splitlines():
        code, target, flags = line.split()
        found[code].append((target, flags))
    return found


def condition_rows(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    """Code, group, origin and note of every code of 2024."""
    mapped = mappings(folder)
    targets = {code: pairs for code, listed in mapped.items() if (pairs := [pair for pair in listed if pair[1][1] == "0"])}
    frame = condition_groups(sorted({target for pairs in targets.values() for target, _ in pairs}))
    icd9 = dict(zip(frame["code"], frame["group"], strict=True))
    decided: dict[str, str] = {}
    below: dict[str, Counter[str]] = defaultdict(Counter)
    named_below: dict[str, set[str]] = defaultdict(set)
    for code, pairs in targets.items():
        decided[code] = icd9[next((target for target, flags in pairs if flags[2:] == "111"), pairs[0][0])]
        places = [code[:length] for length in range(3, len(code) + 1)]
        for place in (*places, block(f"icd10cm:{code}"), chapter(f"icd10cm:{code}")):
            below[place or ""][decided[code]] += 1
            named_below[place or ""] |= {icd9[target] for target, _ in pairs}
    for code in sorted(listed_codes(folder)):
        if code in targets:
            named = list(dict.fromkeys(target for target, _ in targets[code]))
            if len({icd9[target] for target in named}) == 1:
                yield code, decided[code], "one group", " ".join(named)
            else:
                yield code, decided[code], "several groups", " ".join(f"{target}:{icd9[target]}" for target in named)
            continue
        parents = [code[:length] for length in range(len(code) - 1, 2, -1)]
        places = [*parents, block(f"icd10cm:{code}") or "", chapter(f"icd10cm:{code}") or ""]
        place = next((one for one in places if one in below), None)
        if code not in mapped and place in parents and len(named_below[place]) == 1:
            yield code, *named_below[place], "parent", place
        elif place is None:
            yield code, decided[LIKENESS[code]], "completion", f"as {LIKENESS[code]}"
        else:
            where = f"chapter {bare(place)}" if place == places[-1] else bare(place)
            yield code, icd10cm.most_frequent_group(below[place]), "completion", f"most frequent in {where}"


def block_rows(tabular: Path) -> Iterator[tuple[str, str, str, str, str, str]]:
    """Block, first and last category, chapter, title and origin of every section of the tabular list that has categories.

    A category that its section's name does not span has a row of its own.
    """
    for part in ElementTree.parse(tabular).getroot().findall("chapter"):
        number = part.findtext("name") or ""
        for section in part.findall(".//section"):
            name, title = section.get("id", ""), (section.findtext("desc") or "").rsplit("(", 1)[0].strip()
            first, _, last = name.partition("-")
            categories = [one.findtext("name") or "" for one in section.findall("diag")]
            outside = [one for one in categories if not first <= one <= (last or first)]
            spans = [(first, last or first)] if categories else []
            for low, high in (*spans, *((one, one) for one in outside)):
                yield name, low, high, number, title, "printed"


def write(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    print(f"{path.name}: {len(rows):,} rows, {path.stat().st_size:,} bytes")


def main(folder: Path) -> None:
    for tabular in sorted(folder.glob(TABULAR))[-1:]:
        blocks = list(block_rows(tabular))
        write(REFERENCE / "icd10cm_blocks.csv", ("block", "first", "last", "chapter", "title", "origin"), blocks)
    rows = list(condition_rows(folder))
    write(REFERENCE / "icd10cm.csv", ("code", "group", "origin", "note"), rows)
    for origin, number in Counter(row[2] for row in rows).items():
        print(f"  {origin}: {number:,}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
