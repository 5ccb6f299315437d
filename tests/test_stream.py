"""Rows that arrive in batches: what is proven about them, and that nothing else changes it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import enmf
from enmf.cli.commands import app
from enmf.matrix.stack import size
from enmf.stream.reservoir import Reservoir
from enmf.stream.sketch import Sketch
from enmf.stream.sums import Sums

EXAMPLES = int(os.environ.get("ENMF_STREAM_EXAMPLES", "5"))  # thousands by hand


def low_rank(n, m, rank, rng, noise=0.1):
    return rng.random((n, rank)) ** 3 @ rng.random((rank, m)) ** 3 + noise * rng.random((n, m))


def split(X, parts):
    return [X[rows] for rows in np.array_split(np.arange(X.shape[0]), parts) if len(rows)]


def exact_bound(A, rank):
    """Eckart-Young, from LAPACK's SVD of all rows."""
    return float(np.sqrt((np.linalg.svd(np.asarray(A, np.float64), compute_uv=False)[rank:] ** 2).sum()))


@pytest.fixture
def remembering(monkeypatch):
    """Sums that also keep the rows and codes behind them."""
    real = {name: getattr(Sums, name) for name in ("of", "plus", "scaled", "recoded")}

    def held(sums):
        return sums.__dict__.get("held", [])

    def with_rows(sums, rows):
        sums.__dict__["held"] = rows
        return sums

    def of(X, U):
        raw = X.raw()
        return with_rows(real["of"](X, U), [(raw.toarray() if sp.issparse(raw) else raw.copy(), U.copy())])

    def recoded(self, T):
        return with_rows(real["recoded"](self, T), [(A, U @ T) for A, U in held(self)])

    def scaled(self, w):
        return with_rows(real["scaled"](self, w), [(A * w**0.5, U * w**0.5) for A, U in held(self)])

    def plus(self, other):
        return with_rows(real["plus"](self, other), held(self) + held(other))

    monkeypatch.setattr(Sums, "of", of)
    for name, double in (("plus", plus), ("scaled", scaled), ("recoded", recoded)):
        monkeypatch.setattr(Sums, name, double)


class Watched(enmf.Stream):
    """A stream that also keeps all rows, and checks its bounds by plain NumPy."""

    seen: list

    def check(self, weight_of=None):
        A = np.vstack([np.asarray(X.toarray() if sp.issparse(X) else X, np.float64) for X in self.seen])
        if weight_of is not None:
            A = A * np.concatenate([np.full(X.shape[0], weight_of(i)) for i, X in enumerate(self.seen)])[:, None]
        certificate = self.certificate
        V = self.V.astype(np.float64)
        true = exact_bound(A, self.rank)
        assert certificate.lower_bound <= true * (1 + 1e-15), (certificate.lower_bound, true)
        if not A.any():
            assert certificate.error == 0
            return certificate, true
        rows, codes = (np.vstack(parts) for parts in zip(*self._memory.codes.__dict__["held"]))
        assert codes.min() >= 0
        assert (rows**2).sum() == pytest.approx((A**2).sum(), rel=1e-12)
        assert certificate.error >= np.sqrt(((rows - codes @ V.T) ** 2).sum())
        return certificate, true


# Bounds ---------------------------------------------------------------------------------------------------------------


@st.composite
def streams(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m, rank = draw(st.integers(1, 60)), draw(st.integers(1, 25)), draw(st.integers(1, 5))
    kind = draw(st.sampled_from(["noisy", "low rank", "heavy", "sparse", "zeros", "equal rows"]))
    X = low_rank(n, m, min(rank, 3), rng, 0.0 if kind == "low rank" else 0.3)
    if kind == "heavy":
        X = X ** draw(st.integers(2, 8))
    if kind in ("sparse", "zeros"):
        X = X * (rng.random(X.shape) < 0.2)
    if kind == "zeros":
        X[: n // 2] = 0
    if kind == "equal rows":
        X = np.repeat(X[:1], n, axis=0)
    dtype, far = draw(st.sampled_from([(np.float64, 50), (np.float64, 3), (np.float32, 25)]))
    X = X * 10.0 ** draw(st.integers(-far, far))
    cuts = sorted(draw(st.lists(st.integers(1, n), max_size=8)))
    batches = [part for part in np.split(X.astype(dtype), cuts) if len(part)]
    if draw(st.booleans()):
        batches = [sp.csr_array(part) if i % 2 else np.asfortranarray(part) for i, part in enumerate(batches)]
    return batches, rank, draw(st.sampled_from([None, rank + 1])), draw(st.sampled_from([0.0, 0.3]))


@settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES < 100, suppress_health_check=list(HealthCheck))
@given(streams())
def test_both_bounds_hold_after_every_batch_and_merge(remembering, drawn):
    batches, rank, size, forget = drawn
    stream, other = (Watched(rank, sketch_size=size, forget=forget, reservoir=20) for _ in range(2))
    stream.seen, other.seen = [], []
    for batch in batches:
        stream.partial_fit(batch)
        stream.seen.append(batch)
        last = len(stream.seen) - 1
        stream.check(lambda i: (1.0 - forget) ** ((last - i) / 2))  # noqa: B023
    for batch in batches[::-1]:
        other.partial_fit(batch)
        other.seen.append(batch)
    both, last = stream.merge(other), len(batches) - 1
    both.__class__, both.seen = Watched, [*stream.seen, *other.seen]
    both.check(lambda i: (1.0 - forget) ** ((last - i % len(batches)) / 2))


@pytest.mark.parametrize("sparse", [False, True])
def test_bounds_hold_when_batches_are_compressed(sparse, monkeypatch, remembering):
    """Large batches take the randomized way; here all of them do."""
    monkeypatch.setattr(Sketch, "_better_compressed", lambda self, X: min(X.shape) > 3 * self.width)
    rng = np.random.default_rng(0)
    for seed in range(5):
        A = low_rank(400, 150, 8, np.random.default_rng(seed)) * (rng.random((400, 150)) < 0.3)
        stream = Watched(4, sketch_size=16)
        stream.seen = []
        for batch in split(A, 2):
            stream.partial_fit(sp.csr_array(batch) if sparse else batch)
            stream.seen.append(batch)
            certificate, true = stream.check()
        assert certificate.lower_bound > 0.9 * true


def test_a_sketch_is_an_upper_bound_of_all_rows():
    """AᵀA <= BᵀB + D I, by eigenvalues, whatever is merged in whichever order."""
    rng = np.random.default_rng(1)
    from enmf.matrix.stack import rows_in

    A = low_rank(120, 40, 6, rng)
    halves = []
    for part in split(A, 2):
        sketch = Sketch.empty(40, 3, 9)
        for batch in split(part, 7):
            sketch, _ = sketch.plus(rows_in(batch), rng)
        halves.append(sketch)
    both, _ = halves[0].merge(halves[1])
    rest = both.B.T @ both.B + both.excess * np.eye(40) - A.T @ A
    assert np.linalg.eigvalsh(rest)[0] >= -both.rounding
    assert len(both.B) <= 9
    assert both.excess > 0
    assert both.rounding < 1e-9 * (A**2).sum()


def test_sums_give_the_exact_error_of_the_codes():
    from enmf.matrix.stack import rows_in

    rng = np.random.default_rng(2)
    A, U, V, T = rng.random((30, 12)), rng.random((30, 4)), rng.random((12, 4)), rng.random((4, 4))
    U, V = np.asfortranarray(U), np.asfortranarray(V)
    sums = Sums.of(rows_in(A[:10]), np.asfortranarray(U[:10])).plus(Sums.of(rows_in(A[10:]), np.asfortranarray(U[10:])))
    for codes, which in ((U, sums), (U @ T, sums.recoded(T))):
        true = ((A - codes @ V.T) ** 2).sum()
        assert true <= which.squared_error(V) <= true + 1e-9
    weighted = sums.scaled(0.25).squared_error(V)
    assert weighted == pytest.approx(0.25 * ((A - U @ V.T) ** 2).sum())


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_asking_for_the_bound_changes_no_components_and_sketches_no_rows_twice(form, monkeypatch):
    A = low_rank(400, 60, 4, np.random.default_rng(20), 0.3)
    silent, asked, added = enmf.Stream(4), enmf.Stream(4), []
    real = Sketch.plus

    def plus(self, X, *others):
        added.extend([X.shape[0]] * self.lowers)
        return real(self, X, *others)

    for count, batch in enumerate(split(A, 5), 1):
        silent.partial_fit(form(batch))
        asked.partial_fit(form(batch))
        with monkeypatch.context() as patch:
            patch.setattr(Sketch, "plus", plus)
            bound = asked.certificate.lower_bound
            assert asked.certificate.lower_bound == bound
        assert sum(added) == asked.rows
        assert 0.95 * exact_bound(A[: 80 * count], 4) <= bound <= exact_bound(A[: 80 * count], 4)
    assert (silent.renew().V == asked.renew().V).all()
    assert silent.certificate.lower_bound <= exact_bound(A, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_bounds_hold_when_the_memory_for_rows_that_wait_is_full(form, dtype, monkeypatch, remembering):
    monkeypatch.setattr("enmf.stream.memory.WAITING", (1, 100_000))
    A = low_rank(900, 40, 5, np.random.default_rng(21), 0.3).astype(dtype)
    stream, waited = Watched(4), []
    stream.seen = []
    for batch in split(A, 9):
        stream.partial_fit(form(batch))
        stream.seen.append(form(batch))
        waited.append(sum(size(X) for X, _ in stream._memory.waiting))
    certificate, true = stream.check()
    assert certificate.lower_bound >= 0.95 * true
    assert 0 in waited
    assert 0 < max(waited) < 100_000


def test_the_bound_is_sharp_at_the_default_size():
    rng = np.random.default_rng(3)
    A = low_rank(600, 80, 5, rng, 0.3)
    stream = enmf.Stream(5)
    for batch in split(A, 12):
        stream.partial_fit(batch)
    assert stream.certificate.lower_bound >= 0.97 * exact_bound(A, 5)


def test_a_reservoir_keeps_sums_of_squares_in_expectation():
    rng = np.random.default_rng(4)
    Z = rng.random((400, 3)) ** 4
    squares = (Z**2).sum(axis=1)
    totals = []
    for _ in range(200):
        one, two = Reservoir.empty(40), Reservoir.empty(40)
        one = one.turned(np.eye(0, 3)).plus(Z[:250], squares[:250], rng)
        two = two.turned(np.eye(0, 3)).plus(Z[250:], squares[250:], rng)
        kept = one.merge(two)
        assert len(kept.Z) == 40
        totals.append((kept.weighted() ** 2).sum(axis=0))
    assert np.mean(totals, axis=0) == pytest.approx((Z**2).sum(axis=0), rel=0.03)


# Learning -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_stream_comes_close_to_a_fit_of_all_rows(form):
    X = form(low_rank(600, 50, 4, np.random.default_rng(5), 0.05))
    fit = enmf.factorize(X, 4, random_state=0)
    stream = enmf.Stream(4)
    for batch in split(X, 20):
        stream.partial_fit(batch)
    assert error_of(stream, X) <= 1.01 * fit.error
    twice = enmf.Stream(4).fit_stream(split(X, 20))
    assert error_of(twice, X) <= 1.002 * fit.error
    assert twice.certificate.error <= 1.003 * fit.error
    assert fit.certificate.lower_bound * 0.97 <= twice.certificate.lower_bound <= twice.certificate.error


def error_of(stream, X):
    A = X.toarray() if sp.issparse(X) else X
    return np.linalg.norm(A - stream.transform(X) @ stream.V.T)


def test_a_drifting_stream_follows_if_it_forgets_and_says_so_if_not():
    rng = np.random.default_rng(6)
    old, new = low_rank(400, 60, 4, rng, 0.02), low_rank(400, 60, 4, rng, 0.02)
    batches = [*split(old, 10), *split(new, 10)]
    last = new[200:]
    alone = enmf.factorize(last, 4, random_state=0).error
    forgetting = enmf.Stream(4, forget=0.5)
    drifts = []
    keeping = enmf.Stream(4)
    for batch in batches:
        forgetting.partial_fit(batch)
        keeping.partial_fit(batch)
        drifts.append(keeping.certificate.drift)
    assert error_of(forgetting, last) <= 1.02 * alone
    assert error_of(keeping, last) > 1.1 * alone
    assert drifts[10] > 0.5 > max(drifts[5:10])


def test_components_keep_their_order_when_they_are_renewed():
    stream = enmf.Stream(5)
    for batch in split(low_rank(500, 40, 5, np.random.default_rng(7), 0.01), 10):
        stream.partial_fit(batch)
    before = stream.V
    after = stream.renew().V
    cosines = before.T @ after / np.outer(np.linalg.norm(before, axis=0), np.linalg.norm(after, axis=0))
    assert (cosines.argmax(axis=1) == np.arange(5)).all()


def test_single_rows_and_rows_of_zeros_are_batches():
    X = low_rank(30, 10, 2, np.random.default_rng(8))
    stream = enmf.Stream(2)
    stream.partial_fit(np.zeros((3, 10)))
    assert stream.certificate.error == 0
    assert not stream.V.any()
    for row in X:
        stream.partial_fit(row[None])
    assert stream.rows == 33
    assert stream.V.any(axis=0).all()
    assert error_of(stream, X) <= 1.05 * enmf.factorize(X, 2, random_state=0).error


def test_ranks_above_that_of_the_rows_give_exact_components():
    """The core then has fewer directions than there are components."""
    rng = np.random.default_rng(19)
    X = rng.random((5, 2)) @ rng.random((2, 5))
    for batches in ([X], [X[:1], X[1:]], [X, X, X[:1]]):
        stream = enmf.Stream(4).fit_stream(batches, passes=1)
        assert stream.certificate.lower_bound <= 1e-6 * np.linalg.norm(X)
        assert error_of(stream, X) <= 1e-3 * np.linalg.norm(X)


def test_single_precision_stays_until_another_batch_comes():
    X = low_rank(60, 10, 2, np.random.default_rng(9)).astype(np.float32)
    stream = enmf.Stream(2).partial_fit(X[:30])
    assert stream.V.dtype == np.float32 == stream.transform(X).dtype
    assert stream.partial_fit(X[30:].astype(np.float64)).V.dtype == np.float64


# Together, elsewhere, later -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kept", "above"), [(300, 1e-3), (100, 0.03)])
def test_merged_halves_have_bounds_of_the_whole(kept, above):
    """Components of all rows, if all are kept, and nearly so from a sample."""
    A = low_rank(300, 40, 5, np.random.default_rng(10))
    halves = [enmf.Stream(5, reservoir=kept), enmf.Stream(5, reservoir=kept)]
    for half, part in zip(halves, split(A, 2)):
        for batch in split(part, 5):
            half.partial_fit(batch)
    both = halves[0].merge(halves[1])
    assert both.rows == 300
    true = exact_bound(A, 5)
    assert 0.95 * true <= both.certificate.lower_bound <= true
    assert both.certificate.error >= error_of(both, A)
    assert error_of(both, A) <= (1 + above) * enmf.factorize(A, 5, random_state=0).error
    with pytest.raises(ValueError, match="different columns: 40 and 7"):
        both.merge(enmf.Stream(5).partial_fit(A[:, :7]))
    with pytest.raises(ValueError, match="different ranks, 5 and 4"):
        both.merge(enmf.Stream(4).partial_fit(A))


RESUME = """
import json, sys, numpy as np, enmf
stream = enmf.Stream.load(sys.argv[1])
for batch in np.load(sys.argv[2]):
    stream.partial_fit(batch)
np.save(sys.argv[3], stream.V)
print(json.dumps([stream.certificate.lower_bound.hex(), stream.certificate.error.hex()]))
"""


def test_resuming_in_another_process_gives_the_same_numbers_to_the_last_bit(tmp_path):
    X = low_rank(240, 30, 4, np.random.default_rng(11)).reshape(12, 20, 30)
    stream = enmf.Stream(4, forget=0.1)
    for batch in X[:5]:
        stream.partial_fit(sp.csr_array(batch))
    stream.save(tmp_path / "stream.npz")
    np.save(tmp_path / "rest.npy", X[5:])
    names = [str(tmp_path / name) for name in ("stream.npz", "rest.npy", "V.npy")]
    done = subprocess.run([sys.executable, "-c", RESUME, *names], capture_output=True, text=True, check=True)
    for batch in X[5:]:
        stream.partial_fit(batch)
    assert (np.load(tmp_path / "V.npy") == stream.V).all()
    assert json.loads(done.stdout) == [stream.certificate.lower_bound.hex(), stream.certificate.error.hex()]


def test_a_file_that_is_no_stream_is_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"PK nothing")
    np.savez(tmp_path / "y.npz", about=np.array("{}"), a=np.ones(2))
    for name in ("x.npz", "y.npz"):
        with pytest.raises(ValueError, match=r"cannot be used.*Stream\.save"):
            enmf.Stream.load(tmp_path / name)


# Bad batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.ones((2, 3)), "has 3 columns, the batches before it had 8"),
        (np.full((2, 8), np.nan), "16 of 16 entries are NaN"),
        (-np.ones((2, 8)), "16 negative entries"),
        (np.ones((0, 8)), "empty"),
        (np.full((2, 8), np.inf), "16 of 16 entries are infinite"),
        (sp.csr_array(-np.ones((2, 8))), "16 negative entries"),
        (sp.csr_array(np.full((2, 8), np.nan)), "16 of 16 entries are NaN"),
        (sp.csr_array((0, 8)), "empty"),
        (np.full((2, 8), 1e100), "moderate size"),
        (np.ones(8), "2 dimensions"),
        (np.ones((2, 8), complex), "[Cc]omplex"),
        (np.ma.masked_array(np.ones((2, 8)), np.eye(2, 8)), "masked"),
        ([["a"] * 8], "numbers"),
        (None, "2 dimensions"),
    ],
)
def test_a_bad_batch_is_refused_and_leaves_the_state_as_it_was(bad, message, tmp_path):
    def saved():
        stream.save(tmp_path / "stream.npz")
        with np.load(tmp_path / "stream.npz") as arrays:
            return {name: arrays[name].tobytes() for name in arrays.files}

    stream = enmf.Stream(2).partial_fit(np.random.default_rng(12).random((20, 8)))
    before = saved()
    with pytest.raises((ValueError, TypeError), match=message):
        stream.partial_fit(bad)
    assert saved() == before


def test_batches_of_other_types_count_as_the_same_rows():
    X = np.random.default_rng(18).integers(0, 9, (20, 8))
    forms = [np.asfortranarray, sp.csc_array, sp.coo_array, np.int8, np.float16, np.longdouble, np.ndarray.tolist]
    for form in forms:
        given = X.astype(form) if isinstance(form, type) and issubclass(form, np.number) else form(X)
        stream = enmf.Stream(2).partial_fit(X[:10]).partial_fit(given)
        same = enmf.Stream(2).partial_fit(X[:10]).partial_fit(X)
        assert stream.certificate.error == pytest.approx(same.certificate.error, rel=1e-9)
        assert stream.certificate.lower_bound == pytest.approx(same.certificate.lower_bound, rel=1e-9)


def test_a_batch_may_be_changed_afterwards():
    X = np.random.default_rng(13).random((20, 8))
    one, two = enmf.Stream(2).partial_fit(X), enmf.Stream(2).partial_fit(X)
    batch = X.copy()
    one.partial_fit(batch)
    two.partial_fit(X)
    batch[:] = 7
    assert one.renew().certificate.lower_bound == two.renew().certificate.lower_bound


def test_batches_that_can_be_read_only_once_are_refused_for_two_passes():
    X = np.random.default_rng(14).random((40, 8))
    once = (part for part in split(X, 4))
    with pytest.raises(ValueError, match=r"only once.*passes=2.*function"):
        enmf.Stream(2).fit_stream(once)
    assert enmf.Stream(2).fit_stream(once, passes=1).rows == 40
    assert enmf.Stream(2).fit_stream(lambda: iter(split(X, 4))).rows == 40
    with pytest.raises(TypeError, match="use fit"):
        enmf.Stream(2).fit_stream(X)
    with pytest.raises(ValueError, match="empty"):
        enmf.Stream(2).fit_stream([])
    reads = iter([split(X, 4), split(X[:30], 3)])
    with pytest.raises(ValueError, match=r"30 rows.*not 40"):
        enmf.Stream(2).fit_stream(lambda: next(reads))


def test_a_file_is_a_stream_of_its_blocks(tmp_path):
    X = np.random.default_rng(15).random((40, 8))
    np.save(tmp_path / "x.npy", X)
    stream = enmf.Stream(2).fit_stream(tmp_path / "x.npy")
    assert stream.rows == 40
    assert stream.certificate.error == pytest.approx(enmf.factorize(X, 2, random_state=0).error, rel=0.01)


# The estimator --------------------------------------------------------------------------------------------------------


def test_the_estimator_learns_in_batches():
    X = low_rank(200, 20, 3, np.random.default_rng(16))
    model = enmf.ENMF(3)
    for batch in split(X, 4):
        model.partial_fit(batch)
    assert model.components_.shape == (3, 20)
    assert model.n_samples_seen_ == 200
    assert model.status_ in ("learnt", "drifting")
    assert model.certificate_.lower_bound <= model.reconstruction_err_
    assert model.transform(X).shape == (200, 3)
    with pytest.raises(ValueError, match="21 features"):
        model.partial_fit(np.ones((2, 21)))
    assert model.n_samples_seen_ == 200
    model.fit(X)
    assert not hasattr(model, "n_samples_seen_")
    assert hasattr(model, "trace_")
    assert enmf.ENMF(3).fit_stream(split(X, 4)).n_samples_seen_ == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta_loss": "kullback-leibler"}, "no sums of fixed size"),
        ({"alpha_W": 0.1}, "alpha_W"),
        ({"solver": "mu"}, "solver"),
        ({"init": "random"}, "init"),
    ],
)
def test_what_streams_cannot_do_is_refused_with_the_reason(options, message):
    with pytest.raises(ValueError, match=message):
        enmf.ENMF(2, **options).partial_fit(np.ones((4, 5)))


# The command line -----------------------------------------------------------------------------------------------------


def command(*arguments, cwd, stdin=None):
    """The command, in this process."""
    before = Path.cwd()
    os.chdir(cwd)
    try:
        return CliRunner().invoke(app, ["factorize", *map(str, arguments)], input=stdin)
    finally:
        os.chdir(before)


def table_of(X):
    head = "name," + ",".join(f"c{j}" for j in range(X.shape[1]))
    return "\n".join([head, *(f"row{i}," + ",".join(map(repr, row)) for i, row in enumerate(X.tolist()))]) + "\n"


def test_the_command_line_reads_parts_of_a_file_and_of_standard_input(tmp_path):
    X = low_rank(90, 7, 2, np.random.default_rng(17))
    (tmp_path / "x.csv").write_text(table_of(X))
    np.save(tmp_path / "x.npy", X)
    wanted = ["--rank", 2, "--stream", "--batch", 40, "--force", "--out", tmp_path / "out.npz"]
    certificates = []
    for source, text in ((tmp_path / "x.csv", None), ("-", table_of(X)), (tmp_path / "x.npy", None)):
        done = command(
            source, *wanted, "--tables", "csv", "--certificate", tmp_path / "c.json", stdin=text, cwd=tmp_path
        )
        assert done.exit_code == 0, done.stderr
        assert "rows seen                90" in done.stdout
        certificates.append(json.loads((tmp_path / "c.json").read_text()))
        stream = enmf.Stream.load(tmp_path / "out.npz")
        assert stream.rows == 90
        assert stream.V.shape == (7, 2)
    assert certificates[0]["error"] == certificates[1]["error"]
    assert certificates[0]["lower_bound"] <= exact_bound(X, 2)


def test_the_command_line_refuses_what_streams_do_not_have(tmp_path):
    (tmp_path / "x.csv").write_text(table_of(np.ones((3, 2))).replace("1.0", "-1.0", 1))
    done = command("x.csv", "--rank", 1, "--stream", "--loss", "kullback-leibler", cwd=tmp_path)
    assert done.exit_code == 2
    assert "no sums of fixed size" in done.stderr
    assert done.stderr.count("\n") == 1
    done = command("x.csv", "--rank", 1, "--stream", cwd=tmp_path)
    assert done.exit_code == 2
    assert "row 1 ('row0'), column 1 ('c0')" in done.stderr


@pytest.mark.parametrize(
    ("cell", "message"),
    [("-1.0", "row 5 ('row4'), column 2"), ("oops", "data row 5, column 2"), ("", "row 5 ('row4')")],
)
def test_rows_of_later_parts_are_counted_from_the_top_of_the_file(cell, message, tmp_path):
    lines = table_of(np.ones((6, 3))).splitlines()
    lines[5] = f"row4,1.0,{cell},1.0"
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    done = command("x.csv", "--rank", 1, "--stream", "--batch", 3, cwd=tmp_path)
    assert done.exit_code == 2
    assert message in done.stderr
