"""The loss by its name or number, and what it asks of X."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from enmf.losses.base import Loss
from enmf.losses.divergence import Divergence
from enmf.losses.parted import PartedDivergence
from enmf.problem.problem import FROBENIUS, Problem
from enmf.problem.validation.numbers import check_choice

LOSSES = {"frobenius": 2.0, "kullback-leibler": 1.0, "itakura-saito": 0.0}


def check_loss(loss: Any, name: str = "loss") -> Loss:
    """A loss from its name ("beta=0.5" is one too), or from beta, 0 <= beta <= 2."""
    if isinstance(loss, str):
        with contextlib.suppress(ValueError):
            loss = float(loss.removeprefix("beta=")) if loss.startswith("beta=") else loss
    if isinstance(loss, str):
        beta = LOSSES[check_choice(name, loss, list(LOSSES))]
    elif isinstance(loss, Real) and not isinstance(loss, (bool, np.bool_)):
        beta = float(loss)
        if not (math.isfinite(beta) and 0.0 <= beta <= 2.0):
            raise ValueError(f"{name}={loss!r} is outside 0 <= beta <= 2; {_known()}")
    else:
        raise TypeError(f"{name} must be a name or a number beta, got {loss!r}; {_known()}")
    return FROBENIUS if beta == 2.0 else Divergence(beta)


def _known() -> str:
    return "; ".join(f"{name!r} is beta = {beta:g}" for name, beta in LOSSES.items())


def with_loss(problem: Problem, loss: Any, name: str = "loss") -> Problem:
    """The problem with this loss, if X allows it."""
    wanted = check_loss(loss, name)
    if isinstance(wanted, Divergence):
        _check_entries(problem, wanted, name)
        wanted = wanted if problem.X.has_rows else PartedDivergence(wanted.beta)
    whole = None if problem.whole is None else replace(problem.whole, loss=wanted)
    return replace(problem, loss=wanted, whole=whole)


def _check_entries(problem: Problem, loss: Divergence, name: str) -> None:
    if problem.X.signed:
        raise ValueError(f"{name}={loss.name!r} is not defined where X is negative; 'frobenius' is")
    zeros = problem.X.zeros_in() if loss.beta == 0.0 else 0
    if zeros:
        raise ValueError(
            f"{name}={loss.name!r} is infinite where X is zero, and X has {zeros} zeros. When beta_loss <= 0 add a "
            "small value to X, such as a thousandth of its mean, or use 'kullback-leibler'"
        )
