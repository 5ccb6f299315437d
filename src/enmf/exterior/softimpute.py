"""The exterior start of eNMC (paper, appendix "Exterior NMC algorithm"): softImpute-ALS, rotation, masked feasibility.

softImpute-ALS (Hastie, Mazumder, Lee and Zadeh 2015) finds a local minimum without the constraint. The missing
entries of X are filled with the current U Vᵀ; with Z = U Vᵀ + R that is ridge regression with one Gram matrix for all
rows:
    U <- Z V (VᵀV + p I)⁻¹ ,   V <- Zᵀ U (UᵀU + q I)⁻¹ ,   Z C = U (Vᵀ C) + R C
Weights enter as in majorization: R is divided by the largest one.

Random numbers are drawn for the columns of X only, and U is updated first: the rows of X may come in any order, and
those of U come in the same.

Rotation keeps U Vᵀ and the ridge (it is orthogonal), so nothing is lost by it. Feasibility then sees the observed
entries only: "path" (coordinate sweeps against a growing wall) or "penalty" (the paper's stage).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from enmf.exterior.feasibility import Path, Penalty, Projection, _raise_negatives
from enmf.linalg.rotation import STARTS, Rotation, rotate
from enmf.matrix.masked import MaskedMatrix
from enmf.problem.masked import MaskedIterate, Ridge
from enmf.problem.state import Iterate
from enmf.run.loop import run_stage
from enmf.run.method import Method
from enmf.run.stopping import Monitor
from enmf.solvers.masked import masked, solve_rows

SPREAD = 0.1  # size of the random part of the first factors, relative to the constant part


class SoftImpute(Method):
    """softImpute-ALS as a stage of the loop; it ends when the objective falls by less than `tol` of itself."""

    name = "softimpute"

    def __init__(self, tol: float = 1e-3) -> None:
        self.tol = tol
        self._last = np.inf
        self._done = False

    def step(self, it: Iterate, objective: float) -> None:
        it = masked(it)
        objective += it.squared_penalty()
        self._done = objective > (1.0 - self.tol) * self._last
        self._last = objective
        heaviest = float(max(it.X.rows.weights.max(initial=0.0), 1.0))
        step = np.asarray(1.0 / heaviest, it.U.dtype)
        it.set_U(solve_rows(it.VtV, step * it.RV + it.U @ it.VtV, it.penalty.rows / heaviest))
        it.set_V(solve_rows(it.UtU, step * it.RtU + it.V @ it.UtU, it.penalty.columns / heaviest))

    def finished(self, it: Iterate) -> bool:
        return self._done


class MaskedPath(Path):
    """Coordinate sweeps against a wall that grows from soft to hard, each row relative to its own Gram matrix."""

    def __init__(self, steps: int = 10, softest: float = 1e-3, hardest: float = 1e2) -> None:
        super().__init__(steps, softest, hardest)

    def step(self, it: Iterate, objective: float) -> None:
        it = masked(it)
        wall = float(self.walls[self._done])
        self._done += 1
        it.sweep_U(wall=wall)
        it.sweep_V(wall=wall)


class MaskedPenalty(Penalty):
    """The paper's penalty stage with masked gradients and masked line search."""

    def step(self, it: Iterate, objective: float) -> None:
        it = masked(it)
        if self._stride_U is None or self._stride_V is None:
            self._stride_U, self._stride_V = (max(-float(F.min()), 0.0) / self.steps for F in (it.U, it.V))
        _raise_negatives(it.U, self._stride_U)
        it.row_steps_U(self.inner, self.epsilon)
        _raise_negatives(it.V, self._stride_V)
        it.row_steps_V(self.inner, self.epsilon)


STAGES: dict[str, Callable[..., Method]] = {"path": MaskedPath, "penalty": MaskedPenalty, "projection": Projection}


@dataclass(frozen=True)
class CompletionOptions:
    """Choices of the exterior phases of eNMC; the defaults measured best.

    Parameters
    ----------
    softimpute_iterations : int
    softimpute_tol : float
        Relative fall of the objective at which softImpute-ALS ends.
    rotation : {"spread", "identity", "random"}
        Start of Algorithm 1.
    rotation_iterations : int
    feasibility : {"path", "penalty", "projection"}
    feasibility_options : dict
        Passed to the stage, see `enmf.exterior.feasibility`.
    """

    softimpute_iterations: int = 5
    softimpute_tol: float = 1e-3
    rotation: str = "spread"
    rotation_iterations: int = 30
    feasibility: str = "path"
    feasibility_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, allowed in (("rotation", STARTS), ("feasibility", tuple(STAGES))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {', '.join(map(repr, allowed))}")


def exterior_start(
    X: MaskedMatrix, rank: int, ridge: Ridge, options: CompletionOptions, monitor: Monitor, rng: np.random.Generator
) -> tuple[MaskedIterate, Rotation]:
    """Nonnegative factors after softImpute-ALS, rotation and feasibility."""
    it = MaskedIterate(X, *_first_factors(X, rank, rng), ridge)
    soft = SoftImpute(options.softimpute_tol)
    run_stage(it, soft, monitor, phase="softimpute", max_iter=options.softimpute_iterations)
    with monitor.phase("rotation") as counter:
        U, V = principal(it.U, it.V)
        rotation = rotate(
            U,
            V,
            start=options.rotation,
            max_iter=options.rotation_iterations,
            rng=rng,
            stop=monitor.out_of_time,
        )
        counter.iterations = rotation.iterations
    it.set_U(np.asfortranarray(U @ rotation.R))
    it.set_V(np.asfortranarray(V @ rotation.R))
    if not rotation.nonnegative:
        stage = STAGES[options.feasibility](**options.feasibility_options)
        run_stage(it, stage, monitor, phase="feasibility", max_iter=10_000)
    it.set_U(np.asfortranarray(np.maximum(it.U, 0)))
    it.set_V(np.asfortranarray(np.maximum(it.V, 0)))
    return it, rotation


def random_start(X: MaskedMatrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """V uniform and U constant (all methods update it first), scaled such that U Vᵀ has the mean of the entries."""
    size = np.sqrt(mean(X) / rank)
    V = 2.0 * size * rng.random((X.shape[1], rank))
    return np.full((X.shape[0], rank), size, X.dtype, order="F"), np.asfortranarray(V, dtype=X.dtype)


def mean(X: MaskedMatrix) -> float:
    """Weighted mean of the observed entries."""
    ones = np.ones((X.shape[1], 1), X.dtype)
    passes = X.passes
    total = float(X.times(ones).sum(dtype=np.float64))
    X.passes = passes
    return total / float(X.rows.totals.sum())


def _first_factors(X: MaskedMatrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A constant pair that fits the mean, and small random columns of V that softImpute turns into singular vectors."""
    size = np.sqrt(mean(X))
    U, V = np.zeros((X.shape[0], rank)), SPREAD * size * rng.standard_normal((X.shape[1], rank))
    U[:, 0], V[:, 0] = size, size
    return U.astype(X.dtype), V.astype(X.dtype)


def principal(U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same product as P diag(s) Qᵀ shared evenly: P sqrt(s), Q sqrt(s), each pair with a positive sum of cubes.

    A sign by the values alone: that of an SVD changes with the order of the rows.
    """
    P, left = np.linalg.qr(U.astype(np.float64))
    Q, right = np.linalg.qr(V.astype(np.float64))
    A, s, Bt = np.linalg.svd(left @ right.T, full_matrices=False)
    root = np.sqrt(s)
    beyond = ((0, 0), (0, U.shape[1] - len(s)))  # a rank above the sides of X has zero columns
    U_new, V_new = np.pad(P @ (A * root), beyond), np.pad(Q @ (Bt.T * root), beyond)
    sign = np.where((U_new**3).sum(axis=0) + (V_new**3).sum(axis=0) < 0, -1.0, 1.0)
    return (sign * U_new).astype(U.dtype), (sign * V_new).astype(V.dtype)
