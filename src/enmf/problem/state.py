"""A pair of factors and what is known about it: the only thing that changes during a run.

A `State` has two halves, one per factor; each sees its own factor F and the other one, C. Products are computed on
first use and kept until a factor they depend on changes. So the product that a step needs next also serves the error
and the KKT residual of the previous step: measuring costs no pass over X.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.matrix.factor import arranged, column_inner, fortran
from enmf.matrix.sweeps import Sweep
from enmf.parallel import matmul

if TYPE_CHECKING:
    from enmf.matrix.sweeps import GradientMeasure
    from enmf.problem.problem import Problem, SidePenalty

SOLVED = 1e-12  # a factor is solved for when a sweep changes it by less than this share of the first sweep
MOST_SWEEPS = 10_000
APART = 1e12  # squared ratio of the column norms of a component above which they are balanced


class Half:
    """One side: its factor F (n x r, Fortran order), and the other half, whose factor is held fixed.

    `sweep` is the half-step, the primitive of most methods: it sweeps F in place. F is only changed through `sweep`,
    `replace` and `editing`, which discard whatever is outdated.
    """

    other: Half
    sweep: Callable[[Sweep], None]

    def __init__(self, problem: Problem, side: int, F: Any, joint: dict[Any, Any]) -> None:
        self.X, self.loss, self.side = problem.X, problem.loss, side
        self.penalty: SidePenalty = problem.penalty.of(side)
        self.F = F
        self.own: dict[str, Any] = {}  # what depends on F alone: gram = FᵀF, across = X F, and what X stores
        self.joint = joint  # what depends on both factors

    @property
    def gram(self) -> np.ndarray:
        """FᵀF  # r x r"""
        try:
            return self.own["gram"]
        except KeyError:
            self.own["gram"] = gram = matmul(self.F.T, self.F)
            return gram

    @property
    def knows_product(self) -> bool:
        return "across" in self.other.own

    @property
    def product(self) -> Any:
        """X C, or Xᵀ C for the columns  # n x r"""
        known = self.other.own
        try:
            return known["across"]
        except KeyError:
            known["across"], gram = self.X.product(self.side, self.other.F)
            if gram is not None:
                known["gram"] = gram
            return known["across"]

    def normal(self) -> tuple[np.ndarray, Any]:
        """G (r x r) and B (n x r) such that the gradient with respect to F is F G - B, penalty included."""
        B = self.product  # first: this may also yield CᵀC
        return self.penalty.normal(self.other.gram, B)

    def measure(self) -> GradientMeasure:
        """Sizes of the gradient with respect to F; measured once for a pair of factors."""
        key = "gradient", self.side
        if key not in self.joint:
            self.joint[key] = self.loss.measure(self)
        return self.joint[key]

    def changed(self, **known: Any) -> None:
        """F has changed in place; `known` is what is already known about the new one."""
        self.own.clear()
        self.joint.clear()
        self.own.update(known)

    def replace(self, F: Any) -> None:
        self.F = F
        self.changed()

    @contextmanager
    def editing(self) -> Iterator[np.ndarray]:
        """F, to be changed in place."""
        try:
            yield self.F
        finally:
            self.changed()

    def solve_by_sweeps(self) -> Any:
        """The optimal F for the other factor, by half-steps from F = 1."""
        self.replace(np.ones_like(self.F))
        self.sweep(Sweep(MOST_SWEEPS, SOLVED))
        return self.F

    def arrange(self, order: np.ndarray, scale: np.ndarray) -> None:
        """Reorder and scale the columns; known products follow."""
        scale = scale.astype(self.F.dtype)
        known = dict(self.own)
        self.replace(arranged(self.F, order, scale))
        for name, value in known.items():
            self.own[name] = (
                value[np.ix_(order, order)] * np.outer(scale, scale)
                if name == "gram"
                else arranged(value, order, scale)
            )


class State:
    """Factors U (n x r) and V (m x r) of a problem."""

    def __init__(self, problem: Problem, U: Any, V: Any) -> None:
        self.problem, self.X, self.penalized = problem, problem.X, bool(problem.penalty)
        self.joint: dict[Any, Any] = {}
        U, V = problem.X.own(U), np.asfortranarray(V, dtype=problem.X.dtype)
        rows, columns = (Half(problem, side, F, self.joint) for side, F in enumerate((U, V)))
        rows.other, columns.other = columns, rows
        self.halves = rows, columns
        for half in self.halves:
            half.sweep = problem.loss.sweeper(half)

    @property
    def U(self) -> Any:
        return self.halves[0].F

    @property
    def V(self) -> np.ndarray:
        return self.halves[1].F

    @property
    def rank(self) -> int:
        return self.V.shape[1]

    def replace(self, U: Any, V: Any) -> None:
        for half, F in zip(self.halves, (U, V)):
            half.replace(F)

    # What is measured -------------------------------------------------------------------------------------------------

    def value(self) -> float:
        """The loss, without penalty."""
        return self.problem.loss.value(self)

    def objective(self) -> float:
        """What is minimized: loss plus penalty."""
        return self.value() + self.problem.penalty.value(self)

    def error(self) -> float:
        return self.problem.loss.error(self.value())

    def accurate_error(self) -> float:
        """The error, accurate to all digits that a certificate prints."""
        return self.problem.loss.error(self.problem.loss.accurate_value(self))

    def rounding(self, value: float) -> float:
        """Size up to which differences from this value of the loss are rounding."""
        return self.problem.loss.rounding(self.X, value)

    def inner_with_X(self) -> np.ndarray:
        """<X, u_j v_jᵀ> of every component, over the observed entries."""
        return column_inner(self.halves[0].product, self.U)

    def kkt(self, fixed: str | None = None) -> float:
        """Norm of the projected gradient at column-balanced factors, scale-free: over ||X||^1.5 for the Frobenius norm.

        (U D, V D⁻¹) is the same solution for every positive diagonal D, but its gradient is not; balancing the columns,
        ||u_j|| = ||v_j||, picks one of them. A component with u_j = 0 and v_j = 0 has no gradient. One with only
        u_j = 0 has one: it is measured with ||v_j||² = ||X||, the size of a component that explains X. A penalty fixes
        the scale of the columns, so nothing is balanced then. A fixed factor has no condition.
        """
        loss = self.problem.loss
        mass = loss.mass(self.X)
        if mass == 0.0:
            return 0.0
        squares = [half.measure().squares * (fixed != name) for half, name in zip(self.halves, "UV")]
        if self.penalized:
            total = float(sum(of_one.sum() for of_one in squares))
        else:
            u, v = (np.sqrt(np.diag(half.gram).astype(np.float64)) for half in self.halves)
            size = loss.size(self.X)
            total = float(squares[0] @ _balancing(u, v, size) + squares[1] @ _balancing(v, u, size))
        return float(np.sqrt(total * loss.size(self.X)) / mass)

    # What changes nothing but the columns -----------------------------------------------------------------------------

    def arrange(self, order: np.ndarray, scale: np.ndarray) -> None:
        """Reorder the columns, multiply those of U by `scale` and divide those of V by it, known products included."""
        for half, factor in zip(self.halves, (scale, 1.0 / scale)):
            half.arrange(order, factor[order])

    def balance(self, sort: bool = True, clear: bool = True) -> None:
        """Make ||u_j|| = ||v_j||, largest first; `clear` makes a component with one zero column zero in both."""
        u, v = (np.sqrt(np.diag(half.gram).astype(np.float64)) for half in self.halves)
        alive = (u > 0) & (v > 0)
        if clear and not alive.all():
            self.replace(fortran(self.U * alive), np.asfortranarray(np.where(alive, self.V, 0)))
        order = np.argsort(-np.where(alive, u * v, 0.0), kind="stable") if sort else np.arange(self.rank)
        scale = np.ones(self.rank)
        np.sqrt(np.divide(v, u, out=scale, where=alive), out=scale)
        self.arrange(order, scale)

    def sort(self) -> None:
        """Sort the components, largest first."""
        u, v = (np.diag(half.gram).astype(np.float64) for half in self.halves)
        self.arrange(np.argsort(-np.sqrt(u * v), kind="stable"), np.ones(self.rank))

    def even_out(self) -> bool:
        """Balance components whose column norms are far apart, by exact powers of two; returns whether any were.

        The column norms of a superfluous component can diverge by a factor of 10⁸ per step until they overflow. A
        penalty already fixes their scale.
        """
        u, v = (half.gram.diagonal() for half in self.halves)
        if self.penalized or ((u <= APART * v).all() and (v <= APART * u).all()):  # usually: a few microseconds
            return False
        u, v = u.astype(np.float64), v.astype(np.float64)
        apart = (u > 0) & (v > 0) & ((u > APART * v) | (v > APART * u))
        if not apart.any():
            return False
        exponent = np.zeros(len(u))
        exponent[apart] = np.round((np.log2(v[apart]) - np.log2(u[apart])) / 4.0)
        self.arrange(np.arange(self.rank), 2.0**exponent)
        return True


def _balancing(own: np.ndarray, other: np.ndarray, size: float) -> np.ndarray:
    """Squared factors from the gradient at columns of norm `own` to that at balanced ones; 0 for (0, 0)."""
    lone = np.where(own > 0, own, np.divide(size, other, out=np.zeros_like(own), where=other > 0))
    return np.divide(lone, other, out=np.zeros_like(own), where=other > 0)


def best_pair(problem: Problem, H: np.ndarray) -> tuple[Any, np.ndarray]:
    """argmin over U >= 0 of loss plus penalty for V = Hᵀ, and V, both in the units of the problem."""
    X = problem.X
    V = np.asfortranarray(H.T.astype(X.dtype) / problem.units.factor(X.dtype))
    return problem.loss.solve(State(problem, X.zeros(len(H)), V).halves[0]), V


def best_U(problem: Problem, H: np.ndarray) -> Any:
    """argmin over U >= 0 of loss plus penalty for V = Hᵀ, in the user's units."""
    U, _ = best_pair(problem, H)
    return problem.X.public(U * problem.units.factor(problem.X.dtype))
