"""
Are two solutions the same?
===========================

Factorizations are unique at best up to the order and the scale of their components. ``enmf.compare`` finds the order,
names the relation, and says whether two results are the same; ``enmf.stability`` counts the minima that many starts
find.
"""

from sklearn.datasets import load_digits
from sklearn.decomposition import NMF

import enmf

# %%
# Two libraries, the same data.

X = load_digits().data
ours = enmf.factorize(X, 8, random_state=0, tol=1e-5)
theirs = NMF(8, init="nndsvd", max_iter=1000).fit(X)
comparison = enmf.compare(ours, (theirs.transform(X), theirs.components_.T), X)
print(comparison)

# %%
# Which components have a partner?

enmf.plot_comparison(comparison)

# %%
# Both are certified by the same rules, whoever computed them.

for name, certificate in (
    ("enmf", ours.certificate),
    ("scikit-learn", enmf.certify(X, theirs.transform(X), theirs.components_.T)),
):
    print(f"{name:>12}: error / bound {certificate.ratio:.5f}, KKT residual {certificate.kkt:.1e}")

# %%
# How many minima are there? Run 0 is the exterior method, the others start at random. Where almost every run has its
# own minimum, single components deserve little trust, and ``enmf.consensus`` tells which of them recur.

found = enmf.stability(X, 8, n_runs=10, random_state=0)
print(found)
enmf.plot_stability(found)  # sphinx_gallery_thumbnail_number = 2
