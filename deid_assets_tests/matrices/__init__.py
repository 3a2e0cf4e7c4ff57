"""Matrices of harm, by name; each module of this folder holds one."""

from deid_assets_tests.matrices import malformed_inputs
from deid_assets_tests.matrices.table import Matrix

MATRICES: dict[str, Matrix] = {matrix.name: matrix for matrix in (malformed_inputs.MATRIX,)}
