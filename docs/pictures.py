"""docs/images/orthant.svg, approach.svg and certificate.svg: the pictures of "How it works" and "The certificate".

Every point is an iterate of the package itself, taken by a callback. `python docs/pictures.py`
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits

import enmf

mpl.use("agg")
mpl.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "enmf", "font.size": 10, "axes.spines.top": False})
mpl.rcParams.update({"axes.spines.right": False, "figure.dpi": 110})
from matplotlib import pyplot as plt  # noqa: E402

IMAGES = Path(__file__).parent / "images"
BLUE, ORANGE, GREEN, GREY = "#0b5fa5", "#b34700", "#1f7a4d", "#5b6875"  # told apart by colour-blind readers, too


def two_parts() -> np.ndarray:
    """60 x 40, two components with many zeros, and noise."""
    rng = np.random.default_rng(3)
    U, V = (rng.random((side, 2)) * (rng.random((side, 2)) > 0.4) for side in (60, 40))
    return np.maximum(U @ V.T + 0.1 * rng.standard_normal((60, 40)), 0)


def iterates(X: np.ndarray, rank: int, **options) -> tuple[enmf.Result, list]:
    """The result, and (phase, error, U, V) of every iterate on the way from one start."""
    seen: list = []

    def keep(progress) -> None:
        seen.append((progress.phase, progress.error, progress.U.copy(), progress.V.copy()))

    one = {"rotation": "spread", "starts": 1, "restarts": 0}
    return enmf.factorize(X, rank, random_state=0, callback=keep, **one, **options), seen


def orthant() -> None:
    X = two_parts()
    result, seen = iterates(X, 2)
    _, _, U, V = next(row for row in seen if row[0] == "feasibility")  # the rotated SVD
    R = result.rotation.R
    _, _, U1, V1 = next(row for row in seen if row[0] == "descent")  # the first point inside
    stages = [
        ("1  SVD: the best factors, outside", U @ R.T, V @ R.T),
        ("2  rotated: the same product", U, V),
        ("3  stepped in: nonnegative", U1, V1),
        ("4  descended: a stationary point", result.U, result.V),
    ]
    figure, axes = plt.subplots(2, 2, figsize=(8, 7.4), layout="constrained", sharex=True, sharey=True)
    whole = np.linalg.norm(X)
    for each, (title, A, B) in zip(axes.flat, stages):
        each.fill_between([0, 2], 0, 2, color=BLUE, alpha=0.08, linewidth=0)
        each.axhline(0, color=GREY, linewidth=0.8)
        each.axvline(0, color=GREY, linewidth=0.8)
        for points, colour, mark, name in ((A, BLUE, "o", "rows of U"), (B, ORANGE, "^", "rows of V")):
            each.scatter(*points.T, s=18, color=colour, marker=mark, alpha=0.75, label=name, linewidths=0)
        negative = sum(np.minimum(F, 0).sum() for F in (A, B)) / -sum(np.abs(F).sum() for F in (A, B))
        error = np.linalg.norm(X - A @ B.T) / whole
        each.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
        each.text(0.98, 0.97, f"error {100 * error:.2f} %\nnegative mass {100 * abs(negative):.1f} %",
                  transform=each.transAxes, ha="right", va="top", fontsize=9)  # fmt: skip
        each.set(xlim=(-0.75, 1.25), ylim=(-0.75, 1.25), aspect="equal")
    axes[1, 0].set(xlabel="first component", ylabel="second component")
    axes[0, 0].legend(loc="upper left", frameon=False, fontsize=9, handletextpad=0.1)
    figure.savefig(IMAGES / "orthant.svg", metadata={"Date": None})


def approach() -> None:
    X = load_digits().data
    rank = 10
    result, seen = iterates(X, rank, surrogate=False, tol=1e-5)
    bound = result.certificate.lower_bound
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    outside = [row[1] / bound for row in seen if row[0] == "feasibility"]
    inside = [row[1] / bound for row in seen if row[0] == "descent"]
    for seed in range(3):
        errors: list = []
        enmf.factorize(X, rank, "hals", init="random", random_state=seed, tol=0, max_iter=80,
                       callback=lambda p, errors=errors: errors.append(p.error))  # fmt: skip
        label = "HALS from random starts: from above" if seed == 0 else None
        style = {"color": GREY, "linewidth": 1, "linestyle": "--"}
        axes.plot(np.arange(len(errors)), np.array(errors) / bound, label=label, **style)
    steps = np.arange(len(outside))
    axes.plot(steps, outside, color=ORANGE, linewidth=2.2, label="the path: not yet nonnegative, from below")
    steps = len(outside) - 1 + np.arange(len(inside))
    axes.plot(steps, inside, color=BLUE, linewidth=2.2, label="the descent: nonnegative")
    axes.axhline(1, color=GREEN, linewidth=1.5, linestyle=":", label="bound: no factorization of this rank is below")
    axes.set(xlim=(0, 80), ylim=(0.985, 1.4), xlabel="iterations", ylabel="error / bound")
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(IMAGES / "approach.svg", metadata={"Date": None})


def certificate() -> None:
    """Error / bound of the digits at several ranks: what is known, what can still be gained."""
    X = load_digits().data
    ranks = (2, 5, 10, 15, 20, 30)
    results = [enmf.factorize(X, rank, random_state=0) for rank in ranks]
    whole = np.linalg.norm(X)
    errors = [100 * one.error / whole for one in results]
    bounds = [100 * one.certificate.lower_bound / whole for one in results]
    figure, axes = plt.subplots(figsize=(8, 3.8), layout="constrained")
    axes.fill_between(ranks, 0, bounds, color=GREEN, alpha=0.12, linewidth=0)
    axes.fill_between(ranks, bounds, errors, color=ORANGE, alpha=0.15, linewidth=0)
    axes.plot(ranks, errors, "o-", color=BLUE, label="error of the result")
    axes.plot(ranks, bounds, "s--", color=GREEN, label="bound (SVD)")
    for rank, error, one in zip(ranks, errors, results):
        place = {"xytext": (0, 7), "textcoords": "offset points", "ha": "center", "fontsize": 9}
        axes.annotate(f"{one.certificate.ratio:.3f}", (rank, error), **place)
    axes.text(5.5, 12, "no factorization reaches here", color=GREEN)
    axes.set(xlabel="rank", ylabel="% of ‖X‖", ylim=(0, 60), xticks=ranks)
    axes.legend(frameon=False, title="above the points: error / bound", alignment="left")
    figure.savefig(IMAGES / "certificate.svg", metadata={"Date": None})


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    orthant()
    approach()
    certificate()
