"""
End members and abundance maps
==============================

A hyperspectral image: every pixel is a spectrum, a mixture of the spectra of a few materials. Components are the end
members; their usages, reshaped to the image, are abundance maps. Abundances of a pixel are shares, so they sum to one:
``simplex="U"`` says so.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

import enmf

# %%
# Without real data: 50 x 50 pixels, 80 bands, four materials whose abundances vary smoothly. Of Jasper Ridge every
# second pixel of every second line is used, which makes it an image of the same size.


def generated(rng):
    bands = np.linspace(0.4, 2.5, 80)
    centres = rng.uniform(0.5, 2.4, (4, 3))
    spectra = 0.15 + sum(0.5 * np.exp(-(((bands - c) / 0.18) ** 2)) for c in centres.T[:, :, None])
    y, x = np.mgrid[0:50, 0:50] / 50
    middles = ((0.2, 0.2), (0.8, 0.3), (0.4, 0.8), (0.9, 0.9))
    fields = np.stack([np.exp(-8 * ((x - a) ** 2 + (y - b) ** 2)) for a, b in middles])
    shares = (fields**3 / (fields**3).sum(axis=0)).reshape(4, -1).T
    return np.maximum(shares @ spectra + 0.005 * rng.standard_normal((2500, 80)), 0), bands, spectra.T


if "ENMF_DATA" in os.environ:
    pixels, labels = enmf.datasets.load("jasper_ridge")
    X = pixels.reshape(100, 100, -1, order="F")[::2, ::2].reshape(2500, -1)
    wavelengths, known = np.linspace(0.38, 2.5, X.shape[1]), labels["endmember"]
    print("Jasper Ridge, every second pixel,", X.shape)
else:
    X, wavelengths, known = generated(np.random.default_rng(1))
    print("generated image,", X.shape)

# %%
# Two models: the plain one, whose usages have any size, and mixtures. A mixture has less freedom, so its error is
# larger, and the difference tells what the sum to one costs: shadows, for example, are no mixtures.

plain = enmf.factorize(X, 4, random_state=0)
result = enmf.factorize(X, 4, simplex="U", tol=1e-3, random_state=0)
sums = result.U.sum(axis=1)
print(f"error: plain {plain.error:.4f}, mixtures {result.error:.4f}, bound {result.certificate.lower_bound:.4f}")
print(f"sums of the abundances: {sums.min():.6f} to {sums.max():.6f}")

# %%
# The end members.

axes = enmf.plot_components(result, "overlay", names=[f"{w:.3f}" for w in wavelengths])
axes.set(xlabel="wavelength in micrometres", ylabel="reflectance")

# %%
# Their abundance maps.

# sphinx_gallery_thumbnail_number = 2
figure, axes = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained")
for k, each in enumerate(axes):
    picture = each.imshow(result.U[:, k].reshape(50, 50), vmin=0, vmax=1, cmap="viridis")
    each.set(title=f"end member {k + 1}", xticks=[], yticks=[])
figure.colorbar(picture, ax=axes, label="abundance")

# %%
# For this image the end members are known (for Jasper Ridge: chosen by others). The cosine of each known spectrum with
# the most similar component:


def directions(F):
    return F / np.linalg.norm(F, axis=0)


print(np.round((directions(result.V).T @ directions(known)).max(axis=0), 3))

# %%
# What is left: a patch would be a material that is missing.

enmf.plot_residuals(result, X)
