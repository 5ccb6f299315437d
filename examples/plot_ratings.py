"""
Ratings and recommendations
===========================

Most ratings are missing, and missing is not zero. ``ENMC`` fits those that are there; the ridge decides how well it
predicts the others, and is chosen on entries that were held out.
"""

import os
import warnings

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import enmf

# %%
# Without real data: 300 users, 200 items, one rating in ten, from 1 to 5.

rng = np.random.default_rng(0)
if "ENMF_DATA" in os.environ:
    X, labels = enmf.datasets.load("movielens_100k")
    rows, columns = labels["row"], labels["col"]
    values = np.asarray(X[rows, columns]).ravel()
    shape = X.shape
    print("MovieLens 100K,", shape, len(values), "ratings")
else:
    shape = (300, 200)
    rows, columns = np.nonzero(rng.random(shape) < 0.1)
    taste = rng.gamma(0.5, 1.0, (300, 4)) @ rng.gamma(0.5, 1.0, (4, 200))
    liked = np.log1p(3 * taste)[rows, columns]
    values = np.clip(np.rint(1.5 + 1.8 * liked + 0.5 * rng.standard_normal(len(rows))), 1, 5)
    print("generated ratings,", shape, len(values), "ratings")

# %%
# 80 % of every user's ratings to train, 10 % to choose the ridge, 10 % to judge.

part = enmf.datasets.split_by_row(rows, random_state=0)


def ratings(which):
    keep = part == which
    return sp.csr_array((values[keep], (rows[keep], columns[keep])), shape=shape)


train, validation, test = (ratings(which) for which in range(3))
warnings.filterwarnings("ignore", "0 of")  # some items have no rating in the training part: they get the average
ridges = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
errors = []
for ridge in ridges:
    model = enmf.ENMC(5, missing="unstored", ridge=ridge, clip=(1, 5), random_state=0).fit(train)
    errors.append((-model.score(train), -model.score(validation)))
    print(f"ridge {ridge:5.2f}: RMSE {errors[-1][0]:.3f} on the training part, {errors[-1][1]:.3f} on held-out ratings")

# %%
# Without enough ridge the training error is small and the predictions are poor.

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(ridges, [error[0] for error in errors], "o--", label="training part")
axes.plot(ridges, [error[1] for error in errors], "s-", label="held-out ratings")
axes.set(xlabel="ridge", ylabel="root mean squared error")
axes.legend(frameon=False)

# %%
# The final model, on the test part, against the mean of all ratings.

best = ridges[int(np.argmin([error[1] for error in errors]))]
model = enmf.ENMC(5, missing="unstored", ridge=best, clip=(1, 5), random_state=0).fit(train)
constant = np.sqrt(np.mean((test.data - train.data.mean()) ** 2))
print(f"ridge {best}: RMSE {-model.score(test):.3f} on the test part; a constant has {constant:.3f}")

# %%
# Five items that user 7 has not rated. Of an item with a handful of ratings little is known, and its prediction may be
# high by accident; so only items with ten ratings or more are proposed.

items, scores = model.recommend(row=7, k=shape[1])
well_known = np.bincount(train.indices, minlength=shape[1])[items] >= 10
print(dict(zip(items[well_known][:5].tolist(), np.round(scores[well_known][:5], 2).tolist())))

# %%
# The certificate speaks of the observed entries.

print(model.certificate_)
