"""Components of everything a stream has kept: an exterior start, or a descent from known components, on the core

    A ~ Z Wᵀ      (Z: the weighted rows of the reservoir, W: the leading directions of the rows),

which takes no further look at the data, and neither more time nor memory however many rows it stands for.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from enmf.linalg.spectrum import Spectrum, default_oversampling, fix_signs, thin_svd
from enmf.matrix.lowrank import LowRankMatrix
from enmf.matrix.sweeps import solve_nnls
from enmf.parallel import matmul
from enmf.problem.problem import Problem
from enmf.run.stopping import Stopping
from enmf.stream.sums import Sums

if TYPE_CHECKING:
    from enmf.run.result import Result
    from enmf.stream.reservoir import Reservoir
    from enmf.stream.sketch import Sketch

MOST = 30  # iterations: the core stands for the data to a tenth of a percent, more would fit what it leaves out
FEW = 4  # iterations while further rows come, which move the components on: 4, 8 or 15 end alike
ROUNDS = 5  # over the rows of a translation of codes, at most
SETTLED = 1e-3  # largest change of a round, relative to the largest entry, after which no further one follows


class Learnt(NamedTuple):
    """Components with columns of norm 1 (or zero), and the sums for the codes of the core's rows."""

    V: np.ndarray
    sums: Sums
    error: float


class Effort(NamedTuple):
    """How the core is fitted."""

    known: np.ndarray | None  # components to descend from; None: an exterior start
    last: bool  # no rows follow at once: another minimum is worth a look
    seed: int


def learn_core(directions: Sketch, reservoir: Reservoir, squares: float, how: Effort) -> Learnt:
    """The components of the core; from known ones by descent alone, else by an exterior start."""
    from enmf.api.request import Request, solve  # it brings all methods: imported when the first rows are there

    W, Z, rank = directions.basis(), np.asfortranarray(reservoir.weighted()), directions.rank
    few = min(rank + default_oversampling(rank), Z.shape[1])
    A, B = np.asfortranarray(Z[:, :few]), np.asfortranarray(W[:, :few])
    problem = Problem(LowRankMatrix(A, B))
    enough = min(A.shape) >= min(rank, len(A), len(B))
    spectrum = _spectrum(A, B) if how.known is None and enough else None
    request = Request(
        stopping=Stopping(max_iter=MOST if how.last else FEW),
        init=None if how.known is None else (None, how.known),
        bound=False,
        random_state=how.seed,
        options={"restarts": int(how.last and how.known is None)},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about ranks above the number of rows, and descents that end early
        found: Result = solve(problem, rank, request, spectrum)
    U, V = np.maximum(found.U, 0.0), np.maximum(found.V, 0.0)
    size = np.linalg.norm(V, axis=0)
    alive = size > 0
    U, V = np.asfortranarray(U * size), np.asfortranarray(V / np.where(alive, size, 1.0))
    S = matmul(W, matmul(Z.T, U))
    return Learnt(V, Sums(squares, matmul(U.T, U), np.asfortranarray(np.maximum(S, 0.0))), found.error)


def core_error(directions: Sketch, reservoir: Reservoir, V: np.ndarray) -> float:
    """The error on the core of components as they are, with the best codes."""
    Z, Y = reservoir.weighted(), matmul(directions.basis().T, V)
    G, B = matmul(V.T, V), np.asfortranarray(matmul(Z, Y))
    U = solve_nnls(G, B)
    squared = float(np.vdot(Z, Z)) - 2.0 * float(np.vdot(U, B)) + float(np.vdot(matmul(U.T, U), G))
    return max(squared, 0.0) ** 0.5


def _spectrum(A: np.ndarray, B: np.ndarray) -> Spectrum:
    """The singular triplets of A Bᵀ, where B is orthonormal."""
    U, s, turn = thin_svd(A)
    return fix_signs(Spectrum(U, s, matmul(B, turn), float(np.vdot(s, s)), "exact"))


def matched(learnt: Learnt, old: np.ndarray) -> Learnt:
    """The same components in the order of the old ones that they resemble most."""
    from scipy.optimize import linear_sum_assignment

    size = np.linalg.norm(old, axis=0)
    cosines = matmul(old.T, learnt.V) / np.where(size > 0, size, 1.0)[:, None]
    order = linear_sum_assignment(-cosines)[1]
    sums = learnt.sums
    return learnt._replace(
        V=np.asfortranarray(learnt.V[:, order]),
        sums=Sums(sums.squares, sums.C[np.ix_(order, order)], np.asfortranarray(sums.S[:, order]), sums.units),
    )


def translation(codes: Sums, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """T >= 0 for which the codes U T of the new components have a small error, where U were those of the old ones.

    The sums give the squared error of U T exactly, a quadratic function of T: -2 <T, SᵀV> + <CTG, T>, G = VᵀV. Its rows
    are solved for in turn, from the T that expresses each old component by new ones, V_old ~ V_new Tᵀ.
    """
    G, target = matmul(new.T, new), matmul(codes.S.T, new)
    T = np.ascontiguousarray(solve_nnls(G, matmul(old.T, new)))
    for _ in range(ROUNDS):
        before = T.copy()
        for k in np.flatnonzero(np.diag(codes.C) > 0):
            rest = target[k] - (codes.C[k] @ T - codes.C[k, k] * T[k]) @ G
            T[k] = solve_nnls(G, rest[None] / codes.C[k, k])[0]
        if np.abs(T - before).max() <= SETTLED * T.max():
            break
    return T
