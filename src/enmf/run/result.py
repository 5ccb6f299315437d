"""What `enmf.factorize` returns."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.certificate.components import html_table

if TYPE_CHECKING:
    import pandas

    from enmf.certificate.certificate import Certificate
    from enmf.linalg.rotation import Rotation
    from enmf.linalg.spectrum import Spectrum
    from enmf.problem.layers import Guided
    from enmf.run.trace import Phase, Trace


@dataclass(frozen=True)
class Result:
    """Factors of X ~ U Vᵀ and everything known about them.

    Attributes
    ----------
    U, V : ndarray of shape (n, r) and (m, r)
        Nonnegative. Columns are sorted by decreasing size, ||u_j|| ||v_j||, and balanced, ||u_j|| = ||v_j||, unless
        another `scale` was asked for, or a penalty decides on it.
    error : float
        ||X - U Vᵀ||_F; for other losses sqrt(2 loss).
    loss : float
        What was minimized, without a penalty: 1/2 ||X - U Vᵀ||², or the divergence.
    status : str
        Why the run ended, see `enmf.run.stopping`.
    n_iter : int
        Descent iterations.
    certificate : Certificate
    trace : Trace
        One row per iteration; `trace.to_frame()` gives a DataFrame.
    phases : dict of Phase
        Seconds, passes over X and iterations of each phase.
    rotation : Rotation or None
        How far the rotation of the exterior method came.
    spectrum : Spectrum or None
        The SVD that was computed, in the units of the work matrix.
    plan : Plan or None
        What the exterior method decided to do, and why; `print(result.plan)` shows it.
    settings : dict
        Method, limits, seed and options of the run, as plain values.
    guides : tuple of Guided
        What became of the features that were proposed by `guide`: print them.
    row_names, feature_names : list of str or None
        Names of the rows and columns of X, if it was a pandas or polars frame.
    table_rows : tuple of int
        Numbers of rows of the tables, if there were several; `tables` has the U of each.

    Examples
    --------
    >>> import enmf
    >>> from sklearn.datasets import load_digits
    >>> result = enmf.factorize(load_digits().data, 10, random_state=0)
    >>> result.U.shape, result.V.shape
    ((1797, 10), (64, 10))
    >>> result.trace.to_frame().columns.tolist()
    ['iteration', 'phase', 'seconds', 'error', 'kkt', 'passes']
    >>> list(result.phases)[:3]
    ['svd', 'rotation', 'feasibility']
    """

    U: np.ndarray
    V: np.ndarray
    status: str
    n_iter: int
    certificate: Certificate
    trace: Trace = field(repr=False)
    phases: dict[str, Phase] = field(repr=False)
    rotation: Rotation | None = field(default=None, repr=False)
    spectrum: Spectrum | None = field(default=None, repr=False)
    settings: dict[str, Any] = field(default_factory=dict, repr=False)
    plan: Any = field(default=None, repr=False)
    guides: tuple[Guided, ...] = field(default=(), repr=False)
    row_names: list[str] | None = field(default=None, repr=False)
    feature_names: list[str] | None = field(default=None, repr=False)
    table_rows: tuple[int, ...] = field(default=(), repr=False)

    @property
    def tables(self) -> list[np.ndarray]:
        """The U of each table, if several were factorized together; else U alone."""
        return np.split(self.U, np.cumsum(self.table_rows)[:-1]) if self.table_rows else [self.U]

    @property
    def error(self) -> float:
        return self.certificate.error

    @property
    def loss(self) -> float:
        return self.certificate.loss

    def report(self, path: str | os.PathLike[str], X: Any = None, **options: Any) -> str:
        """Write a self-contained HTML page; returns its path.

        With X (the matrix that was factorized) the page also shows where the residual is large, and uses the names of a
        DataFrame.
        Options, as for `enmf.report.write`: row_names, column_names, image_shape, kind, title, command, source.
        """
        from enmf.report import write

        return write(path, self, X, **options)

    def components_frame(self, names: Any = None) -> pandas.DataFrame:
        """The components as a DataFrame, see `enmf.components_frame`."""
        from enmf.report.interpretation import components_frame

        return components_frame(self, names)

    def _repr_html_(self) -> str:
        size = f"{len(self.U)} x {len(self.V)}"
        how = [("status", self.status), ("iterations", str(self.n_iter)), ("shape of X", size)]
        return html_table("Result", how + self.certificate.facts())

    def __repr__(self) -> str:
        c = self.certificate
        fit = f"error={c.error:.6g}, relative_error={c.relative_error:.4g}, ratio={c.ratio:.6g}"
        if c.block_gap is not None:
            fit = f"{c.loss_name} loss={c.loss:.6g}, explained={c.explained:.4g}"
        return f"Result(rank={self.U.shape[1]}, status={self.status!r}, {fit}, kkt={c.kkt:.1e}, n_iter={self.n_iter})"
