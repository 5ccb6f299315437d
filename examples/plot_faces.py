"""
Images as sums of parts
=======================

Nonnegative components can only be added, so they tend to be parts: strokes of digits, eyes and noses of faces.
"""

import os

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import enmf

# %%
# Without real data: the handwritten digits that come with scikit-learn, eight by eight pixels each.

if "ENMF_DATA" in os.environ:
    X, labels = enmf.datasets.load("olivetti")
    shape, groups, rank = (64, 64), labels["person"], 25
    print("Olivetti faces,", X.shape)
else:
    digits = load_digits()
    X, shape, groups, rank = digits.data, (8, 8), digits.target, 15
    print("handwritten digits of scikit-learn,", X.shape)

result = enmf.factorize(X, rank, random_state=0)
print(result.certificate)

# %%
# The parts.

enmf.plot_components(result, "image", image_shape=shape)

# %%
# Rows from the best to the worst fit, and what they are made of.

enmf.plot_reconstruction(result, X, image_shape=shape)

# %%
# How the error fell, and how low it could be.

updates = enmf.factorize(X, rank, "mu", init="random", random_state=0, tol=0, max_iter=100)
enmf.plot_convergence([result, updates], ["enmf", "mu"])

# %%
# Which digit (or person) uses which part? The components were found without the labels.

_, axes = plt.subplots(figsize=(6.4, 3 + 0.12 * len(set(groups))), layout="constrained")
enmf.plot_usages(result, groups, axes).tick_params(labelsize=7)

# %%
# An l1 penalty on the components, with one on the usages so that neither can escape by scaling, sets more entries to
# zero. Its weight has the unit of X to the power 1.5; a few times more would switch off whole components. Where most of
# the entries are zero already, as on the digits, it changes little.

alpha = 1e-3 * X.mean() ** 1.5
sparse = enmf.ENMF(rank, alpha_W=alpha, alpha_H=alpha, l1_ratio=1.0, random_state=0).fit(X)
for name, V in (("plain", result.V), ("penalized", sparse.components_.T)):
    print(f"{name:>9}: {100 * (V == 0).mean():.0f} % zeros in the components")
print(f"error: plain {result.error:.2f}, penalized {sparse.reconstruction_err_:.2f}")
enmf.plot_components(sparse, "image", image_shape=shape)
