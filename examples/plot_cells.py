"""
Cell types from counts
======================

Cells are rows, genes are columns. AnnData in, AnnData out: programs of genes in ``varm``, their usage per cell in
``obsm``.
"""

import os

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp

import enmf

# %%
# Without real data: 500 cells of four types, 300 genes, of which each type has its own markers; counts with different
# depths.


def generated(rng):
    kind = rng.integers(0, 4, 500)
    programs = rng.gamma(0.5, 0.4, (5, 300))
    for k in range(4):
        programs[k, 40 * k : 40 * k + 25] += rng.gamma(3.0, 1.5, 25)
    usage = np.zeros((500, 5))
    usage[np.arange(500), kind] = 1.0
    usage[:, 4] = rng.gamma(2.0, 0.3, 500)  # a program that every cell runs
    depth = np.exp(rng.normal(-0.5, 0.4, (500, 1)))
    counts = sp.csr_matrix(rng.poisson(depth * (usage @ programs)).astype(np.float32))
    obs = pd.DataFrame({"type": [f"type {k}" for k in kind]}, index=[f"cell{i}" for i in range(500)])
    return anndata.AnnData(counts, obs, pd.DataFrame(index=[f"gene{j}" for j in range(300)]))


if "ENMF_DATA" in os.environ:
    counts, labels = enmf.datasets.load("single_cell")
    adata = anndata.AnnData(sp.csr_matrix(counts, dtype=np.float32))
    names = [*labels["names"], "not labelled"]  # cells that others left out have the type -1
    adata.obs["type"] = [names[k] for k in labels["cell_type"]]
    print("PBMC 3k,", adata.shape)
else:
    adata = generated(np.random.default_rng(0))
    print("generated cells,", adata.shape)

# %%
# Variable genes, equal depth, and unit variance, as is usual for such data; zeros stay zeros.

X = sp.csr_matrix(adata.X, dtype=np.float64)
X = sp.diags_array(1e4 / np.maximum(np.asarray(X.sum(axis=1)).ravel(), 1)) @ X
mean = np.asarray(X.mean(axis=0)).ravel()
deviation = np.sqrt(np.maximum(np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2, 1e-12))
variable = np.argsort(-(deviation**2) / np.maximum(mean, 1e-9))[:1000]  # variance over mean
adata = adata[:, variable].copy()
X = sp.csr_matrix(X[:, variable] @ sp.diags_array(1 / deviation[variable]))

# %%
# Components that many random starts agree on (consensus NMF). The clustergram shows the distances of all components
# of all runs.

agreed = enmf.consensus(X, 5, n_runs=8)
print(agreed)
agreed.plot()

# %%
# The results go where scanpy looks for them.

adata.obsm["X_enmf"] = agreed.U
adata.varm["enmf"] = agreed.V
adata.uns["enmf"] = {"error": agreed.error, "runs": len(agreed.errors)}
print(adata)

# %%
# Which type of cell uses which program?

enmf.plot_usages(agreed, adata.obs["type"])

# %%
# The genes of each program (their numbers, where the data have no names).

for k, part in enmf.top_features(agreed, adata.var_names, n=5).groupby("component"):
    print(k + 1, ", ".join(part["feature"]))
