"""All that a stream remembers: O(m (l + r)) numbers, replaced as a whole, so that a batch counts fully or not at all.

Rows first wait, until they fill a fixed amount of memory: a sketch of many rows at once is sharper and takes less time,
and none is needed before somebody asks for the bound. Then they enter sketch, directions and reservoir; the sketch also
when the bound is asked for, the other two, which take less time, when the components are to be fitted. The components
do not depend on the sketch, nor on whether somebody asked. Two kinds of sums say how good the components V are:

codes    exact, for the codes that the rows were given when they were seen. The upper bound.
fresh    for codes that fit the current V: of the core's rows since the last fit to the core, of later rows exactly. V
         is swept on them, for codes of long ago would pull it back to where it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from enmf.linalg.spectrum import default_oversampling
from enmf.matrix.base import Matrix
from enmf.matrix.stack import kept, size, stacked
from enmf.matrix.sweeps import Sweep, coordinate_sweeps
from enmf.parallel import matmul
from enmf.stream.core import Effort, core_error, learn_core, matched, translation
from enmf.stream.reservoir import Reservoir
from enmf.stream.sketch import Sketch
from enmf.stream.sums import Sums

SKETCHES = 64  # rows that wait may take as much memory as so many full sketches in double precision, but
WAITING = 1 << 25, 1 << 27  # at least and at most so many bytes: a process that fits takes 200 MB anyway
CODES = Sweep(6, 1e-2)  # of codes, from zero: with three, two passes of audio end 0.18 % above a fit, not 0.07 %
SWEEPS = Sweep(10, 1e-2)  # of V after a batch: products cost more than sweeps, and V moves little
BEYOND = 1  # times the usual oversampling: directions that may yet become leading ones
# growth of the weight of all rows after which the components are fitted to the core again; with 5 or 8, one pass of
# audio ends 1.5 % above a batch fit or further, not 0.15 %
AGAIN = 4.0
# gain of such a fit below which the present components stay, swept on exact sums, not on those of the core: one pass of
# newsgroups then ends 0.06 % above a batch fit, with a gain of 0.1 % or none 0.18 %
KEEP = 3e-3
# rows per component of a fit from which its error says what later rows will have: fewer are fitted too well
JUDGED = 20.0


@dataclass(frozen=True, eq=False)
class Memory:
    """The state of a stream."""

    sketch: Sketch
    directions: Sketch  # an incremental SVD, in whose directions the reservoir is
    reservoir: Reservoir
    codes: Sums
    fresh: Sums
    V: np.ndarray | None = None  # m x r, in Fortran order
    waiting: tuple[tuple[Matrix, float], ...] = ()  # rows that are kept, and the roots of their weights
    sampled: int = 0  # blocks of these that are in the reservoir already
    sketched: int = 0  # and in the sketch, because somebody asked for the bound
    rows: int = 0
    batches: int = 0
    drift: float = 0.0
    weight: float = 0.0  # of all rows
    fitted_at: float = 0.0  # of the rows that the components were last fitted to
    ratio: float = np.inf  # error over what the directions say is possible, after the last fit
    share: float = 0.0  # error over the norm, after the last fit
    single: bool = True  # all batches were of single precision: V then is, too

    @classmethod
    def empty(cls, columns: int, rank: int, width: int, capacity: int) -> Memory:
        nothing, beyond = Sums.empty(columns, rank), BEYOND * default_oversampling(rank)
        directions = Sketch.empty(columns, rank, rank + beyond, lowers=False)
        sketch = Sketch.empty(columns, rank, width)
        return cls(sketch, directions, Reservoir.empty(capacity), nothing, nothing)

    # Taking rows in ---------------------------------------------------------------------------------------------------

    def forgetting(self, weight: float) -> Memory:
        """All rows seen so far, with this weight."""
        if weight == 1.0:
            return self
        return replace(
            self,
            sketch=self.sketch.scaled(weight),
            directions=self.directions.scaled(weight),
            reservoir=self.reservoir.scaled(weight),
            codes=self.codes.scaled(weight),
            fresh=self.fresh.scaled(weight),
            weight=self.weight * weight,
            fitted_at=self.fitted_at * weight,
            waiting=tuple((X, root * weight**0.5) for X, root in self.waiting),
        )

    def seeing(self, X: Matrix, seed: int) -> Memory:
        """X among the rows that wait, or in the sketch if they are many."""
        n, (least, most) = X.shape[0], WAITING
        waiting = (*self.waiting, (kept(X, np.float32 if self.single else np.float64), 1.0))
        new = replace(self, rows=self.rows + n, weight=self.weight + n, batches=self.batches + 1, waiting=waiting)
        room = min(max(8 * SKETCHES * self.sketch.width * X.shape[1], least), most)
        return new if sum(size(block) for block, _ in waiting) < room else new.settled(seed)

    def settled(self, seed: int) -> Memory:
        """All rows that wait in sketch and reservoir."""
        return replace(self.sampling(seed).sketching(seed), waiting=(), sampled=0, sketched=0)

    def sketching(self, seed: int) -> Memory:
        """All rows that wait in the sketch, too."""
        blocks = self.waiting[self.sketched :]
        if not blocks:
            return self
        rng = np.random.default_rng([seed, self.batches])
        sketch, _ = self.sketch.plus(stacked(blocks), rng, self.batches)
        return replace(self, sketch=sketch, sketched=len(self.waiting))

    def sampling(self, seed: int) -> Memory:
        """All rows that wait in the reservoir, too."""
        blocks = self.waiting[self.sampled :]
        if not blocks:
            return self
        X, rng = stacked(blocks), np.random.default_rng([seed, self.batches, 1])
        directions, turn = self.directions.plus(X, rng)
        W = directions.basis()
        Z = X.times(np.ascontiguousarray(W, X.dtype)).astype(np.float64) if W.size else np.zeros((X.shape[0], 0))
        reservoir = self.reservoir.turned(turn).plus(Z, X.row_squares(), rng)
        return replace(self, directions=directions, reservoir=reservoir, sampled=len(self.waiting))

    # Learning ---------------------------------------------------------------------------------------------------------

    def coded(self, X: Matrix) -> Sums:
        """The sums over the rows of X with good codes for the present components."""
        assert self.V is not None
        U = np.zeros((X.shape[0], self.V.shape[1]), order="F")
        coordinate_sweeps(U, matmul(self.V.T, self.V), X.times(self.V), CODES)
        return Sums.of(X, U)

    def learning(self, X: Matrix, seed: int, renewal: float) -> Memory:
        """X taken in, its rows coded, the components adapted to it."""
        if self.V is None or not self.V.any():
            return self.seeing(X, seed).fitted(seed, X)
        batch = self.coded(X)
        codes = self.codes.plus(batch)
        new = replace(self.seeing(X, seed), drift=self._drift_of(batch))
        due = new.weight >= AGAIN * self.fitted_at
        judged = self.fitted_at >= JUDGED * self.sketch.rank
        if not due and judged and _share(codes, self.V) > (1.0 + renewal) * self.share:
            new = replace(new.sampling(seed), share=_share(codes, self.V))
            due = new._ratio_of(codes, self.V) > (1.0 + renewal) * self.ratio  # else all rows are harder now
        if due:
            return new.fitted(seed, X)
        return replace(new, codes=codes, fresh=self.fresh.plus(batch)).swept()

    def _drift_of(self, batch: Sums) -> float:
        assert self.V is not None
        before, now = self.codes, batch.squared_error(self.V, rounded_up=False)
        old = before.squared_error(self.V, rounded_up=False)
        if min(batch.squares, before.squares, old) <= 0:
            return 0.0
        return float((now / batch.squares / (old / before.squares)) ** 0.5 - 1.0)

    def _ratio_of(self, codes: Sums, V: np.ndarray) -> float:
        """Error over what the directions say is possible: near error / bound, and known without the sketch."""
        possible = self.directions.lower_bound(codes.squares)
        return float(codes.squared_error(V) ** 0.5 / possible) if possible > 0 else np.inf

    def swept(self) -> Memory:
        """V adapted to the sums."""
        V = np.array(self.V, order="F")
        coordinate_sweeps(V, self.fresh.C, self.fresh.S, SWEEPS)
        return replace(self, V=self._rounded(V))

    def fitted(self, seed: int, X: Matrix | None = None) -> Memory:
        """The components fitted to everything kept; X, the last batch, is still to be coded."""
        new = self.sampling(seed)
        squares = new.codes.squares + (0.0 if X is None else X.squared_norm())
        if len(new.reservoir.Z) == 0:  # nothing but zeros
            V = np.zeros((new.sketch.B.shape[1], new.sketch.rank), order="F")
            return replace(new, V=V, fitted_at=new.weight)
        old = None if new.V is None or not new.V.any(axis=0).all() else new.V
        few = min(new.sketch.rank + 1, *new.reservoir.Z.shape) <= new.sketch.rank  # X = X I: nothing to descend from
        best = learn_core(new.directions, new.reservoir, squares, Effort(None, X is None, seed))
        present = np.inf if old is None or few else core_error(new.directions, new.reservoir, old)
        rest = max(squares - float(np.square(new.reservoir.weighted()).sum()), 0.0)  # what the core lacks
        if X is not None and present**2 + rest <= (1.0 + KEEP) ** 2 * (best.error**2 + rest):
            batch = new.coded(X)
            new = replace(new, codes=new.codes.plus(batch), fresh=new.fresh.plus(batch)).swept()
            return new._judged()
        if best.error > present:
            again = learn_core(new.directions, new.reservoir, squares, Effort(old, X is None, seed))
            best = min(best, again, key=lambda found: found.error)
        codes = new.codes
        if new.V is not None:
            best = matched(best, new.V)
            codes = codes.recoded(translation(codes, new.V, best.V))
        new = replace(new, V=self._rounded(best.V), codes=codes, fresh=best.sums)
        if X is not None:
            new = replace(new, codes=codes.plus(new.coded(X)))
        return new._judged()

    def _judged(self) -> Memory:
        """Components that have just been fitted, or found to be as good as fitted ones."""
        assert self.V is not None
        ratio, share = self._ratio_of(self.codes, self.V), _share(self.codes, self.V)
        return replace(self, fitted_at=self.weight, ratio=ratio, share=share)

    def _rounded(self, V: np.ndarray) -> np.ndarray:
        """V as the user gets it, so that what is proven holds for that."""
        return np.asfortranarray(V.astype(np.float32), np.float64) if self.single else V

    # Together with others ---------------------------------------------------------------------------------------------

    def merge(self, other: Memory, seed: int) -> Memory:
        """The memory of the rows of both."""
        one, two = self.settled(seed), other.settled(seed)
        if two.V is None or one.V is None:
            return two if one.V is None else one
        sketch, _ = one.sketch.merge(two.sketch)
        directions, turn = one.directions.merge(two.directions)
        theirs = matmul(two.directions.basis().T, directions.basis())
        codes, fresh = (
            mine.plus(yours.recoded(translation(yours, two.V, one.V)))
            for mine, yours in ((one.codes, two.codes), (one.fresh, two.fresh))
        )
        both = replace(
            one,
            sketch=sketch,
            directions=directions,
            reservoir=one.reservoir.turned(turn).merge(two.reservoir.turned(theirs)),
            codes=codes,
            fresh=fresh,
            rows=one.rows + two.rows,
            weight=one.weight + two.weight,
            batches=one.batches + two.batches,
            drift=0.0,
            single=one.single and two.single,
        )
        return both.fitted(seed)


def _share(codes: Sums, V: np.ndarray) -> float:
    return float((codes.squared_error(V) / codes.squares) ** 0.5) if codes.squares > 0 else 0.0
