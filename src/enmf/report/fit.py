"""Where the fit is good and where it is poor: data beside U Vᵀ, errors per row and per column.

Nothing of the size of X is allocated: residuals of rows and columns come from the products X V and Xᵀ U or, with
missing entries or another loss than the Frobenius norm, from blocks of rows.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from enmf.losses.entries import divergence
from enmf.matrix.factor import row_blocks
from enmf.problem.problem import Units
from enmf.problem.validation.losses import check_loss
from enmf.report.axes import Axis
from enmf.report.numbers import percent, shortened, table
from enmf.report.pictures import Ticks, colour_bar, curves, heat_map, png, shrunk
from enmf.report.terms import Terms, terms_of

if TYPE_CHECKING:
    from enmf.run.result import Result

WORST = 15  # rows and columns listed with their residual
SAMPLES = 6  # rows shown beside their reconstruction
TILES = (60, 120)  # rows and columns of the map of all data
CURVE = 400  # points of a curve


@dataclass(frozen=True)
class Residual:
    """Sums of squares of X - U Vᵀ and of X, along one side of X; for another loss the sums of d(x | m) and x^beta."""

    axis: Axis
    squares: np.ndarray
    whole: np.ndarray
    terms: Terms

    @property
    def relative(self) -> np.ndarray:
        """Error of each row or column over its norm, or loss over the sum of x^beta; 0 if that is zero."""
        share = np.divide(self.squares, self.whole, out=np.zeros(len(self.whole)), where=self.whole > 0)
        return np.sqrt(share) if self.terms.squares else share

    def note(self, i: int) -> str:
        if self.terms.squares:
            return f"error {percent(self.relative[i])}"
        return f"loss {self.squares[i]:.3g}"


def fit_section(
    result: Result, X: Any, rows: Axis, columns: Axis, shape: tuple[int, int] | None, spectrum: bool
) -> str:
    """The section that needs the data themselves."""
    result, X = _in_range(result, X)
    missing = result.settings.get("missing") == "unstored"
    terms = terms_of(result.certificate)
    found = residuals(X, result.U, result.V, missing) if terms.squares else divergences(X, result, missing)
    in_rows, in_columns, of_rows, of_columns = found
    sides = Residual(rows, in_rows, of_rows, terms), Residual(columns, in_columns, of_columns, terms)
    if shape is not None:
        words = "data, U Vᵀ, and their absolute difference."
        if not terms.squares:
            words = "data, U Vᵀ, and the deviance residual √(2 d(x | m)) of every pixel, on a colour scale of its own."
        picture = _samples(result, X, sides[0], words, partial(_three_images, shape, terms))
    elif spectrum:
        words = '<span class="key run0">data</span><span class="key run1">U Vᵀ</span>'
        picture = _samples(result, X, sides[0], words, partial(_two_curves, columns))
    else:
        picture = _maps(result, X, missing)
    return _disagreement(result, sides[0]) + picture + "".join(_side(side) for side in sides)


def _in_range(result: Result, X: Any) -> tuple[Result, Any]:
    """The same in a different unit if squares of the entries would overflow or underflow."""
    values = X.data if sp.issparse(X) else X
    unit = float(np.nanmax(values, initial=0.0))
    if unit == 0 or 1e-70 <= unit <= 1e70:
        return result, X
    root = np.sqrt(unit)
    certificate = result.certificate.in_units(Units(1 / unit), check_loss(result.certificate.loss_name))
    return replace(result, U=result.U / root, V=result.V / root, certificate=certificate), X / unit


def residuals(X: Any, U: np.ndarray, V: np.ndarray, missing: bool = False) -> tuple[np.ndarray, ...]:
    """Sums of squares of X - U Vᵀ and of X, by rows and by columns; over the stored or known entries if `missing`."""
    U, V = U.astype(np.float64), V.astype(np.float64)
    if sp.issparse(X) and not missing:
        X, holes = _split(sp.csr_array(X))
        squares = X.multiply(X)
        of_rows, of_columns = np.asarray(squares.sum(axis=1)).ravel(), np.asarray(squares.sum(axis=0)).ravel()
        UtU, VtV = U.T @ U, V.T @ V
        rows = of_rows - 2 * np.einsum("ij,ij->i", X @ V, U) + np.einsum("ij,ij->i", U @ VtV, U)
        columns = of_columns - 2 * np.einsum("ij,ij->i", X.T @ U, V) + np.einsum("ij,ij->i", V @ UtU, V)
        i, j = holes
        unseen = np.einsum("ij,ij->i", U[i], V[j]) ** 2
        rows -= np.bincount(i, unseen, len(rows))
        columns -= np.bincount(j, unseen, len(columns))
        return np.maximum(rows, 0), np.maximum(columns, 0), of_rows, of_columns
    n, m = X.shape
    rows, columns, of_rows, of_columns = np.zeros(n), np.zeros(m), np.zeros(n), np.zeros(m)
    if sp.issparse(X):
        coo = sp.coo_array(X)
        for part in row_blocks(coo.nnz, U.shape[1]):
            i, j, x = coo.coords[0][part], coo.coords[1][part], coo.data[part].astype(np.float64)
            squared = (x - np.einsum("ij,ij->i", U[i], V[j])) ** 2
            rows += np.bincount(i, squared, n)
            columns += np.bincount(j, squared, m)
            of_rows += np.bincount(i, x * x, n)
            of_columns += np.bincount(j, x * x, m)
        return rows, columns, of_rows, of_columns
    X = np.asarray(X)
    for block in row_blocks(n, m):
        part = np.nan_to_num(X[block].astype(np.float64))
        squared = np.where(np.isnan(X[block]), 0.0, (part - U[block] @ V.T) ** 2)
        rows[block], of_rows[block] = squared.sum(axis=1), (part * part).sum(axis=1)
        columns += squared.sum(axis=0)
        of_columns += (part * part).sum(axis=0)
    return rows, columns, of_rows, of_columns


def divergences(X: Any, result: Result, missing: bool = False) -> tuple[np.ndarray, ...]:
    """Sums of d(x | m) and of x^beta, by rows and by columns; over the stored or known entries if `missing`."""
    U, V = result.U.astype(np.float64), result.V.astype(np.float64)
    beta, (n, m) = terms_of(result.certificate).beta, X.shape
    rows, columns, of_rows, of_columns = np.zeros(n), np.zeros(m), np.zeros(n), np.zeros(m)
    sparse = sp.issparse(X)
    if sparse and (missing or beta == 1.0):  # zeros are missing, or together cost the sum of U Vᵀ
        coo = sp.coo_array(X)
        for part in row_blocks(coo.nnz, U.shape[1]):
            i, j, x = coo.coords[0][part], coo.coords[1][part], coo.data[part].astype(np.float64)
            model, known = np.einsum("ij,ij->i", U[i], V[j]), ~np.isnan(x)
            x = np.where(known, x, 0.0)
            lost = np.where(known, divergence(x, model, beta), 0.0) - (0.0 if missing else model)
            mass = np.where(known & (x > 0 if beta > 0 else True), x**beta, 0.0)
            for sums, index, values in ((rows, i, lost), (columns, j, lost), (of_rows, i, mass), (of_columns, j, mass)):
                sums += np.bincount(index, values, len(sums))
        if not missing:
            rows += U @ V.sum(axis=0)
            columns += V @ U.sum(axis=0)
        return np.maximum(rows, 0), np.maximum(columns, 0), of_rows, of_columns
    for block in row_blocks(n, m):
        data = (X[block].toarray() if sparse else np.asarray(X[block])).astype(np.float64)
        known = ~np.isnan(data)
        data = np.where(known, data, 1.0)
        lost = np.where(known, divergence(data, U[block] @ V.T, beta), 0.0)
        mass = np.where(known, data**beta, 0.0)
        rows[block], of_rows[block] = lost.sum(axis=1), mass.sum(axis=1)
        columns += lost.sum(axis=0)
        of_columns += mass.sum(axis=0)
    return rows, columns, of_rows, of_columns


def _split(X: sp.csr_array) -> tuple[sp.csr_array, tuple[np.ndarray, np.ndarray]]:
    """X with zeros in place of stored NaN, and their positions: missing entries among known zeros."""
    bad = np.isnan(X.data)
    if not bad.any():
        return X, (np.empty(0, np.int64), np.empty(0, np.int64))
    i, j = (places[bad] for places in sp.coo_array(X).coords)
    return sp.csr_array((np.nan_to_num(X.data), X.indices, X.indptr), X.shape), (i, j)


def _disagreement(result: Result, rows: Residual) -> str:
    """A note if these data give a different error than the run reported."""
    if not rows.terms.squares:
        return _other_loss(result, float(rows.squares.sum()), float(rows.whole.sum()))
    c, error = result.certificate, math.sqrt(float(rows.squares.sum()))
    whole = c.error / c.relative_error if c.relative_error > 0 else math.sqrt(float(rows.whole.sum()))
    if abs(error - c.error) <= 0.01 * c.error + 1e-6 * whole:
        return ""
    return (
        f"<p><b>Over all entries of the data given to this page the error is {error:.5g}; over those that were "
        f"factorized it is {c.error:.5g}.</b> Entries were masked or weighted, or these are different data.</p>"
    )


def _other_loss(result: Result, loss: float, whole: float) -> str:
    own = result.certificate.loss
    if abs(loss - own) <= 0.02 * own + 1e-6 * whole:
        return ""
    return (
        f"<p><b>Over all entries of the data given to this page the loss is {loss:.5g}; over those that were "
        f"factorized it is {own:.5g}.</b> Entries were masked or weighted, or these are different data.</p>"
    )


def _by_quality(rows: Residual) -> np.ndarray:
    """A few rows from the best to the worst fit; rows of zeros are left out."""
    order = np.argsort(rows.relative, kind="stable")
    order = order[rows.whole[order] > 0]
    return order[np.unique(np.linspace(0, len(order) - 1, min(SAMPLES, len(order))).astype(int))]


def _row(X: Any, i: int) -> np.ndarray:
    row = X[[i]].toarray() if sp.issparse(X) else np.asarray(X[i])
    return row.ravel().astype(np.float64)


def _samples(
    result: Result, X: Any, rows: Residual, words: str, draw: Callable[[str, np.ndarray, np.ndarray], str]
) -> str:
    """Some rows, each drawn beside its fit."""
    cards = []
    for i in _by_quality(rows):
        name = html.escape(shortened(rows.axis.names[i]))
        note = f'<span class="soft">{rows.note(i)}</span>'
        picture = draw(name, np.nan_to_num(_row(X, i)), result.V @ result.U[i])
        cards.append(f'<div class="part"><h3>{name} {note}</h3>{picture}</div>')
    words = f"Rows from the best to the worst fit: {words}"
    return f'<p class="keys">{words}</p><div class="parts wide">{"".join(cards)}</div>'


def _three_images(shape: tuple[int, int], terms: Terms, name: str, data: np.ndarray, fit: np.ndarray) -> str:
    top = float(max(data.max(), fit.max()))
    third: tuple[str, np.ndarray, float | None] = ("difference", np.abs(data - fit), top)
    if not terms.squares:
        with np.errstate(invalid="ignore"):
            third = ("residual", np.nan_to_num(np.sqrt(2.0 * divergence(data, fit, terms.beta)), posinf=0.0), None)
    pictures = "".join(
        f'<figure><img alt="{name}: {what}" src="{png(values.reshape(shape), most)}">'
        f"<figcaption>{what}</figcaption></figure>"
        for what, values, most in (("data", data, top), ("fit", fit, top), third)
    )
    return f'<div class="trio">{pictures}</div>'


def _two_curves(columns: Axis, name: str, data: np.ndarray, fit: np.ndarray) -> str:
    places, *both = (shrunk(values[:, None], CURVE)[:, 0] for values in (columns.places(), data, fit))
    top = max(float(values.max()) for values in both)
    return curves([(places, values) for values in both], f"{name}: data and fit", columns.ticks(3), top, "small")


def _maps(result: Result, X: Any, missing: bool) -> str:
    """Data and fit in tiles: means of neighbours, with rows and columns grouped by component."""
    P, Q = (_tiling(F, count) for F, count in zip((result.U, result.V), TILES))
    data, fit = _means(X, P, Q, missing), (P @ result.U) @ (Q @ result.V).T
    top = float(max(data.max(), fit.max()))
    pictures = "".join(
        f"<figure>{heat_map(values, words, [], [], top)}<figcaption>{words}</figcaption></figure>"
        for values, words in ((data, "data"), (fit, "U Vᵀ"))
    )
    known = " known" if result.certificate.observed is not None else ""
    return (
        f'<div class="pair">{pictures}</div>{colour_bar("0", f"{top:.3g}")}'
        f'<p class="soft">Means of neighbouring{known} entries; rows (down) and columns (across) are grouped by their '
        "largest component.</p>"
    )


def _tiling(F: np.ndarray, count: int) -> sp.csr_array:
    """The averaging of neighbours, in the order of the components, as a matrix (tiles x rows)."""
    order = grouped(F)
    tile = np.empty(len(F), np.int64)
    tile[order] = np.arange(len(F)) * min(count, len(F)) // len(F)
    return sp.csr_array((1.0 / np.bincount(tile)[tile], (tile, np.arange(len(F)))))


def _means(X: Any, P: sp.csr_array, Q: sp.csr_array, missing: bool) -> np.ndarray:
    """Means of the known entries in each tile."""
    total, known = np.zeros((P.shape[0], Q.shape[0])), np.zeros((P.shape[0], Q.shape[0]))
    for block in row_blocks(*X.shape):
        part = X[block]
        if sp.issparse(part):
            part = _split(part)[0]
            there = sp.csr_array((np.ones(part.nnz), part.indices, part.indptr), part.shape) if missing else None
        else:
            part, there = np.nan_to_num(part), sp.csr_array(~np.isnan(part), dtype=np.float64)
        total += np.asarray((P[:, block] @ part @ Q.T).todense() if sp.issparse(part) else P[:, block] @ part @ Q.T)
        known += (
            np.asarray((P[:, block] @ there @ Q.T).todense()) if there is not None else P[:, block].sum(axis=1)[:, None]
        )
    return np.divide(total, known, out=np.zeros_like(total), where=known > 0)


def grouped(F: np.ndarray) -> np.ndarray:
    """An order in which rows with the same largest component are adjacent, the largest ones first."""
    scaled = F / np.maximum(F.max(axis=0), np.finfo(F.dtype).tiny)
    return np.lexsort((-scaled.max(axis=1), scaled.argmax(axis=1)))


def _side(side: Residual) -> str:
    """Errors of all rows or columns as a curve, and the largest of them as a table."""
    axis, relative = side.axis, side.relative
    order = np.arange(len(relative)) if axis.ordered else np.argsort(-relative, kind="stable")
    places, x = _curve_axis(axis)
    terms = side.terms
    if terms.squares:
        values = 100 * np.sqrt(shrunk(relative[order][:, None] ** 2, CURVE)[:, 0])
        words = f"Error of each {axis.what}, in % of its norm"
        heads = (axis.what, "error, % of its norm", "% of the squared error")
    else:
        values = shrunk(relative[order][:, None], CURVE)[:, 0]
        words = f"Loss of each {axis.what} over {terms.relative}"
        heads = (axis.what, f"loss over {terms.relative}", "% of the loss")
    words += "" if axis.ordered else ", largest first"
    curve = curves([(shrunk(places[:, None], CURVE)[:, 0], values)], words, x, float(values.max()), "small")
    total = float(side.squares.sum()) or 1.0
    worst = np.argsort(-relative, kind="stable")[:WORST]
    listed = table(
        heads,
        [(axis.names[i], (100 if terms.squares else 1) * relative[i], 100 * side.squares[i] / total) for i in worst],
    )
    return (
        f"<h3>{axis.what.capitalize()}s</h3><p>{words}:</p>{curve}"
        f"<details open><summary>The {len(worst)} worst of {len(relative)} {axis.what}s</summary>{listed}</details>"
    )


def _curve_axis(axis: Axis) -> tuple[np.ndarray, Ticks]:
    if axis.ordered:
        return axis.places(), axis.ticks()
    return Axis.of(axis.what, None, len(axis.names)).places(), []
