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

import numpy as np
import scipy.sparse as sp

Fit = Callable[[sp.csr_array, int, float, int, int, int], tuple[np.ndarray, np.ndarray]]


def _cmfrec(
    train: sp.csr_array, rank: int, ridge: float, iterations: int, seed: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    from cmfrec import CMF

    model = CMF(
        k=rank,
        lambda_=ridge,
        scale_lam=True,
        nonneg=True,
        method="als",
        use_cg=False,
        user_bias=False,
        item_bias=False,
        center=False,
        niter=iterations,
        nthreads=threads,
        random_state=seed + 1,  # it takes positive seeds only
        precompute_for_predictions=False,
        verbose=False,
    )
    model.fit(sp.coo_matrix(train))
    return model.A_, model.B_


def _libmf(
    train: sp.csr_array, rank: int, ridge: float, iterations: int, seed: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    with contextlib.redirect_stdout(io.StringIO()):  # it greets on import
        from libmf import mf

    n, m = train.shape
    entries = sp.coo_array(train)
    table = np.column_stack([*entries.coords, entries.data])
    model = mf.MF(
        fun=mf.P_L2_MFR,
        k=rank,
        nr_threads=threads,
        nr_iters=iterations,
        lambda_p1=0.0,
        lambda_q1=0.0,
        lambda_p2=ridge,
        lambda_q2=ridge,
        do_nmf=True,
        quiet=True,
    )
    model.fit(table)
    U, V = np.full((n, rank), np.nan, np.float32), np.full((m, rank), np.nan, np.float32)
    P, Q = model.p_factors(), model.q_factors()
    U[: len(P)], V[: len(Q)] = P, Q
    return U, V


def _surprise(
    train: sp.csr_array, rank: int, ridge: float, iterations: int, seed: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    import pandas
    from surprise import NMF, Dataset, Reader

    rows, columns = sp.coo_array(train).coords
    frame = pandas.DataFrame({"row": rows, "column": columns, "value": train.data})
    reader = Reader(rating_scale=(float(train.data.min()), float(train.data.max())))
    data = Dataset.load_from_df(frame, reader).build_full_trainset()
    model = NMF(n_factors=rank, n_epochs=iterations, reg_pu=ridge, reg_qi=ridge, random_state=seed)
    model.fit(data)
    U, V = np.full((train.shape[0], rank), np.nan), np.full((train.shape[1], rank), np.nan)
    U[[data.to_raw_uid(i) for i in range(data.n_users)]] = model.pu
    V[[data.to_raw_iid(i) for i in range(data.n_items)]] = model.qi
    return U, V


_KNOWN: dict[str, Fit] = {"cmfrec": _cmfrec, "libmf": _libmf, "surprise": _surprise}
ALL = tuple(_KNOWN)


def names() -> list[str]:
    """Libraries that are installed."""
    return [name for name in _KNOWN if importlib.util.find_spec(name) is not None]


def fit(
    name: str, train: sp.csr_array, rank: int, ridge: float, iterations: int, seed: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """U and V after some iterations; a row without ratings is the average of the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        factors = _KNOWN[name](train, rank, ridge, iterations, seed, threads)
    filled = [np.where(np.isnan(F), np.nanmean(F, axis=0), F) for F in factors]
    return filled[0], filled[1]
