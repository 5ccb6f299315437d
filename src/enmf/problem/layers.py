"""Penalties of the layers u_k v_kᵀ, which do not depend on how a layer is split into u_k and v_k.

A penalty of V alone can be escaped: V becomes small and U large. Penalties of layers cannot, and leave the scale of the
columns open. With d_ke the difference of v_k at two neighbouring features e (on a line, or on a grid):

    smooth              lambda/2 sum_k sum_e ||u_k||² d_ke²                  squared differences of all layers
    total variation     lambda sum_k sum_e (sqrt(||u_k||² d_ke² + epsilon²) - epsilon)

    guide               lambda sum_k sum_i sum_j u_ik v_jk       over features j that are proposed for other components

total variation is rounded at epsilon, below which a difference counts as none. The first two are phi(q) with
q = ||u_k||² d_ke² and a concave phi, so that for w_ke = 2 phi'(q) at the current factors
    1/2 sum_k sum_e w_ke ||u_k||² d_ke²
lies above the penalty and touches it: to lower the loss plus this sum lowers the loss plus the penalty. It adds
sum_e w_ke d_ke² to the diagonal of VᵀV for U; for v_k it is a quadratic with a banded matrix, which is minimized
exactly (`enmf.linalg.obstacle`), one component after another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from enmf.linalg.obstacle import Obstacle
from enmf.matrix.sweeps import Sweep, extrapolate

MOST_SWEEPS = 1  # of V: one of them costs more than a product with X


@dataclass(frozen=True, eq=False)
class Smooth:
    """A penalty of the differences of neighbouring features; `rounding` is epsilon, None for squared differences."""

    weight: float
    grid: tuple[int, ...]  # lengths of the axes of the features, the last one runs fastest
    rounding: float | None = None

    @cached_property
    def axes(self) -> dict[int, np.ndarray]:
        """For each axis its stride s, and where entry i has the neighbour i + s."""
        index = np.arange(math.prod(self.grid)).reshape(self.grid)
        found = {}
        for axis, length in enumerate(self.grid):
            if length > 1:
                first = np.zeros(index.size, dtype=bool)
                first[np.delete(index, -1, axis).ravel()] = True
                stride = math.prod(self.grid[axis + 1 :])
                found[stride] = first[: index.size - stride]
        return found

    def differences(self, V: np.ndarray) -> dict[int, np.ndarray]:
        """d_ke by stride, zero where there is no neighbour."""
        return {stride: np.where(there[:, None], V[stride:] - V[:-stride], 0.0) for stride, there in self.axes.items()}

    def curvatures(self, V: np.ndarray, squares: np.ndarray) -> dict[int, np.ndarray]:
        """w_ke by stride, from V and ||u_k||², zero where there is no neighbour."""
        found = {}
        for stride, there in self.axes.items():
            w = np.full((len(there), V.shape[1]), self.weight)
            if self.rounding is not None:
                w /= np.sqrt(squares * (V[stride:] - V[:-stride]) ** 2 + self.rounding**2)
            found[stride] = np.where(there[:, None], w, 0.0)
        return found

    def value(self, state: Any) -> float:
        V, squares = _exact(state.V), _squares(state.halves[0])
        total = 0.0
        for d in self.differences(V).values():
            q = squares * d**2
            if self.rounding is None:
                total += 0.5 * float(q.sum())
            else:
                total += float((q / (np.sqrt(q + self.rounding**2) + self.rounding)).sum())
        return self.weight * total

    def for_rows(self, half: Any) -> np.ndarray:
        """What the diagonal of VᵀV gains  # r"""
        V = _exact(half.other.F)
        d, w = self.differences(V), self.curvatures(V, _squares(half))
        return sum(((w[stride] * d[stride] ** 2).sum(axis=0) for stride in d), np.zeros(V.shape[1]))

    def gradient(self, half: Any) -> np.ndarray:
        """The gradient with respect to V  # m x r"""
        V, squares = _exact(half.F), _squares(half.other)
        out = np.zeros_like(V)
        d, w = self.differences(V), self.curvatures(V, squares)
        for stride in d:
            push = squares * w[stride] * d[stride]
            out[stride:] += push
            out[:-stride] -= push
        return out

    def sweep(self, half: Any, how: Sweep) -> None:
        """Sweeps of V: the best v_k for the others, one component after another."""
        (G, B), F = half.normal(), half.F
        G, B, V, squares = _exact(G), _exact(B), _exact(F), _squares(half.other)
        first = math.inf
        for sweep in range(min(how.sweeps, MOST_SWEEPS)):
            before = V.copy()
            for k in np.flatnonzero(squares > 0.0):
                c = B[:, k] - V @ G[:, k] + G[k, k] * V[:, k]
                V[:, k] = self._best(V[:, k], c, float(G[k, k]), float(squares[k]))
            change = float(np.linalg.norm(V - before))
            first = change if sweep == 0 else first
            if change <= how.progress * first:
                break
        F[...] = V
        if how.momentum is not None:
            extrapolate(F, how.momentum)
        half.changed()

    def _best(self, v: np.ndarray, c: np.ndarray, g: float, square: float) -> np.ndarray:
        """argmin over v >= 0 of g/2 ||v||² - cᵀ v + what lies above the penalty at v; v itself if nothing is lower."""
        curvatures = self.curvatures(v[:, None], np.array([square]))
        problem = Obstacle(g, {stride: square * w[:, 0] for stride, w in curvatures.items()}, c)
        new = problem.solve(v > 0.0 if v.any() else c > 0.0)
        return new if problem.value(new) < problem.value(v) else v


@dataclass(frozen=True)
class Guided:
    """What became of one guide.

    Attributes
    ----------
    name : str
    component : int
        Number of the component that the features were proposed for.
    features : tuple of int
        Columns of X.
    inside : tuple of int
        Those of them that this component explains more of than any other one.
    explained : float
        Share of the model U Vᵀ of these features that this component makes up.
    share : float
        Share of the component, sum(v_k), that these features make up.
    """

    name: str
    component: int
    features: tuple[int, ...]
    inside: tuple[int, ...]
    explained: float
    share: float

    def __str__(self) -> str:
        kept = f"{len(self.inside)} of {len(self.features)} features"
        return f"{self.name}: {kept}, {100 * self.explained:.0f} % of them, {100 * self.share:.0f} % of the component"


@dataclass(frozen=True, eq=False)
class Guide:
    """The penalty that keeps guided features out of other components; component k is that of the k-th set."""

    weight: float
    names: tuple[str, ...]
    features: tuple[tuple[int, ...], ...]
    elsewhere: np.ndarray  # m x r, 1 where a component would explain features of another one

    def value(self, state: Any) -> float:
        return float(self.for_rows(state.halves[0]) @ state.U.sum(axis=0, dtype=np.float64))

    def for_rows(self, half: Any) -> np.ndarray:
        """The gradient with respect to each row of U  # r"""
        return self.weight * np.einsum("jk,jk->k", self.elsewhere, half.other.F, dtype=np.float64)

    def for_columns(self, half: Any) -> np.ndarray:
        """The gradient with respect to V  # m x r"""
        return self.weight * self.elsewhere * half.other.F.sum(axis=0, dtype=np.float64)

    def outcome(self, U: np.ndarray, V: np.ndarray) -> tuple[Guided, ...]:
        """What became of every guide."""
        model = V.astype(np.float64) * U.sum(axis=0, dtype=np.float64)  # sum over the rows of each layer
        found = []
        for k, (name, features) in enumerate(zip(self.names, self.features)):
            part = model[list(features)]
            inside = tuple(j for j, row in zip(features, part) if row[k] > 0 and row[k] >= row.max())
            whole, of_component = float(part.sum()), float(model[:, k].sum())
            own = float(part[:, k].sum())
            shares = (own / whole if whole > 0 else 0.0, own / of_component if of_component > 0 else 0.0)
            found.append(Guided(name, k, features, inside, *shares))
        return tuple(found)


def _exact(F: np.ndarray) -> np.ndarray:
    """A copy in double precision, in Fortran order."""
    return np.array(F, dtype=np.float64, order="F")


def _squares(half: Any) -> np.ndarray:
    """||f_k||² of every column."""
    return np.diag(half.gram).astype(np.float64)
