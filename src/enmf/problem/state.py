"""A pair of factors and what is known about it: the only thing that changes during a run.

A `State` has two halves, one per factor; each sees its own factor F and the other one, C. Products are computed on
first use and kept until a factor they depend on changes. So the product that a step needs next also serves the error
and the KKT residual of the previous step: measuring costs no pass over X.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.matrix.factor import arranged, column_inner, fortran, in_double
from enmf.matrix.sweeps import Sweep, product_then_sweep
from enmf.parallel import matmul

if TYPE_CHECKING:
    from enmf.matrix.sweeps import GradientMeasure
    from enmf.problem.problem import Problem, SidePenalty
    from enmf.problem.structure import Side

SOLVED = 1e-12  # a factor is solved for when a sweep changes it by less than this share of the first sweep
MOST_SWEEPS = 10_000


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
        self.smooth, self.guide = problem.penalty.smooth, problem.penalty.guide
        self.known: Side | None = problem.structure.of(side)
        self.F = F
        self.own: dict[str, Any] = {}  # what depends on F alone: gram = FᵀF, across = X F, and what X stores
        self.joint = joint  # what depends on both factors

    @property
    def signed(self) -> bool:
        """Whether F may be negative."""
        return self.known is not None and self.known.signed

    @property
    def gram(self) -> np.ndarray:
        """FᵀF  # r x r"""
        try:
            return self.own["gram"]
        except KeyError:
            self.own["gram"] = gram = matmul(self.F.T, self.F)
            return gram

    @property
    def exact_gram(self) -> np.ndarray:
        """FᵀF in double precision."""
        if "exact gram" not in self.own:
            F = in_double(self.F)
            self.own["exact gram"] = matmul(F.T, F)
        return self.own["exact gram"]

    @property
    def knows_product(self) -> bool:
        return "across" in self.other.own

    @property
    def product(self) -> Any:
        """X C, or Xᵀ C for the columns; negative where F is known to be zero  # n x r"""
        known = self.other.own
        try:
            return known["across"]
        except KeyError:
            known["across"], gram = self.X.product(self.side, self.other.F)
            if gram is not None:
                known["gram"] = gram
            if self.known is not None:
                known["across"] = self.known.barred(known["across"])
            return known["across"]

    def normal(self) -> tuple[np.ndarray, Any]:
        """G (r x r) and B (n x r) such that the gradient with respect to F is F G - B, penalty included.

        Without what couples the rows of V: `gradient` has that too.
        """
        B = self.product  # first: this may also yield CᵀC
        G, B = self.penalty.normal(self.other.gram, B)
        if self.smooth is not None and self.side == 0:
            G = G + np.diag(self.smooth.for_rows(self)).astype(G.dtype)
        if self.guide is not None:
            push = self.guide.for_columns(self) if self.side else self.guide.for_rows(self)
            B = np.asfortranarray(B - push.astype(B.dtype))
        return G, B

    def gradient(self) -> tuple[np.ndarray, Any]:
        """G and B such that the gradient with respect to F is F G - B at this F, all of the penalty included."""
        G, B = self.normal()
        if self.smooth is not None and self.side == 1:
            B = np.asfortranarray(B - self.smooth.gradient(self).astype(B.dtype))
        return G, B

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
                if name.endswith("gram")
                else arranged(value, order, scale)
            )


class State:
    """Factors U (n x r) and V (m x r) of a problem."""

    apart = 1e12  # squared ratio of the column norms of a component above which they are balanced

    def __init__(self, problem: Problem, U: Any, V: Any) -> None:
        self.problem, self.X, self.penalized = problem, problem.X, bool(problem.penalty)
        self.fixes_scale = problem.fixes_scale
        self.joint: dict[Any, Any] = {}
        U, V = problem.X.own(U), np.asfortranarray(V, dtype=problem.X.dtype)
        rows, columns = (Half(problem, side, F, self.joint) for side, F in enumerate((U, V)))
        rows.other, columns.other = columns, rows
        self.halves = rows, columns
        for half in self.halves:
            half.sweep = _layered_sweeper(half) if problem.penalty.layered else problem.loss.sweeper(half)

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
        u_j = 0 has one: it is measured with ||v_j||² = ||X||, the size of a component that explains X. If a penalty
        fixes the scale of the columns, nothing is balanced. A fixed factor has no condition.
        """
        loss = self.problem.loss
        mass = loss.mass(self.X)
        if mass == 0.0:
            return 0.0
        squares = [half.measure().squares * (fixed != name) for half, name in zip(self.halves, "UV")]
        if self.problem.penalty.fixes_scale:
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
        alive, movable = (u > 0) & (v > 0), self.problem.structure.movable(self.rank)
        dead = ~alive & movable
        if clear and dead.any():
            self.replace(fortran(self.U * ~dead), np.asfortranarray(np.where(dead, 0, self.V)))
        order = self._order(np.where(alive, u * v, 0.0)) if sort else np.arange(self.rank)
        scale = np.ones(self.rank)
        np.sqrt(np.divide(v, u, out=scale, where=alive & movable), out=scale)
        self.arrange(order, scale)

    def _order(self, sizes: np.ndarray) -> np.ndarray:
        """Largest component first; those that are known, by columns, zeros or a guide, keep their places."""
        structure, guide = self.problem.structure, self.problem.penalty.guide
        if structure.named:
            return np.arange(self.rank)
        if guide is not None:
            sizes = np.where(np.arange(self.rank) < len(guide.names), np.inf, sizes)
        return np.argsort(-np.where(structure.movable(self.rank), sizes, np.inf), kind="stable")

    def sort(self) -> None:
        """Sort the components, largest first."""
        u, v = (np.diag(half.gram).astype(np.float64) for half in self.halves)
        self.arrange(self._order(np.sqrt(u * v)), np.ones(self.rank))

    def even_out(self) -> bool:
        """Balance components whose column norms are far apart, by exact powers of two; returns whether any were.

        The column norms of a superfluous component can diverge by a factor of 10⁸ per step until they overflow. A
        penalty, or the sums of rows, may already fix their scale.
        """
        u, v = (half.gram.diagonal() for half in self.halves)
        if self.fixes_scale or (
            (u <= self.apart * v).all() and (v <= self.apart * u).all()
        ):  # usually: a few microseconds
            return False
        u, v = u.astype(np.float64), v.astype(np.float64)
        apart = (
            (u > 0)
            & (v > 0)
            & ((u > self.apart * v) | (v > self.apart * u))
            & self.problem.structure.movable(self.rank)
        )
        if not apart.any():
            return False
        exponent = np.zeros(len(u))
        exponent[apart] = np.round((np.log2(v[apart]) - np.log2(u[apart])) / 4.0)
        self.arrange(np.arange(self.rank), 2.0**exponent)
        return True


def _layered_sweeper(half: Half) -> Callable[[Sweep], None]:
    """The half-step, for squares, with penalties of the layers."""
    smoothing = half.smooth is not None and half.side == 1
    return partial(half.smooth.sweep if smoothing else product_then_sweep, half)  # type: ignore[union-attr]


def _balancing(own: np.ndarray, other: np.ndarray, size: float) -> np.ndarray:
    """Squared factors from the gradient at columns of norm `own` to that at balanced ones; 0 for (0, 0)."""
    lone = np.where(own > 0, own, np.divide(size, other, out=np.zeros_like(own), where=other > 0))
    return np.divide(lone, other, out=np.zeros_like(own), where=other > 0)


def best_pair(problem: Problem, H: np.ndarray) -> tuple[Any, np.ndarray]:
    """argmin over U >= 0 of loss plus penalty for V = Hᵀ, and V, both in the units of the problem."""
    X = problem.X
    V = problem.structure.own(np.asfortranarray(H.T.astype(X.dtype) / problem.units.factor(X.dtype)), 1)
    return problem.loss.solve(State(problem, X.zeros(len(H)), V).halves[0]), V


def best_U(problem: Problem, H: np.ndarray) -> Any:
    """argmin over U >= 0 of loss plus penalty for V = Hᵀ, in the user's units."""
    U, _ = best_pair(problem, H)
    return problem.X.public(U * problem.units.factor(problem.X.dtype))
