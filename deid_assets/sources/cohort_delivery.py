"""A delivery of a cohort: the people, and the table of the population that they belong to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deid_assets.errors import DeliveryError
from deid_assets.methods.preparation.eligibility import NOBODY, OptedOut
from deid_assets.sources.census import CensusTable
from deid_assets.sources.cohort import Cohort, CohortLayout, read_cohort
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.demographic_populations import PopulationFiles, read_population

PEOPLE, QUARANTINED, POPULATION = "cohort_people", "quarantined_people", "population_cells"


@dataclass(frozen=True)
class PopulationSource:
    """A population table within a delivery.

    Attributes
    ----------
    kind, count
        As in `PopulationFiles`.
    files
        Letter of a table to its file below the delivery's folder; the letter '' is one file with all of them.
    race_bands, race_year
        File of estimates by race and band below the folder, and its year.
    """

    kind: str
    files: Mapping[str, str]
    count: str
    race_bands: str | None = None
    race_year: int | None = None


@dataclass(frozen=True)
class CohortDelivery:
    """What was read of a delivery.

    Attributes
    ----------
    cohort, population
        People and population table.
    digest
        Of the delivery's files, which did not change while they were read.
    """

    cohort: Cohort
    population: CensusTable
    digest: str


def read_cohort_delivery(
    delivery: Delivery,
    file: str,
    layout: CohortLayout,
    source: PopulationSource,
    store: Path,
    unusable_at_most: float,
    opted_out: OptedOut = NOBODY,
) -> CohortDelivery:
    """Read the cohort and its population from a delivery, which is one folder.

    Parameters
    ----------
    file
        Of the cohort, below the delivery's folder.
    store
        Folder of the restricted store, where the copy of the cohort lies while it is read.

    Raises
    ------
    DeliveryError
        If a file is missing, cannot be read or cannot be right, or changes while it is read.
    """
    digest = delivery.digest()
    places = [name for name, column in (("county", layout.county), ("zip", layout.zip)) if column]
    population = read_population(
        PopulationFiles(
            source.kind,
            {letter: _path(delivery, own) for letter, own in source.files.items()},
            source.count,
            None if source.race_bands is None else _path(delivery, source.race_bands),
            source.race_year,
        ),
        layout.race is not None,
        places,
    )
    cohort = read_cohort(_path(delivery, file), layout, store, unusable_at_most, opted_out)
    if delivery.digest() != digest:
        raise DeliveryError(f"delivery {delivery.key}: its files changed while they were read; take it in again")
    return CohortDelivery(cohort, population, digest)


def _path(delivery: Delivery, file: str) -> Path:
    """The path of a file that the digest of the delivery covers."""
    (folder,) = delivery.paths if len(delivery.paths) == 1 else (None,)
    if folder is None or not folder.is_dir():
        raise DeliveryError(
            f"delivery {delivery.key}: a cohort is one folder that contains its file and that of the population"
        )
    path = folder / file
    if path not in {own.path for own in delivery.files()}:
        raise DeliveryError(f"{path.name}: missing file; it should be in the folder of delivery {delivery.key}")
    return path
