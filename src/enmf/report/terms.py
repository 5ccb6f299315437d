"""What the error of a result is called, and in which unit it is shown: % of the norm, or the loss itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from enmf.problem.validation.losses import check_loss
from enmf.report.numbers import explained, percent

if TYPE_CHECKING:
    from enmf.certificate.certificate import Certificate

TITLES = {"kullback-leibler": "Kullback-Leibler divergence", "itakura-saito": "Itakura-Saito divergence"}


@dataclass(frozen=True)
class Terms:
    """The words of one loss."""

    name: str = "frobenius"

    @property
    def squares(self) -> bool:
        """Whether it is the Frobenius norm."""
        return self.name == "frobenius"

    @property
    def beta(self) -> float:
        return check_loss(self.name).degree

    @property
    def title(self) -> str:
        return TITLES.get(self.name, f"beta divergence, {self.name.replace('=', ' = ')}")

    @property
    def what(self) -> str:
        return "error" if self.squares else "loss"

    @property
    def axis(self) -> str:
        """The heading of a column or an axis."""
        return "error, % of ‖X‖" if self.squares else f"loss ({self.title})"

    @property
    def unit(self) -> str:
        return " %" if self.squares else ""

    def shown(self, error: float, c: Certificate) -> float:
        """An error of the run with this certificate, in the unit of the axis."""
        if self.squares:
            return 100.0 * error * c.relative_error / c.error if c.error > 0 else 0.0
        return 0.5 * error * error

    @property
    def share(self) -> str:
        """What the share of a component is one of."""
        if self.squares:
            return "‖X‖²"
        own = {1.0: "the sum of U Vᵀ", 0.0: "an entry of U Vᵀ, on average,"}
        return own.get(self.beta, f"U Vᵀ, an entry m counting as m^{self.beta:g},")

    @property
    def relative(self) -> str:
        """What the loss of a row or column is divided by."""
        if self.squares:
            return "its norm"
        return {1.0: "its sum", 0.0: "its number of entries"}.get(self.beta, f"its sum of x^{self.beta:g}")


def terms_of(c: Certificate) -> Terms:
    return Terms(c.loss_name)


def explained_share(c: Certificate) -> str:
    """The share of the sum of squares, or of the loss of the best model of rank one; 100 % only if nothing is left."""
    if c.loss_name == "frobenius":
        return explained(c.relative_error)
    return explained(math.sqrt(1.0 - c.explained)) if c.explained > 0 else percent(c.explained + 0.0)


def about_gaps(c: Certificate) -> str:
    """What one factor alone could gain, in a sentence."""
    if c.block_gap is None or not all(map(math.isfinite, c.block_gap)):
        return "What one factor alone could gain is not known either."
    U, V = (f"{gap:.2g}" for gap in c.block_gap)
    return f"U alone cannot lower the loss by more than {U}, nor V alone by more than {V}."
