"""Leading singular triplets of a matrix, what they prove, and the tuned numbers of their computation.

All ways to compute them need bases and SVDs of tall, thin blocks: from Gram matrices where these keep the digits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from enmf.matrix.base import Matrix
from enmf.matrix.factor import by_rows, fortran, in_double
from enmf.parallel import lapack, matmul

KINDS = ("auto", "exact", "krylov", "randomized")
ROUNDING = 64 * np.finfo(np.float64).eps  # of ||X||², in eigenvalues; sums of n terms have up to n units more


@dataclass(frozen=True)
class SvdPolicy:
    """Every tuned number of singular value decompositions; above each, its reason and its lesson in docs/lessons."""

    # times the cost of an iterative SVD with its bound that an exact one may have (svd.md#exact-side)
    exact_for: float = 1.0
    # flops of all eigenvectors over the cube of the side, in those of products (svd.md#exact-side)
    eigenvectors: float = 8.0
    # passes of `rank` columns of an iterative SVD and its bound (svd.md#exact-side)
    iterative_passes: float = 26.0
    # flops of an exact SVD that always has its price: some milliseconds (svd.md#exact-side)
    exact_flops: float = 1e8
    # triplets beyond the rank: fewer make the randomized subspace miss the last ones (svd.md#oversampling)
    least_oversampling: int = 10
    # more triplets do not change which starts are good, and each costs a column per pass (svd.md#oversampling)
    most_oversampling: int = 40
    # rows per column of the sample that starts a randomized SVD: worth two passes (svd.md#sampled-start)
    sampled_rows: int = 8
    # share of the error that `refine` may leave to later steps when it gives a first spectrum (svd.md#krylov)
    rough: float = 8e-4
    # the last step of `refine` gains less than this: the share that "global_optimum" allows (svd.md#krylov)
    refined: float = 1e-6
    # columns of the basis of `refine`, in widths: beyond, reorthogonalization costs more (svd.md#krylov-block)
    largest_basis: int = 7
    # columns of a block of `refine`: wider ones need fewer reads but many more columns (svd.md#krylov-block)
    most_block: int = 128
    # least over largest singular value of a block whose squares keep enough digits (svd.md#gram-digits)
    well_conditioned: float = 1e-3
    # they improve a randomized SVD before it gives a bound (svd.md#bound-failure)
    bound_power_iterations: int = 3
    # independent starts of the norm estimate (svd.md#bound-failure)
    norm_block: int = 8
    # Lanczos steps of the norm estimate (svd.md#bound-failure)
    norm_steps: int = 8
    # probability that the bound of an iterative SVD is too high (svd.md#bound-failure)
    failure: float = 1e-9


MEASURED = SvdPolicy()


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


def default_oversampling(rank: int, policy: SvdPolicy = MEASURED) -> int:
    """Triplets beyond the rank, for the surrogate matrix and the bound."""
    return max(policy.least_oversampling, min(rank, policy.most_oversampling))


def choose_kind(
    X: Matrix, rank: int, kind: str = "auto", oversampling: int | None = None, policy: SvdPolicy = MEASURED
) -> tuple[str, int]:
    """The kind of SVD that "auto" stands for, by their costs, and the number of its triplets."""
    side = min(X.shape)
    extra = default_oversampling(rank, policy) if oversampling is None else oversampling
    width = min(rank + extra, side)
    if kind == "auto":
        exact = policy.eigenvectors * side**3 + 0.5 * side * X.cost_per_column
        iterative = policy.iterative_passes * rank * X.cost_per_column
        kind = "exact" if exact <= max(policy.exact_for * iterative, policy.exact_flops) else "randomized"
    if kind != "exact" and width >= side - 1:
        kind = "exact"  # an iterative SVD would span the whole space
    return kind, width


def rounding_of(X: Matrix) -> float:
    """Rounding of sums over a side of X in double precision. Equal terms round alike, so errors may add up."""
    return ROUNDING + max(X.shape) * float(np.finfo(np.float64).eps)


def remainders(sums: np.ndarray, whole: float, rounding: float) -> np.ndarray:
    """sqrt(whole - sums), less a margin for rounding."""
    return np.sqrt(np.maximum(whole - sums - rounding * whole, 0.0))


def fix_signs(spectrum: Spectrum) -> Spectrum:
    """Make the leading pair nonnegative (Perron-Frobenius) and the largest entry of every other v positive; singular
    values that are rounding become zero, as their vectors are arbitrary."""
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
    """Set entries of the leading column that are negative by rounding to zero; in place."""
    leading = F[:, 0]
    leading[(leading < 0) & (leading > -100.0 * float(np.finfo(F.dtype).eps))] = 0.0
    return F


LOST = 1e-12  # least over largest eigenvalue of a Gram matrix below which it has lost the digits of the singular values
FULL = 1e-5  # ratio above which its singular vectors are orthonormal to working precision


def thin_svd(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Y = U diag(s) Tᵀ for a tall Y: from its Gram matrix if that keeps the digits, else from LAPACK."""
    tall = in_double(Y)
    found = _svd_by_gram(Y, tall)
    if found is None:
        U, s, Tt = tall.svd() if hasattr(tall, "svd") else lapack(full_svd, tall)
        found = U, s, Tt.T
    U, s, T = (F.astype(Y.dtype, copy=False) for F in found)
    return U, s, T


def _svd_by_gram(Y: np.ndarray, tall: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """U, s, Tᵀ from the Gram matrix; `tall` is Y in double precision, needed only for it if Y is well conditioned."""
    values, T = lapack(np.linalg.eigh, matmul(tall.T, tall))
    values, T = values[::-1], T[:, ::-1]
    if len(values) == 0 or values[-1] <= LOST * values[0]:
        return None  # squared singular values have lost their digits
    s = np.sqrt(values)
    if values[-1] >= FULL * values[0]:
        return matmul(Y, (T / s).astype(Y.dtype, copy=False)), s, T
    # orthonormal to a few digits only: repeat, and combine both rotations
    U = matmul(tall, T / s)
    again = np.linalg.cholesky(matmul(U.T, U))
    U = matmul(U, np.linalg.inv(again).T)
    left, s, right = lapack(np.linalg.svd, again.T @ (s[:, None] * T.T))
    return matmul(U, left), s, right.T


def full_svd(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.linalg.svd(A, full_matrices=False)


def orthonormal(Y: np.ndarray) -> np.ndarray:
    return lapack(np.linalg.qr, Y)[0]


def orthonormal_beside(known: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """An orthonormal basis of Y (overwritten) without its part in the orthonormal `known`.

    If only rounding is left of Y, as for X of low rank, meaningless directions take its place: they must still be
    orthogonal, or singular values would be counted twice.
    """
    size = float(np.sqrt(np.einsum("ij,ij->", Y, Y, dtype=np.float64)))  # squares may leave the range of float32
    for _ in range(2):
        Y -= matmul(known, matmul(known.T, Y))
    Q, R = lapack(np.linalg.qr, Y)
    if np.abs(np.diag(R)).min() > np.sqrt(np.finfo(Y.dtype).eps) * size:
        return Q
    for _ in range(2):
        Q = orthonormal(Q - matmul(known, matmul(known.T, Q)))
    return Q
