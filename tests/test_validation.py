"""Bad and awkward input: a clear error or the documented behaviour. The table "failure modes" as tests."""

import re
import warnings
from dataclasses import fields

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import enmf
import problems
from enmf.api.registry import COMPLETIONS, DESCENTS
from enmf.exterior.feasibility import STAGES
from enmf.exterior.plan import ExteriorOptions
from enmf.exterior.softimpute import STAGES as MASKED_STAGES
from enmf.exterior.softimpute import CompletionOptions
from enmf.run.checks import FLAGS, NUMBERS, check_options

BOTH = pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def quiet(X, rank=3, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return enmf.factorize(X, rank, **{"random_state": 0, **options})


@BOTH
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinite")])
def test_nan_and_infinity_are_counted_and_located(store, value, word):
    X = problems.counts()
    X[7, 11] = X[9, 2] = value
    with pytest.raises(ValueError, match=rf"2 of \d+ entries are {word}, the first at row 7, column 11"):
        enmf.factorize(store(X), 3)


@BOTH
def test_negative_entries_are_counted_and_located(store):
    X = problems.counts()
    X[4, 9], X[30, 1] = -2.0, -0.5
    with pytest.raises(ValueError, match=r"2 negative entries, the smallest is -2, the first at row 4, column 9"):
        enmf.factorize(store(X), 3)


@BOTH
def test_negatives_from_rounding_are_zeros_with_a_warning(store):
    X = problems.counts()
    clean = X.copy()
    X[4, 9] = -1e-18
    clean[4, 9] = 0.0
    with pytest.warns(UserWarning, match="1 entries of X are negative by rounding only"):
        result = enmf.factorize(store(X), 3, random_state=0)
    assert result.error == pytest.approx(quiet(clean).error, rel=1e-9)
    assert X[4, 9] == -1e-18


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.uint16, bool, np.float16])
@BOTH
def test_other_number_types_become_float64(store, dtype):
    X = problems.counts().astype(dtype)
    if store is sp.csr_array and dtype == np.float16:
        pytest.skip("scipy has no sparse float16")
    result = quiet(store(X))
    assert result.U.dtype == np.float64
    assert result.error == pytest.approx(quiet(X.astype(np.float64)).error, rel=1e-10)


def test_the_precision_can_be_chosen():
    assert quiet(problems.counts().astype(int), dtype=np.float32).U.dtype == np.float32
    with pytest.raises(TypeError, match="dtype must be float32 or float64"):
        quiet(problems.counts(), dtype=np.int32)


@pytest.mark.parametrize("X", [np.ones(5), np.ones((2, 3, 4)), np.float64(3.0)])
def test_x_must_have_two_dimensions(X):
    with pytest.raises(ValueError, match="2 dimensions"):
        enmf.factorize(X, 1)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
@BOTH
def test_empty_matrices(store, shape):
    with pytest.raises(ValueError, match="X is empty"):
        enmf.factorize(store(np.zeros(shape)), 1)


def test_objects_text_and_complex_numbers():
    assert quiet(np.array([[1, 2.5], [3, 4]], dtype=object), 1).U.shape == (2, 1)
    with pytest.raises(ValueError, match="not numbers"):
        enmf.factorize(np.array([["a", 1], [2, 3]], dtype=object), 1)
    with pytest.raises(ValueError, match="text"):
        enmf.factorize(np.array([["a", "b"]]), 1)
    with pytest.raises(ValueError, match="Complex data not supported"):
        enmf.factorize(np.ones((2, 2)) * 1j, 1)
    with pytest.warns(PendingDeprecationWarning):
        old = np.matrix([[1.0]])
    with pytest.raises(TypeError, match=re.escape("numpy.matrix")):
        enmf.factorize(old, 1)


@pytest.mark.parametrize("rank", [0, -1])
def test_rank_below_one(rank):
    with pytest.raises(ValueError, match=f"rank must be at least 1, got {rank}"):
        enmf.factorize(problems.counts(), rank)


@pytest.mark.parametrize("rank", [2.0, "3", None, True])
def test_rank_must_be_an_integer(rank):
    with pytest.raises(TypeError, match="rank must be an integer"):
        enmf.factorize(problems.counts(), rank)


@pytest.mark.parametrize("method", enmf.methods())
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (1, 5), (5, 1), (1, 1)])
def test_rank_at_and_above_the_smaller_side(method, shape):
    X = np.random.default_rng(0).random(shape)
    for rank in (min(shape), min(shape) + 2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = enmf.factorize(X, rank, method, random_state=0, max_iter=50)
        assert result.U.shape == (shape[0], rank)
        assert np.isfinite(result.U).all()
        above = [w for w in caught if "is above min(n, m)" in str(w.message)]
        assert len(above) == (rank > min(shape))
        if method == "enmf":
            assert result.status in ("exact", "global_optimum")
            assert result.certificate.relative_error < 1e-12


@pytest.mark.parametrize("method", enmf.methods())
@BOTH
def test_all_zero_matrix(store, method):
    result = quiet(store(np.zeros((5, 4))), 2, method=method)
    assert result.status in ("exact", "global_optimum")
    assert result.error == 0
    assert (result.U == 0).all()
    assert (result.V == 0).all()


@pytest.mark.parametrize("method", enmf.methods())
@BOTH
def test_zero_rows_and_columns_give_zero_rows(store, method):
    X = problems.counts()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = enmf.factorize(store(X), 4, method, random_state=0, max_iter=2000)
    assert np.abs(result.U[3] @ result.V.T).max() < 1e-6
    assert np.abs(result.V[5] @ result.U.T).max() < 1e-6
    if method in ("enmf", "hals", "a-hals", "e-hals"):
        assert (result.U[3] == 0).all()
        assert (result.V[5] == 0).all()


@pytest.mark.parametrize(
    ("dtype", "powers"), [(np.float32, (122, -124, -130)), (np.float64, (450, -450))], ids=["float32", "float64"]
)
@BOTH
def test_extreme_units(store, dtype, powers):
    """Squares that leave the number range of float32, its subnormal numbers: the answer of ordinary units, scaled."""
    X = problems.counts().astype(dtype)
    base = quiet(X)
    for c in (2.0**power for power in powers):
        scaled = quiet(store((X * dtype(c)).astype(dtype)))
        assert np.isfinite(scaled.U).all()
        assert scaled.error / c == pytest.approx(base.error, rel=1e-3 if dtype == np.float32 else 1e-6)
        assert scaled.status == base.status


@pytest.mark.parametrize("unit", [1e200, 1e306, 1e-200, 1e-315])
@BOTH
def test_values_whose_squares_leave_the_number_range_are_refused(store, unit):
    X = problems.counts() * unit
    for use in (
        lambda: enmf.factorize(store(X), 3),
        lambda: enmf.complete(X, 3),
        lambda: enmf.consensus(store(X), 3, n_runs=2),
        lambda: enmf.ENMF(3).fit(store(X)),
    ):
        with pytest.raises(ValueError, match=r"entries of X are too (large|small).* Divide X by \de[+-]"):
            use()


def test_tiny_entries_beside_ordinary_ones_are_fine():
    X = problems.counts()
    X[X == 1] = 1e-315
    assert np.isfinite(quiet(X).U).all()


@pytest.mark.parametrize("method", enmf.methods())
@pytest.mark.parametrize("unit", [1e-140, 1e140])
def test_a_start_of_another_unit_is_a_start(method, unit):
    X, U, V = problems.low_rank_noisy() * unit, problems.dense(70, 4), problems.dense(50, 4, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for a in (1.0, 1e100):
            result = enmf.factorize(X, 4, method, init=(U * a, V / a), max_iter=300)
            assert np.isfinite(result.U).all()
            assert result.certificate.relative_error < 0.1


@pytest.mark.filterwarnings("ignore:all components are zero")
@pytest.mark.parametrize("method", ["enmf", "hals", "mu", "anls-bpp", "ao-admm", "gradient"])
@pytest.mark.parametrize("weights", [{"l1_U": 1.0, "l1_V": 1.0}, {"l2_U": 1.0, "l2_V": 1.0}])
def test_a_penalty_far_beyond_the_data_leaves_finite_figures_or_is_refused(method, weights):
    X = problems.low_rank_noisy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = enmf.factorize(X * 1e-30, 4, method, random_state=0, **weights)
    assert np.isfinite(result.U).all()
    assert np.isfinite([result.error, result.certificate.kkt, result.certificate.kkt_max]).all()
    with pytest.raises(ValueError, match="all components would be zero"):
        enmf.factorize(X * 1e-140, 4, method, **weights)
    with pytest.raises(ValueError, match=r"the ridge is .* all components would be zero"):
        enmf.complete(X * 1e-140, 4, ridge=1.0)


def test_memory_layouts(tmp_path):
    X = problems.counts()
    expected = quiet(X).error
    big = np.zeros((160, 100))
    big[::2, ::2] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    mapped = np.memmap(tmp_path / "x", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    mapped = np.memmap(tmp_path / "x", dtype=np.float64, mode="r", shape=X.shape)
    swapped = X.astype(">f8")
    for form in (big[::2, ::2], np.asfortranarray(X), read_only, mapped, X.tolist(), X[::-1][::-1], swapped):
        assert quiet(form).error == pytest.approx(expected, rel=1e-9)


FORMATS = dict(problems.sparse_formats(problems.counts()))


@pytest.mark.parametrize("name", FORMATS)
def test_sparse_formats(name):
    assert quiet(FORMATS[name]).error == pytest.approx(quiet(problems.counts()).error, rel=1e-9)


def test_unsorted_and_duplicate_sparse_entries():
    X = sp.coo_array((np.array([1.0, 2.0, 3.0, 1.0]), (np.array([0, 0, 1, 1]), np.array([1, 1, 0, 2]))), shape=(2, 3))
    before = X.data.copy()
    assert quiet(X, 1).error == pytest.approx(quiet(X.toarray(), 1).error)
    assert (X.data == before).all()
    csr = sp.csr_array((np.array([2.0, 1.0, 1.0]), np.array([1, 0, 0]), np.array([0, 3])), shape=(1, 2))
    quiet(csr, 1)
    assert csr.nnz == 3  # the caller's matrix keeps its duplicates


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "method='magic' is not known; choose one of 'enmf'"),
        ({"init": "magic"}, "init='magic' is not known"),
        ({"svd": "magic"}, "svd='magic' is not one of"),
        ({"feasibility": "magic"}, "feasibility='magic' is not one of"),
        ({"descent": "magic"}, "descent='magic' is not known"),
        ({"preset": "magic"}, "preset='magic' is not known"),
        ({"magic": 1}, "unknown option 'magic'"),
        ({"tol": -1.0}, "tol must be at least 0"),
        ({"tol": np.nan}, "tol must be at least 0"),
        ({"max_iter": 1.5}, "max_iter must be an integer"),
        ({"time_limit": -1}, "time_limit must be at least 0"),
        ({"n_threads": 0}, "n_threads must be at least 1"),
        ({"random_state": "x"}, "random_state must be"),
        ({"l1_U": -1.0}, "l1_U must be at least 0"),
        ({"init": 5}, "init must be a name or a pair"),
        ({"init": (np.ones((80, 2)), np.ones((50, 3)))}, r"init U must have shape \(80, 3\)"),
        ({"init": (-np.ones((80, 3)), np.ones((50, 3)))}, "init U has 240 negative entries"),
        ({"init": (np.ones((80, 3)), np.full((50, 3), np.nan))}, "init V has 150 entries that are NaN"),
        ({"init": ("a", "b")}, "init U must be an array of numbers, got str"),
        ({"init": (1j * np.ones((80, 3)), np.ones((50, 3)))}, "Complex data not supported: init U"),
        ({"init": (np.ones((80, 3)), [[1, "x", None]] * 50)}, "init V must be an array of numbers"),
        ({"restarts": -1}, "restarts must be at least 0, got -1"),
        ({"restarts": "a"}, "restarts must be an integer or None, got 'a'"),
        ({"random_state": -1}, "random_state must not be negative, got -1"),
        ({"dtype": "nonsense"}, "dtype must be float32 or float64, got nonsense"),
        ({"alpha": "x"}, "alpha must be a number, got 'x'"),
        ({"beta": np.nan}, "beta must be at least 0.0, got nan"),
        ({"beta": 1.5}, "beta must be at most 1.0, got 1.5"),
        ({"checkpoint": 3}, "checkpoint must be a path or None, got 3"),
        ({"callback": 3}, "callback must be a function of one argument or None, got 3"),
        ({"sample": "x"}, "sample must be True or False, got 'x'"),
        ({"bound": "x"}, "bound must be True or False, got 'x'"),
        ({"surrogate": -3}, "surrogate must be True, False or None, got -3"),
        ({"l1_U": np.inf}, "l1_U must be finite, got inf"),
        ({"rotation_rho": 0.0}, "rotation_rho must be greater than 0.0"),
        ({"feasibility_options": {"steps": 0}}, "steps must be at least 1, got 0"),
        ({"feasibility_options": [3]}, "feasibility_options must be a dict or None"),
        ({"method": ["enmf"]}, "method=.* is not known"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        enmf.factorize(problems.counts(), 3, **options)


childless = np.random.Generator(np.random.RandomState(0)._bit_generator)


@pytest.mark.parametrize("seed", [None, 3, np.int64(3), np.random.RandomState(0), np.random.default_rng(0), childless])
def test_seeds(seed):
    quiet(problems.counts(), init="random", random_state=seed, tol=0.0, max_iter=3)


def test_certify_checks_factors():
    X = problems.counts()
    with pytest.raises(ValueError, match=r"V must have shape \(50, 2\)"):
        enmf.certify(X, np.ones((80, 2)), np.ones((80, 2)))


HIDDEN = np.ma.masked_array(np.arange(1.0, 13).reshape(4, 3), mask=np.arange(12).reshape(4, 3) % 5 == 4)
HIDDEN.data[HIDDEN.mask] = -1e6
ONES = np.ones((4, 1)), np.ones((3, 1))


@pytest.mark.parametrize(
    "use",
    [
        lambda X: enmf.factorize(X, 1),
        lambda X: enmf.ENMF(1).fit(X),
        lambda X: enmf.ENMF(1).fit(np.ones((4, 3))).transform(X),
        lambda X: enmf.non_negative_factorization(X, H=ONES[1].T, update_H=False),
        lambda X: enmf.compare(ONES, ONES, X),
        lambda X: enmf.exact.svd_factors(X, 1),
        lambda X: enmf.select_rank(X, [1]),
        lambda X: enmf.consensus(X, 1, n_runs=2),
        lambda X: enmf.stability(X, 1, n_runs=2),
        lambda X: enmf.complete(X, 1, missing="none"),
        lambda X: enmf.factorize(list(X), 1),
    ],
)
def test_masked_entries_are_refused_where_x_must_be_complete(use):
    with pytest.raises(ValueError, match=r"2 of 12 entries are masked, the first at row 1, column 1"):
        use(HIDDEN)


def test_a_masked_array_that_hides_nothing_is_an_array():
    X = problems.counts()
    assert quiet(np.ma.masked_array(X)).error == quiet(X).error


def test_a_dask_array_of_masked_blocks_is_refused():
    dask_array = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="masked entries"):
        enmf.factorize(dask_array.from_array(HIDDEN, chunks=(2, 3)), 1)


def test_given_factors_patterns_and_weights_may_not_hide_entries_either():
    X, covered = np.ones((4, 3)), np.ma.masked_equal(np.arange(12).reshape(4, 3) % 2, 1)
    for use in (
        lambda: enmf.factorize(X, 3, init=(covered, np.ones((3, 3)))),
        lambda: enmf.complete(X, 1, mask=covered == 0),
        lambda: enmf.complete(X, 1, weights=covered),
    ):
        with pytest.raises(ValueError, match="6 masked entries"):
            use()


DAMAGE = {
    "index below 0": {"indices": [0, 1, -7, 3]},
    "index too large": {"indices": [0, 1, 2, 999_999_999]},
    "indptr not monotone": {"indptr": [0, 3, 1, 2, 4]},
    "indptr not from 0": {"indptr": [1, 1, 2, 3, 4]},
    "indptr beyond the entries": {"indptr": [0, 1, 2, 3, 9_999_999]},
    "indptr below 0": {"indptr": [0, -5, 2, 3, 4]},
    "fewer values than indices": {"data": [1.0, 1.0]},
}


def damaged(form, width, damage, dtype=np.float64):
    S = sp.csr_array(np.eye(4, dtype=dtype)).asformat(form)
    S.indices, S.indptr = S.indices.astype(width), S.indptr.astype(width)
    for name, values in DAMAGE[damage].items():
        setattr(S, name, np.array(values, getattr(S, name).dtype))
    return S


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("width", [np.int32, np.int64])
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_sparse_input_that_points_outside_is_refused_at_every_door(form, width, damage):
    S, X = damaged(form, width, damage), np.eye(4)
    pattern = damaged(form, width, damage, np.bool_)
    for use in (
        lambda: enmf.factorize(S, 2),
        lambda: enmf.ENMF(2).fit(S),
        lambda: enmf.certify(S, X, X),
        lambda: enmf.complete(S, 2, missing="unstored"),
        lambda: enmf.complete(X, 2, mask=pattern),
        lambda: enmf.complete(X, 2, weights=S),
        lambda: enmf.factorize(X, 4, init=(S, X)),
        lambda: enmf.certify(X, X, S),
        lambda: enmf.ENMF(4, init="custom").fit(X, W=S, H=X),
        lambda: enmf.compare((S, X), (X, X)),
    ):
        with pytest.raises(ValueError, match="damaged"):
            use()


def test_coordinates_outside_are_refused():
    S = sp.coo_array(np.eye(4))
    S.coords = (np.arange(4), np.array([0, 1, 2, 77]))
    with pytest.raises(ValueError, match="X: the sparse matrix is damaged: 1 of 4 column indices"):
        enmf.factorize(S, 2)


def test_a_sparse_mask_and_sparse_weights_stay_as_they_are():
    X = problems.dense(6, 5)
    mask = sp.csr_array((np.array([1, 0, 1, 1], bool), np.array([4, 0, 2, 1]), np.array([0, 3, 3, 4, 4, 4, 4])), (6, 5))
    before = [a.copy() for a in (mask.data, mask.indices, mask.indptr)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        enmf.complete(X, 1, mask=mask)
    for array, old in zip((mask.data, mask.indices, mask.indptr), before):
        np.testing.assert_array_equal(array, old)


def test_sparse_factors_are_taken():
    X = problems.counts()
    U, V = np.eye(80, 3), np.ones((50, 3))
    a = quiet(X, init=(U, V), method="hals", max_iter=3, tol=0.0)
    b = quiet(X, init=(sp.csc_array(U), sp.coo_array(V)), method="hals", max_iter=3, tol=0.0)
    np.testing.assert_array_equal(a.U, b.U)


def test_nothing_grows_from_zero_factors():
    X, V = problems.counts(), np.ones((50, 3))
    with pytest.raises(ValueError, match="init U is full of zeros, which no method can leave"):
        enmf.factorize(X, 3, init=(np.zeros((80, 3)), V))
    with pytest.raises(ValueError, match="init V is full of zeros"):
        enmf.factorize(X, 3, init=(None, 0 * V))
    one_dead = V * [0.0, 1.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert enmf.factorize(X, 3, "hals", init=(np.ones((80, 3)), one_dead), random_state=0).certificate.ratio < 2
    assert quiet(0 * X, init=(np.zeros((80, 3)), 0 * V)).status == "global_optimum"


def test_every_option_has_a_rule():
    methods = [*DESCENTS.values(), *COMPLETIONS.values(), *STAGES.values(), *MASKED_STAGES.values()]
    known = {*NUMBERS, *FLAGS, "svd", "rotation", "feasibility", "feasibility_options"}
    for holder in (ExteriorOptions(), CompletionOptions(), *methods):
        named = {option.name: getattr(holder, option.name) for option in fields(holder)}
        assert set(named) <= known, holder
        check_options({name: value for name, value in named.items() if name != "feasibility_options"})
