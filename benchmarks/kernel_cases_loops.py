"""Cases of the kernels sparse, dense, admm, gradient and rowstep, at the sizes of text, tables and images.

Each entry of CASES is (name, module, function, make), and make(dtype) gives (stop, arguments after start and stop).
"""

import numpy as np
import scipy.sparse as sp

BLOCK = 128
CHUNK = 8192


def text(n, m, entries, dtype, seed=0):
    """Counts with columns as unequal as words."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, n, entries)
    columns = np.minimum(m * rng.random(entries) ** 3, m - 1).astype(np.int64)
    X = sp.coo_array((rng.random(entries).astype(dtype), (rows, columns)), shape=(n, m)).tocsr()
    X.sum_duplicates()
    return X


def blocks(X, height):
    """Xᵀ by blocks of `height` rows of X."""
    n, m = X.shape
    parts, starts, before = [], [], 0
    for first in range(0, n, height):
        part = X[first : first + height].T.tocsr()
        part.sort_indices()
        starts.append(part.indptr + before)
        before += part.nnz
        parts.append((part.indices + first, part.data))
    indices = np.concatenate([i for i, _ in parts]).astype(X.indices.dtype)
    return np.array(starts, dtype=X.indptr.dtype), indices, np.concatenate([d for _, d in parts])


def times(n, m, entries, r):
    def make(dtype):
        X = text(n, m, entries, dtype)
        C = np.random.default_rng(1).random((m, r)).astype(dtype)
        return n, (X.indptr[None], X.indices, X.data, C, np.empty((r, n), dtype))

    return make


def transpose_times(n, m, entries, r):
    def make(dtype):
        X = text(n, m, entries, dtype)
        C = np.random.default_rng(1).random((n, r)).astype(dtype)
        height = max(min(8192, -(-n // 8)), 8 * n * m // X.nnz, 1)
        return m, (*blocks(X, height), C, np.empty((r, m), dtype))

    return make


def transpose(n, m, entries):
    def make(dtype):
        X = text(n, m, entries, dtype)
        height = max(min(8192, -(-n // 8)), 8 * n * m // X.nnz, 1)
        count = -(-n // height)
        starts = np.empty((count, m + 1), X.indptr.dtype)
        return count, (X.indptr, X.indices, X.data, height, starts, np.empty_like(X.indices), np.empty_like(X.data))

    return make


def row_squares(n, m, entries):
    def make(dtype):
        X = text(n, m, entries, dtype)
        return n, (X.indptr, X.data, np.empty(n))

    return make


def residual(n, m, entries, r):
    def make(dtype):
        X, rng = text(n, m, entries, dtype), np.random.default_rng(1)
        return n, (X.indptr, X.indices, X.data, rng.random((n, r)), rng.random((m, r)), np.empty(n))

    return make


def survey(n, m):
    def make(dtype):
        return n, (np.random.default_rng(0).random((n, m)).astype(dtype), np.empty(n), np.empty(n, np.int64))

    return make


def split(size):
    def make(dtype):
        rng = np.random.default_rng(0)
        WR, Y, Z, ZY = (rng.standard_normal(size).astype(dtype) for _ in range(4))
        return size, (WR, Y, Z, ZY, dtype(0.5))

    return make


def update_dual(size):
    def make(dtype):
        rng = np.random.default_rng(0)
        WR, before, Y = (rng.standard_normal(size).astype(dtype) for _ in range(3))
        return size, (WR, before, Y, WR.copy(), np.empty((-(-size // CHUNK), 4)))  # Z = WR: Y stays the same

    return make


def normal(n, r, dtype):
    rng = np.random.default_rng(0)
    V = rng.random((r + 5, r))
    G = V.T @ V
    F = rng.random((r, n)) * (rng.random((r, n)) < 0.7)
    return (A.astype(dtype) for A in (F, G @ F + rng.standard_normal((r, n)), G))


def measure(n, r):
    def make(dtype):
        F, B, G = normal(n, r, dtype)
        return n, (F, B, G, np.empty((-(-n // BLOCK), r + 3)))

    return make


def row_steps(n, r, optimal=True, literal=False):
    def make(dtype):
        F, B, G = normal(n, r, dtype)
        return n, (F, B, G, 0.0 if optimal else 1.0 / float(np.linalg.norm(G, 2)), 3, 0.0, literal)

    return make


TEXT = (18000, 10000, 1_200_000)
SMALL = (282, 1528, 12_000)
TINY = (96, 21, 600)
CASES = [
    *((f"text x {r}", "sparse", "times", times(*TEXT, r)) for r in (1, 4, 10, 20, 50, 100, 200)),
    *((f"text in blocks x {r}", "sparse", "times", transpose_times(*TEXT, r)) for r in (10, 20, 50, 100)),
    *((f"small x {r}", "sparse", "times", times(*SMALL, r)) for r in (4, 10, 50)),
    *((f"small in blocks x {r}", "sparse", "times", transpose_times(*SMALL, r)) for r in (10,)),
    ("tiny x 4", "sparse", "times", times(*TINY, 4)),
    ("text", "sparse", "transpose", transpose(*TEXT)),
    ("small", "sparse", "transpose", transpose(*SMALL)),
    ("text", "sparse", "row_squares", row_squares(*TEXT)),
    ("small", "sparse", "row_squares", row_squares(*SMALL)),
    *((f"text x {r}", "sparse", "residual", residual(*TEXT, r)) for r in (4, 10, 20, 50, 100)),
    ("small x 10", "sparse", "residual", residual(*SMALL, 10)),
    *((f"{n} x {m}", "dense", "survey", survey(n, m)) for n, m in ((96, 21), (2000, 400), (400, 10000))),
    *((f"{size}", "admm", "split", split(size)) for size in (400, 50_000, 2_000_000)),
    *((f"{size}", "admm", "update_dual", update_dual(size)) for size in (400, 50_000, 2_000_000)),
    *((f"{n} x {r}", "gradient", "measure", measure(n, r)) for n, r in ((96, 4), (20_000, 1), (20_000, 4), (20_000, 10))),
    *((f"{n} x {r}", "gradient", "measure", measure(n, r)) for n, r in ((20_000, 20), (20_000, 50), (5_000, 100))),
    *((f"{n} x {r}", "rowstep", "row_steps", row_steps(n, r)) for n, r in ((96, 4), (20_000, 4), (20_000, 10))),
    *((f"{n} x {r}", "rowstep", "row_steps", row_steps(n, r)) for n, r in ((20_000, 20), (20_000, 50), (5_000, 100))),
    ("20000 x 20 fixed", "rowstep", "row_steps", row_steps(20_000, 20, optimal=False)),
]
