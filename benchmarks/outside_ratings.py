"""Nonnegative completion by other libraries: ratings in, factors out. A library that is not installed is not offered.

All minimize the squared error of the ratings plus ridge * (number of ratings of the row or column) * (squared norm of
its factor), without offsets, as `enmf.complete(..., ridge_scaling="entries")` does; they differ in how.

cmfrec     alternating least squares with coordinate descent for the nonnegative row problems (Cortes 2018)
libmf      parallel stochastic gradient (Chin, Zhuang, Juan and Lin 2015); has no seed
surprise   multiplicative steps over all ratings (Luo et al. 2014); one thread
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.sparse as sp


@dataclass(frozen=True)
class Model:
    """What to fit, and how long."""

    rank: int
    ridge: float
    iterations: int
    seed: int
    threads: int


Fit = Callable[[sp.csr_array, Model], tuple[np.ndarray, np.ndarray]]


def _cmfrec(train: sp.csr_array, wanted: Model) -> tuple[np.ndarray, np.ndarray]:
    from cmfrec import CMF

    model = CMF(
        k=wanted.rank,
        lambda_=wanted.ridge,
        scale_lam=True,
        nonneg=True,
        method="als",
        use_cg=False,
        user_bias=False,
        item_bias=False,
        center=False,
        niter=wanted.iterations,
        nthreads=wanted.threads,
        random_state=wanted.seed + 1,  # it takes positive seeds only
        precompute_for_predictions=False,
        verbose=False,
    )
    model.fit(sp.coo_matrix(train))
    return model.A_, model.B_


def _libmf(train: sp.csr_array, wanted: Model) -> tuple[np.ndarray, np.ndarray]:
    with contextlib.redirect_stdout(io.StringIO()):  # it greets on import
        from libmf import mf

    entries = sp.coo_array(train)
    table = np.column_stack([*entries.coords, entries.data])
    model = mf.MF(
        fun=mf.P_L2_MFR,
        k=wanted.rank,
        nr_threads=wanted.threads,
        nr_iters=wanted.iterations,
        lambda_p1=0.0,
        lambda_q1=0.0,
        lambda_p2=wanted.ridge,
        lambda_q2=wanted.ridge,
        do_nmf=True,
        quiet=True,
    )
    model.fit(table)
    U, V = (np.full((side, wanted.rank), np.nan, np.float32) for side in train.shape)
    P, Q = model.p_factors(), model.q_factors()
    U[: len(P)], V[: len(Q)] = P, Q
    return U, V


def _surprise(train: sp.csr_array, wanted: Model) -> tuple[np.ndarray, np.ndarray]:
    from surprise import NMF, Dataset, Reader

    rows, columns = sp.coo_array(train).coords
    frame = pd.DataFrame({"row": rows, "column": columns, "value": train.data})
    reader = Reader(rating_scale=(float(train.data.min()), float(train.data.max())))
    data = Dataset.load_from_df(frame, reader).build_full_trainset()
    ridges = {"reg_pu": wanted.ridge, "reg_qi": wanted.ridge}
    model = NMF(n_factors=wanted.rank, n_epochs=wanted.iterations, random_state=wanted.seed, **ridges)
    model.fit(data)
    U, V = (np.full((side, wanted.rank), np.nan) for side in train.shape)
    U[[data.to_raw_uid(i) for i in range(data.n_users)]] = model.pu
    V[[data.to_raw_iid(i) for i in range(data.n_items)]] = model.qi
    return U, V


_KNOWN: dict[str, Fit] = {"cmfrec": _cmfrec, "libmf": _libmf, "surprise": _surprise}
ALL = tuple(_KNOWN)


def names() -> list[str]:
    """Libraries that are installed."""
    return [name for name in _KNOWN if importlib.util.find_spec(name) is not None]


def fit(name: str, train: sp.csr_array, wanted: Model) -> tuple[np.ndarray, np.ndarray]:
    """U and V after some iterations; a row without ratings is the average of the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        factors = _KNOWN[name](train, wanted)
    filled = [np.where(np.isnan(F), np.nanmean(F, axis=0), F) for F in factors]
    return filled[0], filled[1]
