"""The only rooms that know what X is. Everything else asks a `Matrix` for products."""

from enmf.matrix.base import Matrix
from enmf.matrix.chunked import ChunkedMatrix
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.lowrank import LowRankMatrix
from enmf.matrix.masked import MaskedMatrix
from enmf.matrix.rows import RowBlocks
from enmf.matrix.sparse import SparseMatrix

__all__ = ["ChunkedMatrix", "DenseMatrix", "LowRankMatrix", "MaskedMatrix", "Matrix", "RowBlocks", "SparseMatrix"]
