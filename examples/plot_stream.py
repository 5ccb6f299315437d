"""
A stream
========

Rows arrive in batches and are not kept. After every batch the model has components, and a certificate of all rows seen
so far: an error, and a bound that no factorization of this rank can go below.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import enmf

# %%
# The handwritten digits of scikit-learn, in batches of 200.

X = load_digits().data
model = enmf.ENMF(10, random_state=0)
seen, ratios = [], []
for first in range(0, len(X), 200):
    model.partial_fit(X[first : first + 200])
    seen.append(min(first + 200, len(X)))
    ratios.append(model.certificate_.ratio)
print(model.certificate_)

# %%
# Error over bound, batch by batch.

figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
axes.plot(seen, ratios, "o-")
axes.set(xlabel="rows seen", ylabel="error / bound")

# %%
# The same data at once, for comparison.

whole = enmf.factorize(X, 10, random_state=0)
print(f"explained: {100 * model.score(X):.2f} % by the stream, {100 * whole.certificate.explained:.2f} % at once")
enmf.plot_components(model, "image", image_shape=(8, 8))
