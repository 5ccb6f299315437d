"""A start that takes proposals: features that the first components should contain.

The components of another start are matched with the sets of features, the largest shares first. Each set's component
gets at least its mean entry at these features, the others get zeros there, from which a descent can bring them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from enmf.run.options import Start

if TYPE_CHECKING:
    from enmf.problem.layers import Guide
    from enmf.problem.problem import Problem
    from enmf.run.options import Phase, RunOptions
    from enmf.run.walk import Walk


@dataclass(frozen=True, eq=False)
class GuidedStart(Start):
    """Another start, its components in the order of the guides and with their features."""

    inner: Start

    def phases(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        return [*self.inner.phases(problem, options), follow]


def follow(walk: Walk) -> None:
    """Order the components as the guides are, and put their features where they belong."""
    guide, state = walk.problem.penalty.guide, walk.state
    assert guide is not None
    order = matched(state.V, guide)
    U, V = np.asfortranarray(state.U[:, order]), np.asfortranarray(state.V[:, order])
    V[guide.elsewhere > 0] = 0
    for k, features in enumerate(guide.features):
        V[list(features), k] = np.maximum(V[list(features), k], V[:, k].mean() or 1.0)
    walk.begin_at(U, V)
    rows = walk.state.halves[0]
    rows.replace(walk.problem.loss.solve(rows))


def matched(V: np.ndarray, guide: Guide) -> np.ndarray:
    """The number of the component for each guide, then those of all others."""
    from scipy.optimize import linear_sum_assignment

    lengths = np.linalg.norm(V, axis=0)
    directions = np.divide(V, lengths, out=np.zeros_like(V), where=lengths > 0)
    suits = np.array([directions[list(features)].sum(axis=0) for features in guide.features])
    _, chosen = linear_sum_assignment(suits, maximize=True)
    return np.append(chosen, np.setdiff1d(np.arange(V.shape[1]), chosen))
