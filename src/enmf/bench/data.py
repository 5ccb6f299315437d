"""Matrices by name: generated, bundled with scikit-learn, or from the data folder.

A new one is a function and a line in MAKERS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from enmf.datasets import load, load_rcv1, make_synthetic


def _digits() -> Any:
    from sklearn.datasets import load_digits

    return load_digits().data


def _synthetic(snr: str, side: str = "1000") -> Any:
    """synthetic-<dB>, synthetic-<dB>-<side>; the inner rank is a fifth of the side"""
    size = int(side)
    return make_synthetic(size, size, size // 5, float(snr), random_state=0)


MAKERS: dict[str, Callable[..., Any]] = {
    "digits": _digits,
    "synthetic": _synthetic,
    "exact": lambda sparsity: load("exact", sparsity=float(sparsity))[0],  # the paper's sets
    "rcv1": load_rcv1,
}


def matrix(name: str) -> Any:
    """The matrix of that name, which is one of MAKERS with its arguments behind dashes, or a set of the data folder."""
    maker, *arguments = name.split("-")
    return MAKERS[maker](*arguments) if maker in MAKERS else load(name)[0]
