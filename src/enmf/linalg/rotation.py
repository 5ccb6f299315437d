"""Phase 2: rotate the unconstrained optimum toward the nonnegative orthant (paper, section 4.1, Algorithm 1).

    minimize  sum_ij h(Z_ij),  h(q) = max(0, -q)      subject to  Z = W R,  RᵀR = I,      W = [U*; V*]

by ADMM with the scaled dual Y (the paper's Y over rho):
    B = W R - Y ;  Z = B where B > 0, 0 where -1/rho <= B <= 0, B + 1/rho below        (eq. 7)
    R = C Dᵀ from the SVD  Wᵀ (Z + Y) = C S Dᵀ                                        (Procrustes)
    Y = Y + Z - W R
W is first divided by its mean absolute entry, so that rho is unit-free; rho follows the true residuals
||Z - W R|| and rho ||W R_new - W R||. The best R seen is returned, not the last.

On few rows the iterations run inside a kernel (`src/kernels/rotation.h`), which has an SVD of its own: between products
of microseconds, the interpreter would take most of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from enmf import parallel
from enmf.kernels import admm
from enmf.kernels import rotation as kernel

STAGNATION_WINDOW = 20  # iterations over which the negative mass must fall ...
STAGNATION_SHARE = 0.01  # ... by at least this share
UNEVEN, STEP = 10.0, 2.0  # ratio of the residuals above which rho changes, and its factor (Boyd et al. 2011, 3.4.1)
RHO_RANGE = 1e-3, 1e3  # beyond it one residual is rounding compared with the other
COARSE = 1e-5  # negative mass that single precision can distinguish from zero
NONE_NEGATIVE = 1e-13  # negative mass below this share of the total is rounding
TOGETHER = 20  # iterations in one call of the kernel: at most some milliseconds, after which limits are looked at


@dataclass(frozen=True)
class Rotation:
    """The rotation found, and how far it got."""

    R: np.ndarray  # r x r
    start: str
    iterations: int
    negative_mass_before: float  # negative share of sum |W| without rotation, in the sampled rows
    negative_mass: float  # the same for W R
    orthogonality_error: float  # ||RᵀR - I||_F

    @property
    def nonnegative(self) -> bool:
        return self.negative_mass <= NONE_NEGATIVE


class _Few:
    """One run of Algorithm 1 on few rows: Wᵀ is r x n, and the kernel iterates."""

    def __init__(self, Wt: np.ndarray, R: np.ndarray, how: Turning) -> None:
        self.Wt, self.rho, self.most = Wt, how.rho, how.max_iter
        self.WR, self.Y = np.empty_like(Wt), np.full_like(Wt, how.dual / how.rho)
        self.turns = np.empty((3, *R.shape))  # the last R, the best one, and right singular vectors
        self.turns[0] = R
        self.masses = np.empty(how.max_iter + 1)
        step = STEP if how.adapt else 1.0
        self.rules = np.array([UNEVEN, step, *RHO_RANGE, STAGNATION_SHARE, how.enough, STAGNATION_WINDOW])
        self.iterations, self.finished = 0, False
        self.advance(0)

    @staticmethod
    def suits(Wt: np.ndarray) -> bool:
        """Whether products are too small for several threads: larger ones, and their SVDs, are for BLAS."""
        return 2.0 * Wt.size * len(Wt) <= parallel.LEAST_WORK

    def advance(self, iterations: int = TOGETHER) -> None:
        start, stop = self.iterations, min(self.iterations + iterations, self.most)
        state = self.Wt, self.WR, self.Y, self.turns, self.masses
        self.iterations, self.rho = kernel.turn(start, stop, *state, self.rho, self.rules)
        self.finished = self.iterations < stop or self.iterations == self.most

    @property
    def best_R(self) -> np.ndarray:
        return self.turns[1].astype(self.Wt.dtype)

    @property
    def best_mass(self) -> float:
        return float(self.masses[: self.iterations + 1].min())


class _Admm:
    """One run of Algorithm 1 on many rows."""

    def __init__(self, W: np.ndarray, R: np.ndarray, how: Turning) -> None:
        self.W, self.R, self.rho, self.adapt = W, R, how.rho, how.adapt
        self.enough, self.most = how.enough, how.max_iter
        self.WR = parallel.matmul(W, R)
        self.Y = np.full_like(self.WR, how.dual / how.rho)
        self._Z, self._ZY, self._spare = (np.empty_like(self.WR) for _ in range(3))
        self._partial = np.empty((-(-self.WR.size // admm.CHUNK), 4))
        self.masses = [negative_share(self.WR)]
        self.best_R, self.best_mass = R, self.masses[0]

    @property
    def iterations(self) -> int:
        return len(self.masses) - 1

    def advance(self) -> None:
        bounds = parallel.even_bounds(self.WR.size, 20.0, admm.CHUNK)
        flat = [F.reshape(-1) for F in (self.WR, self.Y, self._Z, self._ZY)]
        parallel.run(admm.split, bounds, *flat, 1.0 / self.rho)
        self.R = procrustes(parallel.matmul(self.W.T, self._ZY)).astype(self.W.dtype, copy=False)
        before, self.WR = self.WR, parallel.matmul(self.W, self.R, out=self._spare)
        self._spare = before
        flat = [F.reshape(-1) for F in (self.WR, before, self.Y, self._Z)]
        parallel.run(admm.update_dual, bounds, *flat, self._partial)
        primal, moved, total, size = self._partial.sum(axis=0).tolist()
        if self.adapt:
            self._balance(math.sqrt(primal), self.rho * math.sqrt(moved))
        mass = (size - total) / (2.0 * size) if size > 0 else 0.0
        self.masses.append(mass)
        if mass < self.best_mass:
            self.best_R, self.best_mass = self.R, mass

    def _balance(self, primal: float, dual: float) -> None:
        factor = STEP if primal > UNEVEN * dual else 1.0 / STEP if dual > UNEVEN * primal else 1.0
        if factor != 1.0 and RHO_RANGE[0] < self.rho * factor < RHO_RANGE[1]:
            self.rho *= factor
            self.Y /= factor

    @property
    def finished(self) -> bool:
        if self.best_mass <= self.enough or self.iterations == self.most:
            return True
        if self.iterations < STAGNATION_WINDOW:
            return False
        earlier = min(self.masses[:-STAGNATION_WINDOW])
        return self.best_mass > (1.0 - STAGNATION_SHARE) * earlier


@dataclass(frozen=True)
class Turning:
    """Parameters of Algorithm 1.

    Parameters
    ----------
    start : {"identity", "spread", "random"}
        R of iteration 0; "random" is "spread" after a random rotation of the complement of the leading direction.
    max_iter : int
        Largest number of ADMM iterations.
    rho, adapt : float, bool
        Step of the augmented term for W of unit mean absolute entry, and whether it follows the residuals.
    dual : float
        Every entry of Y at iteration 0 (the paper's pseudo-code leaves it open; 0 is better on sparse data).
    enough : float
        Negative mass at which the iteration ends; it also decides whether factors in single precision are rotated in
        single precision.
    """

    start: str = "spread"
    max_iter: int = 100
    rho: float = 1.0
    adapt: bool = True
    dual: float = 0.0
    enough: float = NONE_NEGATIVE


USUAL = Turning()


def rotate(
    U: np.ndarray,
    V: np.ndarray,
    how: Turning = USUAL,
    rng: np.random.Generator | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Rotation:
    """Find R such that U R and V R have little negative mass.

    `rng` is for the start "random"; `stop` is called between iterations and can end them (time limit).
    """
    precision = U.dtype if how.enough >= COARSE else np.float64
    Wt = np.concatenate([U.T, V.T], axis=1, out=np.empty((U.shape[1], len(U) + len(V)), precision))
    scale = np.abs(Wt).mean()
    if scale > 0:
        Wt /= scale
    R = first_rotation(how.start, len(Wt), rng).astype(precision, copy=False)
    run = _Few(Wt, R, how) if _Few.suits(Wt) else _Admm(np.ascontiguousarray(Wt.T), R, how)
    while not run.finished and not stop():
        run.advance()
    R = run.best_R
    return Rotation(
        R=R.astype(U.dtype),
        start=how.start,
        iterations=run.iterations,
        negative_mass_before=negative_share(Wt),
        negative_mass=run.best_mass,
        orthogonality_error=float(np.linalg.norm(R.T @ R - np.eye(len(R)))),
    )


def negative_share(*factors: np.ndarray) -> float:
    """sum max(0, -W) / sum |W| over all rows of the factors."""
    total, plain = sum(np.abs(W).sum() for W in factors), sum(W.sum() for W in factors)
    return float((total - plain) / (2.0 * total)) if total > 0 else 0.0


def procrustes(M: np.ndarray) -> np.ndarray:
    """The orthogonal R that maximizes trace(Rᵀ M)."""
    C, _, Dt = parallel.lapack(np.linalg.svd, M.astype(np.float64, copy=False))  # eigenvectors of MᵀM take as long
    return C @ Dt


def spread(r: int) -> np.ndarray:
    """Householder reflection that sends the first coordinate direction to (1, ..., 1) / sqrt(r).

    The leading column of W is nonnegative and, on data dominated by their mean, large: spread over all columns it lifts
    every entry, often above zero at once.
    """
    normal = np.full(r, 1.0 / np.sqrt(r))
    normal[0] -= 1.0
    size = normal @ normal
    if size == 0.0:
        return np.eye(r)
    return np.eye(r) - 2.0 * np.outer(normal, normal) / size


ROTATION_STARTS = ("spread", "identity", "random")


def first_rotation(start: str, r: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """R of iteration 0, by name."""
    if start == "identity" or r == 1:
        return np.eye(r)
    if start == "spread":
        return spread(r)
    rng = rng or np.random.default_rng()
    turn = np.eye(r)
    turn[1:, 1:] = np.linalg.qr(rng.standard_normal((r - 1, r - 1)))[0]
    return turn @ spread(r)
