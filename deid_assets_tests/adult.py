"""The Adult table with the hierarchies of ARX, as the search over flat tables reads it."""

import csv
from pathlib import Path

import numpy as np

from deid_assets.methods.flat.classes import FlatTable
from deid_assets.methods.population.longitudinal_data import Domain


def adult_table(folder: Path) -> tuple[list[str], FlatTable]:
    """Column names and table, from the folder of adult.csv and its hierarchies."""
    with (folder / "adult.csv").open() as file:
        names, *rows = csv.reader(file, delimiter=";")
    codes, domains = [], []
    for number, name in enumerate(names):
        with (folder / f"adult_hierarchy_{name}.csv").open() as file:
            hierarchy = np.array(list(csv.reader(file, delimiter=";")))
        place = {value: code for code, value in enumerate(hierarchy[:, 0])}
        codes.append([place[row[number]] for row in rows])
        higher = [np.unique(column, return_inverse=True)[1] for column in hierarchy.T[1:]]
        domains.append(Domain((np.arange(len(hierarchy)), *higher)))
    return names, FlatTable(np.array(codes).T, tuple(domains))
