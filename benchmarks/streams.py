"""What must hold for streams, one row each: the figure, the limit, and whether it holds.

    ENMF_DATA=<folder> python benchmarks/streams.py [--sets audio drifting ...] [--rank 20] [--batches 20] [--anew]

error     of all rows with the best codes (transform), over that of a batch fit: one pass (partial_fit), two passes
time      of one pass and its bound over that of the batch fit with its bound, in one process, in turns: the median of
          three ratios; so for two passes
bound     lower bound over that of the batch fit, which is exact or nearly so
opponents error of scikit-learn's MiniBatchNMF and gensim's Nmf (where installed) over ours, and their time over ours;
          the same batches, their defaults, one pass, in turns as above; they give no bound, and none is asked of ours:
          charged is partial_fit, which keeps the rows that a later bound needs; and the error of MiniBatchNMF over
          ours when it goes on through the same batches until it has had three times our time, bound included
drift     components replaced halfway: error on the last quarter over that of a fit to it, with forget; the largest
          drift that the certificate shows without
memory    peak of a stream of 1, 4 and 16 times as many generated rows, in processes of their own

"digits-like" rows are generated: sums of a few of 30 smooth patches in 28 x 28 pixels. Rows are shuffled. Sets that are
not in the data folder are left out by name. Every row is printed as soon as it is known; after every set all rows are
written to benchmarks/results/streams.csv. Sets that are in there already are not measured again, unless they are asked
for by --sets or all are by --anew.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

import enmf
from enmf.bench.data import matrix

RESULTS = Path(__file__).parent / "results" / "streams.csv"
SETS = ("newsgroups", "imdb", "single_cell", "audio", "digits-like")
TEXT = ("newsgroups", "imdb")
ROUNDS = 3  # of timed runs
FOUND: list[dict[str, Any]] = []


def row(what: str, where: str, figure: float, limit: float, smaller: bool = True) -> None:
    """Print and keep a figure with its limit."""
    holds = figure <= limit if smaller else figure >= limit
    FOUND.append({"what": what, "set": where, "figure": figure, "limit": limit, "holds": holds})
    sign = "<=" if smaller else ">="
    print(f"{what:<42} {where:<12} {figure:>9.4f} {sign} {limit:<7g} {'yes' if holds else 'NO'}", flush=True)


def digits_like(n: int, seed: int = 0) -> np.ndarray:
    """Rows of 784 pixels with a few bright patches."""
    rng = np.random.default_rng(seed)
    place, grid = np.random.default_rng(0).random((30, 2)) * 28, np.stack(np.meshgrid(*2 * [np.arange(28)]), -1)
    patches = np.exp(-((grid[None] - place[:, None, None]) ** 2).sum(-1) / 12.0).reshape(30, -1)
    codes = rng.random((n, 30)) * (rng.random((n, 30)) < 0.2)
    return codes @ patches + 0.05 * rng.random((n, 784))


def load_shuffled(name: str) -> Any:
    X = digits_like(10_000) if name == "digits-like" else matrix(name)
    return X[np.random.default_rng(0).permutation(X.shape[0])]


def timed(work: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def error_of(components: np.ndarray, X: Any) -> float:
    """||X - U H||, with the best U, from the residual's products."""
    U, H, _ = enmf.non_negative_factorization(X, H=components.astype(X.dtype), update_H=False)
    U, H = U.astype(np.float64), H.astype(np.float64)
    values = (X.data if sp.issparse(X) else X).ravel()
    across = float(np.vdot(U, X @ H.T))
    whole = float(np.einsum("i,i->", values, values, dtype=np.float64))
    return float(np.sqrt(whole - 2.0 * across + np.vdot(U.T @ U, H @ H.T)))


def on_set(name: str, rank: int, count: int) -> None:
    X = load_shuffled(name)
    batches = [X[part] for part in np.array_split(np.arange(X.shape[0]), count)]

    def fit() -> Any:
        model = enmf.ENMF(rank, random_state=0).fit(X)
        return model, model.certificate_.lower_bound

    def learn() -> enmf.Stream:
        stream = enmf.Stream(rank)
        for batch in batches:
            stream.partial_fit(batch)
        return stream

    def once() -> Any:
        stream = learn()
        return stream, stream.certificate.lower_bound

    def two() -> Any:
        stream = enmf.Stream(rank).fit_stream(batches)
        return stream, stream.certificate.lower_bound

    fit(), once()  # the first ones of a process load what they need
    runs = [[timed(work) for work in (fit, once, two)] for _ in range(ROUNDS)]
    (model, bound), (stream, own_bound), (twice, _) = (found for found, _ in runs[0])
    seconds = np.array([[took for _, took in turn] for turn in runs])
    over_fit = np.median(seconds[:, 1:] / seconds[:, :1], axis=0)
    own = float(np.median(seconds[:, 1]))
    best = model.reconstruction_err_
    ours = error_of(stream.components, X)
    row("one pass, % above the batch fit", name, 100 * (ours / best - 1), 0.5 if name in TEXT else 1.0)
    row("two passes, % above the batch fit", name, 100 * (error_of(twice.components, X) / best - 1), 0.2)
    row("two passes, certified error, % above", name, 100 * (twice.certificate.error / best - 1), 0.3)
    row("one pass, time over the batch fit", name, over_fit[0], 1.5)
    row("two passes, time over the batch fit", name, over_fit[1], 1.5)
    row("lower bound over the exact one", name, own_bound / bound, 0.97, smaller=False)
    for opponent, learning in opponents(rank).items():
        learning(batches[:1])
        turns = [(timed(lambda learning=learning: learning(batches)), timed(learn)) for _ in range(ROUNDS)]
        H, slower = turns[0][0][0], np.median([theirs[1] / ours_too[1] for theirs, ours_too in turns])
        row(f"error of {opponent} over ours", name, error_of(H, X) / ours, 1.0, smaller=False)
        row(f"time of {opponent} over ours", name, float(slower), 3.0, smaller=False)
    H = minibatch(rank, itertools.cycle(batches), 3.0 * own)
    row("error of MiniBatchNMF in 3 x our time", name, error_of(H, X) / ours, 1.0, smaller=False)


def minibatch(rank: int, batches: Any, limit: float = np.inf) -> np.ndarray:
    """The components of MiniBatchNMF after these batches, or as many of them as it takes in `limit` seconds."""
    from sklearn.decomposition import MiniBatchNMF

    began, model = time.perf_counter(), MiniBatchNMF(rank, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for batch in batches:
            model.batch_size = batch.shape[0]
            model.partial_fit(batch)
            if time.perf_counter() - began > limit:
                break
    return model.components_


def opponents(rank: int) -> dict[str, Any]:
    """Functions from batches to components."""
    found: dict[str, Any] = {"MiniBatchNMF": lambda batches: minibatch(rank, batches)}
    try:
        from gensim.matutils import Sparse2Corpus
        from gensim.models.nmf import Nmf
    except ImportError:
        print("gensim is not installed: without its Nmf")
        return found

    def gensim(batches: list[Any]) -> np.ndarray:
        model = Nmf(num_topics=rank, id2word={j: str(j) for j in range(batches[0].shape[1])}, random_state=0)
        for batch in batches:
            model.update(Sparse2Corpus(sp.csr_matrix(batch), documents_columns=False))
        return model.get_topics()

    return {**found, "gensim's Nmf": gensim}


def drifting(rank: int = 8) -> None:
    """Components replaced halfway."""
    rng = np.random.default_rng(0)
    old, new = (
        rng.random((2000, rank)) ** 3 @ rng.random((rank, 300)) ** 3 + 0.05 * rng.random((2000, 300)) for _ in range(2)
    )
    batches = [*np.array_split(old, 10), *np.array_split(new, 10)]
    last = new[1000:]
    forgetting, keeping, drift = enmf.Stream(rank, forget=0.5), enmf.Stream(rank), 0.0
    for batch in batches:
        forgetting.partial_fit(batch)
        drift = max(drift, keeping.partial_fit(batch).certificate.drift)
    alone = enmf.factorize(last, rank, random_state=0).error
    above = 100 * (error_of(forgetting.components, last) / alone - 1)
    row("forget: last quarter, % above its own fit", "drifting", above, 2)
    row("drift that the certificate shows, without", "drifting", drift, 0.1, smaller=False)


def memory() -> None:
    """Peak memory of three lengths."""
    peaks = [
        int(subprocess.run([sys.executable, __file__, "--peak", str(n)], capture_output=True, text=True).stdout)
        for n in (10_000, 40_000, 160_000)
    ]
    for n, peak in zip((10_000, 40_000, 160_000), peaks):
        print(f"peak of a stream of {n} rows: {peak / 1024:.0f} MB")
    row("peak memory, 16 times as many rows", "memory", peaks[2] / peaks[0], 1.1)


def peak_of(n: int) -> None:
    stream = enmf.Stream(20)
    for seed in range(n // 1000):
        stream.partial_fit(digits_like(1000, seed))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--rank", type=int, default=20)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        peak_of(given.peak)
        return
    parts = {"drifting": drifting, "memory": memory}
    parts |= {name: lambda name=name: on_set(name, given.rank, given.batches) for name in SETS}
    known = pd.read_csv(RESULTS).to_dict("records") if RESULTS.exists() and not given.anew else []
    asked = given.sets if given.sets else [name for name in parts if name not in {row["set"] for row in known}]
    for name in asked:
        FOUND.clear()
        try:
            parts[name]()
        except (FileNotFoundError, KeyError, ValueError) as problem:
            print(f"{name} is left out: {problem}")
            continue
        known = [row for row in known if row["set"] != name] + FOUND
        RESULTS.parent.mkdir(exist_ok=True)
        pd.DataFrame(known).to_csv(RESULTS, index=False)


if __name__ == "__main__":
    main()
