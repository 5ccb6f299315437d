"""Phase 1: the best unconstrained factors, X ~ U diag(s) Vᵀ, and the Eckart-Young bound that comes with them.

No factorization of rank r has an error below  sqrt(||X||² - s_1² - ... - s_r²)  with the true singular values.
Computed values are too small, so the naive formula is not a bound. Ours is:

exact        from the eigenvalues of the small Gram matrix, less a margin for rounding; from LAPACK's SVD where the
             remainder is so small that the Gram matrix has lost its digits.
krylov,      With C = XᵀX, Q (m x l, orthonormal), A = QᵀCQ, B = CQ - QA and delta >= ||(I-QQᵀ)C(I-QQᵀ)||, for any t > 0
randomized       C <= (A + BᵀB/t) (+) (delta + t) I      in the order of symmetric matrices, since
                 [-BᵀB/t, Bᵀ; B, -tI] is negative semidefinite. So the r largest eigenvalues of the right-hand side add
             up to at least s_1² + ... + s_r². delta comes from block Lanczos with a fresh random start: by Kuczynski
             and Wozniakowski (1992) q steps from one start underestimate the norm by more than a factor (1 - e) with
             probability at most 1.648 sqrt(m) exp(-sqrt(e) (2q - 1)); p independent starts must all fail at once.
             We choose e such that the probability is below 1e-9.

Only numpy's linear algebra is used in the package, never scipy.linalg beside it: each brings a BLAS of its own with its
own waiting threads, and alternating between the two made the rotation 17 times slower.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse.linalg

from enmf.distributed.rows import RowBlocks, beside, by_rows, fortran
from enmf.matrix.base import Matrix
from enmf.matrix.dense import DenseMatrix
from enmf.parallel import lapack, matmul

KINDS = ("auto", "exact", "krylov", "randomized")
EXACT_SIDE = 1024  # "auto" is exact up to this smaller side
ROUNDING = 64 * np.finfo(np.float64).eps  # of ||X||², in eigenvalues; sums of n terms have up to n units more
FAILURE = 1e-9  # probability that the bound of an iterative SVD is too high
LEAST_OVERSAMPLING = 10  # triplets beyond the rank
SAMPLED_ROWS = 8  # rows of the sample that begins a randomized SVD, for each column of the block
CLOSER_ROWS = 96  # the same of the one that follows for data of which the rank explains little
ROUGH = 8e-4  # share of the error that `refine` may leave to later steps when it gives a first spectrum
REFINED = 1e-6  # its last step reduces the error by less
WELL_CONDITIONED = 1e-3  # least over largest singular value of a block whose squares keep enough digits
LARGEST = 7  # columns of the basis of `refine`, in widths
NORM_BLOCK = 8  # independent starts of the norm estimate
POWER_ITERATIONS = 3  # that improve a randomized SVD before it gives a bound
NORM_STEPS = 8  # Lanczos steps of the norm estimate


@dataclass(frozen=True)
class Spectrum:
    """Leading singular triplets of X, and what they prove."""

    U: np.ndarray  # n x l, orthonormal columns
    s: np.ndarray  # l, decreasing
    V: np.ndarray  # m x l, orthonormal columns
    squared_norm: float  # ||X||²
    kind: str
    bounds: np.ndarray = field(default_factory=lambda: np.zeros(0))  # entry i: least error of rank i + 1

    def lower_bound(self, rank: int) -> float:
        """No factorization of this rank has a smaller error."""
        return float(self.bounds[rank - 1]) if 1 <= rank <= len(self.bounds) else 0.0

    def relative_error(self, rank: int) -> float:
        """||X - U diag(s) Vᵀ|| / ||X|| of this rank, from the computed singular values."""
        kept = float((self.s[:rank].astype(np.float64) ** 2).sum())
        return float(np.sqrt(max(1.0 - kept / self.squared_norm, 0.0))) if self.squared_norm > 0 else 0.0

    def factors(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """U* = U S^1/2 and V* = V S^1/2 of the given rank."""
        root = np.sqrt(self.s[:rank])
        return fortran(self.U[:, :rank] * root), fortran(self.V[:, :rank] * root)

    def leading(self, rank: int) -> Spectrum:
        """As many triplets as `truncated_svd` computes for this rank, so that one SVD serves every smaller rank."""
        return self.truncated(rank + default_oversampling(rank))

    def truncated(self, width: int) -> Spectrum:
        """The first `width` triplets."""
        return replace(self, U=self.U[:, :width], s=self.s[:width], V=self.V[:, :width], bounds=self.bounds[:width])


def default_oversampling(rank: int) -> int:
    """Triplets beyond the rank, for the surrogate matrix and the bound."""
    return max(LEAST_OVERSAMPLING, min(rank, 40))


def truncated_svd(
    X: Matrix,
    rank: int,
    *,
    kind: str = "auto",
    oversampling: int | None = None,
    power_iterations: float = 1,
    rng: np.random.Generator,
) -> Spectrum:
    """The leading `rank` singular triplets of X and some more (for the surrogate matrix and the bound).

    Parameters
    ----------
    kind : {"auto", "exact", "krylov", "randomized"}
        "exact": Gram matrix of the smaller side and its eigenvectors; "krylov": ARPACK; "randomized": block power
        iteration with oversampling, begun on a sample of the rows.
        "auto" is "exact" when the smaller side is at most 1024, else "randomized".
    oversampling : int, optional
        Triplets beyond `rank`; default min(rank, 40), at least 10.
    power_iterations : float
        Products with XᵀX in the randomized kind, which makes 1 + 2 power_iterations passes; half of one is possible.
    """
    kind, width = plan(X, rank, kind, oversampling)
    if kind == "exact":
        return _fix_signs(_exact(X, width))
    if kind == "krylov":
        return power(X, _krylov(X, width, rng), 1)  # ARPACK's own random numbers leave rounding that has no seed
    return power(X, glance(X, width, rng), power_iterations)


def plan(X: Matrix, rank: int, kind: str = "auto", oversampling: int | None = None) -> tuple[str, int]:
    """The kind of SVD that "auto" stands for, and the number of its triplets."""
    side = min(X.shape)
    extra = default_oversampling(rank) if oversampling is None else oversampling
    width = min(rank + extra, side)
    if kind == "auto":
        kind = "exact" if side <= EXACT_SIDE else "randomized"
    if kind != "exact" and width >= side - 1:
        kind = "exact"  # an iteration would span the whole space
    return kind, width


def glance(X: Matrix, width: int, rng: np.random.Generator) -> Spectrum:
    """A rough spectrum of a sample of the rows of X (its U has as many rows), at a fraction of a pass.

    Its V is as good as a random block after one product with XᵀX. It always has `width` triplets, whatever the rank of
    the sample.
    """
    rows = SAMPLED_ROWS * width
    if 2 * rows > X.shape[0]:
        V, _, _ = thin_svd(X.transpose_times(_normal(X.shape[0], width, X.dtype, rng)))
        U, s, turn = thin_svd(X.times(V))
        V = matmul(V, turn)
    else:
        sample = X.sample_rows(rows, rng)
        Y = sample.times(sample.transpose_times(_normal(sample.shape[0], width, X.dtype, rng)))
        Q = _orthonormal(Y.astype(np.float64)).astype(X.dtype)
        V, s, turn = thin_svd(sample.transpose_times(Q))
        U = matmul(Q, turn)
    return _fix_signs(_filled(Spectrum(U, s, V, X.squared_norm(), "randomized"), width, rng))


def _filled(spectrum: Spectrum, width: int, rng: np.random.Generator) -> Spectrum:
    """`width` triplets also where a sample has fewer rows: random right singular vectors, of which nothing is known."""
    U, s, V = spectrum.U, spectrum.s, spectrum.V
    lacking = width - len(s)
    if lacking <= 0:
        return spectrum
    V = np.hstack([V, _orthonormal_beside(V, _normal(len(V), lacking, V.dtype, rng))])
    return replace(spectrum, U=np.pad(U, ((0, 0), (0, lacking))), s=np.pad(s, (0, lacking)), V=V)


def look_closer(X: Matrix, first: Spectrum, rng: np.random.Generator) -> Spectrum:
    """A better one from a larger sample; `first` itself where X has no more than twice its rows."""
    rows = min(CLOSER_ROWS * len(first.s), X.shape[0] // 4)
    if rows <= 2 * first.U.shape[0]:
        return first
    sample = X.sample_rows(rows, rng)
    Q = _orthonormal(sample.times(first.V).astype(np.float64)).astype(X.dtype)
    V, s, turn = thin_svd(sample.transpose_times(Q))
    return _fix_signs(_filled(replace(first, U=matmul(Q, turn), s=s, V=V), len(first.s), rng))


def _normal(rows: int, columns: int, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((rows, columns)).astype(dtype)


def power(X: Matrix, first: Spectrum, iterations: float) -> Spectrum:
    """Power iterations from a glance at X: products with X and Xᵀ in turns; half an iteration is one product."""
    U, s, V, turn, back = first.U, first.s, first.V, None, None
    if U.shape[0] != X.shape[0]:
        XV, back = X.there_and_back(V)
        U, s, turn = thin_svd(XV)
        back = matmul(back, turn / s) if back is not None and s[-1] > WELL_CONDITIONED * s[0] else None  # Xᵀ U
    left = True  # U is the newer one, and V has not turned with it yet
    for _ in range(round(2 * iterations)):
        if left:
            V, s, turn = thin_svd(X.transpose_times(U) if back is None else back)
            back = None
        else:
            U, s, turn = thin_svd(X.times(V))
        left = not left
    if turn is not None:
        U, V = (U, matmul(V, turn)) if left else (matmul(U, turn), V)
    return _fix_signs(replace(first, U=U, s=s, V=V))


def bound_passes(X: Matrix, spectrum: Spectrum | None, rank: int) -> float:
    """About how many passes with columns of this number a bound takes, given a spectrum or none."""
    if spectrum is not None and spectrum.kind == "exact":
        return 0.0
    if spectrum is None and plan(X, rank)[0] == "exact":
        return min(X.shape) / rank
    steps = POWER_ITERATIONS + 1 + NORM_STEPS + (2 if spectrum is None else 0)
    return 2.0 * steps


def sharpen(
    X: Matrix, spectrum: Spectrum, *, rng: np.random.Generator, power_iterations: int = POWER_ITERATIONS
) -> Spectrum:
    """Give an iterative spectrum a rigorous bound; a randomized one is improved by some power iterations first.

    Costs 2 passes for each product with XᵀX; those of the norm estimate have few columns.
    """
    if spectrum.kind == "exact" or spectrum.squared_norm == 0.0:
        return spectrum
    Q = spectrum.V.astype(np.float64)
    if spectrum.kind == "randomized":
        for _ in range(power_iterations):
            Q = _orthonormal(_gram_times(X, Q))
    else:
        Q = _orthonormal(Q)  # it may come from single precision
    CQ = X.gram_times_in_double(Q)
    # Rayleigh-Ritz in the span of Q, then the residual of that basis
    A = matmul(Q.T, CQ)
    values, rotation = lapack(np.linalg.eigh, (A + A.T) / 2.0)
    rotation, values = rotation[:, ::-1], values[::-1]
    Q, CQ = matmul(Q, rotation), matmul(CQ, rotation)
    B = CQ - Q * values
    delta = _remainder_norm(X, Q, rng)
    sums = _upper_sums(values, matmul(B.T, B), delta, spectrum.squared_norm)
    return replace(spectrum, bounds=_remainders(sums, spectrum.squared_norm, _rounding(X)))


def refine(X: Matrix, rough: Matrix, spectrum: Spectrum, rank: int) -> Iterator[Spectrum]:
    """Better and better spectra by block Krylov iteration from the leading right singular vectors.

    For data whose unconstrained optimum is (nearly) nonnegative: there it is the descent. The first spectrum comes when
    further steps can reduce the error by no more than the share ROUGH, if gains go on shrinking by the same factor; the
    last when a step reduces it by less than REFINED, or when the basis has grown to LARGEST times the width. The first
    one is made with `rough`, which is X or X in single precision; the basis then goes on in the precision of X.
    """
    width = len(spectrum.s)
    block = min(max(rank + rank // 10, 10), 128, width)
    side = min(X.shape)
    most = max(min(LARGEST * width, side // 2), width + block)
    if most > side:  # no room for a basis that grows
        yield power(X, spectrum, 2)
        return
    basis = np.empty((X.shape[1], most), rough.dtype, order="F")
    basis[:, :block] = spectrum.V[:, :block]
    image, back = rough.there_and_back(basis[:, :block])
    images, gram = [image], np.zeros((0, 0))
    before, last_gain, first, last_step, meets = float("inf"), 0.0, True, False, 2
    while True:
        # of a Krylov basis: a block meets itself and its neighbours only
        new = np.vstack([matmul(_in_double(image).T, _in_double(images[-1])) for image in images[-meets:]])
        size = len(gram) + block
        gram = np.pad(gram, (0, block))
        gram[-len(new) :, -block:] = new
        gram[-block:, -len(new) :] = new.T
        full = size + block > most
        if size > rank + block or full:
            rest = _rest(gram, spectrum, rank)
            gain = 1.0 - rest / before if before > 0 else 0.0
            done = full or gain <= REFINED
            # if gains go on shrinking by q = gain / last_gain, gain q / (1 - q) is left to later steps
            left, q = gain**2 / (last_gain - gain) if last_gain > gain else float("inf"), gain / (last_gain or 1.0)
            last_gain, before = gain if before < float("inf") else 0.0, rest
            last_step = first and left * q <= ROUGH  # the next one, probably: it needs no way back
            if done or (first and left <= ROUGH):
                yield _fix_signs(_ritz(spectrum, basis[:, :size], images, gram))
                if done:
                    return
                if first and rough is not X:
                    basis, images, gram = _promoted(X, basis, size)
                    before, back, rough, meets = _rest(gram, spectrum, rank), None, X, most
                first = last_step = False
        known, last = basis[:, :size], images[-1]
        if back is None:
            back = rough.transpose_times(last if last.shape[1] == block else last[:, -block:])
        basis[:, size : size + block] = _orthonormal_beside(known, back)
        ahead = basis[:, size : size + block]
        image, back = (rough.times(ahead), None) if last_step else rough.there_and_back(ahead)
        images.append(image)


def _rest(gram: np.ndarray, spectrum: Spectrum, rank: int) -> float:
    """Error of this rank, by the Gram matrix of X times a basis."""
    values = lapack(np.linalg.eigvalsh, gram)[::-1]
    return max(spectrum.squared_norm - float(values[:rank].sum()), 0.0) ** 0.5


def _promoted(X: Matrix, basis: np.ndarray, size: int) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """A basis of single precision in that of X, with its image and Gram matrix."""
    better = np.empty(basis.shape, X.dtype, order="F")
    better[:, :size] = _orthonormal(basis[:, :size].astype(X.dtype))
    image = X.times(better[:, :size])
    return better, [image], matmul(image.T, image)


def _ritz(spectrum: Spectrum, basis: np.ndarray, images: list[np.ndarray], gram: np.ndarray) -> Spectrum:
    """As many singular triplets as `spectrum` has, from a basis and X times it."""
    width = min(len(spectrum.s), len(gram))
    values, T = lapack(np.linalg.eigh, gram)
    s, T = np.sqrt(np.maximum(values[::-1][:width], 0.0)), T[:, ::-1][:, :width]
    dtype = basis.dtype
    U = matmul(beside(*images), (T / np.where(s > 0, s, 1.0)).astype(dtype))
    return replace(spectrum, U=U, s=s.astype(dtype), V=matmul(basis, T.astype(dtype)), kind="krylov")


def _exact(X: Matrix, width: int) -> Spectrum:
    gram = X.gram()
    whole = X.squared_norm()
    values, vectors = lapack(np.linalg.eigh, gram)
    values, small = np.maximum(values[::-1][:width], 0.0), vectors[:, ::-1][:, :width]
    bounds = _remainders(np.cumsum(values), whole, _rounding(X))
    if isinstance(X, DenseMatrix) and bounds[-1] ** 2 < 1e-8 * whole:
        return _lapack(X, width)
    small = np.asfortranarray(small, dtype=X.dtype)
    tall = (X.transpose_times if X.shape[0] <= X.shape[1] else X.times)(small)
    if values[-1] > WELL_CONDITIONED**2 * values[0]:
        s = np.sqrt(values).astype(X.dtype)
        left = tall / s
    else:  # Ritz vectors of the small side, accurate also where the Gram matrix has squared small values away
        left, s, turn = thin_svd(tall)
        small = matmul(small, turn)
    U, V = (small, left) if X.shape[0] <= X.shape[1] else (left, small)
    return Spectrum(U, s, V, whole, "exact", bounds)


def _lapack(X: DenseMatrix, width: int) -> Spectrum:
    """The full SVD: the remainder comes from its own singular values, not from a difference."""
    X.passes += 1
    unit = 2.0 ** np.floor(np.log2(X.squared_norm()) / 2.0)  # LAPACK's rounding depends on that of its matrix
    U, s, Vt = lapack(_thin, X.array.astype(np.float64) / unit)
    s *= unit
    tail = np.sqrt(np.append(np.cumsum((s**2)[::-1])[::-1], 0.0))[1:]  # entry i: error of rank i + 1
    tail = np.maximum(tail - _rounding(X) * s[0], 0.0)
    U, s, V = (F[..., :width].astype(X.dtype) for F in (U, s, Vt.T))
    return Spectrum(U, s, V, X.squared_norm(), "exact", tail[:width])


def _krylov(X: Matrix, width: int, rng: np.random.Generator) -> Spectrum:
    """ARPACK on the Gram matrix of the smaller side, and the other side from one product."""
    n, m = X.shape
    side, narrow = min(n, m), m <= n

    def gram(C: np.ndarray) -> np.ndarray:
        C = np.asarray(C, X.dtype).reshape(side, -1)
        return X.transpose_times(X.times(C)) if narrow else _here(X.times(X.transpose_times(C)))

    operator = scipy.sparse.linalg.LinearOperator((side, side), matvec=gram, matmat=gram, dtype=X.dtype)
    eigsh = scipy.sparse.linalg.eigsh
    # from scipy 1.17 on its restarts have a seed
    seeded = {"rng": rng} if "rng" in inspect.signature(eigsh).parameters else {}
    _, near = eigsh(operator, k=width, v0=rng.random(side).astype(X.dtype), **seeded)
    near = np.asfortranarray(near[:, ::-1])
    far, s, turn = thin_svd(X.times(near) if narrow else X.transpose_times(near))
    near = matmul(near, turn)
    U, V = (far, near) if narrow else (near, far)
    return Spectrum(U, s, V, X.squared_norm(), "krylov")


def _here(F: np.ndarray) -> np.ndarray:
    return F.gather() if isinstance(F, RowBlocks) else F


def thin_svd(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Y = U diag(s) Tᵀ for a tall Y: from its Gram matrix where that keeps the digits, else from LAPACK."""
    tall = _in_double(Y)
    found = _svd_by_gram(Y, tall)
    if found is None:
        if isinstance(tall, RowBlocks):
            U, s, Tt = tall.svd()
        else:
            U, s, Tt = lapack(_thin, tall)
        found = U, s, Tt.T
    U, s, T = (F.astype(Y.dtype, copy=False) for F in found)
    return U, s, T


def _in_double(F: np.ndarray) -> np.ndarray:
    return F.in_double() if isinstance(F, RowBlocks) else F.astype(np.float64, copy=False)


def _svd_by_gram(Y: np.ndarray, tall: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The same; `tall` is Y in double precision, which only the Gram matrix needs where Y is well conditioned."""
    values, T = lapack(np.linalg.eigh, matmul(tall.T, tall))
    values, T = values[::-1], T[:, ::-1]
    if len(values) == 0 or values[-1] <= 1e-12 * values[0]:
        return None  # squared singular values have lost their digits
    s = np.sqrt(values)
    if values[-1] >= 1e-5 * values[0]:
        return matmul(Y, (T / s).astype(Y.dtype, copy=False)), s, T
    # orthonormal to a few digits only: once more, and put both turns together
    U = matmul(tall, T / s)
    again = np.linalg.cholesky(matmul(U.T, U))
    U = matmul(U, np.linalg.inv(again).T)
    left, s, right = lapack(np.linalg.svd, again.T @ (s[:, None] * T.T))
    return matmul(U, left), s, right.T


def _thin(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.linalg.svd(A, full_matrices=False)


def _orthonormal(Y: np.ndarray) -> np.ndarray:
    return lapack(np.linalg.qr, Y)[0]


def _orthonormal_beside(known: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """An orthonormal basis of Y (overwritten) without its part in the orthonormal `known`.

    Where nothing but rounding is left of Y, as with X of a low rank, directions of no meaning take its place: they
    must be orthogonal all the same, or singular values would be counted twice.
    """
    size = float(np.linalg.norm(Y))
    for _ in range(2):
        Y -= matmul(known, matmul(known.T, Y))
    Q, R = lapack(np.linalg.qr, Y)
    if np.abs(np.diag(R)).min() > np.sqrt(np.finfo(Y.dtype).eps) * size:
        return Q
    for _ in range(2):
        Q = _orthonormal(Q - matmul(known, matmul(known.T, Q)))
    return Q


def _gram_times(X: Matrix, Q: np.ndarray) -> np.ndarray:
    return X.gram_times(Q.astype(X.dtype, copy=False)).astype(np.float64, copy=False)


def _product_rounding(X: Matrix) -> float:
    """Rounding of a product with X, relative to ||X||²."""
    return _rounding(X) if X.dtype == np.float64 else 16.0 * float(np.finfo(X.dtype).eps)


def _rounding(X: Matrix) -> float:
    """Rounding of sums over a side of X in double precision. Equal terms round alike, so they may add up."""
    return ROUNDING + max(X.shape) * float(np.finfo(np.float64).eps)


def _remainder_norm(X: Matrix, Q: np.ndarray, rng: np.random.Generator) -> float:
    """An upper bound of ||(I - QQᵀ) XᵀX (I - QQᵀ)||_2, wrong with probability below FAILURE."""
    m, width = Q.shape
    block = min(NORM_BLOCK, m - width)

    def project(Y: np.ndarray) -> np.ndarray:
        Y = Y - matmul(Q, matmul(Q.T, Y))
        return Y - matmul(Q, matmul(Q.T, Y))

    steps = min(NORM_STEPS, max(1, (m - width) // block))
    basis = [_orthonormal(project(rng.standard_normal((m, block))))]
    images: list[np.ndarray] = []
    for _ in range(steps):
        images.append(project(_gram_times(X, basis[-1])))
        K = np.hstack(basis)
        new = images[-1] - matmul(K, matmul(K.T, images[-1]))
        basis.append(_orthonormal(project(new - matmul(K, matmul(K.T, new)))))
    K, CK = np.hstack(basis[:-1]), np.hstack(images)
    H = matmul(K.T, CK)
    largest = max(float(np.linalg.eigvalsh((H + H.T) / 2.0)[-1]), 0.0)
    root = np.log(1.648 * np.sqrt(m) / FAILURE ** (1.0 / block)) / (2 * steps - 1)
    if root >= 1.0:
        return X.squared_norm()
    return largest / (1.0 - root**2) + _product_rounding(X) * X.squared_norm()


def _remainders(sums: np.ndarray, whole: float, rounding: float) -> np.ndarray:
    """sqrt(whole - sums), less a margin for rounding."""
    return np.sqrt(np.maximum(whole - sums - rounding * whole, 0.0))


def _upper_sums(values: np.ndarray, BtB: np.ndarray, delta: float, whole: float) -> np.ndarray:
    """For each rank i + 1, an upper bound of s_1² + ... + s_{i+1}²; `values` are the eigenvalues of A."""
    best = np.full(len(values), whole)
    for t in np.geomspace(1e-6, 10.0, 40) * max(values[0], np.finfo(float).tiny):
        inside = np.linalg.eigvalsh(np.diag(values) + BtB / t)
        outside = np.full(len(values), delta + t)
        together = np.sort(np.concatenate([inside, outside]))[::-1][: len(values)]
        best = np.minimum(best, np.cumsum(together))
    return best


def _fix_signs(spectrum: Spectrum) -> Spectrum:
    """The leading pair nonnegative (Perron-Frobenius), the largest entry of every other v positive; singular values of
    rounding become zero, for their vectors are arbitrary."""
    U, V = fortran(spectrum.U), fortran(spectrum.V)
    if V.shape[1] == 0:
        return spectrum
    precision = np.float64 if spectrum.kind == "exact" else spectrum.s.dtype
    noise = 10.0 * float(np.finfo(precision).eps) * spectrum.s[0]
    spectrum = replace(spectrum, s=np.where(spectrum.s > noise, spectrum.s, 0))
    largest = V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])]
    signs = np.where(largest < 0, -1.0, 1.0).astype(V.dtype)
    signs[0] = -1.0 if V[:, 0].sum() < 0 else 1.0
    return replace(spectrum, U=_without_noise(U * signs), V=_without_noise(V * signs))


@by_rows
def _without_noise(F: np.ndarray) -> np.ndarray:
    """Entries of the leading column that are negative by rounding become zero; in place."""
    leading = F[:, 0]
    leading[(leading < 0) & (leading > -100.0 * float(np.finfo(F.dtype).eps))] = 0.0
    return F
