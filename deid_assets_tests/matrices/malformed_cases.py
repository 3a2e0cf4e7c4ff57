"""Every broken delivery of the matrix of malformed inputs."""

from deid_assets_tests.matrices.malformed_cells import CELLS
from deid_assets_tests.matrices.malformed_columnar import COLUMNAR
from deid_assets_tests.matrices.malformed_files import FILES
from deid_assets_tests.matrices.malformed_sources import SOURCES

CASES = (*FILES, *CELLS, *COLUMNAR, *SOURCES)
