"""Matrices of harm, by name; each module of this folder holds one."""

from deid_assets_tests.matrices.crashes import CRASHES
from deid_assets_tests.matrices.malformed_inputs import INPUTS
from deid_assets_tests.matrices.table import Matrix
from deid_assets_tests.matrices.tampering import TAMPERING

MATRICES: dict[str, Matrix] = {matrix.name: matrix for matrix in (CRASHES, INPUTS, TAMPERING)}
