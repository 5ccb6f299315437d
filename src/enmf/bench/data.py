"""Matrices by name: generated, bundled with scikit-learn, or from the data folder."""

from __future__ import annotations

from typing import Any

from enmf.datasets import load, load_rcv1, make_synthetic


def matrix(name: str) -> Any:
    """The matrix of that name: digits, synthetic-<dB>, synthetic-<dB>-<side> (1000 by default; inner rank a fifth of
    it), exact-<sparsity> (the paper's sets), rcv1, or a set of the data folder."""
    if name == "digits":
        from sklearn.datasets import load_digits

        return load_digits().data
    if name.startswith("synthetic-"):
        snr, *side = name.split("-")[1:]
        size = int(side[0]) if side else 1000
        return make_synthetic(size, size, size // 5, float(snr), random_state=0)
    if name.startswith("exact-"):
        return load("exact", sparsity=float(name.split("-")[1]))[0]
    if name == "rcv1":
        return load_rcv1()
    return load(name)[0]
