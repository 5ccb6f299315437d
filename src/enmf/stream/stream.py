"""`enmf.Stream`: components of rows that arrive in batches, and after every batch a certificate.

A lower bound comes from a sketch of the rows (`sketch`), an upper bound from sums (`sums`); the components from an
exterior start on what is kept of the rows (`core`), codes by nonnegative least squares, and sweeps (`memory`).
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from enmf import parallel
from enmf.matrix.base import Matrix
from enmf.matrix.sweeps import solve_nnls
from enmf.parallel import matmul
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.numbers import check_count, check_number, check_threads
from enmf.stream import saving
from enmf.stream.batches import readings
from enmf.stream.certificate import StreamCertificate
from enmf.stream.memory import Memory
from enmf.stream.sums import Sums

SKETCH = (
    2  # rows of the sketch per component, and BEYOND more: the lower bound is then 0.99 of the exact one on the sets
)
BEYOND = 10  # of benchmarks/streams.py; twice as many would make it 0.995, and one pass a third slower
DRIFTING = 0.1  # drift that rows of the same kind do not show unless batches have a handful of them
SAME_DATA = 1e-9  # relative difference of the norms of two passes over the same batches


class Stream:
    """Nonnegative matrix factorization of rows that arrive in batches, in memory that does not grow with them.

    Parameters
    ----------
    rank : int
        Number of components r.
    sketch_size : int, optional
        Rows of the sketch behind the lower bound; more make it sharper. Default: 2 rank + 10.
    reservoir : int
        Rows that are remembered, by about 2 rank numbers each, to fit the components to.
    forget : float
        Share of their weight that all earlier rows lose with every batch, 0 <= forget < 1. Bounds and components are
        then those of the weighted rows.
    renewal : float
        A new exterior start is made when error / bound has worsened by this share since the last fit.
    random_state : int
        Seed; the same seed and batches give the same result, also after `save` and `load`.
    n_threads : int, optional

    Examples
    --------
    >>> import enmf
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data
    >>> stream = enmf.Stream(10, random_state=0)
    >>> for first in range(0, len(X), 300):
    ...     _ = stream.partial_fit(X[first : first + 300])
    >>> stream.V.shape, stream.rows
    ((64, 10), 1797)
    >>> bool(1 <= stream.certificate.ratio < 1.5)
    True
    """

    def __init__(
        self,
        rank: int,
        *,
        sketch_size: int | None = None,
        reservoir: int = 4096,
        forget: float = 0.0,
        renewal: float = 0.02,
        random_state: int = 0,
        n_threads: int | None = None,
    ) -> None:
        self.rank = check_count("rank", rank, low=1)
        size = SKETCH * self.rank + BEYOND if sketch_size is None else sketch_size
        self.sketch_size = check_count("sketch_size", size, low=self.rank + 1)
        self.reservoir = check_count("reservoir", reservoir, low=self.rank + 1)
        check_number("forget", forget, low=0.0, high=1.0)
        if forget == 1.0:
            raise ValueError("forget must be below 1: with 1, only the last batch would count. Use fit for that")
        check_number("renewal", renewal, above=0.0)
        self.forget, self.renewal = float(forget), float(renewal)
        self.random_state = check_count("random_state", random_state, low=0)
        self.n_threads = check_threads(n_threads)
        self._memory: Memory | None = None

    # Learning ---------------------------------------------------------------------------------------------------------

    def partial_fit(self, X: Any) -> Stream:
        """Learn from a batch: rows with the columns of the earlier ones, as many as there are, dense or sparse.

        A batch that is refused changes nothing; neither does one that is interrupted.
        """
        with parallel.limit(self.n_threads):
            batch, memory = self._checked(X)
            memory = memory.forgetting(1.0 - self.forget)
            self._memory = memory.learning(batch, self.random_state, self.renewal)
        return self

    def fit_stream(self, batches: Any, passes: int = 2) -> Stream:
        """Learn from all batches, from scratch; a second pass gives all rows the codes of the final components.

        Parameters
        ----------
        batches : iterable of matrices, function that returns one, or X in blocks
            For more than one pass it must be possible to begin anew: a list, a function, the name of an npy file or of
            a folder of parts, a Dask, Zarr or HDF5 array.
        passes : int
            With 1, rows are read once, as by `partial_fit`, and the components fitted once more at the end.
        """
        passes = check_count("passes", passes, low=1)
        read, fitted = readings(batches, passes), Stream(self.rank, **self._options())
        for batch in read():
            fitted.partial_fit(batch) if passes == 1 else fitted._see(batch)
        if fitted._memory is None:
            raise ValueError("batches is empty: there is nothing to learn from")
        fitted.renew()
        for _ in range(passes - 1):
            fitted._look_again(read())
        self._memory = fitted._memory
        return self

    def renew(self) -> Stream:
        """Fit the components to everything that is kept of the rows: an exterior start against the present ones.

        Worth its time when a stream pauses or ends: components are then as good as one pass makes them. The rows keep
        their codes, expressed in the new components, so that the error of the certificate may grow.
        """
        with parallel.limit(self.n_threads):
            self._memory = self._known.fitted(self.random_state)
        return self

    def _see(self, X: Any) -> None:
        """Take a batch in without learning from it yet."""
        with parallel.limit(self.n_threads):
            batch, memory = self._checked(X)
            seen = Sums(batch.squared_norm(), 0.0 * memory.codes.C, 0.0 * memory.codes.S, float(max(batch.shape)))
            memory = memory.forgetting(1.0 - self.forget).seeing(batch, self.random_state)
            self._memory = replace(memory, codes=memory.codes.plus(seen))

    def _look_again(self, batches: Any) -> None:
        """A further pass over the same rows: codes for the present components, then the components for these codes."""
        memory, rows = self._known, 0
        assert memory.V is not None
        codes = Sums.empty(*memory.V.shape)
        with parallel.limit(self.n_threads):
            for X in batches:
                batch, _ = self._checked(X)
                codes, rows = codes.scaled(1.0 - self.forget).plus(memory.coded(batch)), rows + batch.shape[0]
                rest = max(0.0, 1.0 - codes.squares / self._known.codes.squares)
                memory = replace(memory, fresh=codes.plus(self._known.fresh.scaled(rest))).swept()
            known = self._known.codes.squares
            if rows != memory.rows or abs(codes.squares - known) > SAME_DATA * codes.squares:
                raise ValueError(
                    f"the batches of a further pass are not those of the first one: they have {rows} rows of norm "
                    f"{codes.squares**0.5:.6g}, not {memory.rows} of norm {known**0.5:.6g}"
                )
            self._memory = replace(memory, codes=codes, fresh=codes).swept()

    def _checked(self, X: Any) -> tuple[Matrix, Memory]:
        """A batch, in double precision, and what is known before it."""
        problem = check_problem(X, np.float64)
        if problem.scale != 1.0:
            raise ValueError(
                "the entries of a stream must be of moderate size, the largest of a batch between 1e-70 and 1e70: "
                f"divide all batches by {problem.scale:.0e}"
            )
        columns, memory = problem.X.shape[1], self._memory
        if memory is None:
            memory = Memory.empty(columns, self.rank, self.sketch_size, self.reservoir)
        elif columns != memory.sketch.B.shape[1]:
            raise ValueError(
                f"the batch has {columns} columns, the batches before it had {memory.sketch.B.shape[1]}. A stream has "
                "the same columns throughout"
            )
        single = memory.single and getattr(X, "dtype", None) == np.float32
        return problem.X, replace(memory, single=single)

    # What was learnt --------------------------------------------------------------------------------------------------

    @property
    def _known(self) -> Memory:
        if self._memory is None:
            raise ValueError("the stream has not seen any rows yet: call partial_fit or fit_stream first")
        return self._memory

    @property
    def V(self) -> np.ndarray:
        """The components in columns  # m x r"""
        V = self._known.V
        assert V is not None
        return np.ascontiguousarray(V, np.float32 if self._known.single else np.float64)

    @property
    def components(self) -> np.ndarray:
        """The components in rows, scikit-learn's H."""
        return np.ascontiguousarray(self.V.T)

    @property
    def rows(self) -> int:
        """Rows seen so far."""
        return 0 if self._memory is None else self._memory.rows

    @property
    def batches(self) -> int:
        """Batches seen so far."""
        return 0 if self._memory is None else self._memory.batches

    @property
    def certificate(self) -> StreamCertificate:
        """What is known about the components and the rows seen so far."""
        memory, seed, threads = self._known, self.random_state, self.n_threads
        assert memory.V is not None

        def bound() -> float:
            with parallel.limit(threads):
                known = memory.sketching(seed)
                if self._memory is memory:  # the next bound begins here; components do not depend on the sketch
                    self._memory = known
                return known.sketch.lower_bound(memory.codes.squares)

        error = memory.codes.squared_error(memory.V) ** 0.5
        return StreamCertificate(memory.rows, self.rank, error, memory.codes.squares**0.5, memory.drift, bound)

    @property
    def status(self) -> str:
        """ "few_rows": no more rows than components; "drifting": the relative error of the last batch is larger than
        that of the rows before it by more than 10 %; else "learnt"."""
        if self._known.rows <= self.rank:
            return "few_rows"
        return "drifting" if self._known.drift > DRIFTING else "learnt"

    def transform(self, X: Any) -> np.ndarray:
        """The best codes U >= 0 of rows for the present components."""
        with parallel.limit(self.n_threads):
            batch, memory = self._checked(X)
            V = self._known.V
            assert V is not None
            U = solve_nnls(matmul(V.T, V), batch.times(V))
        return np.ascontiguousarray(U, np.float32 if memory.single else np.float64)

    def score(self, X: Any) -> float:
        """Share of ||X||² that the components explain, with the best codes. Higher is better."""
        with parallel.limit(self.n_threads):
            batch, _ = self._checked(X)
            sums = self._known.coded(batch)
            V = self._known.V
            assert V is not None
            return 1.0 if sums.squares == 0.0 else 1.0 - sums.squared_error(V, rounded_up=False) / sums.squares

    # Elsewhere and later ----------------------------------------------------------------------------------------------

    def merge(self, other: Stream) -> Stream:
        """A new stream that has seen the rows of both; sketches, sums and samples add up, and so do the bounds."""
        if not isinstance(other, Stream):
            raise TypeError(f"only a Stream can be merged with a Stream, got {type(other).__name__}")
        if other.rank != self.rank:
            raise ValueError(f"the streams have different ranks, {self.rank} and {other.rank}")
        one, two = self._known, other._known
        if one.sketch.B.shape[1] != two.sketch.B.shape[1]:
            raise ValueError(
                f"the streams have different columns: {one.sketch.B.shape[1]} and {two.sketch.B.shape[1]} of them"
            )
        both = Stream(self.rank, **self._options())
        with parallel.limit(self.n_threads):
            both._memory = one.merge(two, self.random_state)
        return both

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to an npz file, from which `load` resumes to the last bit."""
        saving.save(path, self._memory, {"rank": self.rank, **self._options()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Stream:
        """A stream that `save` has written. No code in the file is run."""
        memory, options = saving.load(path)
        stream = cls(**options)
        stream._memory = memory
        return stream

    def _options(self) -> dict[str, Any]:
        names = ("sketch_size", "reservoir", "forget", "renewal", "random_state", "n_threads")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        return f"<Stream of rank {self.rank}: {self.rows} rows in {self.batches} batches>"
