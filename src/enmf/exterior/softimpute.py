"""The exterior start of eNMC (paper, appendix "Exterior NMC algorithm"): softImpute-ALS, rotation, masked feasibility.

softImpute-ALS (Hastie, Mazumder, Lee and Zadeh 2015) finds a local minimum without the constraint. The missing
entries of X are filled with the current U Vᵀ; with Z = U Vᵀ + R that is ridge regression with one Gram matrix for all
rows:
    U <- Z V (VᵀV + p I)⁻¹ ,   V <- Zᵀ U (UᵀU + q I)⁻¹ ,   Z C = U (Vᵀ C) + R C
Weights enter by majorization: R is divided by the largest one.

Random numbers are drawn for the columns of X only, and U is updated first: permuting the rows of X permutes those of U
alike.

Rotation, being orthogonal, preserves U Vᵀ and the ridge, so it loses nothing. Feasibility then sees the observed
entries only: "path" (coordinate sweeps against a growing wall) or "penalty" (the paper's stage).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.exterior.feasibility import PenaltyStage, Projection, WallPath
from enmf.linalg.rotation import ROTATION_STARTS, Turning, rotate
from enmf.matrix.factor import clipped
from enmf.run.loop import Stage, run_stage
from enmf.run.method import Method
from enmf.run.options import Start
from enmf.run.trace import Phase as Cost
from enmf.solvers.adm import solve_rows
from enmf.starts.random import mean

if TYPE_CHECKING:
    from enmf.problem.problem import Problem
    from enmf.problem.state import State
    from enmf.run.options import Phase, RunOptions
    from enmf.run.walk import Walk

SPREAD = 0.1  # size of the random part of the first factors, relative to the constant part


@dataclass(frozen=True)
class SoftImpute(Method):
    """softImpute-ALS as a stage of the loop; it ends when the objective falls by less than the share `tol`."""

    tol: float = 1e-3

    needs = frozenset({"residual", "all rows"})

    def begin(self, state: State) -> list[float]:
        """The objectives so far."""
        return []

    def step(self, state: State, memory: list[float], objective: float) -> None:
        memory.append(objective)
        X: Any = state.X
        heaviest = X.heaviest()
        step = np.asarray(1.0 / heaviest, state.V.dtype)
        for half in state.halves:
            G = half.other.gram
            B = step * X.residual(half) + half.F @ G
            half.replace(solve_rows(G, B, half.penalty.per_row(len(half.F)) / heaviest))

    def finished(self, state: State, memory: list[float]) -> bool:
        return len(memory) > 1 and memory[-1] > (1.0 - self.tol) * memory[-2]


@dataclass(frozen=True)
class RowPath(WallPath):
    """Walls relative to the Gram matrix of each row, in fewer steps."""

    steps: int = 10

    clips = False


STAGES: dict[str, Method] = {"path": RowPath(), "penalty": PenaltyStage(), "projection": Projection()}


@dataclass(frozen=True)
class CompletionOptions:
    """Choices of the exterior phases of eNMC; the defaults performed best in measurements.

    Parameters
    ----------
    softimpute_iterations : int
    softimpute_tol : float
        Relative decrease of the objective below which softImpute-ALS ends.
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
        for name, allowed in (("rotation", ROTATION_STARTS), ("feasibility", tuple(STAGES))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {', '.join(map(repr, allowed))}")


@dataclass(frozen=True)
class CompletionStart(Start):
    """The start of eNMC: softImpute-ALS, rotation, feasibility."""

    options: CompletionOptions = field(default_factory=CompletionOptions)

    def phases(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        return [self.impute, self.rotate, self.enter]

    def impute(self, walk: Walk) -> None:
        costs = dict.fromkeys(("softimpute", "rotation", "feasibility", "descent"), Cost())
        walk.monitor.phases.update(costs)
        walk.begin_at(*_first_factors(walk.problem.X, walk.rank, walk.rng))
        stage = Stage("softimpute", self.options.softimpute_iterations)
        run_stage(walk.state, SoftImpute(self.options.softimpute_tol), walk.monitor, stage)

    def rotate(self, walk: Walk) -> None:
        with walk.monitor.phase("rotation") as counter:
            U, V = principal(walk.state.U, walk.state.V)
            how = Turning(self.options.rotation, self.options.rotation_iterations)
            walk.rotation = rotate(U, V, how, walk.rng, walk.monitor.out_of_time)
            counter.iterations = walk.rotation.iterations
        walk.state.replace(*(np.asfortranarray(F @ walk.rotation.R) for F in (U, V)))

    def enter(self, walk: Walk) -> None:
        assert walk.rotation is not None
        if not walk.rotation.nonnegative:
            stage = replace(STAGES[self.options.feasibility], **self.options.feasibility_options)
            run_stage(walk.state, stage, walk.monitor, Stage("feasibility"))
        for half in walk.state.halves:
            half.replace(clipped(half.F))


def _first_factors(X: Any, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A constant pair that fits the mean, and small random columns of V that softImpute turns into singular vectors."""
    size = np.sqrt(mean(X))
    U, V = np.zeros((X.shape[0], rank)), SPREAD * size * rng.standard_normal((X.shape[1], rank))
    U[:, 0], V[:, 0] = size, size
    return U.astype(X.dtype), V.astype(X.dtype)


def principal(U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same product as P diag(s) Qᵀ shared evenly: P sqrt(s), Q sqrt(s), each pair with a positive sum of cubes.

    The sign depends on the values alone; that of an SVD changes with the order of the rows.
    """
    P, left = np.linalg.qr(U.astype(np.float64))
    Q, right = np.linalg.qr(V.astype(np.float64))
    A, s, Bt = np.linalg.svd(left @ right.T, full_matrices=False)
    root = np.sqrt(s)
    beyond = ((0, 0), (0, U.shape[1] - len(s)))  # zero columns for a rank above min(n, m)
    U_new, V_new = np.pad(P @ (A * root), beyond), np.pad(Q @ (Bt.T * root), beyond)
    sign = np.where((U_new**3).sum(axis=0) + (V_new**3).sum(axis=0) < 0, -1.0, 1.0)
    return (sign * U_new).astype(U.dtype), (sign * V_new).astype(V.dtype)
