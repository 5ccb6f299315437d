"""Calls of the public interface, drawn at random, with what must hold for their answers.

A function here draws one call: its text, what is expected of it, and `run`, which makes the call and returns the
oracle's complaints.
"""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

import enmf

from . import oracle
from .matrices import EXTREME, INVALID, ORDINARY, Sample
from .oracle import Problem

RIGHT, REFUSED, EITHER = "right", "refused", "either"
EXPECTED = {ORDINARY: RIGHT, EXTREME: EITHER, INVALID: REFUSED}


@dataclass
class Call:
    """What the user writes, as text and as something to run; `run` returns complaints."""

    text: str
    run: Callable[[], list[str]]
    expected: str
    owned: list[Any] = field(default_factory=list)  # what the caller owns and finds unchanged


Draw = Callable[[np.random.Generator, Sample], Call]
CALLS: dict[str, tuple[float, Draw]] = {}


def call(weight: float) -> Callable[[Draw], Draw]:
    """How often a call is drawn, relative to the others."""

    def register(draw: Draw) -> Draw:
        CALLS[draw.__name__] = weight, draw
        return draw

    return register


def draw(rng: np.random.Generator, sample: Sample) -> Call:
    weights = np.array([weight for weight, _ in CALLS.values()])
    name = str(rng.choice(list(CALLS), p=weights / weights.sum()))
    return CALLS[name][1](rng, sample)


def spelled(name: str, sample: Sample, options: dict[str, Any]) -> str:
    return f"{name}({', '.join([f'<{sample.name}>', *(f'{key}={_short(value)}' for key, value in options.items())])})"


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))})"
    if callable(value):
        return "<stop after two>"
    shape = getattr(value, "shape", ())
    return f"<{type(value).__name__} {' x '.join(map(str, shape))}>" if shape else repr(value)


def pick(rng: np.random.Generator, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def a_rank(rng: np.random.Generator, shape: tuple[int, int]) -> int:
    side = min(shape)
    return int(pick(rng, 1, 2, 2, 3, 3, 5, max(1, side - 1), side, side + 1, side + 4))


def stop_after_two(progress: Any) -> bool:
    return progress.phase == "descent" and progress.iteration >= 2


# factorize -----------------------------------------------------------------------------------------------------------


@call(40)
def factorize(rng, sample):
    rank = a_rank(rng, sample.shape)
    options = {"rank": rank, **_method_and_start(rng, sample.shape, rank), **_limits(rng), **_extras(rng)}
    options["random_state"] = int(rng.integers(1000))
    problem = _problem(sample, options)
    further = pick(rng, _again, _threads, _scaled, None, None)

    def run():
        result = enmf.factorize(sample.X, **options)
        found = oracle.of_result(result, problem, rank, options)
        _show(result)
        return found or (further(result, sample, options, problem) if further and _repeatable(options) else [])

    expected = EXPECTED[sample.kind] if np.isfinite(problem.X).all() else REFUSED
    given = [F for F in options["init"] if F is not None] if isinstance(options.get("init"), tuple) else []
    if expected == RIGHT and not all(F.any() for F in given):
        expected = EITHER  # nothing grows from zero
    return Call(spelled("factorize", sample, options), run, expected, [sample.X, *given])


def _method_and_start(rng, shape, rank):
    chosen = {"method": pick(rng, "enmf", "enmf", "enmf", *enmf.methods())}
    if rng.random() < 0.6:
        chosen["init"] = pick(rng, "random", *enmf.initializations())
    elif rng.random() < 0.2:
        U, V = rng.random((shape[0], rank)), rng.random((shape[1], rank))
        chosen["init"] = pick(rng, (U, V), (None, V), (U * (rng.random(rank) < 0.5), V), (0 * U, 0 * V))
    if chosen["method"] == "enmf" and rng.random() < 0.15:
        chosen["descent"] = pick(rng, *enmf.methods()[1:])
    return chosen


def _limits(rng):
    chosen = {"max_iter": pick(rng, 0, 1, 2, 10, 60, 300, 300, 300)}
    if rng.random() < 0.15:
        chosen["tol"] = pick(rng, 0.0, 1e-12, 1e-3, 0.1)
    if rng.random() < 0.08:
        chosen["time_limit"] = pick(rng, 0.0, 1e-9, 0.05)
    if rng.random() < 0.08:
        chosen["target_error"] = pick(rng, 0.0, 1e-3, 1.0, 1e300)
    if rng.random() < 0.05:
        chosen["callback"] = stop_after_two
    return chosen


def _extras(rng):
    chosen = {}
    if rng.random() < 0.15:
        weights = {name: pick(rng, 1e-3, 0.1, 10.0) for name in oracle.PENALTIES if rng.random() < 0.5}
        chosen.update(weights)
    if rng.random() < 0.1:
        chosen["dtype"] = pick(rng, "float32", "float64")
    if rng.random() < 0.1:
        chosen["exact_U"] = True
    if rng.random() < 0.1:
        chosen["bound"] = False
    if rng.random() < 0.08:
        chosen["preset"] = "paper"
    if rng.random() < 0.25:
        chosen["svd"] = pick(rng, "randomized", "randomized", "krylov", "exact")
    return chosen


def _problem(sample, options):
    dtype = np.dtype(options.get("dtype", sample.dtype))
    with np.errstate(over="ignore", invalid="ignore"):
        X = sample.dense.astype(dtype).astype(float)
    l1U, l2U, l1V, l2V = (options.get(name, 0.0) for name in oracle.PENALTIES)
    return Problem(X, l1=(l1U, l1V), l2=(l2U, l2V), dtype=dtype)


def _repeatable(options):
    return options.get("time_limit") is None


def _again(result, sample, options, problem):
    again = enmf.factorize(sample.X, **options)
    return [] if oracle.same(result, again) else ["a second run with the same seed differs"]


def _threads(result, sample, options, problem):
    one, two = (enmf.factorize(sample.X, n_threads=count, **options) for count in (1, 2))
    return [] if oracle.same(one, two) else ["one thread and two give different results"]


def _scaled(result, sample, options, problem):
    """2^20 X has 2^10 times the factors, to the last bit, where no number of the caller has a unit and none rounds."""
    X, limits = problem.X.astype(problem.dtype), np.finfo(problem.dtype)
    has_units = isinstance(options.get("init"), tuple) or problem.penalized or options.get("target_error") is not None
    positive = X[X > 0]
    if has_units or not positive.size or positive.min() < 1e9 * limits.tiny or positive.max() > 1e-9 * limits.max:
        return []
    plain, large = (enmf.factorize(X * problem.dtype.type(times), **options) for times in (1.0, 2.0**20))
    if oracle.same(plain, large, 2.0**10):
        return []
    off = plain.certificate.relative_error, large.certificate.relative_error
    return [f"2^20 X does not have 2^10 times the factors; relative errors {off[0]!r} and {off[1]!r}"]


def _show(result):
    """Everything that a user prints must print."""
    str(result.certificate), result.certificate.report(), repr(result), json.dumps(result.certificate.to_dict())
    result.trace.to_frame()


# complete ------------------------------------------------------------------------------------------------------------


@call(18)
def complete(rng, sample):
    X, given, observed = _with_gaps(rng, sample)
    rank = a_rank(rng, sample.shape)
    options = {"rank": rank, **given, **_completion_options(rng), "tol": pick(rng, 1e-4, 1e-4, 1e-6, 0.0)}
    weights, unit = np.ones(sample.shape), 1.0
    if rng.random() < 0.3:
        options["weights"], weights, unit = _weights(rng, sample, given, observed)
        observed = observed & (weights > 0)
    values = np.where(observed, sample.dense, 0.0)
    problem = _masked_problem(sample, values, observed, weights, unit, options)
    more_threads = rng.random() < 0.2 and _repeatable(options)

    def run():
        result = enmf.complete(X, **options)
        found = oracle.of_result(result, problem, rank, options)
        _show(result)
        return found or (_completion_threads(X, options) if more_threads else [])

    expected = _completion_expected(sample, values, observed, rank)
    name = "complete masked array" if isinstance(X, np.ma.MaskedArray) else "complete"
    return Call(spelled(name, sample, options), run, expected, [X, *given.values()])


def _with_gaps(rng, sample):
    """X with a part of it missing, the words that say so, and what is observed."""
    dense = sample.dense
    holes = rng.random(dense.shape) < pick(rng, 0.05, 0.3, 0.8)
    as_pattern = pick(rng, np.asarray, sp.csr_array)
    ways = [({"missing": as_pattern(holes)}, ~holes), ({"mask": as_pattern(~holes)}, ~holes)]
    if sample.sparse:
        ways += [({"missing": "unstored"}, _stored(sample.X)), ({"missing": "none"}, np.ones(dense.shape, bool))]
    given, observed = ways[int(rng.integers(len(ways)))]
    if isinstance(sample.X, np.ndarray) and sample.X.dtype.kind == "f" and rng.random() < 0.6:
        hidden = pick(rng, lambda A: np.where(holes, A.dtype.type(np.nan), A), lambda A: _masked(A, holes))
        return hidden(sample.X), {}, ~(holes | np.isnan(dense))
    return sample.X, given, observed


def _masked(A, holes):
    """Under the mask is a number that would be fitted if the mask were lost."""
    return np.ma.masked_array(np.where(holes, A.dtype.type(7.7), A), holes)


def _stored(X):
    pattern = np.zeros(X.shape, dtype=bool)
    pattern[sp.coo_array(X).coords] = True
    return pattern


def _completion_options(rng):
    chosen = {"method": pick(rng, "enmc", "enmc", *enmf.completion_methods())}
    if rng.random() < 0.4:
        chosen["ridge"] = pick(rng, 0.1, (0.01, 0.2), 5.0)
        chosen["ridge_scaling"] = pick(rng, "entries", "entries", "none")
    if rng.random() < 0.4:
        chosen["init"] = pick(rng, "random", "exterior")
    if rng.random() < 0.08:
        chosen["time_limit"] = 0.0
    return {**chosen, "max_iter": pick(rng, 0, 1, 5, 200), "random_state": int(rng.integers(1000))}


def _weights(rng, sample, given, observed):
    """Weights, what they are for every entry, and the unit of the KKT residual: their mean.

    In a sparse X of which unstored entries are zeros, those have weight 1, and so has the unit.
    """
    w = rng.random(sample.shape) * (rng.random(sample.shape) < 0.9) * pick(rng, 1.0, 1e-3, 1e3)
    w = w.astype(sample.dtype)
    of_entries = w.astype(float)
    missing = given.get("missing")
    if sample.sparse and missing is not None and not (isinstance(missing, str) and missing == "unstored"):
        return w, np.where(_stored(sample.X), of_entries, 1.0), 1.0
    positive = of_entries[observed & (of_entries > 0)]
    return w, of_entries, float(positive.mean()) if positive.size else 1.0


def _masked_problem(sample, values, observed, weights, unit, options):
    ridge = options.get("ridge", 0.0)
    pair = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    W = np.where(observed, weights, 0.0)
    sums = W.sum(axis=1), W.sum(axis=0)
    by_entries = options.get("ridge_scaling", "entries") == "entries"
    l2 = tuple((own * total if by_entries else np.full(len(total), own)) / unit for own, total in zip(pair, sums))
    whole = observed.all() and "weights" not in options
    return Problem(values, None if whole else W, unit, l2=l2, dtype=sample.dtype)


def _completion_expected(sample, values, observed, rank):
    if not np.isfinite(values).all() or values.min() < 0 or not observed.any():
        return REFUSED
    if rank > observed.sum():
        return EITHER  # refused where entries are missing
    duplicates = sample.sparse and sample.X.nnz > sp.csr_array(sample.X).nnz  # may be ratings given twice
    return EITHER if duplicates or sample.kind == EXTREME else RIGHT


def _completion_threads(X, options):
    one, two = (enmf.complete(X, n_threads=count, **options) for count in (1, 2))
    return [] if oracle.same(one, two) else ["one thread and two give different results"]


@call(2)
def factorize_masked_array(rng, sample):
    """A mask says that entries are missing: not for `factorize` and its kin."""
    X = np.ma.masked_array(np.nan_to_num(sample.dense, posinf=1.0).clip(0), rng.random(sample.shape) < 0.3)
    ask = pick(
        rng, lambda: enmf.factorize(X, 1, max_iter=5), lambda: enmf.ENMF(1).fit(X), lambda: enmf.consensus(X, 1, 2)
    )

    def run():
        ask()
        return []

    expected = REFUSED if np.ma.is_masked(X) else EITHER
    return Call(f"factorize, ENMF or consensus(<masked {sample.name}>)", run, expected, [X.data])


# certify, compare ----------------------------------------------------------------------------------------------------


@call(6)
def certify(rng, sample):
    """Anybody's factors: random, with a component that is zero in one factor or both, with columns far from balance."""
    (n, m), rank = sample.shape, a_rank(rng, sample.shape)
    largest = sample.dense.max(initial=0, where=np.isfinite(sample.dense))
    U, V = (rng.random((length, rank)) * math.sqrt(largest) for length in (n, m))
    U[:, 0] *= pick(rng, 1, 1, 1, 0)
    V[:, 0] *= pick(rng, 1, 1, 1, 0)
    V *= pick(rng, 1, 1, 1, 1e8)
    U, V = (F.astype(sample.dtype) for F in (U, V))
    fixed = pick(rng, None, None, None, "U", "V")
    problem, missing = _problem(sample, {}), np.isnan(sample.dense)
    if missing.any():  # of a dense X: entries that are missing
        problem = Problem(np.where(missing, 0.0, problem.X), 1.0 - missing, dtype=sample.dtype)

    def run():
        c = enmf.certify(sample.X, U, V, fixed=fixed)
        return oracle.of_certificate(c, problem, oracle.figures(problem, U, V), kkt=fixed is None)

    expected = RIGHT if missing.any() and not missing.all() and not sample.sparse else EXPECTED[sample.kind]
    text = spelled("certify", sample, {"U": U, "V": V, "fixed": fixed})
    return Call(text, run, expected, [sample.X, U, V])


@call(3)
def compare(rng, sample):
    """Factors against a copy with other order and scale, against others, against zero, against another rank."""
    (n, m), rank = sample.shape, a_rank(rng, sample.shape)
    U, V = rng.random((n, rank)), rng.random((m, rank))
    order, scale = rng.permutation(rank), rng.random(rank) + 0.5
    way = pick(rng, "copy", "copy", "other", "zero", "other rank")
    other = {
        "copy": (U[:, order] * scale, V[:, order] / scale),
        "other": (rng.random((n, rank)), rng.random((m, rank))),
        "zero": (0 * U, V),
        "other rank": (rng.random((n, 2)), rng.random((m, 2))),
    }[way]
    X = sample.X if rng.random() < 0.5 else None

    def run():
        found = enmf.compare((U, V), other, X)
        str(found), json.dumps(found.to_dict())
        judged = way == "copy" and rank <= min(n, m) // 2 and (X is None or sample.dense.any())
        told = not judged or found.verdict == "E"
        return [] if told else [f"a permuted and scaled copy is {found.verdict!r}, relation {found.relation!r}"]

    expected = RIGHT if X is None else EITHER if sample.kind == INVALID else EXPECTED[sample.kind]
    return Call(
        spelled("compare", sample, {"B": way, "rank": rank, "X": X is not None}), run, expected, [sample.X, U, V]
    )


# several runs --------------------------------------------------------------------------------------------------------


@call(3)
def stability(rng, sample):
    rank = min(a_rank(rng, sample.shape), 6)
    options = {"n_runs": 3, "max_iter": 50, "random_state": int(rng.integers(1000))}
    problem = _problem(sample, {})

    def run():
        found = enmf.stability(sample.X, rank, **options)
        str(found), json.dumps(found.to_dict())
        bad = [text for result in found.results for text in oracle.of_result(result, problem, rank, options)]
        return bad or _same_runs(sample, rank, options)

    return Call(spelled("stability", sample, {"rank": rank, **options}), run, EXPECTED[sample.kind], [sample.X])


def _same_runs(sample, rank, options):
    one, two = (enmf.stability(sample.X, rank, n_threads=count, **options).results for count in (1, 2))
    same = all(oracle.same(first, second) for first, second in zip(one, two))
    return [] if same else ["one thread and two give different results"]


@call(3)
def consensus(rng, sample):
    rank = min(a_rank(rng, sample.shape), 6)
    options = {"n_runs": 3, "max_iter": 50, "threshold": 2.0, "random_state": int(rng.integers(1000))}
    problem = _problem(sample, {})

    def run():
        found = enmf.consensus(sample.X, rank, **options)
        str(found)
        bad = oracle.of_factors(found.U, found.V, problem.X.shape, rank)
        if not (np.isfinite(found.errors).all() and np.isfinite(found.stability).all()):
            bad.append(f"errors {found.errors}, stability {found.stability}")
        return bad or oracle.of_certificate(found.certificate, problem, oracle.figures(problem, found.U, found.V))

    expected = EXPECTED[sample.kind]
    if expected == RIGHT and np.linalg.matrix_rank(problem.X) < rank:
        expected = EITHER  # superfluous components need not agree
    return Call(spelled("consensus", sample, {"rank": rank, **options}), run, expected, [sample.X])


@call(2)
def select_rank(rng, sample):
    ranks = range(1, min(4, max(2, min(sample.shape))))
    options = {"folds": 2, "random_state": int(rng.integers(1000))}

    def run():
        found = enmf.select_rank(sample.X, ranks, **options)
        str(found), json.dumps(found.to_dict())
        bad = [] if found.rank in ranks else [f"rank {found.rank} was not asked for"]
        numbers = found.table[["bound", "error", "held_out"]].to_numpy(dtype=float)
        return bad if np.isfinite(numbers).all() else [*bad, f"figures are not finite: {numbers.tolist()}"]

    possible = min(sample.shape) > max(ranks)
    expected = EXPECTED[sample.kind] if possible else EITHER
    return Call(spelled("select_rank", sample, {"ranks": ranks, **options}), run, expected, [sample.X])


# estimators ----------------------------------------------------------------------------------------------------------


@call(8)
def ENMF(rng, sample):
    options = {"solver": pick(rng, "enmf", "enmf", "enmf", "cd", *enmf.methods()), "max_iter": 100, "random_state": 0}
    if rng.random() < 0.2:
        options.update(alpha_W=pick(rng, 1e-3, 0.1), l1_ratio=pick(rng, 0.0, 0.5, 1.0))
    rank = pick(rng, a_rank(rng, sample.shape), a_rank(rng, sample.shape), "auto")
    problem = _problem(sample, {})

    def run():
        model = enmf.ENMF(rank, **options)
        W = model.fit_transform(sample.X)
        return _estimator(model, W, sample, problem, "alpha_W" in options)

    return Call(spelled("ENMF", sample, {"n_components": rank, **options}), run, EXPECTED[sample.kind], [sample.X])


def _estimator(model, W, sample, problem, penalized):
    W, H = np.asarray(W), model.components_
    bad = oracle.of_factors(W, H.T, problem.X.shape, model.n_components_, problem.dtype)
    if bad:
        return bad
    true, rounding = oracle.figures(problem, W, H.T), oracle.Rounding.of(problem.dtype)
    if not penalized:
        bad += oracle.of_certificate(model.certificate_, problem, true)
    W2 = np.asarray(model.transform(sample.X))
    again = oracle.figures(problem, W2, H.T).relative_error
    if not abs(again - true.relative_error) <= rounding.error * true.relative_error + rounding.error_floor:
        bad.append(f"transform(X) has a relative error of {again!r}, fit_transform(X) of {true.relative_error!r}")
    explained = 1.0 if true.whole == 0 else 1 - true.relative_error**2
    if not abs(model.score(sample.X) - explained) <= 10 * rounding.error:
        bad.append(f"score is {model.score(sample.X)!r}, the explained share {explained!r}")
    model.components_frame(), enmf.top_features(model)
    pickle.loads(pickle.dumps(model)), clone(model)
    return bad


@call(4)
def ENMC(rng, sample):
    options = {"missing": "unstored" if sample.sparse else None, "max_iter": 50, "random_state": 0}
    options.update(ridge=pick(rng, 0.0, 0.05), clip=pick(rng, None, (0, 5)))
    rank = a_rank(rng, sample.shape)
    observed = _stored(sample.X) if sample.sparse else ~np.isnan(sample.dense)
    places = rng.integers(0, sample.shape[0], 5), rng.integers(0, sample.shape[1], 5)

    def run():
        model = enmf.ENMC(rank, **options)
        W = model.fit_transform(sample.X)
        bad = oracle.of_factors(W, model.components_.T, sample.shape, rank, sample.dtype)
        if not np.isfinite(model.predict(*places)).all():
            bad.append("a prediction is not finite")
        _, scores = model.recommend(int(places[0][0]), k=3)
        if not np.isfinite(scores).all() or (np.diff(scores) > 0).any():
            bad.append(f"scores of recommendations are {scores}")
        model.transform(sample.X)
        score = model.score(sample.X)
        return bad if math.isfinite(score) else [*bad, f"score is {score}"]

    values = np.where(observed, sample.dense, 0.0)
    expected = _completion_expected(sample, values, observed, rank)
    return Call(spelled("ENMC", sample, {"n_components": rank, **options}), run, expected, [sample.X])


@call(3)
def non_negative_factorization(rng, sample):
    rank = a_rank(rng, sample.shape)
    H = rng.random((rank, sample.shape[1]))
    spoil = pick(rng, None, None, -1.0, np.nan, np.inf)
    if spoil is not None:
        H[0, 0] = spoil
    given = pick(rng, {}, {"H": H, "update_H": False}) if spoil is None else {"H": H, "update_H": False}
    options = {"n_components": rank, "max_iter": 50, "random_state": 0, **given}
    problem = _problem(sample, {})

    def run():
        W, H, _ = enmf.non_negative_factorization(sample.X, **options)
        return oracle.of_factors(W, H.T, problem.X.shape, rank, problem.dtype)

    expected = REFUSED if spoil is not None else EXPECTED[sample.kind]
    text = spelled("non_negative_factorization", sample, options) + (f" with {spoil} in H" if spoil is not None else "")
    return Call(text, run, expected, [sample.X, H])


# exact ---------------------------------------------------------------------------------------------------------------


@call(3)
def svd_factors(rng, sample):
    """The best factors of any sign, and their transform toward the orthant."""
    rank = a_rank(rng, sample.shape)
    problem = _problem(sample, {})

    def run():
        U, V = enmf.exact.svd_factors(sample.X, rank)
        best, floor = oracle.bound(problem.X, rank), 1e-5 if problem.dtype == np.float32 else 1e-7
        error = oracle.figures(problem, U, V).relative_error
        bad = [] if error <= best * (1 + 1e-6) + floor else [f"relative error {error!r}, best possible {best!r}"]
        moved = enmf.exact.transform_to_orthant(U, V, max_iter=60)
        repr(moved)
        return bad if np.isfinite(moved.U).all() and np.isfinite(moved.V).all() else [*bad, "transform is not finite"]

    return Call(spelled("exact.svd_factors", sample, {"rank": rank}), run, EXPECTED[sample.kind], [sample.X])


@call(2)
def separability(rng, sample):
    rank = a_rank(rng, sample.shape)

    def run():
        repr(enmf.exact.separability(sample.X, rank))
        return []

    return Call(spelled("exact.separability", sample, {"rank": rank}), run, EXPECTED[sample.kind], [sample.X])


@call(1)
def relate(rng, sample):
    (n, m), rank = sample.shape, a_rank(rng, sample.shape)
    first = rng.random((n, rank)), rng.random((m, rank))
    A = np.eye(rank) + 0.1 * rng.random((rank, rank))
    second = first[0] @ A, np.linalg.solve(A, first[1].T).T

    def run():
        found = enmf.exact.relate(first, second)
        return [] if max(found.delta_u, found.delta_v) < 1e-6 else [f"{found!r} for factors with the same product"]

    expected = RIGHT if rank <= min(n, m) // 2 else EITHER
    return Call(f"exact.relate(two pairs of {n} x {rank} and {m} x {rank})", run, expected, [*first, *second])
