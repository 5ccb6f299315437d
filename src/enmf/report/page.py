"""The page: verdict, components, course of the run, factors, residual, settings; for several results a comparison.

Nothing of the size of X is made: residuals of rows and columns come from the products X V and Xᵀ U, or, with missing
entries, from blocks of rows.
"""

from __future__ import annotations

import html
import itertools
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf.equivalence import compare
from enmf.files import whole_file
from enmf.matrix.base import row_blocks
from enmf.report.pictures import Line, chart, png, shrunk
from enmf.result import Result
from enmf.validation import check_choice

KINDS = ("auto", "bar", "image", "spectrum")
TOP = 8  # features shown for a component
WORST = 15  # rows and columns shown with their residual
SHOWN_PARTS = 60
MEANING = {
    "global_optimum": "The result is proven to be the best possible: no factorization of this rank can be closer.",
    "converged": "The run converged: small changes of the factors cannot improve the result.",
    "target_reached": "The run ended at the error that was asked for.",
    "max_iter": "The run was cut off by the limit of iterations; more iterations may improve the result.",
    "timeout": "The run was cut off by the time limit; more time may improve the result.",
    "stalled": "The run stopped because rounding hides further progress.",
    "interrupted": "The run was interrupted; these are the best factors until then.",
}


def write(
    path: str | os.PathLike[str],
    results: Result | Sequence[Result],
    X: Any = None,
    *,
    row_names: Sequence[str] | None = None,
    column_names: Sequence[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    kind: str = "auto",
    title: str | None = None,
    command: str | None = None,
    names: Sequence[str] | None = None,
) -> str:
    """Write one HTML file without links to anything else; returns its path.

    Parameters
    ----------
    path : path of the file
    results : Result or several
        One result gives a report, several (of the same data) a comparison.
    X : matrix, optional
        What was factorized; needed for the residuals. A DataFrame brings its names.
    row_names, column_names : sequences of str, optional
    image_shape : (height, width), optional
        Every row of X is an image of this shape.
    kind : {"auto", "bar", "image", "spectrum"}
        How components are drawn. "auto": images with `image_shape`; spectra where the names of the columns are
        increasing numbers; else bars of the largest features.
    title, command : str, optional
        Heading, and the command that repeats the run.
    names : sequence of str, optional
        What several results are called.
    """
    check_choice("kind", kind, list(KINDS))
    held = [results] if isinstance(results, Result) else list(results)
    if not held:
        raise ValueError("results is empty: a report needs at least one result")
    held = [replace(result, U=np.asarray(result.U)) for result in held]  # a Dask array comes here
    if X is not None and hasattr(X, "columns"):
        row_names = row_names if row_names is not None else [str(name) for name in X.index]
        column_names = column_names if column_names is not None else [str(name) for name in X.columns]
    n, m = len(held[0].U), len(held[0].V)
    if image_shape is not None and image_shape[0] * image_shape[1] != m:
        raise ValueError(
            f"image_shape {tuple(image_shape)} has {image_shape[0] * image_shape[1]} pixels, X has {m} columns"
        )
    for what, given, wanted in (("row_names", row_names, n), ("column_names", column_names, m)):
        if given is not None and len(given) != wanted:
            raise ValueError(f"{what} has {len(given)} names for {wanted} {what.split('_')[0]}s")
    rows = list(map(str, row_names)) if row_names is not None else [f"row {i + 1}" for i in range(n)]
    columns = list(map(str, column_names)) if column_names is not None else [f"column {j + 1}" for j in range(m)]
    if len(held) > 1:
        body = _comparison(held, list(names or (f"result {k + 1}" for k in range(len(held)))))
        heading = title or f"Comparison of {len(held)} factorizations"
    else:
        body = _single(held[0], X, rows, columns, image_shape, _kind(kind, image_shape, columns), command)
        heading = title or f"Factorization of {n} x {m} numbers into {held[0].U.shape[1]} components"
    with whole_file(path) as place:
        Path(place).write_text(_document(heading, body), encoding="utf-8")
    return str(path)


def _document(heading: str, body: str) -> str:
    here = files("enmf.report")
    style, script = ((here / name).read_text(encoding="utf-8") for name in ("style.css", "page.js"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{html.escape(heading)}</title><style>{style}</style></head><body>"
        '<button id="theme" type="button">Light / dark</button>'
        f"<main><h1>{html.escape(heading)}</h1>{body}</main><script>{script}</script></body></html>\n"
    )


def _single(
    result: Result,
    X: Any,
    rows: list[str],
    columns: list[str],
    shape: tuple[int, int] | None,
    kind: str,
    command: str | None,
) -> str:
    return "".join(
        [
            _section("Verdict", _verdict(result)),
            _section("Components", _components(result, columns, shape, kind)),
            _section("Error against time", _course([result], ["error"])),
            _section("Factors", _factors(result, rows, columns)),
            _section("Where the fit is worst", _residual(result, X, rows, columns)),
            _section("Settings", _settings(result, command)),
        ]
    )


def _section(name: str, content: str) -> str:
    return f"<section><h2>{name}</h2>{content}</section>"


def _kind(kind: str, shape: tuple[int, int] | None, columns: list[str]) -> str:
    if kind != "auto":
        return kind if kind != "image" or shape is not None else "bar"
    if shape is not None:
        return "image"
    try:
        values = [float(name) for name in columns]
    except ValueError:
        return "bar"
    return "spectrum" if len(values) > 10 and all(a < b for a, b in itertools.pairwise(values)) else "bar"


def _verdict(result: Result) -> str:
    c = result.certificate
    explained = 100 * (1 - c.relative_error**2)
    words = [f"{c.rank} components explain {explained:.4g}\N{NO-BREAK SPACE}% of the data (of the sum of squares)."]
    if c.globally_optimal:
        words.append("No factorization with as many components can explain more.")
    elif c.lower_bound > 0:
        words.append(
            f"Nobody can reduce the remaining error by more than {100 * (1 - 1 / c.ratio):.3g}\N{NO-BREAK SPACE}%."
        )
    else:
        words.append("How much better it could be is not known for data with missing entries, or was not computed.")
    words.append(MEANING.get(result.status, ""))
    if c.dead_components:
        words.append(f"{len(c.dead_components)} components are empty: a smaller rank does as well.")
    if c.uniqueness is not None and c.uniqueness.verdict == "not unique":
        words.append("Other components with the same product exist, so read single components with care.")
    known = c.lower_bound > 0 or c.globally_optimal
    numbers = [
        ("explained", f"{explained:.4g} %", "share of the sum of squares"),
        ("error", f"{100 * c.relative_error:.4g} %", f"of the norm of the data; {c.error:.6g} in its units"),
        ("error / best possible", f"{c.ratio:.5f}" if known else "not known", "1 means nothing can be better"),
        ("stationary", "yes" if c.stationary else "no", f"KKT residual {c.kkt:.1e}, tolerance {c.tol:.0e}"),
    ]
    cards = "".join(
        f'<div class="number">{name}<b>{value}</b><span class="soft">{note}</span></div>'
        for name, value, note in numbers
    )
    return f'<p class="verdict">{" ".join(words)}</p><div class="numbers">{cards}</div>'


def _components(result: Result, columns: list[str], shape: tuple[int, int] | None, kind: str) -> str:
    V = result.V
    shares = [part.share for part in result.certificate.components] or [float("nan")] * V.shape[1]
    best = [np.argsort(-V[:, j], kind="stable")[:TOP] for j in range(V.shape[1])]
    cards, table = [], []
    for j in range(V.shape[1]):
        top = [columns[i] for i in best[j] if V[i, j] > 0]
        table.append((j + 1, ", ".join(top), 100 * shares[j], float(np.linalg.norm(V[:, j]) ** 2)))
        if j >= SHOWN_PARTS:
            continue
        words = f"component {j + 1}, largest at {', '.join(top[:3])}" if top else f"component {j + 1}, empty"
        if kind == "image" and shape is not None:
            picture = f'<img alt="{html.escape(words)}" src="{png(V[:, j].reshape(shape))}">'
        elif kind == "spectrum":
            picture = _spectrum(V[:, j], words, columns)
        else:
            largest = float(V[:, j].max()) or 1.0
            picture = f'<div class="bars" role="img" aria-label="{html.escape(words)}">' + "".join(
                f'<span title="{html.escape(columns[i])}">{html.escape(columns[i])}</span>'
                f'<i style="width:{max(100 * V[i, j] / largest, 1):.0f}%"></i>'
                for i in best[j]
                if V[i, j] > 0
            )
            picture += "</div>"
        cards.append(
            f'<div class="part"><h3>{j + 1} <span class="soft">{100 * shares[j]:.3g} %</span></h3>{picture}</div>'
        )
    note = f'<p class="soft">The first {SHOWN_PARTS} of {V.shape[1]}.</p>' if V.shape[1] > SHOWN_PARTS else ""
    listed = _table(("component", "largest features", "share of ‖X‖², %", "size"), table)
    return (
        f'<div class="parts">{"".join(cards)}</div>{note}'
        f"<details><summary>The components as a table</summary>{listed}</details>"
    )


def _spectrum(v: np.ndarray, words: str, columns: list[str]) -> str:
    values = shrunk(v[:, None], 300)[:, 0]
    top = float(values.max()) or 1.0
    width = max(len(values) - 1, 1)
    places = " ".join(f"{200 * k / width:.1f},{78 - 74 * value / top:.1f}" for k, value in enumerate(values))
    return (
        f'<svg viewBox="0 0 200 100" role="img" aria-label="{html.escape(words)}">'
        f'<polyline class="run" points="{places}"/>'
        f'<line class="axis" x1="0" x2="200" y1="80" y2="80"/><text x="0" y="96">{html.escape(columns[0])}</text>'
        f'<text x="200" y="96" text-anchor="end">{html.escape(columns[-1])}</text></svg>'
    )


def _course(results: list[Result], names: list[str]) -> str:
    lines, rows = [], []
    for result, name in zip(results, names):
        c = result.certificate
        percent = 100 * c.relative_error / c.error if c.error > 0 else 0.0
        points = [(row.seconds, row.error * percent, row.phase) for row in result.trace if np.isfinite(row.error)]
        if not points:
            continue
        lines.append(Line(name, points, c.lower_bound * percent))
        for k in np.unique(np.linspace(0, len(points) - 1, 40).astype(int)):
            rows.append((name, points[k][2], points[k][0], points[k][1]))
    if not lines:
        return "<p>The run made no iterations: the start was the answer already.</p>"
    bands, at = [], 0.0
    for name, phase in results[0].phases.items() if len(results) == 1 else ():
        if phase.seconds > 0 and name != "certificate":
            bands.append((at, at + phase.seconds, name))
            at += phase.seconds
    last = lines[0].points[-1]
    words = f"Error against time: {lines[0].points[0][1]:.4g} % at first, {last[1]:.4g} % after {last[0]:.3g} seconds"
    notes = ["Dashed, red: the bound; no factorization of this rank is below it."]
    if bands:
        notes.append("Shaded: the phases of the method.")
    notes.append("Before the descent the factors may still be negative, which is why the error can be lower there.")
    note = f'<p class="soft">{" ".join(notes)}</p>'
    listed = _table(("run", "phase", "seconds", "error, % of ‖X‖"), rows)
    return chart(lines, bands, words) + note + f"<details><summary>The curve as a table</summary>{listed}</details>"


def _factors(result: Result, rows: list[str], columns: list[str]) -> str:
    out = []
    for letter, F, names, what in (("U", result.U, rows, "rows"), ("V", result.V, columns, "columns")):
        F = np.asarray(F, dtype=np.float64)
        F = F / np.maximum(F.max(axis=0), np.finfo(float).tiny)
        order = np.lexsort((-F.max(axis=1), F.argmax(axis=1)))
        words = f"{letter}: {len(F)} {what} (across, grouped by component) against {F.shape[1]} components (down)"
        counts = np.bincount(F.argmax(axis=1)[F.max(axis=1) > 0], minlength=F.shape[1])
        listed = _table(
            ("component", f"{what} that it dominates", "first of them"),
            [(j + 1, int(counts[j]), names[int(F[:, j].argmax())]) for j in range(F.shape[1])],
        )
        out.append(
            f"<h3>{letter}: {what}</h3>"
            f'<img class="heat" alt="{html.escape(words)}" src="{png(shrunk(F[order], 400).T)}">'
            f'<p class="soft">{words}. Dark is zero, yellow the largest of the component.</p>'
            f"<details><summary>{letter} as a table</summary>{listed}</details>"
        )
    return "".join(out)


def residuals(X: Any, U: np.ndarray, V: np.ndarray, missing: bool = False) -> tuple[np.ndarray, ...]:
    """Sums of squares of X - U Vᵀ and of X by rows and by columns; over the stored or known entries where `missing`."""
    U, V = U.astype(np.float64), V.astype(np.float64)
    if sp.issparse(X) and not missing:
        X = sp.csr_array(X)
        squares = X.multiply(X)
        of_rows, of_columns = np.asarray(squares.sum(axis=1)).ravel(), np.asarray(squares.sum(axis=0)).ravel()
        UtU, VtV = U.T @ U, V.T @ V
        rows = of_rows - 2 * np.einsum("ij,ij->i", X @ V, U) + np.einsum("ij,ij->i", U @ VtV, U)
        columns = of_columns - 2 * np.einsum("ij,ij->i", X.T @ U, V) + np.einsum("ij,ij->i", V @ UtU, V)
        return np.maximum(rows, 0), np.maximum(columns, 0), of_rows, of_columns
    n, m = X.shape
    rows, columns, of_rows, of_columns = np.zeros(n), np.zeros(m), np.zeros(n), np.zeros(m)
    if sp.issparse(X):
        coo = sp.coo_array(X)
        for part in row_blocks(coo.nnz, U.shape[1]):
            i, j, x = coo.coords[0][part], coo.coords[1][part], coo.data[part].astype(np.float64)
            squared = (x - np.einsum("ij,ij->i", U[i], V[j])) ** 2
            for total, index, weight in (
                (rows, i, squared),
                (columns, j, squared),
                (of_rows, i, x * x),
                (of_columns, j, x * x),
            ):
                total += np.bincount(index, weight, len(total))
        return rows, columns, of_rows, of_columns
    X = np.asarray(X)
    for block in row_blocks(n, m):
        part = np.nan_to_num(X[block].astype(np.float64))
        squared = np.where(np.isnan(X[block]), 0.0, (part - U[block] @ V.T) ** 2)
        rows[block], of_rows[block] = squared.sum(axis=1), (part * part).sum(axis=1)
        columns += squared.sum(axis=0)
        of_columns += (part * part).sum(axis=0)
    return rows, columns, of_rows, of_columns


def _residual(result: Result, X: Any, rows: list[str], columns: list[str]) -> str:
    if X is None:
        return "<p>Not known: the data were not given to the report (<code>result.report(path, X)</code>).</p>"
    values = X if sp.issparse(X) else np.asarray(X)
    missing = result.settings.get("missing") == "unstored"
    in_rows, in_columns, of_rows, of_columns = residuals(values, result.U, result.V, missing)
    out = []
    for what, squares, whole, names in (
        ("rows", in_rows, of_rows, rows),
        ("columns", in_columns, of_columns, columns),
    ):
        total = float(squares.sum()) or 1.0
        worst = np.argsort(-squares, kind="stable")[:WORST]
        listed = [
            (names[i], 100 * squares[i] / total, 100 * float(np.sqrt(squares[i] / whole[i])) if whole[i] > 0 else 0.0)
            for i in worst
        ]
        share = 100 * float(squares[worst].sum()) / total
        out.append(
            f"<h3>{what.capitalize()}</h3><p>The {len(worst)} worst of {len(names)} {what} hold {share:.3g} % of the "
            f"squared error.</p>{_table((what[:-1], '% of the squared error', 'error, % of its norm'), listed)}"
        )
    return "".join(out)


def _settings(result: Result, command: str | None) -> str:
    from enmf import __version__

    n, m = len(result.U), len(result.V)
    facts = [
        ("data", f"{n} x {m}"),
        ("rank", result.U.shape[1]),
        ("status", result.status),
        ("iterations", result.n_iter),
    ]
    facts += [(key, value) for key, value in result.settings.items() if value is not None]
    facts += [("enmf", __version__)]
    facts += [(name, version(name)) for name in ("numpy", "scipy", "scikit-learn", "numba")]
    facts += [("python", platform.python_version())]
    phases = [(name, p.seconds, p.passes, p.iterations) for name, p in result.phases.items()]
    if command is None:
        given = {key: value for key, value in result.settings.items() if value is not None}
        function = "complete" if "ridge_scaling" in given else "factorize"
        arguments = ", ".join(f"{key}={value!r}" for key, value in given.items())
        command = f"enmf.{function}(X, {result.U.shape[1]}, {arguments})"
    return (
        f"<p>To repeat it:</p><pre>{html.escape(command)}</pre>{_table(('setting', 'value'), facts)}"
        f"<h3>Phases</h3>{_table(('phase', 'seconds', 'passes over X', 'iterations'), phases)}"
    )


def _comparison(results: list[Result], names: list[str]) -> str:
    best = min(range(len(results)), key=lambda k: results[k].error)
    rows = []
    for name, result in zip(names, results):
        c = result.certificate
        seconds = sum(phase.seconds for phase in result.phases.values())
        rows.append((name, c.rank, result.status, 100 * c.relative_error, c.ratio, c.kkt, seconds))
    heads = ("result", "rank", "status", "error, % of ‖X‖", "error / bound", "KKT residual", "seconds")
    pairs = []
    for k, result in enumerate(results):
        for other in range(k):
            found = compare(results[other], result)
            same = {"E": "the same", "TE": "nearly the same", "NE": "different"}[found.verdict]
            pairs.append((names[other], names[k], same, 100 * found.share_U, 100 * found.share_V))
    worst = max(result.certificate.relative_error for result in results)
    least = results[best].certificate.relative_error
    verdict = f"{names[best]} has the smallest error, {100 * least:.4g}\N{NO-BREAK SPACE}% of the norm of the data; "
    verdict += f"the largest is {100 * worst:.4g}\N{NO-BREAK SPACE}%."
    if worst - least <= 1e-4:
        verdict = (
            f"All errors are the same to a hundredth of a per cent: {100 * least:.4g}\N{NO-BREAK SPACE}% of the norm."
        )
    return (
        _section("Verdict", f'<p class="verdict">{html.escape(verdict)}</p>{_table(heads, rows)}')
        + _section("Error against time", _course(results, names))
        + _section(
            "Are they the same?",
            _table(("first", "second", "solutions are", "columns of U that agree, %", "of V, %"), pairs),
        )
    )


def _table(heads: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> str:
    """A table that a click on its heads sorts."""

    def cell(value: Any) -> str:
        if isinstance(value, float):
            return f'<td data-value="{value!r}">{value:.5g}</td>'
        return f"<td>{html.escape(str(value))}</td>"

    head = "".join(f'<th scope="col"><button type="button">{html.escape(name)}</button></th>' for name in heads)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table class="sortable"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )
