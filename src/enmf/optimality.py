"""KKT residuals of a pair (U, V), and the certificate that a result carries.

The problem is min 1/2 ||X - U Vᵀ||² over U >= 0, V >= 0 (paper, eq. 1). Its KKT conditions (paper, appendix "KKT
Optimality Conditions") hold when the projected gradient is zero: D where the factor is positive, min(D, 0) where it
is zero.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from enmf.components import Component, component_table, counted, describe_components
from enmf.iterate import GradientMeasure, Iterate
from enmf.matrix.rows import fortran
from enmf.stopping import reached_bound
from enmf.uniqueness import Uniqueness, uniqueness


def kkt_residual(it: Iterate) -> float:
    """Scale-free KKT residual of an iterate; costs no pass when its products are at hand."""
    return scale_free_kkt(it, it.measure_U(), it.measure_V())


def scale_free_kkt(it: Iterate, of_U: GradientMeasure, of_V: GradientMeasure, fixed: str | None = None) -> float:
    """Norm of the projected gradient at column-balanced factors, over ||X||^1.5.

    (U D, V D⁻¹) is the same solution for every positive diagonal D, but its gradient is not; balancing the columns,
    ||u_j|| = ||v_j||, picks one of them. A component with u_j = 0 or v_j = 0 is the balanced pair (0, 0), whose
    gradient is zero. A penalty fixes the scale of the columns, so nothing is balanced then. A fixed factor has no
    condition of its own.
    """
    whole = it.X.squared_norm()
    if whole == 0.0:
        return 0.0
    squares_U, squares_V = of_U.squares * (fixed != "U"), of_V.squares * (fixed != "V")
    if it.penalty:
        total = float(squares_U.sum() + squares_V.sum())
    else:
        u = np.sqrt(np.diag(it.UtU).astype(np.float64))
        v = np.sqrt(np.diag(it.VtV).astype(np.float64))
        alive = (u > 0) & (v > 0)
        ratio = np.divide(u, v, out=np.zeros_like(u), where=alive)
        inverse = np.divide(v, u, out=np.zeros_like(u), where=alive)
        total = float(squares_U @ ratio + squares_V @ inverse)
    return float(np.sqrt(total) / whole**0.75)


@dataclass(frozen=True)
class Certificate:
    """What is known about a pair of factors, whoever computed it.

    Attributes
    ----------
    error : float
        ||X - U Vᵀ||_F.
    relative_error : float
        error / ||X||_F.
    lower_bound : float
        Eckart-Young: no factorization of this rank, nonnegative or not, has a smaller error. Never above the true
        bound; with an iterative SVD this holds with a probability above 1 - 1e-9.
    ratio : float
        error / lower_bound (1 where both are zero). 1 means globally optimal.
    gap : float
        (error - lower_bound) / ||X||_F.
    kkt : float
        Scale-free KKT residual: norm of the projected gradient at column-balanced factors over ||X||^1.5.
    kkt_max, kkt_sum : float
        max and sum of gradient * factor over both balanced factors (the paper's delta_W and sigma_W).
    min_gradient : float
        Smallest entry of both gradients; not much below zero at a stationary point, where the factor is zero.
    globally_optimal : bool
        ratio <= 1 + 1e-6 or gap <= 1e-8.
    stationary : bool
        kkt <= tol.
    rank : int
    dead_components : tuple of int
        Components with a zero column in U or V.
    tol : float
        Tolerance behind `stationary`.
    components : tuple of Component
        Norm, share of ||X||², dead or duplicated, one for each component; `report()` prints them.
    uniqueness : Uniqueness
        Whether the factors are the only nonnegative ones of their product, up to order and scale: "unique",
        "not unique" or "unknown", and why (the theorems are in `enmf.uniqueness`).
    fixed : {"U", "V"} or None
        The factor that was given and not to be optimized; the KKT figures are then those of the other one.
    observed : int or None
        Number of observed entries, of a problem with missing entries, weights or a ridge: error, shares and KKT figures
        are then those of the observed entries, weighted, the ridge included in the KKT figures.
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

    @property
    def duplicated_components(self) -> tuple[int, ...]:
        """Components that are parallel in U or in V to an earlier one: a smaller rank gives the same error."""
        return tuple(c.index for c in self.components if c.duplicate_of is not None)

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        plain = asdict(self)
        return {**plain, "dead_components": list(self.dead_components), "components": list(plain["components"])}

    def report(self) -> str:
        """The certificate and one line for each component."""
        return f"{self}\n\n{component_table(self.components)}"

    def __str__(self) -> str:
        known = self.lower_bound > 0 or self.globally_optimal
        optimal = "yes: the bound is met" if self.globally_optimal else "not proven"
        stationary = f"{'yes' if self.stationary else 'no'} (tolerance {self.tol:.0e})"
        rows = [
            ("rank", f"{self.rank}"),
            ("error ||X - UVᵀ||", f"{self.error:.6g}   ({100 * self.relative_error:.4g} % of ||X||)"),
            ("best possible (SVD bound)", f"{self.lower_bound:.6g}" if known else "not known"),
            ("error / bound", f"{self.ratio:.6f}" if known else "not known"),
            ("KKT residual (scale-free)", f"{self.kkt:.2e}"),
            ("KKT products (max, sum)", f"{self.kkt_max:.2e}, {self.kkt_sum:.2e}"),
            ("stationary", stationary),
            ("globally optimal", optimal),
        ]
        if self.observed is not None:
            rows.insert(1, ("observed entries", f"{self.observed}; the figures are theirs"))
        if self.uniqueness is not None:
            rows.append(("unique up to order, scale", str(self.uniqueness)))
        if self.dead_components:
            rows.append(("dead components", counted(self.dead_components)))
        if self.duplicated_components:
            rows.append(("duplicated components", counted(self.duplicated_components)))
        if self.fixed is not None:
            rows.append(("fixed factor", f"{self.fixed}; the KKT figures are those of the other one"))
        width = max(len(name) for name, _ in rows)
        return "\n".join(["Certificate", *(f"  {name:<{width}}  {value}" for name, value in rows)])


def make_certificate(it: Iterate, lower_bound: float, tol: float, fixed: str | None = None) -> Certificate:
    """The certificate of an iterate with balanced columns; the products it has at hand are used."""
    whole = float(np.sqrt(it.X.squared_norm()))
    error = accurate_error(it)
    of_U, of_V = it.measure_U(), it.measure_V()
    kkt = scale_free_kkt(it, of_U, of_V, fixed)
    free = [measure for measure, name in ((of_U, "U"), (of_V, "V")) if name != fixed]
    lower_bound = min(lower_bound, error)  # rounding in the error must not put it below a bound it meets
    alive = (np.diag(it.UtU) > 0) & (np.diag(it.VtV) > 0)
    return Certificate(
        error=error,
        relative_error=error / whole if whole > 0 else 0.0,
        lower_bound=lower_bound,
        ratio=error / lower_bound if lower_bound > 0 else (1.0 if error <= 1e-8 * whole else float("inf")),
        gap=(error - lower_bound) / whole if whole > 0 else 0.0,
        kkt=kkt,
        kkt_max=max(measure.largest_product for measure in free),
        kkt_sum=sum(measure.sum_product for measure in free),
        min_gradient=min(measure.smallest for measure in free),
        globally_optimal=reached_bound(error, lower_bound, whole),
        stationary=kkt <= tol,
        rank=it.rank,
        dead_components=tuple(np.flatnonzero(~alive).tolist()),
        tol=tol,
        components=describe_components(it),
        uniqueness=uniqueness(it.U, it.V),
        fixed=fixed,
        observed=it.X.observed,
    )


def accurate_error(it: Iterate) -> float:
    """||X - U Vᵀ||, from the products at hand where they give ten digits, else from the residual itself."""
    if it.X.dtype == np.float64:
        squared = it.squared_error()
        if squared > 1e-4 * it.X.squared_norm():
            return float(np.sqrt(squared))
    return float(np.sqrt(it.X.squared_residual(it.U, it.V)))


def balance(it: Iterate, sort: bool = True) -> None:
    """Columns with ||u_j|| = ||v_j||, largest first; a component with a zero column becomes zero in both factors."""
    u = np.sqrt(np.diag(it.UtU).astype(np.float64))
    v = np.sqrt(np.diag(it.VtV).astype(np.float64))
    alive = (u > 0) & (v > 0)
    if not alive.all():
        it.set_U(fortran(it.U * alive))
        it.set_V(np.asfortranarray(np.where(alive, it.V, 0)))
    size = np.where(alive, u * v, 0.0)
    order = np.argsort(-size, kind="stable") if sort else np.arange(it.rank)
    scale = np.ones(it.rank)
    np.sqrt(np.divide(v, u, out=scale, where=alive), out=scale)
    it.arrange(order, scale)
