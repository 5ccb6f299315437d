"""A sample of the rows seen, drawn by their squared norms, in the coordinates of the sketch's directions.

Priority sampling (Duffield, Lund and Thorup 2007): row i of squared norm w_i has the priority w_i / u_i, u_i uniform in
(0, 1]. The rows of the largest priorities are kept; t is the largest priority of a row that is not. A kept row counts
as one of squared norm max(w_i, t): the sums of squares over any rows then have the right expectation. As long as all
rows fit, each counts as itself. Samples of different rows merge, and weights scale w, priorities and t alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from enmf.parallel import matmul


@dataclass(frozen=True, eq=False)
class Reservoir:
    """At most `capacity` rows."""

    Z: np.ndarray  # rows x k, coordinates
    squares: np.ndarray  # squared norms of the rows themselves, parts outside the directions included
    priorities: np.ndarray
    capacity: int
    threshold: float = 0.0

    @classmethod
    def empty(cls, capacity: int) -> Reservoir:
        return cls(np.zeros((0, 0)), np.zeros(0), np.zeros(0), capacity)

    def turned(self, turn: np.ndarray) -> Reservoir:
        """In the coordinates of other directions, turn = old basisᵀ new basis."""
        return replace(self, Z=matmul(self.Z, turn) if len(self.Z) else np.zeros((0, turn.shape[1])))

    def scaled(self, weight: float) -> Reservoir:
        return replace(
            self,
            Z=self.Z * weight**0.5,
            squares=self.squares * weight,
            priorities=self.priorities * weight,
            threshold=self.threshold * weight,
        )

    def plus(self, Z: np.ndarray, squares: np.ndarray, rng: np.random.Generator) -> Reservoir:
        """With further rows, in the same coordinates; rows of zeros say nothing and are left out."""
        priorities = squares / (1.0 - rng.random(len(squares)))
        some = np.flatnonzero(squares > 0)
        return self.merge(replace(self, Z=Z[some], squares=squares[some], priorities=priorities[some], threshold=0.0))

    def merge(self, other: Reservoir) -> Reservoir:
        """The sample of the rows of both, in the same coordinates."""
        Z = np.vstack([self.Z, other.Z])
        squares = np.concatenate([self.squares, other.squares])
        priorities = np.concatenate([self.priorities, other.priorities])
        threshold = max(self.threshold, other.threshold)
        if len(Z) > self.capacity:
            order = np.argsort(-priorities, kind="stable")
            threshold = max(threshold, float(priorities[order[self.capacity]]))
            few = np.sort(order[: self.capacity])
            Z, squares, priorities = Z[few], squares[few], priorities[few]
        return replace(self, Z=Z, squares=squares, priorities=priorities, threshold=threshold)

    def weighted(self) -> np.ndarray:
        """The coordinates of the rows, each times the root of the number of rows it stands for."""
        return self.Z * np.sqrt(np.maximum(self.squares, self.threshold) / self.squares)[:, None]
