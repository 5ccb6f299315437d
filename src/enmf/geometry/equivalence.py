"""How two solutions relate: equal up to order, scale or rotation, on the way to that, or different.

(paper, section 5.4 and appendices "Generalized orthogonal transformation" and "Checking permutation equivalence")

Matching   one assignment of components for both factors: it maximizes the sum of cos(u_a, u_b) cos(v_a, v_b), the
           cosine of the rank-one terms u vᵀ
Converged  a column whose cosine with its partner is at least 1 - 0.05 and that survives the pruning: the sorted columns
           of the similarity matrices M (A with A), N (B with B) and S (A with B) of these columns agree to one decimal
           place in more than 90 % of their entries
Relation   U_b = U_a A, V_b = V_a A⁻ᵀ, A = R1 L R2ᵀ, if the products U Vᵀ agree (`enmf.exact.relate`)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from enmf import parallel
from enmf.certificate.words import EXACT, TOL, effective_tol
from enmf.geometry.exact.relation import Transform, transform_between
from enmf.problem.problem import Problem
from enmf.problem.state import State
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.factors import check_pair, check_same_sides
from enmf.problem.validation.losses import with_loss
from enmf.problem.validation.numbers import check_number

TOLERANCE = 0.05  # the paper's epsilon
SAME_PRODUCT = 1e-3  # relative difference of products that agree
SAME_DIRECTION = 1e-2  # cosine of rows of A that are orthogonal; off-diagonal share of a monomial A
SAME_ERROR = 1e-4  # difference of errors, over ||X||, that is none
MANY = 0.5  # share of converged columns from which a solution tends to another


@dataclass(frozen=True)
class Matching:
    """One assignment of the components of B to those of A.

    `pairs` are (column of A, column of B), in A's order; the cosines are those of the paired columns.
    """

    pairs: tuple[tuple[int, int], ...]
    cosines_U: np.ndarray
    cosines_V: np.ndarray
    converged_U: np.ndarray  # bool, one per pair
    converged_V: np.ndarray
    share_U: float  # converged columns over the larger rank
    share_V: float

    @property
    def complete(self) -> bool:
        return self.share_U == 1.0 and self.share_V == 1.0

    @property
    def agreement(self) -> float:
        """Mean share of converged columns of both factors."""
        return 0.5 * (self.share_U + self.share_V)


@dataclass(frozen=True)
class Comparison:
    """How a solution B relates to a solution A; see `compare`.

    Attributes
    ----------
    verdict : {"E", "TE", "NE"}
        Equivalent, tending to equivalence, not equivalent.
    share_U, share_V : float
        Share of the columns of each factor that have converged to their partners.
    relation : str
        "same", "permutation", "scaling", "permutation and scaling", "rotation", "scaling and rotation", "general" (the
        products agree, but the factors are mixed by a matrix that changes angles) or "none" (the products differ).
    transform : Transform or None
        R1, L, R2 and the residuals delta_u, delta_v, if the products agree and the factors have full rank.
    product_difference : float
        ||U_a V_aᵀ - U_b V_bᵀ|| / ||U_a V_aᵀ||.
    error_difference : float or None
        ||X - U_b V_bᵀ|| - ||X - U_a V_aᵀ||, if X is given; error_a and error_b are the two errors.
    stationary_b : bool or None
        Whether B is a stationary point (by the rule that ends `factorize` at its default `tol`), if X is given and B is
        nonnegative.
    matching : Matching
        The pairs of components and their cosines.

    Examples
    --------
    >>> import enmf
    >>> X, U, V = enmf.datasets.make_exact(30, 20, 3, random_state=0)
    >>> comparison = enmf.compare((U, V), (2.0 * U[:, [2, 0, 1]], 0.5 * V[:, [2, 0, 1]]), X)
    >>> comparison.verdict, comparison.relation
    ('E', 'permutation and scaling')
    >>> comparison.permutation
    (1, 2, 0)
    """

    verdict: str
    share_U: float
    share_V: float
    relation: str
    transform: Transform | None = field(repr=False)
    product_difference: float
    error_a: float | None
    error_b: float | None
    stationary_b: bool | None
    matching: Matching = field(repr=False)
    _A: tuple[np.ndarray, np.ndarray] = field(repr=False)
    _B: tuple[np.ndarray, np.ndarray] = field(repr=False)

    @property
    def error_difference(self) -> float | None:
        return None if self.error_a is None or self.error_b is None else self.error_b - self.error_a

    @property
    def permutation(self) -> tuple[int, ...]:
        """Columns of B in the order of their partners in A; those without a partner come last."""
        paired = [b for _, b in self.matching.pairs]
        return tuple(paired + [b for b in range(self._B[0].shape[1]) if b not in paired])

    def aligned(self) -> tuple[np.ndarray, np.ndarray]:
        """Copies of B's factors with the columns in A's order, and with ||u|| / ||v|| (and the sign) of A."""
        order = list(self.permutation)
        U, V = self._B[0][:, order].copy(), self._B[1][:, order].copy()
        for place, (a, _) in enumerate(self.matching.pairs):
            lengths = [float(np.linalg.norm(F)) for F in (self._A[0][:, a], self._A[1][:, a], U[:, place], V[:, place])]
            if min(lengths) == 0.0:
                continue
            ua, va, ub, vb = lengths
            scale = math.copysign(math.sqrt(ua * vb / (va * ub)), float(self._A[0][:, a] @ U[:, place]))
            U[:, place] *= scale
            V[:, place] /= scale
        return U, V

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        t, m = self.transform, self.matching
        plain = ("verdict", "share_U", "share_V", "relation", "product_difference", "error_a", "error_b")
        return {
            **{name: getattr(self, name) for name in (*plain, "error_difference", "stationary_b")},
            "pairs": [list(pair) for pair in m.pairs],
            "cosines_U": m.cosines_U.tolist(),
            "cosines_V": m.cosines_V.tolist(),
            "delta_u": None if t is None else t.delta_u,
            "delta_v": None if t is None else t.delta_v,
            "L": None if t is None else t.L.tolist(),
        }

    def __str__(self) -> str:
        meaning = {"E": "equivalent", "TE": "tending to equivalence", "NE": "not equivalent"}[self.verdict]
        relation = "the products differ" if self.relation == "none" else self.relation
        rows = [
            ("verdict", f"{self.verdict} ({meaning})"),
            ("converged columns of U, V", f"{100 * self.share_U:.4g} %, {100 * self.share_V:.4g} %"),
            ("relation", relation),
            ("difference of the products", f"{self.product_difference:.2e} of ||U_a V_aᵀ||"),
        ]
        if self.transform is not None:
            rows.append(("residuals delta_u, delta_v", f"{self.transform.delta_u:.1e}, {self.transform.delta_v:.1e}"))
        if self.error_difference is not None:
            rows.append(("error of B - error of A", f"{self.error_difference:.6g}   ({self.error_a:.6g} for A)"))
        if self.stationary_b is not None:
            rows.append(("B is stationary", "yes" if self.stationary_b else "no"))
        width = max(len(name) for name, _ in rows)
        return "\n".join(["Comparison", *(f"  {name:<{width}}  {value}" for name, value in rows)])


def compare(A: Any, B: Any, X: Any = None, *, loss: str | float = "frobenius", tol: float = TOLERANCE) -> Comparison:
    """Are two solutions the same up to order, scale or rotation of their components?

    Parameters
    ----------
    A, B : (U, V), Result or fitted estimator
        Factors of matrices of the same shape; the ranks may differ. Entries may be negative (SVD factors).
    X : array-like or sparse matrix, optional
        The data: needed for the errors and to decide whether B has converged, and for fitted estimators, whose W is
        `transform(X)`.
    loss : {"frobenius", "kullback-leibler", "itakura-saito"} or float
        What errors and stationarity with X refer to; the error of another loss than the Frobenius norm is
        sqrt(2 loss). Other losses need nonnegative factors.
    tol : float
        A column has converged when its cosine with its partner is at least 1 - tol.

    Returns
    -------
    Comparison
        `.verdict` follows this rule:

        "E"   equivalent: all columns of both factors have converged to their partners under one joint matching, or the
              products agree to 1e-3 and the factors differ by a rotation, U_b = U_a S R with S diagonal and R
              orthogonal, or the same from B to A (the paper's definition, section 5.4); and, with X, the errors
              differ by at most 1e-4 ||X|| (other losses: 1e-4 of the square root of twice the sum of x^beta).
        "TE"  tending: not E, at least half of the columns of both factors have converged, and, with X, B is not a
              stationary point: it is still on its way.
        "NE"  not equivalent: everything else. In particular, two different minima, however many components they share,
              and pairs with the same product that are related only by a general matrix.

    Examples
    --------
    >>> import enmf
    >>> X, U, V = enmf.datasets.make_exact(30, 20, 4, random_state=0)
    >>> order = [2, 0, 3, 1]
    >>> found = enmf.compare((U, V), (3 * U[:, order], V[:, order] / 3))
    >>> found.verdict, found.relation, found.permutation
    ('E', 'permutation and scaling', (1, 3, 0, 2))
    """
    check_number("tol", tol, low=0.0)
    Ua, Va = check_pair(A, "A", X)
    Ub, Vb = check_pair(B, "B", X)
    check_same_sides((Ua, Va), (Ub, Vb))
    matching = match((Ua, Va), (Ub, Vb), tol)
    difference = _product_difference(Ua, Va, Ub, Vb)
    transform = None
    if difference <= SAME_PRODUCT and Ua.shape[1] == Ub.shape[1]:
        transform = transform_between(Ua, Va, Ub, Vb)
    relation = _name(transform, matching) if difference <= SAME_PRODUCT else "none"
    against_X = _Measured() if X is None else _measure(X, loss, (Ua, Va), (Ub, Vb))
    return Comparison(
        verdict=_verdict(matching, relation, against_X),
        share_U=matching.share_U,
        share_V=matching.share_V,
        relation=relation,
        transform=transform,
        product_difference=difference,
        error_a=against_X.error_a,
        error_b=against_X.error_b,
        stationary_b=against_X.stationary_b,
        matching=matching,
        _A=(Ua, Va),
        _B=(Ub, Vb),
    )


def match(A: tuple[np.ndarray, np.ndarray], B: tuple[np.ndarray, np.ndarray], tol: float = TOLERANCE) -> Matching:
    """The joint matching of two pairs of factors that are already validated."""
    (Ua, Va), (Ub, Vb) = (_without_dead(*pair) for pair in (A, B))
    cosines_U, cosines_V = cosines(Ua, Ub), cosines(Va, Vb)
    rows, columns = linear_sum_assignment(-cosines_U * cosines_V)
    u, v = cosines_U[rows, columns], cosines_V[rows, columns]
    flipped = (u < 0) & (v < 0)  # (-u)(-v)ᵀ is the same component
    u, v = np.where(flipped, -u, u), np.where(flipped, -v, v)
    converged_U = _pruned(u >= 1.0 - tol, Ua[:, rows], Ub[:, columns], flipped)
    converged_V = _pruned(v >= 1.0 - tol, Va[:, rows], Vb[:, columns], flipped)
    larger = max(Ua.shape[1], Ub.shape[1])
    return Matching(
        pairs=tuple(zip(rows.tolist(), columns.tolist())),
        cosines_U=u,
        cosines_V=v,
        converged_U=converged_U,
        converged_V=converged_V,
        share_U=float(converged_U.sum() / larger),
        share_V=float(converged_V.sum() / larger),
    )


def cosines(F: np.ndarray, G: np.ndarray) -> np.ndarray:
    """cos(f_i, g_j); 1 if both columns are zero, 0 if one is."""
    f, g = np.linalg.norm(F, axis=0), np.linalg.norm(G, axis=0)
    inner = (F / np.where(f > 0, f, 1.0)).T @ (G / np.where(g > 0, g, 1.0))
    return np.where(np.outer(f == 0, g == 0), 1.0, np.clip(inner, -1.0, 1.0))


def _without_dead(U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A component with one zero column becomes zero in both factors."""
    alive = U.any(axis=0) & V.any(axis=0)
    return np.where(alive, U, 0.0), np.where(alive, V, 0.0)


def _pruned(candidates: np.ndarray, Fa: np.ndarray, Fb: np.ndarray, flipped: np.ndarray) -> np.ndarray:
    """The paper's check of the candidates by their similarities with each other.

    Sorted columns of M, N and S must agree to one decimal place in more than 90 % of the entries. Here that means a
    difference of at most 0.05: rounding both, as the paper does, would call 0.449 and 0.451 different.
    """
    if not candidates.any():
        return candidates
    Fa, Fb = Fa[:, candidates], (Fb * np.where(flipped, -1.0, 1.0))[:, candidates]
    M, N, S = (np.sort(cosines(*pair), axis=0) for pair in ((Fa, Fa), (Fb, Fb), (Fa, Fb)))
    agree = (np.abs(M - N) <= 0.05) & (np.abs(M - S) <= 0.05)
    kept = candidates.copy()
    kept[candidates] = agree.mean(axis=0) > 0.9
    return kept


def _product_difference(Ua: np.ndarray, Va: np.ndarray, Ub: np.ndarray, Vb: np.ndarray) -> float:
    """||U_a V_aᵀ - U_b V_bᵀ|| / ||U_a V_aᵀ|| to full precision, without an n x m matrix."""
    # factors in comparable units first: they may have any scale
    scale_U, scale_V = (float(max(np.abs(F).max(), np.abs(G).max())) or 1.0 for F, G in ((Ua, Ub), (Va, Vb)))
    left = np.asarray(np.linalg.qr(np.hstack([Ua / scale_U, -Ub / scale_U]), mode="r"))
    right = np.asarray(np.linalg.qr(np.hstack([Va / scale_V, Vb / scale_V]), mode="r"))
    r = Ua.shape[1]
    whole = float(np.linalg.norm(left[:, :r] @ right[:, :r].T))
    rest = float(np.linalg.norm(left @ right.T))
    return rest / whole if whole > 0 else (0.0 if rest == 0 else math.inf)


def _name(transform: Transform | None, matching: Matching) -> str:
    """The kind of A in U_b = U_a A."""
    if transform is None:  # a factor without full rank: only the matching can tell
        return "permutation and scaling" if matching.complete else "general"
    A = transform.A
    rows, columns = np.linalg.norm(A, axis=1), np.linalg.norm(A, axis=0)
    # the entry of each row that dominates its column too; scale of rows and columns removed
    main = np.abs(A) / np.sqrt(np.outer(rows, columns))
    order = np.argmax(main, axis=1)
    others = np.abs(A) / rows[:, None]
    others[np.arange(len(A)), order] = 0.0
    if len(set(order.tolist())) == len(A) and np.linalg.norm(others, axis=1).max() <= SAME_DIRECTION:
        values = A[np.arange(len(A)), order]
        moved = (order != np.arange(len(A))).any()
        scaled = np.abs(values - 1.0).max() > SAME_DIRECTION
        kinds = (("permutation", moved), ("scaling", scaled))
        return " and ".join(kind for kind, found in kinds if found) or "same"
    for G, lengths in ((A @ A.T, rows), (A.T @ A, columns)):
        off = np.abs(G / np.outer(lengths, lengths) - np.eye(len(A))).max()
        if off <= SAME_DIRECTION:
            same_length = np.ptp(lengths) <= SAME_DIRECTION * lengths.max() and abs(lengths.max() - 1) <= SAME_DIRECTION
            return "rotation" if same_length else "scaling and rotation"
    return "general"


@dataclass(frozen=True)
class _Measured:
    """What X says about two solutions."""

    error_a: float | None = None
    error_b: float | None = None
    same_error: bool = True
    stationary_b: bool | None = None


def _measure(
    X: Any, loss: str | float, A: tuple[np.ndarray, np.ndarray], B: tuple[np.ndarray, np.ndarray]
) -> _Measured:
    problem = with_loss(check_problem(X, np.float64), loss)
    n, m = problem.X.shape
    check_same_sides((np.empty((n, 1)), np.empty((m, 1))), A)
    root = math.sqrt(problem.scale)
    signs = [name for name, pair in zip("AB", (A, B)) if min(F.min() for F in pair) < 0]
    if signs and not problem.loss.bounded:
        raise ValueError(
            f"{signs[0]} has negative entries, for which the loss {problem.loss.name!r} is not defined: use 'frobenius'"
        )
    with parallel.limit(None):
        errors = [_error(problem, U / root, V / root) for U, V in (A, B)]
        nonnegative = "B" not in signs
        kkt = State(problem, B[0] / root, B[1] / root).kkt() if nonnegative else math.inf
    whole, unit = problem.loss.whole(problem.X), problem.units.error(problem.loss)
    exact = errors[1] <= EXACT * whole  # if X is zero, the only stationary point
    stationary = exact or (whole > 0 and kkt <= effective_tol(TOL, errors[1], whole))
    return _Measured(
        error_a=errors[0] * unit,
        error_b=errors[1] * unit,
        same_error=abs(errors[1] - errors[0]) <= SAME_ERROR * whole,
        stationary_b=stationary if nonnegative else None,
    )


def _error(problem: Problem, U: np.ndarray, V: np.ndarray) -> float:
    if problem.loss.bounded:  # factors may have negative entries
        return math.sqrt(problem.X.squared_residual(U, V))
    return State(problem, U, V).accurate_error()


def _verdict(matching: Matching, relation: str, against_X: _Measured) -> str:
    """The rule in the docstring of `compare`."""
    rotated = relation in ("rotation", "scaling and rotation")
    if (matching.complete or rotated) and against_X.same_error:
        return "E"
    arrived = bool(against_X.stationary_b)
    return "TE" if min(matching.share_U, matching.share_V) >= MANY and not arrived else "NE"
