"""`enmf.certify`: what can be said about a pair of factors, whoever computed it."""

from __future__ import annotations

from typing import Any

import numpy as np

from enmf import parallel
from enmf.certificate.certificate import Certificate, make_certificate
from enmf.certificate.words import TOL
from enmf.linalg.bound import sharpen
from enmf.linalg.eigen import positive_part
from enmf.linalg.svd import bounded
from enmf.matrix.stacked import holds_tables
from enmf.problem.problem import Problem
from enmf.problem.refusals import refuse
from enmf.problem.state import State
from enmf.problem.validation.arrays import check_problem, check_tables
from enmf.problem.validation.factors import check_columns, check_factors, with_ridge
from enmf.problem.validation.losses import with_loss
from enmf.problem.validation.masks import check_masked_or_complete
from enmf.problem.validation.numbers import check_choice, check_number, check_threads, make_rng
from enmf.problem.validation.structure import Known, check_obeyed, with_structure


def certify(
    X: Any,
    U: Any,
    V: Any,
    *,
    loss: str | float = "frobenius",
    missing: Any = None,
    mask: Any = None,
    weights: Any = None,
    ridge: float | tuple[float, float] = 0.0,
    ridge_scaling: str = "entries",
    tol: float = TOL,
    random_state: Any = 0,
    n_threads: int | None = None,
    fixed: Any = None,
    support_U: Any = None,
    support_V: Any = None,
    row_weights: Any = None,
    column_weights: Any = None,
    nonnegative: str = "both",
    negative: str = "refuse",
    symmetric: bool = False,
) -> Certificate:
    """Certificate of factors from any library: how close to the best possible, whether stationary, whether unique.

    Parameters
    ----------
    X : array-like or scipy sparse matrix of shape (n, m)
        NaN in a dense X mark missing entries; a sparse X is complete unless stated otherwise, as for `enmf.factorize`.
        Or a list of tables, as for `enmf.factorize`.
    U, V : array-like of shape (n, r) and (m, r)
        For scikit-learn's W and H: U = W, V = H.T.
    loss : {"frobenius", "kullback-leibler", "itakura-saito"} or float
        What is minimized: 1/2 ||X - U Vᵀ||², or a beta divergence, 0 <= beta <= 2 (see docs/losses.md).
    missing, mask, weights, ridge, ridge_scaling
        The problem that the factors solve, as for `enmf.complete`. All figures then refer to the observed entries,
        weights and ridge included; there is no bound with missing entries, weights or a ridge.
    tol : float
        KKT residual up to which the factors count as stationary.
    random_state : int, RandomState, Generator or None
        Seed of the SVD of a large X.
    n_threads : int, optional
    fixed : {"U", "V"} or array-like of shape (k, m), optional
        A factor that was given rather than optimized: the KKT figures are those of the other one. The problem in the
        other factor is convex, so `stationary` then means the best possible for the given factor. Or known components,
        as for `enmf.factorize`: the first k columns of V.
    support_U, support_V, row_weights, column_weights, nonnegative, negative, symmetric
        What was known about the factors, as for `enmf.factorize`; factors that do not obey it are refused.

    Examples
    --------
    >>> import enmf
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.decomposition import NMF
    >>> X = load_digits().data
    >>> model = NMF(8, init="nndsvd", max_iter=1000).fit(X)
    >>> certificate = enmf.certify(X, model.transform(X), model.components_.T)
    >>> bool(certificate.ratio > 1.0)
    True
    >>> certificate.uniqueness.verdict, len(certificate.components)
    ('unknown', 8)
    """
    check_number("tol", tol, low=0.0)
    factor = check_choice("fixed", fixed, ["U", "V"]) if isinstance(fixed, str) else None
    known = Known.of({**locals(), "fixed": None if factor else fixed})
    masked = any(one is not None for one in (missing, mask, weights)) or bool(np.any(np.asarray(ridge) != 0.0))
    if masked and holds_tables(X):
        raise ValueError("missing, mask, weights and ridge are for one matrix, and X is a list of tables: stack them")
    if masked and known.keeps_negative:
        refuse(known.words(), ["missing"])
    if holds_tables(X):
        problem = with_loss(check_tables(X, negative=known.keeps_negative), loss)
    elif known.keeps_negative:
        problem = with_loss(check_problem(X, negative=True), loss)
    else:
        problem = with_loss(check_masked_or_complete(X, missing, mask, weights, ridge), loss)
    if not problem.X.complete:
        problem = with_ridge(problem, ridge, ridge_scaling)
    problem = with_structure(problem, check_columns(V), known)
    structure = problem.structure
    U, V = check_factors(U, V, problem.X, None, problem.scale, structure.U.signed, structure.V.signed)
    U, V = structure.own(U, 0), structure.own(V, 1)
    check_obeyed(structure, U, V)
    with parallel.limit(check_threads(n_threads)):
        return certify_problem(problem, State(problem, U, V), tol, random_state, factor)


def certify_problem(
    problem: Problem, state: State, tol: float, random_state: Any, fixed: str | None = None
) -> Certificate:
    """`certify` for factors that are already validated."""
    bound = _lower_bound(problem, state.rank, random_state)
    if not problem.penalty.fixes_scale:
        state.balance(sort=False, clear=False)
    return make_certificate(state, bound, tol, fixed).in_units(problem.units, problem.loss)


def _lower_bound(problem: Problem, rank: int, random_state: Any) -> float:
    rng = make_rng(random_state)
    if rank >= min(problem.X.shape) or not problem.loss.has_bound(problem.X):
        return 0.0
    if problem.structure.symmetric:
        return sharpen(problem.X, positive_part(problem.X, rank, rng), rng=rng).lower_bound(rank)
    return bounded(problem.X, None, rank, rng).lower_bound(rank)
