"""Tables 5 and 6 and the post-rotation tables of spoken digits: NMF features for classifiers.

The basis is learnt from the training rows alone; both parts are projected on it by nonnegative least squares. Nothing
is tuned on the test rows: the SVM's C is chosen by cross-validation within the training part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
from joblib import parallel_config  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from enmf import parallel
from enmf.bench.protocols import Goal, Result, goals
from enmf.datasets import load
from enmf.matrix.sweeps import solve_nnls
from enmf.problem.validation.arrays import check_problem
from paper.ablation import STRATEGIES, strategy_options
from paper.case import Case, Row, reproduces
from paper.runs import LETTER, OPPONENTS, bound_of, facts, run, warm

SPLITS = 5
Part = tuple[np.ndarray, np.ndarray]  # rows and their labels


@lru_cache(maxsize=1)
def faces(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of 38 people; every `step`-th pixel."""
    X, labels = load("faces")
    return np.ascontiguousarray(X[:, ::step]), np.asarray(labels["person"])


@lru_cache(maxsize=1)
def digits(frames: int) -> tuple[np.ndarray, np.ndarray]:
    """Log-magnitude spectrograms, log(1 + |S| / mean |S|); `frames` frames are averaged before."""
    X, labels = load("audio")
    S = X.reshape(len(X), 101, -1)
    S = S[:, :, : S.shape[2] // frames * frames].reshape(len(X), 101, -1, frames).mean(axis=3)
    return np.log1p(S / S.mean()).reshape(len(X), -1), np.asarray(labels["digit"])


def _svm() -> Any:
    grid = GridSearchCV(SVC(kernel="rbf"), {"C": (1.0, 10.0, 100.0)}, cv=3)
    return make_pipeline(StandardScaler(), grid)


def _logistic() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))


def accuracy(result: Result, train: Part, test: Part, classifier: Any) -> float:
    V = np.asarray(result.V, dtype=np.float64)
    G = V.T @ V
    H_train, H_test = (solve_nnls(G, np.asarray(part[0] @ V, dtype=np.float64)) for part in (train, test))
    with parallel_config(backend="threading", n_jobs=parallel.count()):  # the folds of the SVM
        classifier.fit(H_train, train[1])
    return float(classifier.score(H_test, test[1]))


def _split(X: np.ndarray, y: np.ndarray, test_size: float, split: int) -> tuple[Part, Part]:
    first, second = next(StratifiedShuffleSplit(1, test_size=test_size, random_state=split).split(X, y))
    return (X[first], y[first]), (X[second], y[second])


def _methods(
    source: Callable[[], tuple[np.ndarray, np.ndarray]],
    test_size: float,
    rank: int,
    split: int,
    make: Callable[[], Any],
) -> Iterator[Row]:
    train, test = _split(*source(), test_size, split)
    target = check_problem(train[0])
    warm(target, *OPPONENTS)
    ours = run(target, rank, "enmf")
    bound, goal = bound_of(target, rank), Goal(ours.trace[-1].seconds)
    for method in ("enmf", LETTER, *OPPONENTS):
        start = f"random-{split}" if method in OPPONENTS else "exterior"
        result = ours if method == "enmf" else run(target, rank, method, start, goal)
        score = 100 * accuracy(result, train, test, make())
        yield {"method": method, "start": start, **facts(result, bound), "accuracy": score}


def _splits(data: str, ranks: tuple[int, ...], run: Any, classifier: Any) -> Iterator[Case]:
    """A case for every rank and split: run(rank, split, classifier)."""
    for rank in ranks:
        for split in range(SPLITS):
            yield Case({"data": data, "rank": rank, "split": split}, partial(run, rank, split, classifier))


@reproduces(
    "faces",
    ("table 5",),
    "Face recognition",
    small={"ranks": (25,), "step": 4},
    paper={"ranks": (5, 10, 15, 20, 25), "step": 1},
)
def face_recognition(ranks: tuple[int, ...], step: int) -> Iterator[Case]:
    """The paper's Face matrix has one person only, so there is nobody to tell apart in it: these are the 38 people of
    the same collection, 2,432 images (the small size takes every fourth pixel). NNLS features on the learnt basis, RBF
    SVM, stratified 70/30, five splits; factors at equal time, opponents from one random start; `enmf-paper` is
    preset="paper"."""
    return _splits("faces", ranks, partial(_methods, partial(faces, step), 0.3), _svm)


@reproduces(
    "digits",
    ("table 6",),
    "Spoken digits",
    small={"ranks": (10, 40), "frames": 14},
    paper={"ranks": (10, 20, 40, 80, 100), "frames": 1},
)
def spoken_digits(ranks: tuple[int, ...], frames: int) -> Iterator[Case]:
    """3,000 of the 30,000 recordings, log-magnitude spectrograms (the small size averages fourteen frames), NNLS
    features, logistic regression, stratified 80/20, five splits; factors at equal time, opponents from one random
    start; `enmf-paper` is preset="paper"."""
    return _splits("digits", ranks, partial(_methods, partial(digits, frames), 0.2), _logistic)


@reproduces(
    "post-rotation",
    ("table 10 of spoken digits", "table 11 of spoken digits"),
    "Spoken digits from five ways to go on after the rotation",
    small={"ranks": (10, 40), "frames": 14, "patience": 2.0, "limit": 1.0},
    paper={"ranks": (10, 20, 40, 80, 100), "frames": 1, "patience": 20.0, "limit": 3600.0},
)
def post_rotation(ranks: tuple[int, ...], frames: int, patience: float, limit: float) -> Iterator[Case]:
    """The same rotated SVD, then feasibility stage or projection, then HALS, Grad-Mult or gradient descent, all by
    preset="paper": at the time of feasibility + HALS (to its KKT point or a limit of seconds), and at its error (given
    up after some times its time)."""
    for rank in ranks:
        for split in range(SPLITS):
            yield Case(
                {"data": "digits", "rank": rank, "split": split},
                partial(_strategies, frames, rank, split, patience, limit),
            )


def _strategies(frames: int, rank: int, split: int, patience: float, limit: float) -> Iterator[Row]:
    train, test = _split(*digits(frames), 0.2, split)
    target = check_problem(train[0])
    warm(target, "hals", "grad-mult", "gradient")
    options = strategy_options(STRATEGIES[0])
    ours = run(target, rank, LETTER, goal=Goal(limit), options=options)
    bound, seconds = bound_of(target, rank), ours.trace[-1].seconds
    score = 100 * accuracy(ours, train, test, _logistic())
    for protocol in ("equal time", "equal error"):
        yield {"protocol": protocol, "method": STRATEGIES[0], **facts(ours, bound), "accuracy": score}
    for name in STRATEGIES[1:]:
        options = strategy_options(name)
        for protocol, goal in goals(seconds, ours.error, patience).items():
            result = run(target, rank, LETTER, goal=goal, options=options)
            found = 100 * accuracy(result, train, test, _logistic())
            yield {"protocol": protocol.replace("-", " "), "method": name, **facts(result, bound), "accuracy": found}
