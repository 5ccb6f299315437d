"""Matrices by name: generated, bundled with scikit-learn, or from the data folder."""

from __future__ import annotations

from typing import Any

from enmf.datasets import load, make_synthetic


def matrix(name: str) -> Any:
    """ "digits", "synthetic-<dB>[-<side>]" (inner rank a fifth of the side, 1000 by default), or a set of the folder."""
    if name == "digits":
        from sklearn.datasets import load_digits

        return load_digits().data
    if name.startswith("synthetic-"):
        snr, *side = name.split("-")[1:]
        size = int(side[0]) if side else 1000
        return make_synthetic(size, size, size // 5, float(snr), random_state=0)
    return load(name)[0]
