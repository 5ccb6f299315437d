"""
Choosing the rank
=================

The error always falls with the rank. The error on entries that the fit has not seen falls while components describe
structure, and rises when they begin to describe noise.
"""

import numpy as np

import enmf

# %%
# 150 samples of five components, with noise of a tenth.

rng = np.random.default_rng(0)
_, U, V = enmf.datasets.make_exact(150, 100, 5, 0.4, random_state=0)
X = U @ V.T
X = np.maximum(X + 0.1 * np.linalg.norm(X) / np.sqrt(X.size) * rng.standard_normal(X.shape), 0)

found = enmf.select_rank(X, range(2, 9))
print(found)

# %%
# Error and bound, held-out error, and how well the components of the folds agree.

found.plot()

# %%
# Do the components recur? Six random starts at the suggested rank, and at twice that.

for rank in (found.rank, 2 * found.rank):
    agreed = enmf.consensus(X, rank, n_runs=6)
    print(f"rank {rank}: components agree to {agreed.stability.min():.3f} or better, {agreed.outliers} outliers")

# %%
# At the right rank all runs find the same components.

# sphinx_gallery_thumbnail_number = 2
enmf.plot_clustergram(enmf.consensus(X, found.rank, n_runs=6))

# %%
# The true components, and those found.

result = enmf.factorize(X, found.rank, random_state=0)
enmf.plot_comparison(enmf.compare((U, V), result, X))
