"""`enmf.to_anndata`: factors find their rows and columns, and files hold them."""

import numpy as np
import pandas
import pytest
import scipy.sparse as sp

import enmf
import problems

anndata = pytest.importorskip("anndata")
CELLS = [f"cell{i}" for i in range(80)]
GENES = [f"gene{j}" for j in range(50)]


@pytest.fixture
def adata():
    X = sp.csr_array(problems.counts())
    return anndata.AnnData(X, obs=pandas.DataFrame(index=CELLS), var=pandas.DataFrame(index=GENES))


def product(adata, key="enmf"):
    return adata.obsm[f"X_{key}"] @ adata.varm[key].T


def test_a_result_is_written_and_survives_a_file(adata, tmp_path):
    result = enmf.factorize(adata.X, 3, random_state=0)
    assert enmf.to_anndata(adata, result) is adata
    np.testing.assert_array_equal(adata.obsm["X_enmf"], result.U)
    np.testing.assert_array_equal(adata.varm["enmf"], result.V)
    adata.write_h5ad(tmp_path / "x.h5ad")
    back = anndata.read_h5ad(tmp_path / "x.h5ad")
    np.testing.assert_array_equal(product(back), product(adata))
    about = back.uns["enmf"]
    assert about["status"] == result.status
    assert about["error"] == result.error
    assert about["params"]["random_state"] == 0
    np.testing.assert_array_equal(about["share"], [c.share for c in result.certificate.components])
    assert list(back.obs_names) == CELLS
    assert list(back[:, ["gene7", "gene2"]].varm["enmf"][:, 0]) == list(result.V[[7, 2], 0])


def test_rows_and_columns_are_found_by_name(adata):
    rng = np.random.default_rng(0)
    frame = adata.to_df().iloc[rng.permutation(80), rng.permutation(50)[:30]]
    result = enmf.factorize(frame, 3, random_state=0)
    enmf.to_anndata(adata, result, key="part")
    model = pandas.DataFrame(product(adata, "part"), CELLS, GENES)
    np.testing.assert_allclose(model.loc[frame.index, frame.columns], result.U @ result.V.T)
    assert not model.drop(columns=frame.columns).to_numpy().any()


@pytest.mark.parametrize("layer", [None, "twice"])
def test_an_estimator_computes_u(adata, layer):
    adata.layers["twice"] = 2.0 * adata.X
    X = adata.X if layer is None else adata.layers[layer]
    model = enmf.ENMF(3, random_state=0)
    W = model.fit_transform(X)
    enmf.to_anndata(adata, model, layer=layer)
    np.testing.assert_allclose(adata.obsm["X_enmf"], W)
    by_name = enmf.ENMF(3, random_state=0).fit(adata.to_df()[GENES[::-1]])
    enmf.to_anndata(adata, by_name, key="named")
    fit = by_name.transform(adata.to_df()[GENES[::-1]]) @ by_name.components_
    np.testing.assert_allclose(product(adata, "named")[:, ::-1], fit, atol=1e-12)


def test_a_pair_of_any_library_is_written(adata):
    U, V = np.ones((80, 2)), np.ones((50, 2))
    enmf.to_anndata(adata, (U, V))
    assert adata.uns["enmf"]["obsm"] == "X_enmf"
    np.testing.assert_array_equal(product(adata), U @ V.T)


def test_what_does_not_fit_is_refused(adata):
    result = enmf.factorize(adata.X, 2, random_state=0)
    with pytest.raises(TypeError, match=r"adata must be an anndata.AnnData, got ndarray"):
        enmf.to_anndata(np.ones((3, 3)), result)
    with pytest.raises(ValueError, match="adata has 20 variables, the model 50 and no names"):
        enmf.to_anndata(adata[:, :20].copy(), result)
    with pytest.raises(ValueError, match="adata has 10 observations, the model 80"):
        enmf.to_anndata(adata[:10].copy(), result)
    named = enmf.factorize(adata.to_df(), 2, random_state=0)
    with pytest.raises(ValueError, match="30 of 50 variables of the model are not in adata, such as 'gene20'"):
        enmf.to_anndata(adata[:, :20].copy(), named)
    few = enmf.factorize(adata.to_df().iloc[:40], 2, random_state=0)
    with pytest.raises(ValueError, match="the model has 40 of the 80 observations"):
        enmf.to_anndata(adata, few)
    with pytest.raises(ValueError, match="adata has no layer 'counts'"):
        enmf.to_anndata(adata, enmf.ENMF(2, random_state=0).fit(adata.X), layer="counts")
