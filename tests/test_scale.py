"""scale=: which of the equal models (U D, V D⁻¹) is returned."""

import numpy as np
import pytest
import scipy.sparse as sp

import enmf
import problems

SIZE = {"sum": lambda V: V.sum(0), "max": lambda V: V.max(0), "norm": lambda V: np.sqrt((V**2).sum(0))}


def fit(X, scale="balanced", **options):
    return enmf.factorize(X, 4, random_state=0, scale=scale, **options)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", SIZE)
def test_columns_of_v_have_the_size_one_and_the_model_is_the_same(scale, dtype):
    X = problems.counts(dtype=dtype)
    X = sp.csr_array(X) if scale == "max" else X
    base, other = fit(X), fit(X, scale)
    tiny = 10 * np.finfo(dtype).eps
    assert other.V.dtype == other.U.dtype == dtype
    np.testing.assert_allclose(SIZE[scale](other.V), 1.0, rtol=tiny)
    np.testing.assert_allclose(other.U @ other.V.T, base.U @ base.V.T, rtol=tiny, atol=tiny)
    assert other.settings["scale"] == scale
    assert (other.status, other.n_iter) == (base.status, base.n_iter)
    assert other.certificate.to_dict() == base.certificate.to_dict()


def test_balanced_columns_have_equal_norms():
    result = fit(problems.counts())
    np.testing.assert_allclose(np.linalg.norm(result.U, axis=0), np.linalg.norm(result.V, axis=0), rtol=1e-12)


@pytest.mark.parametrize("scale", SIZE)
def test_the_unit_of_x_and_the_order_of_its_rows_go_to_u(scale):
    X, order = problems.low_rank_noisy(), np.random.default_rng(1).permutation(70)
    base, larger = fit(X, scale, tol=1e-7), fit(1024.0 * X[order], scale, tol=1e-7)
    np.testing.assert_allclose(larger.V, base.V, atol=2e-3)
    np.testing.assert_allclose(larger.U / 1024.0, base.U[order], rtol=1e-2, atol=2e-2)


def test_rows_of_u_sum_to_those_of_the_model():
    result = fit(problems.low_rank_noisy(), "sum")
    np.testing.assert_allclose(result.U.sum(1), (result.U @ result.V.T).sum(1), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:rank .* is above", "ignore:.* components are zero")
@pytest.mark.parametrize("scale", SIZE)
def test_zero_components_keep_their_scale(scale):
    result = enmf.factorize(np.zeros((5, 4)), 2, scale=scale)
    assert not result.V.any()
    result = enmf.factorize(np.eye(3), 5, scale=scale)
    assert np.isfinite(result.V).all()
    np.testing.assert_allclose(SIZE[scale](result.V), [1, 1, 1, 0, 0])


@pytest.mark.parametrize("scale", SIZE)
def test_estimators_and_completion_have_it(scale):
    X = problems.low_rank_noisy()
    model = enmf.ENMF(4, scale=scale, random_state=0)
    W = model.fit_transform(X)
    np.testing.assert_allclose(SIZE[scale](model.components_.T), 1.0)
    np.testing.assert_allclose(model.transform(X), W, rtol=1e-9, atol=1e-12 * W.max())
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    for components in (
        enmf.complete(gaps, 4, random_state=0, scale=scale).V,
        enmf.ENMC(4, random_state=0, scale=scale).fit(gaps).components_.T,
    ):
        np.testing.assert_allclose(SIZE[scale](components), 1.0)


def test_a_u_that_lives_with_blocks_is_scaled_there(tmp_path):
    X = problems.low_rank_noisy()
    np.save(tmp_path / "x.npy", X)
    result = enmf.factorize(str(tmp_path / "x.npy"), 4, scale="sum", random_state=0)
    np.testing.assert_allclose(result.V.sum(0), 1.0)
    assert np.linalg.norm(X - np.asarray(result.U) @ result.V.T) == pytest.approx(result.error)


def test_what_is_refused():
    X = problems.dense(9, 6)
    with pytest.raises(ValueError, match="scale='unit' is not known; choose one of 'balanced', 'sum', 'max', 'norm'"):
        enmf.factorize(X, 2, scale="unit")
    with pytest.raises(ValueError, match="scale='sum' cannot be combined with a penalty"):
        enmf.factorize(X, 2, scale="sum", l2_U=0.1)
    with pytest.raises(ValueError, match="scale='max' cannot be combined with a penalty"):
        enmf.complete(X, 2, scale="max", ridge=0.1)
