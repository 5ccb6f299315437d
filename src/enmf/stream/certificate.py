"""What is known about the components of a stream after a batch: both bounds, their ratio, how the batch differed."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

from enmf.certificate.components import html_table
from enmf.certificate.words import EXACT, PROVEN

FIGURES = (
    "rows",
    "rank",
    "error",
    "relative_error",
    "lower_bound",
    "ratio",
    "gap",
    "drift",
    "globally_optimal",
    "exact",
)


class StreamCertificate:
    """What is known about the components of a stream, and the codes that the rows got when they were seen.

    All figures are those of the rows seen so far, each with its weight if the stream forgets. The lower bound takes the
    rows that the sketch has not taken in yet into account; it is computed when it is first asked for.

    Attributes
    ----------
    rows : int
        Rows seen.
    rank : int
    error : float
        ||A - U Vᵀ||_F with the codes U that were given to the rows; never below the true one. `transform` gives codes
        that are better, if anything.
    relative_error : float
        error / ||A||_F.
    lower_bound : float
        No factorization of this rank, nonnegative or not, of the rows seen has a smaller error (Eckart-Young). Never
        above the true bound; with a probability above 1 - 1e-9 where large batches were compressed.
    ratio : float
        error / lower_bound; if the bound is 0, 1 for an exact factorization and infinity otherwise.
    gap : float
        (error - lower_bound) / ||A||_F.
    drift : float
        By how much larger the relative error of the last batch was, with the components of before, than that of all
        rows before it; 0.3 means 30 % larger, which new data of the same kind do not show.
    globally_optimal, exact : bool
        As for `enmf.Certificate`.

    Examples
    --------
    >>> import enmf
    >>> X = enmf.datasets.make_synthetic(60, 20, 5, random_state=0)
    >>> model = enmf.ENMF(3, random_state=0).partial_fit(X[:30]).partial_fit(X[30:])
    >>> isinstance(model.certificate_, enmf.StreamCertificate)
    True
    """

    def __init__(
        self, rows: int, rank: int, error: float, norm: float, drift: float, bound: Callable[[], float]
    ) -> None:
        self.rows, self.rank, self.error, self.drift = rows, rank, error, drift
        self._norm, self._bound = norm, bound

    @cached_property
    def lower_bound(self) -> float:
        return min(self._bound(), self.error)

    @property
    def relative_error(self) -> float:
        return self.error / self._norm if self._norm > 0 else 0.0

    @property
    def exact(self) -> bool:
        return self.error <= EXACT * self._norm

    @property
    def ratio(self) -> float:
        if self.lower_bound > 0:
            return self.error / self.lower_bound
        return 1.0 if self.exact else math.inf

    @property
    def gap(self) -> float:
        return (self.error - self.lower_bound) / self._norm if self._norm > 0 else 0.0

    @property
    def globally_optimal(self) -> bool:
        return self.error <= (1.0 + PROVEN) * self.lower_bound

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {name: getattr(self, name) for name in FIGURES}

    def facts(self) -> list[tuple[str, str]]:
        """What is known, as pairs of a name and a value."""
        known = self.lower_bound > 0
        return [
            ("rows seen", f"{self.rows}"),
            ("rank", f"{self.rank}"),
            ("error, at most", f"{self.error:.6g}   ({100 * self.relative_error:.4g} % of the norm)"),
            ("best possible, at least", f"{self.lower_bound:.6g}" if known else "not known"),
            ("error / bound", f"{self.ratio:.6f}" if known else "not known"),
            ("drift of the last batch", f"{100 * self.drift:+.3g} %"),
            ("globally optimal", "yes" if self.globally_optimal else "exact" if self.exact else "not proven"),
        ]

    def __str__(self) -> str:
        rows = self.facts()
        width = max(len(name) for name, _ in rows)
        return "\n".join(["Certificate of a stream", *(f"  {name:<{width}}  {value}" for name, value in rows)])

    def __repr__(self) -> str:
        return f"<StreamCertificate of {self.rows} rows: error at most {self.error:.6g}>"

    def __getstate__(self) -> dict[str, Any]:
        bound = self.lower_bound
        return {**self.__dict__, "lower_bound": bound, "_bound": None}

    def _repr_html_(self) -> str:
        return html_table("Certificate of a stream", self.facts())
