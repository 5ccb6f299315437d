"""KKT residuals of a pair (U, V), and the certificate that a result carries.

The problem is min 1/2 ||X - U Vᵀ||² over U >= 0, V >= 0 (paper, eq. 1). Its KKT conditions (paper, appendix "KKT
Optimality Conditions") hold when the projected gradient is zero: D where the factor is positive, min(D, 0) where it
is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from enmf.certificate.components import Component, component_table, counted, describe_components, html_table
from enmf.certificate.uniqueness import Uniqueness, uniqueness
from enmf.certificate.words import PROVEN, exactness
from enmf.losses.base import Loss
from enmf.problem.problem import Units
from enmf.problem.state import State

FOLLOW = ("lower_bound", "ratio", "gap", "globally_optimal")  # what follows from the bound


@dataclass(frozen=True)
class Certificate:
    """What is known about a pair of factors, whoever computed it.

    The bound of a large X takes passes over it, so it is computed when it, or what follows from it, is first asked for
    (printing the certificate does); X must not have changed until then.

    Attributes
    ----------
    error : float
        ||X - U Vᵀ||_F; for other losses sqrt(2 loss).
    relative_error : float
        error / ||X||_F; for other losses the square root of loss / sum of x^beta.
    lower_bound : float
        Eckart-Young: no factorization of this rank, nonnegative or not, has a smaller error. Never above the true
        bound; with an iterative SVD this holds with a probability above 1 - 1e-9.
    ratio : float
        error / lower_bound; if the bound is 0, 1 for an exact factorization and infinity otherwise.
    gap : float
        (error - lower_bound) / ||X||_F.
    kkt : float
        Scale-free KKT residual: norm of the projected gradient at column-balanced factors over ||X||^1.5.
    kkt_max, kkt_sum : float
        Maximum and sum of gradient * factor over both balanced factors (the paper's delta_W and sigma_W).
    min_gradient : float
        Smallest entry of both gradients; at a stationary point it is not far below zero.
    globally_optimal : bool
        error <= (1 + 1e-6) lower_bound, in a problem without penalty: nothing is better by more than that share.
    exact : bool
        error <= 1e-8 ||X|| (5e-7 in single precision), in a problem without penalty: U Vᵀ equals X up to that share.
    stationary : bool
        kkt <= tol.
    rank : int
    dead_components : tuple of int
        Components with a zero column in U or V.
    tol : float
        Tolerance behind `stationary`.
    components : tuple of Component
        One entry per component: norm, share of ||X||² (other losses: of the sum of m^beta over the entries m of U Vᵀ),
        dead or duplicate; `report()` prints them.
    uniqueness : Uniqueness
        Whether the factors are the only nonnegative ones with their product, up to order and scale: "unique",
        "not unique" or "unknown", and the reason (the theorems are in `enmf.certificate.uniqueness`).
    fixed : {"U", "V"} or None
        The factor that was given and is not optimized; the KKT figures then refer to the other one.
    observed : int or None
        Number of observed entries, in a problem with missing entries, weights or a ridge: error, shares and KKT figures
        then refer to the weighted observed entries, and the KKT figures include the ridge.
    loss : float
        What is minimized, without a penalty: 1/2 ||X - U Vᵀ||² or the divergence.
    loss_name : str
    explained : float
        1 - loss / loss of the simplest model: zero for the Frobenius norm, the best model of rank one for the others.
    block_gap : (float, float) or None
        For losses without a bound: U alone, and V alone, cannot lower the loss by more than this. Rigorous; nan where
        the problem of one factor is not convex (beta < 1) or has a penalty.
    left : float
        Share of the error (other losses: of sqrt(2 loss)) that going on is expected to gain, from the errors of the run
        (`enmf.run.prospect`): an estimate, not a bound, and about this minimum only. nan for factors without a descent,
        or a very short one.
    known : str or None
        What was known about the factors in advance: KKT figures refer to what is free, uniqueness is not judged.
        Weights of rows and columns are part of every figure.
    bound_skipped : bool
        True if the bound was skipped because it would have exceeded the time limit; `lower_bound` is then 0, which is
        a valid bound.

    Examples
    --------
    >>> import enmf
    >>> X, U, V = enmf.datasets.make_exact(30, 20, 3, random_state=0)
    >>> certificate = enmf.certify(X, U, V)
    >>> certificate.exact, certificate.stationary, certificate.rank
    (True, True, 3)
    >>> sorted(certificate.to_dict())[:3]
    ['block_gap', 'bound_skipped', 'components']
    """

    error: float
    relative_error: float
    lower_bound: float
    ratio: float
    gap: float
    kkt: float
    kkt_max: float
    kkt_sum: float
    min_gradient: float
    globally_optimal: bool
    stationary: bool
    rank: int
    dead_components: tuple[int, ...]
    tol: float
    components: tuple[Component, ...] = ()
    uniqueness: Uniqueness | None = None
    fixed: str | None = None
    observed: int | None = None
    exact: bool = False
    bound_skipped: bool = False
    loss: float = float("nan")
    loss_name: str = "frobenius"
    explained: float = float("nan")
    block_gap: tuple[float, float] | None = None
    left: float = float("nan")
    known: str | None = None

    def awaiting(self, bound: Callable[[], float]) -> Certificate:
        """This certificate with a bound that is computed when it is asked for."""
        other = object.__new__(Certificate)
        other.__dict__.update({name: value for name, value in self.__dict__.items() if name not in FOLLOW})
        other.__dict__["_awaited"] = bound
        return other

    def __getattr__(self, name: str) -> Any:
        if name not in FOLLOW or "_awaited" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.__dict__.update(_follows(self.error, self.relative_error, self.__dict__["_awaited"](), self.exact))
        self.__dict__.pop("_awaited", None)
        return self.__dict__[name]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def duplicated_components(self) -> tuple[int, ...]:
        """Components that are parallel to an earlier one in U or in V: a smaller rank gives the same error."""
        return tuple(c.index for c in self.components if c.duplicate_of is not None)

    def in_units(self, units: Units, loss: Loss) -> Certificate:
        """The certificate of a problem in the units of the work, in those of the user."""
        if units.scale == 1.0 and units.weight == 1.0:
            return self
        error, value = units.error(loss), units.value(loss)
        return replace(
            self,
            error=self.error * error,
            lower_bound=self.lower_bound * error,
            loss=self.loss * value,
            block_gap=None if self.block_gap is None else (self.block_gap[0] * value, self.block_gap[1] * value),
            kkt_max=self.kkt_max * value,
            kkt_sum=self.kkt_sum * value,
            min_gradient=self.min_gradient * units.gradient(loss),
            components=tuple(replace(c, norm=c.norm * units.scale) for c in self.components),
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        plain = asdict(self)
        return {**plain, "dead_components": list(self.dead_components), "components": list(plain["components"])}

    def report(self) -> str:
        """The certificate and one line per component."""
        whole = "||X||²" if self.block_gap is None else "U Vᵀ"
        return f"{self}\n\n{component_table(self.components, whole)}"

    @property
    def bounded(self) -> bool:
        """Whether a bound is known, or not needed because the factorization is exact."""
        return self.lower_bound > 0 or self.globally_optimal or self.exact

    def facts(self) -> list[tuple[str, str]]:
        """What is known, as pairs of a name and a value."""
        known = self.bounded
        optimal = f"yes: the error is within {PROVEN:.0e} of the bound" if self.globally_optimal else "not proven"
        if self.exact and not self.globally_optimal:
            optimal = "exact: UVᵀ equals X up to rounding"
        unknown = "not computed: it would have exceeded time_limit" if self.bound_skipped else "not known"
        stationary = f"{'yes' if self.stationary else 'no'} (tolerance {self.tol:.0e})"
        rows = [
            ("rank", f"{self.rank}"),
            *(self._about_error(known, unknown) if self.block_gap is None else self._about_loss()),
            ("KKT residual (scale-free)", f"{self.kkt:.2e}"),
            ("KKT products (max, sum)", f"{self.kkt_max:.2e}, {self.kkt_sum:.2e}"),
            ("stationary", stationary),
            *([] if math.isnan(self.left) else [("expected still to gain", f"{100 * self.left:.2g} % of the error")]),
            ("globally optimal", optimal),
        ]
        if self.observed is not None:
            rows.insert(1, ("observed entries", f"{self.observed}; all figures refer to them"))
        if self.uniqueness is not None:
            rows.append(("unique up to order, scale", str(self.uniqueness)))
        if self.dead_components:
            rows.append(("dead components", counted(self.dead_components)))
        if self.duplicated_components:
            rows.append(("duplicated components", counted(self.duplicated_components)))
        if self.known is not None:
            rows.append(("known in advance", self.known))
        if self.fixed is not None:
            rows.append(("fixed factor", f"{self.fixed}; the KKT figures refer to the other one"))
        return rows

    def _about_error(self, known: bool, unknown: str) -> list[tuple[str, str]]:
        return [
            ("error ||X - UVᵀ||", f"{self.error:.6g}   ({100 * self.relative_error:.4g} % of ||X||)"),
            ("best possible (SVD bound)", f"{self.lower_bound:.6g}" if known else unknown),
            ("error / bound", f"{self.ratio:.6f}" if known else "not known"),
        ]

    def _about_loss(self) -> list[tuple[str, str]]:
        assert self.block_gap is not None
        U, V = (f"{gap:.3g}" for gap in self.block_gap)
        convex = not any(map(math.isnan, self.block_gap))
        return [
            (f"loss ({self.loss_name})", f"{self.loss:.8g}"),
            ("explained", f"{100 * self.explained:.4g} % of what the best model of rank one leaves"),
            ("best possible", "not known: no useful bound exists for this loss"),
            ("one factor alone can gain", f"at most {U} (U), {V} (V)" if convex else "not known"),
        ]

    def __str__(self) -> str:
        rows = self.facts()
        width = max(len(name) for name, _ in rows)
        return "\n".join(["Certificate", *(f"  {name:<{width}}  {value}" for name, value in rows)])

    def _repr_html_(self) -> str:
        return html_table("Certificate", self.facts())


def _follows(error: float, relative: float, bound: float, exact: bool) -> dict[str, Any]:
    """What follows from a bound, for an error without penalty."""
    bound = min(bound, error)  # rounding in the error must not put it below a bound it meets
    return {
        "lower_bound": bound,
        "ratio": error / bound if bound > 0 else (1.0 if exact else math.inf),
        "gap": relative * (1.0 - bound / error) if error > 0 else 0.0,
        "globally_optimal": error <= (1.0 + PROVEN) * bound,
    }


def _known(state: State) -> str | None:
    """What was known about the factors, and what became of guides."""
    guide = state.problem.penalty.guide
    said = [] if guide is None else [f"guide {outcome}" for outcome in guide.outcome(state.U, state.V)]
    return "; ".join(filter(None, [state.problem.structure.describe(), *said])) or None


def make_certificate(state: State, lower_bound: float, tol: float, fixed: str | None = None) -> Certificate:
    """The certificate of a state with balanced columns; the products it has at hand are used."""
    X, loss, free = state.X, state.problem.loss, not state.penalized
    whole, value = loss.whole(X), loss.accurate_value(state)
    error = loss.error(value)
    exact = error <= exactness(X.dtype) * whole
    kkt = state.kkt(fixed)
    measures = [half.measure() for half, name in zip(state.halves, "UV") if name != fixed]
    relative = error / whole if whole > 0 else 0.0
    follows = _follows(error, relative, lower_bound, exact)
    follows["globally_optimal"] = free and loss.has_bound(X) and bool(follows["globally_optimal"])
    alive = np.logical_and(*(np.diag(half.gram) > 0 for half in state.halves))
    return Certificate(
        error=error,
        relative_error=relative,
        **follows,
        kkt=kkt,
        kkt_max=max(measure.largest_product for measure in measures),
        kkt_sum=sum(measure.sum_product for measure in measures),
        min_gradient=min(measure.smallest for measure in measures),
        exact=free and exact,
        stationary=kkt <= tol,
        rank=state.rank,
        dead_components=tuple(np.flatnonzero(~alive).tolist()),
        tol=tol,
        components=describe_components(state),
        uniqueness=None if state.problem.structure else uniqueness(state.U, state.V),
        known=_known(state),
        fixed=fixed,
        observed=X.observed,
        loss=value,
        loss_name=loss.name,
        explained=loss.explained(state, value),
        block_gap=None if loss.bounded else (loss.block_gap(state.halves[0]), loss.block_gap(state.halves[1])),
    )
