"""
Mutational signatures
=====================

Counts of 96 types of mutations in tumours. How many signatures are there, do they recur, and how much of each does a
tumour have? With counts as small as these, the loss is the Kullback-Leibler divergence.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

import enmf

# %%
# Tumours are rows. Without real data: four signatures of 96 types, and 60 tumours with very different numbers of
# mutations.

rng = np.random.default_rng(0)
if "ENMF_DATA" in os.environ:
    X = enmf.datasets.load("signatures")[0].T
    print("21 breast cancers,", X.shape)
else:
    true = rng.gamma(0.15, 1.0, (4, 96))
    true /= true.sum(axis=1, keepdims=True)
    exposure = rng.gamma(0.6, 1.0, (60, 4)) * np.exp(rng.normal(6, 1, (60, 1)))
    X = rng.poisson(exposure @ true).astype(float)
    print("generated tumours,", X.shape)

# %%
# **How many?** Entries are hidden and predicted; the smallest rank that predicts about as well as the best one is
# suggested.

found = enmf.select_rank(X, range(2, 8), loss="kullback-leibler")
print(found)
found.plot()

# %%
# **Do they recur?** Many random starts: how many runs found each signature, and how well do they agree?

rank = found.rank
agreed = enmf.consensus(X, rank, n_runs=20, loss="kullback-leibler")
print(agreed)

# %%
# The signatures, from the exterior method, as shares.

result = enmf.factorize(X, rank, loss="kullback-leibler", random_state=0)
signatures = (result.V / result.V.sum(axis=0)).T
# sphinx_gallery_thumbnail_number = 2
figure, axes = plt.subplots(rank, 1, figsize=(8, 1.3 * rank), sharex=True, layout="constrained", squeeze=False)
for k, each in enumerate(axes.flat):
    each.bar(range(signatures.shape[1]), signatures[k], color=[f"C{j // 16}" for j in range(signatures.shape[1])])
    each.set_ylabel(f"{k + 1}")
axes.flat[-1].set_xlabel("type of mutation")

# %%
# **A catalogue held fixed.** With known signatures only the exposures of new tumours are solved for. That problem is
# convex, so the answer is the best one, and the certificate can say so.

catalogue = signatures
new = rng.poisson(rng.gamma(0.6, 300.0, (10, rank)) @ catalogue).astype(float)
W, _, _ = enmf.non_negative_factorization(
    new, H=catalogue, n_components=rank, update_H=False, beta_loss="kullback-leibler"
)
certificate = enmf.certify(new, W, catalogue.T, loss="kullback-leibler", fixed="V")
print("exposures of the first new tumour:", np.round(W[0]).astype(int))
print("stationary for the fixed catalogue:", certificate.stationary)
