"""Generated data: the paper's (section 5.1), and sparse matrices larger than memory, made block by block on demand."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf.problem.validation.numbers import check_count, check_number, make_rng


def make_synthetic(
    n: int = 1000, m: int = 1000, inner_rank: int = 200, snr: float = 60.0, *, random_state: Any = None
) -> np.ndarray:
    """Dense data X = |W H + N| with W (n x inner_rank) and H uniform on [0, 1] and Gaussian N.

    `snr` is the signal-to-noise ratio in dB, 20 log10(||W H|| / ||N||). The paper's size is 5000 x 5000, inner rank
    1000, and snr 20 to 100.

    Examples
    --------
    >>> from enmf.datasets import make_synthetic
    >>> X = make_synthetic(60, 50, 20, snr=40, random_state=0)
    >>> X.shape, bool(X.min() >= 0)
    ((60, 50), True)
    """
    rng = make_rng(random_state)
    X = rng.random((n, inner_rank)) @ rng.random((inner_rank, m))
    noise = rng.standard_normal((n, m))
    noise *= np.linalg.norm(X) / np.linalg.norm(noise) * 10.0 ** (-snr / 20.0)
    X += noise
    return np.abs(X, out=X)


def make_exact(
    n: int = 500, m: int = 400, rank: int = 50, sparsity: float = 0.3, *, random_state: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X = U Vᵀ exactly, with U and V uniform on [0, 1] outside a random mask of zeros; returns X, U, V.

    `sparsity` is the expected share of zeros in U and V.

    Examples
    --------
    >>> from enmf.datasets import make_exact
    >>> X, U, V = make_exact(30, 20, 4, 0.3, random_state=0)
    >>> bool(abs(X - U @ V.T).max() < 1e-12)
    True
    """
    rng = make_rng(random_state)
    U, V = (rng.random((length, rank)) * (rng.random((length, rank)) >= sparsity) for length in (n, m))
    return U @ V.T, U, V


def make_sparse(
    shape: tuple[int, int],
    density: float,
    rank: int = 20,
    chunks: int | None = None,
    *,
    random_state: int = 0,
    dtype: Any = np.float32,
) -> Any:
    """A Dask array of sparse blocks with `rank` topics; a block is generated each time it is computed.

    Each row has a few topics, and each topic prefers some of the columns. To generate an entry of a row, one of its
    topics, a column of that topic, and a value are drawn; repeated draws of the same position add up, so the density is
    slightly below the requested one. The matrix depends on the seed and on `chunks`, the number of rows per block.

    Examples
    --------
    >>> from enmf.datasets import make_sparse
    >>> X = make_sparse((1000, 300), 0.05, rank=5, chunks=250)
    >>> X.shape, X.numblocks
    ((1000, 300), (4, 1))
    >>> X.blocks[0].compute().shape
    (250, 300)
    """
    try:
        import dask
        import dask.array as da
    except ImportError:
        raise ImportError('make_sparse returns a Dask array: pip install "dask[array]"') from None
    n, m = (check_count("shape", side, low=1) for side in shape)
    check_number("density", density, low=0.0)
    rank = check_count("rank", rank, low=1)
    per_row = max(1.0, density * m)
    height = check_count("chunks", chunks, low=1) if chunks is not None else max(1, min(n, int(4_000_000 / per_row)))
    make = dask.delayed(_block, pure=False)
    blocks = []
    for number, first in enumerate(range(0, n, height)):
        rows = min(height, n - first)
        block = make(rows, m, density, rank, (int(random_state), number), np.dtype(dtype))
        blocks.append(da.from_delayed(block, (rows, m), dtype=dtype, meta=sp.csr_matrix((0, 0), dtype=dtype)))
    return da.concatenate(blocks, allow_unknown_chunksizes=False) if len(blocks) > 1 else blocks[0]


def _block(rows: int, m: int, density: float, rank: int, seed: tuple[int, int], dtype: np.dtype) -> sp.csr_matrix:
    edges = _topic_edges(m, rank, seed[0])
    rng = np.random.default_rng(np.random.SeedSequence(seed[0], spawn_key=(1, seed[1])))
    counts = np.minimum(rng.poisson(density * m, rows), m)
    owner = np.repeat(np.arange(rows), counts)
    favourites = rng.integers(0, rank, (rows, 3))  # three topics per row, the first one most often
    topic = favourites[owner, rng.choice(3, len(owner), p=(0.6, 0.3, 0.1))]
    column = np.empty(len(owner), np.int32)
    where = rng.random(len(owner))
    for k in range(rank):
        mine = topic == k
        column[mine] = np.searchsorted(edges[k], where[mine], side="right").clip(0, m - 1)
    values = (0.5 + rng.random(len(owner))).astype(dtype)
    block = sp.csr_matrix((values, column, np.concatenate([[0], np.cumsum(counts)])), shape=(rows, m))
    block.sum_duplicates()
    return block


def _topic_edges(m: int, rank: int, seed: int) -> np.ndarray:
    """Cumulative probabilities of the columns, one row per topic, with heavy tails like those of words."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    weights = rng.pareto(1.2, (rank, m)) + 0.02
    edges = np.cumsum(weights, axis=1)
    return edges / edges[:, -1:]
