"""r1d: HALS from rank-one downdates of X (Biggs, Ghodsi and Vavasis 2008), if no other start is given."""

from __future__ import annotations

from dataclasses import dataclass

from enmf.solvers.hals import HALS


@dataclass(frozen=True)
class R1D(HALS):
    """HALS with a start of its own (`enmf.starts.r1d`)."""

    own_start = "r1d"
