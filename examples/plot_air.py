"""
Sources of air pollution
========================

Samples of air, concentrations of species, and an uncertainty for every number. Positive matrix factorization weighs
each entry by its uncertainty: ``weights`` are 1 / sigma squared. Components are the profiles of sources, usages their
contributions.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

import enmf

# %%
# Without real data: 200 samples, 18 species, four sources; uncertainties of 10 % and a detection limit.

rng = np.random.default_rng(0)
if "ENMF_DATA" in os.environ:
    X, labels = enmf.datasets.load("air_quality")
    sigma, species = labels["uncertainty"], [str(name) for name in labels["species"]]
    rank = 5
    print("EPA PMF example,", X.shape)
else:
    profiles = rng.gamma(0.4, 1.0, (4, 18))
    contribution = rng.gamma(1.0, 1.0, (200, 4)) * (1 + np.sin(np.arange(200)[:, None] / 9 + np.arange(4)))
    exact = contribution @ profiles
    sigma = 0.1 * exact + 0.02
    X = np.maximum(exact + sigma * rng.standard_normal(exact.shape), 0)
    species = [f"S{j}" for j in range(18)]
    rank = 4
    print("generated samples,", X.shape)

# %%
# Weights of 1 / sigma squared: the error is then the familiar Q of source apportionment, and its expected value is
# about the number of entries minus the number of free parameters. A ratio near one says that the sources explain the
# data to within their uncertainties; one far above, that there are more of them, or that the uncertainties are too
# small.

sigma = np.maximum(sigma, 1e-6 * X.max())
result = enmf.complete(X, rank, weights=1 / sigma**2, random_state=0)
Q = result.error**2
expected = X.size - rank * sum(X.shape)
print(f"Q = {Q:.0f}, expected about {expected}: ratio {Q / expected:.2f}")

# %%
# A value that is missing, or doubtful, gets no weight, and the others decide. Which share of the profiles is found
# again when 5 % of the entries are left out? Profiles that are not should not be interpreted.

doubtful = rng.random(X.shape) < 0.05
again = enmf.complete(X, rank, weights=np.where(doubtful, 0.0, 1 / sigma**2), random_state=0)
print(f"profiles found again: {100 * enmf.compare(result, again).share_V:.0f} %")

# %%
# Profiles: the share of each species that a source contributes.

shares = result.V * result.U.sum(axis=0)
shares = shares / shares.sum(axis=1, keepdims=True)
figure, axes = plt.subplots(rank, 1, figsize=(8, 1.4 * rank), sharex=True, layout="constrained")
for k, each in enumerate(axes):
    each.bar(range(len(species)), 100 * shares[:, k], color=f"C{k}")
    each.set(ylabel=f"source {k + 1}\n%", ylim=(0, 100))
axes[-1].set_xticks(range(len(species)), species, rotation=90)

# %%
# Contributions over time, in the unit of X.

figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
axes.stackplot(range(len(X)), (result.U * result.V.sum(axis=0)).T, labels=[f"source {k + 1}" for k in range(rank)])
axes.set(xlabel="sample", ylabel="sum over species")
axes.legend(frameon=False, ncols=rank, loc="upper left")
