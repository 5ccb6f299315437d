"""docs/images/counts.png and spectrogram.png: components by least squares and by the loss that suits the data."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

import enmf
from enmf.geometry.equivalence import match

mpl.use("agg")
from matplotlib import pyplot as plt

IMAGES = Path(__file__).parent / "images"


def counts() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Words of 300 texts: five topics of 54 words, beside six words that are frequent in all texts; Poisson counts."""
    rng = np.random.default_rng(0)
    words, usage = np.zeros((60, 6)), np.zeros((300, 6))
    words[:54, :5] = rng.gamma(0.3, 1.0, (54, 5))
    words[54:, 5] = 1.0
    words /= words.sum(axis=0)
    length = np.exp(rng.normal(4.0, 0.7, (300, 1)))
    usage[:, :5] = length * rng.dirichlet(np.full(5, 0.3), 300)
    usage[:, 5:] = np.exp(rng.normal(6.0, 2.0, (300, 1)))
    return rng.poisson(usage @ words.T).astype(float), usage, words


def spectrogram() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Power of three notes, each 7 dB below the one before, and a noise floor; exponential as in a periodogram."""
    rng = np.random.default_rng(0)
    time, pitch = np.arange(200), np.arange(120)
    notes, played = np.zeros((120, 4)), np.zeros((200, 4))
    for k, low in enumerate((9, 13, 19)):
        for harmonic in range(1, 6):
            notes[:, k] += 0.5**harmonic * np.exp(-(((pitch - harmonic * low) / 1.2) ** 2))
        for begin in rng.integers(0, 180, 5):
            played[:, k] += np.where(time >= begin, np.exp(-(time - begin) / 12.0), 0.0)
    played *= 10.0 ** (-0.7 * np.arange(4))
    played[:, 3], notes[:, 3] = 1e-4, 1.0
    return (played @ notes.T) * rng.exponential(1.0, (200, 120)), played, notes


def found(X: np.ndarray, truth: tuple[np.ndarray, np.ndarray], loss: str) -> tuple[np.ndarray, np.ndarray]:
    """The components that belong to the true ones, and their cosines with them."""
    rank = truth[1].shape[1]
    tried = [enmf.factorize(X, rank, loss=loss, random_state=0)]
    if loss == "itakura-saito":  # it has many minima
        tried += [enmf.factorize(X, rank, loss=loss, init="random", random_state=seed) for seed in range(3)]
    result = min(tried, key=lambda one: one.loss)
    pairs = match(truth, (result.U, result.V))
    order = [b for _, b in sorted(pairs.pairs)]
    V = result.V[:, order]
    cosines = (V * truth[1]).sum(axis=0) / np.linalg.norm(V, axis=0) / np.linalg.norm(truth[1], axis=0)
    return V, cosines


def draw(
    name: str, losses: tuple[str, str], X: np.ndarray, truth: tuple[np.ndarray, np.ndarray], decibels: bool
) -> None:
    panels = [("true", truth[1], None), *((loss, *found(X, truth, loss)) for loss in losses)]
    figure, axes = plt.subplots(1, 4, figsize=(10, 2.6), layout="constrained", width_ratios=(1.5, 1, 1, 1))
    shown = 10 * np.log10(X.T) if decibels else np.log1p(X.T)
    axes[0].imshow(shown, aspect="auto", origin="lower", cmap="viridis", vmin=-50 if decibels else 0)
    axes[0].set(title="data (dB)" if decibels else "data (log scale)", xlabel="row", ylabel="column")
    for each, (loss, V, cosines) in zip(axes[1:], panels):
        each.imshow(V / V.max(axis=0), aspect="auto", origin="lower", cmap="viridis", interpolation="nearest")
        cos = "" if cosines is None else f"\ncosine {cosines.min():.2f} to {cosines.max():.2f}"
        each.set(title=loss + cos, xlabel="component", xticks=range(V.shape[1]), yticks=[])
        each.set_xticklabels(range(1, V.shape[1] + 1))
        print(name, loss, None if cosines is None else np.round(cosines, 3))
    figure.savefig(IMAGES / f"{name}.png", dpi=80)


if __name__ == "__main__":
    X, *truth = counts()
    draw("counts", ("kullback-leibler", "frobenius"), X, tuple(truth), False)
    X, *truth = spectrogram()
    draw("spectrogram", ("itakura-saito", "frobenius"), X, tuple(truth), True)
