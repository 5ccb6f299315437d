"""Singular triplets from a few passes over X: from a sample of its rows, then by power or block Krylov iterations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from enmf.linalg.spectrum import MEASURED, Spectrum, SvdPolicy, fix_signs, orthonormal, orthonormal_beside, thin_svd
from enmf.matrix.base import Matrix
from enmf.matrix.factor import beside, in_double
from enmf.parallel import lapack, matmul


def glance(X: Matrix, width: int, rng: np.random.Generator, policy: SvdPolicy = MEASURED) -> Spectrum:
    """A rough spectrum of a sample of the rows of X (its U has as many rows), at a fraction of a pass.

    Its V is as good as a random block after one product with XᵀX. It always has `width` triplets, whatever the rank of
    the sample.
    """
    rows = policy.sampled_rows * width
    if 2 * rows > X.shape[0]:
        V, _, _ = thin_svd(X.transpose_times(_normal(X.shape[0], width, X.dtype, rng)))
        U, s, turn = thin_svd(X.times(V))
        V = matmul(V, turn)
    else:
        sample = X.sample_rows(rows, rng)
        Y = sample.times(sample.transpose_times(_normal(sample.shape[0], width, X.dtype, rng)))
        Q = orthonormal(Y.astype(np.float64)).astype(X.dtype)
        V, s, turn = thin_svd(sample.transpose_times(Q))
        U = matmul(Q, turn)
    return fix_signs(_filled(Spectrum(U, s, V, X.squared_norm(), "randomized"), width, rng))


def _filled(spectrum: Spectrum, width: int, rng: np.random.Generator) -> Spectrum:
    """`width` triplets even if the sample has fewer rows: the rest are random right singular vectors."""
    U, s, V = spectrum.U, spectrum.s, spectrum.V
    lacking = width - len(s)
    if lacking <= 0:
        return spectrum
    V = np.hstack([V, orthonormal_beside(V, _normal(len(V), lacking, V.dtype, rng))])
    return replace(spectrum, U=np.pad(U, ((0, 0), (0, lacking))), s=np.pad(s, (0, lacking)), V=V)


def look_closer(sample: Matrix, first: Spectrum, rng: np.random.Generator) -> Spectrum:
    """The spectrum of a larger sample of rows (its U has as many), from that of a smaller one."""
    Q = orthonormal(sample.times(first.V).astype(np.float64)).astype(sample.dtype)
    V, s, turn = thin_svd(sample.transpose_times(Q))
    return fix_signs(_filled(replace(first, U=matmul(Q, turn), s=s, V=V), len(first.s), rng))


def _normal(rows: int, columns: int, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((rows, columns)).astype(dtype)


def power(X: Matrix, first: Spectrum, iterations: float, policy: SvdPolicy = MEASURED) -> Spectrum:
    """Power iterations from a glance at X: products with X and Xᵀ in turn; half an iteration is one product."""
    U, s, V, turn, back = first.U, first.s, first.V, None, None
    if U.shape[0] != X.shape[0]:
        XV, back = X.there_and_back(V)
        U, s, turn = thin_svd(XV)
        back = matmul(back, turn / s) if back is not None and s[-1] > policy.well_conditioned * s[0] else None  # Xᵀ U
    left = True  # U is newer, and V has not been rotated with it yet
    for _ in range(round(2 * iterations)):
        if left:
            V, s, turn = thin_svd(X.transpose_times(U) if back is None else back)
            back = None
        else:
            U, s, turn = thin_svd(X.times(V))
        left = not left
    if turn is not None:
        U, V = (U, matmul(V, turn)) if left else (matmul(U, turn), V)
    return fix_signs(replace(first, U=U, s=s, V=V))


def refine(X: Matrix, rough: Matrix, spectrum: Spectrum, rank: int, policy: SvdPolicy = MEASURED) -> Iterator[Spectrum]:
    """Better and better spectra by block Krylov iteration from the leading right singular vectors.

    For data whose unconstrained optimum is (nearly) nonnegative: there it is the descent. The first spectrum comes when
    further steps can reduce the error by no more than the share `SvdPolicy.rough`, if gains keep shrinking by the same
    factor; the last when a step reduces it by less than `SvdPolicy.refined`, or when the basis has grown to
    `SvdPolicy.largest_basis` times the width. The first one is made with `rough`, which is X or X in single precision;
    the basis then continues in the precision of X.
    """
    width = len(spectrum.s)
    block = min(max(rank + rank // 10, 10), policy.most_block, width)
    side = min(X.shape)
    most = max(min(policy.largest_basis * width, side // 2), width + block)
    if most > side:  # no room for a basis that grows
        yield power(X, spectrum, 2)
        return
    basis = np.empty((X.shape[1], most), rough.dtype, order="F")
    basis[:, :block] = spectrum.V[:, :block]
    image, back = rough.there_and_back(basis[:, :block])
    images, gram = [image], np.zeros((0, 0))
    before, last_gain, first, last_step, meets = float("inf"), 0.0, True, False, 2
    while True:
        # in a Krylov basis, images of blocks are orthogonal unless they are neighbours
        new = np.vstack([matmul(in_double(image).T, in_double(images[-1])) for image in images[-meets:]])
        size = len(gram) + block
        gram = np.pad(gram, (0, block))
        gram[-len(new) :, -block:] = new
        gram[-block:, -len(new) :] = new.T
        full = size + block > most
        if size > rank + block or full:
            rest = _rest(gram, spectrum, rank)
            gain = 1.0 - rest / before if before > 0 else 0.0
            done = full or gain <= policy.refined
            # if gains keep shrinking by q = gain / last_gain, gain q / (1 - q) is left to later steps
            left, q = gain**2 / (last_gain - gain) if last_gain > gain else float("inf"), gain / (last_gain or 1.0)
            last_gain, before = gain if before < float("inf") else 0.0, rest
            last_step = first and left * q <= policy.rough  # probably the next one, which needs no product with Xᵀ
            if done or (first and left <= policy.rough):
                yield fix_signs(_ritz(spectrum, basis[:, :size], images, gram))
                if done:
                    return
                if first and rough is not X:
                    basis, images, gram = _promoted(X, basis, size)
                    before, back, rough, meets = _rest(gram, spectrum, rank), None, X, most
                first = last_step = False
        known, last = basis[:, :size], images[-1]
        if back is None:
            back = rough.transpose_times(last if last.shape[1] == block else last[:, -block:])
        basis[:, size : size + block] = orthonormal_beside(known, back)
        ahead = basis[:, size : size + block]
        image, back = (rough.times(ahead), None) if last_step else rough.there_and_back(ahead)
        images.append(image)


def _rest(gram: np.ndarray, spectrum: Spectrum, rank: int) -> float:
    """Error of this rank, from the Gram matrix of X times a basis."""
    values = lapack(np.linalg.eigvalsh, gram)[::-1]
    return max(spectrum.squared_norm - float(values[:rank].sum()), 0.0) ** 0.5


def _promoted(X: Matrix, basis: np.ndarray, size: int) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """A single-precision basis in the precision of X, with its image and Gram matrix."""
    better = np.empty(basis.shape, X.dtype, order="F")
    better[:, :size] = orthonormal(basis[:, :size].astype(X.dtype))
    image = X.times(better[:, :size])
    return better, [image], matmul(image.T, image)


def _ritz(spectrum: Spectrum, basis: np.ndarray, images: list[np.ndarray], gram: np.ndarray) -> Spectrum:
    """As many singular triplets as `spectrum` has, from a basis and X times the basis."""
    width = min(len(spectrum.s), len(gram))
    values, T = lapack(np.linalg.eigh, gram)
    s, T = np.sqrt(np.maximum(values[::-1][:width], 0.0)), T[:, ::-1][:, :width]
    dtype = basis.dtype
    U = matmul(beside(*images), (T / np.where(s > 0, s, 1.0)).astype(dtype))
    return replace(spectrum, U=U, s=s.astype(dtype), V=matmul(basis, T.astype(dtype)), kind="krylov")
