"""The page: verdict, components, course of the run, factors, fit, settings; a comparison for several results."""

from __future__ import annotations

import html
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.certificate.words import STATUSES
from enmf.files import whole_file
from enmf.geometry.equivalence import compare
from enmf.problem.validation.convert import check_values, names_in
from enmf.problem.validation.numbers import check_choice
from enmf.report.axes import Axis
from enmf.report.fit import fit_section, grouped
from enmf.report.numbers import SPACE, download, percent, shortened, table, ticks, times
from enmf.report.pictures import Line, Ticks, chart, colour_bar, curves, heat_map, png, shrunk
from enmf.report.terms import Terms, about_gaps, explained_share, terms_of

if TYPE_CHECKING:
    from enmf.certificate.certificate import Certificate
    from enmf.run.result import Result
    from enmf.run.trace import Trace

KINDS = ("auto", "bar", "image", "spectrum")
TOP = 8  # features shown per component
SHOWN_PARTS = 60
CURVE = 300  # points of a spectrum
CELLS = 400  # most columns of a heat map


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
    source: str | None = None,
) -> str:
    """Write one self-contained HTML file; return its path.

    Parameters
    ----------
    path : path of the file
    results : Result or sequence of Result
        One result gives a report, several results of the same data a comparison.
    X : matrix, optional
        What was factorized; needed for everything about the fit of individual rows and columns.
    row_names, column_names : sequences of str, optional
        Default: those of the DataFrame that was factorized or is given as X.
    image_shape : (height, width), optional
        Every row of X is an image of this shape.
    kind : {"auto", "bar", "image", "spectrum"}
        How components are drawn. "auto": images with `image_shape`; spectra if the column names are
        increasing numbers; otherwise bars of the largest features.
    title, command : str, optional
        Heading, and the command that reproduces the run.
    names : sequence of str, optional
        Names of the results, if there are several.
    source : str, optional
        Where the data come from, such as a file name; part of the heading.
    """
    check_choice("kind", kind, list(KINDS))
    held: list[Any] = [results] if hasattr(results, "certificate") else list(results)
    if not held:
        raise ValueError("results is empty: a report needs at least one result")
    if len(held) > 1:
        called = [f"result {k + 1}" for k in range(len(held))] if names is None else list(map(str, names))
        if len(called) != len(held):
            raise ValueError(f"names has {len(called)} names for {len(held)} results")
        heading, body = f"Comparison of {len(held)} factorizations", _comparison(held, called)
    else:
        data = _Data.of(held[0], X, row_names, column_names, image_shape, kind, source)
        heading, body = data.heading(), _single(data, command)
    with whole_file(path) as place:
        Path(place).write_text(_document(title or heading, body), encoding="utf-8")
    return str(path)


@dataclass(frozen=True)
class _Data:
    """One result and what is known about its data."""

    result: Result
    X: Any
    rows: Axis
    columns: Axis
    shape: tuple[int, int] | None
    kind: str
    source: str | None

    @staticmethod
    def of(
        result: Result, X: Any, row_names: Any, column_names: Any, shape: Any, kind: str, source: str | None
    ) -> _Data:
        result = replace(result, U=np.asarray(result.U))  # a Dask array is computed here
        n, m = len(result.U), len(result.V)
        if shape is not None and shape[0] * shape[1] != m:
            raise ValueError(f"image_shape {tuple(shape)} has {shape[0] * shape[1]} pixels, X has {m} columns")
        values = None if X is None else check_values(X, (n, m))
        found = [
            next((names for names in options if names is not None), None)
            for options in zip((row_names, column_names), names_in(X), (result.row_names, result.feature_names))
        ]
        rows, columns = (Axis.of(*side) for side in zip(("row", "column"), found, (n, m)))
        return _Data(result, values, rows, columns, shape, _kind(kind, shape, columns), source)

    def heading(self) -> str:
        size, parts = _size(self.result), _count(self.result.V.shape[1], "component")
        return f"{self.source}: {size} in {parts}" if self.source else f"Factorization of {size} into {parts}"


def _size(result: Result) -> str:
    """The shape of X; a fitted model stores no rows."""
    n, m = len(result.U), len(result.V)
    return f"{n} x {m} numbers" if n else f"data with {_count(m, 'column')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


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


def _single(data: _Data, command: str | None) -> str:
    result = data.result
    sections = [
        ("Verdict", _verdict(result)),
        ("Components", _components(data)),
        (f"How the {terms_of(result.certificate).what} fell", _course(result)),
        ("Factors", _factors(data)),
        ("Fit", _fit(data)),
        ("Settings", _settings(result, command, data.source)),
    ]
    return "".join(_section(name, content) for name, content in sections)


def _section(name: str, content: str) -> str:
    return f"<section><h2>{name}</h2>{content}</section>"


def _kind(kind: str, shape: tuple[int, int] | None, columns: Axis) -> str:
    if kind != "auto":
        return kind if kind != "image" or shape is not None else "bar"
    if shape is not None:
        return "image"
    return "spectrum" if columns.named and columns.ordered and len(columns.names) > 10 else "bar"


def _verdict(result: Result) -> str:
    c = result.certificate
    words, numbers = _about_error(c) if terms_of(c).squares else _about_loss(c)
    words.append(STATUSES.get(result.status, ""))
    if c.dead_components:
        words.append(f"{len(c.dead_components)} components are empty: a smaller rank gives the same error.")
    if c.uniqueness is not None and c.uniqueness.verdict == "not unique":
        words.append("Other components with the same product exist, so interpret individual components with care.")
    if c.known is not None:
        words.append(html.escape(f"Known in advance: {c.known}."))
    numbers.append(("stationary", "yes" if c.stationary else "no", f"KKT residual {c.kkt:.1e}, tolerance {c.tol:.0e}"))
    cards = "".join(
        f'<div class="number">{name}<b>{value}</b><span class="soft">{note}</span></div>'
        for name, value, note in numbers
    )
    return f'<p class="verdict">{" ".join(words)}</p><div class="numbers">{cards}</div>'


Said = tuple[list[str], list[tuple[str, str, str]]]  # sentences; name, value and note of numbers


def _about_error(c: Certificate) -> Said:
    share = explained_share(c)
    verb = "explains" if c.rank == 1 else "explain"
    words = [f"{_count(c.rank, 'component')} {verb} {share} of the data (of the sum of squares)."]
    if c.lower_bound > 0 and not (c.globally_optimal or c.exact):
        words.append(
            f"No factorization of this rank has an error that is lower by more than {percent(1 - 1 / c.ratio)}."
        )
    elif not c.bounded:
        words.append("How much better it could be is not known: entries are missing, or the bound was not computed.")
    return words, [
        ("explained", share, "share of the sum of squares"),
        ("error", percent(c.relative_error), f"of the norm of the data; {c.error:.6g} in units of the data"),
        ("error / best possible", times(c.ratio) if c.bounded else "not known", "1 means that nothing better exists"),
    ]


def _about_loss(c: Certificate) -> Said:
    terms, share = terms_of(c), explained_share(c)
    verb = "explains" if c.rank == 1 else "explain"
    words = [f"{_count(c.rank, 'component')} {verb} {share} of what the best single component leaves ({terms.title})."]
    if not c.exact:
        words.append("How much better it could be is not known: no useful bound exists for this loss.")
        words.append(about_gaps(c))
    known = c.block_gap is not None and all(map(math.isfinite, c.block_gap))
    gap = f"≤ {max(c.block_gap):.2g}" if c.block_gap is not None and known else "not known"
    return words, [
        ("explained", share, "share of the loss of the best model of rank one"),
        ("loss", f"{c.loss:.6g}", terms.title),
        ("one factor can gain", gap, "bound on what U alone, or V alone, could lower the loss by"),
    ]


def _components(data: _Data) -> str:
    V, parts = data.result.V, data.result.certificate.components
    cards, listed = [], []
    for j, v in enumerate(V.T):
        best = [i for i in np.argsort(-v, kind="stable")[:TOP] if v[i] > 0]
        share, size = (parts[j].share, parts[j].norm) if parts else (float("nan"), float("nan"))
        listed.append((j + 1, ", ".join(data.columns.names[i] for i in best), 100 * share, size))
        if j < SHOWN_PARTS:
            note = f'<span class="soft">share {percent(share)}</span>'
            cards.append(f'<div class="part"><h3>{j + 1} {note}</h3>{_picture(data, j, best)}</div>')
    order = "by their size ‖u‖ ‖v‖" if np.all(np.diff([row[3] for row in listed]) <= 0) else "as the columns of U and V"
    bars = " Numbers beside the bars: share of the component's sum." if data.kind == "bar" else ""
    terms = terms_of(data.result.certificate)
    part = f"the part of {terms.share} that the component " + (
        "explains beside the others" if terms.squares else "makes up"
    )
    words = (
        f"Numbered {order}. The share is {part}; components that overlap divide it among themselves, so shares need "
        f"not follow the sizes.{bars}"
    )
    more = f" The first {SHOWN_PARTS} of {V.shape[1]} are drawn." if V.shape[1] > SHOWN_PARTS else ""
    heads = ("component", "largest features", f"share of {'‖X‖²' if terms.squares else 'U Vᵀ'}, %", "size ‖u‖ ‖v‖")
    wide = "" if data.kind == "image" else " wide"
    return (
        f'<p class="soft">{words}{more}</p><div class="parts{wide}">{"".join(cards)}</div>'
        f"<details><summary>The components as a table</summary>{table(heads, listed)}</details>"
    )


def _picture(data: _Data, j: int, best: list[int]) -> str:
    v, names = data.result.V[:, j], data.columns.names
    words = f"component {j + 1}, largest at {', '.join(names[i] for i in best[:3])}" if best else "an empty component"
    if data.kind == "image" and data.shape is not None:
        return f'<img alt="{html.escape(words)}" src="{png(v.reshape(data.shape))}">'
    if data.kind == "spectrum":
        places, values = (shrunk(held[:, None], CURVE)[:, 0] for held in (data.columns.places(), v))
        return curves([(places, values)], words, data.columns.ticks(3), float(values.max()), "small", marks=False)
    largest, total = float(v.max()) or 1.0, float(v.sum()) or 1.0
    bars = "".join(
        f'<span title="{html.escape(names[i])}">{html.escape(shortened(names[i]))}</span>'
        f'<i style="width:{max(100 * v[i] / largest, 1):.0f}%"></i><b>{percent(v[i] / total)}</b>'
        for i in best
    )
    return f'<div class="bars" role="img" aria-label="{html.escape(words)}">{bars}</div>'


def descents(trace: Trace) -> list[list[Any]]:
    """The trace rows of each descent on X itself, one list per start."""
    found: list[list[Any]] = []
    for row in trace:
        if row.phase in ("descent", "restart") and np.isfinite(row.error):
            if not found or row.iteration <= found[-1][-1].iteration:
                found.append([])
            found[-1].append(row)
    return found


def _course(result: Result) -> str:
    """Error against iterations, one curve per start; earlier work is in the table of phases."""
    c, found = result.certificate, descents(result.trace)
    if not any(len(rows) > 1 for rows in found):
        return "<p>There was no descent: the start was already the solution.</p>"
    terms = terms_of(c)
    began = found[0][0].seconds
    lines = [
        Line(
            f"start {k + 1}",
            [(row.iteration, terms.shown(row.error, c), row.seconds - began) for row in rows],
            terms.shown(c.lower_bound, c),
        )
        for k, rows in enumerate(found)
    ]
    notes = ["Iterations of the descent on the data; earlier phases are in the table of phases below."]
    if len(lines) > 1:
        notes.append(f"{len(lines)} starts were tried, and the best factors were kept.")
    return _drawn(lines, "iterations", " ".join(notes), terms)


def _drawn(lines: list[Line], steps: str, note: str, terms: Terms) -> str:
    first, last = (f"{lines[0].points[k][1]:.4g}{terms.unit}" for k in (0, -1))
    words = f"{terms.what.capitalize()}: {first} at the beginning, {last} after {lines[0].points[-1][0]:.0f} {steps}"
    bounds = [line.bound for line in lines if line.bound > 0]
    shown = chart(lines, steps, words, terms.axis, terms.unit)
    if bounds:
        where = "Dotted red line" if 'class="bound"' in shown else "Below the plotted range"
        note += f" {where}: the bound, {max(bounds):.6g}{SPACE}%; no factorization of that rank has a smaller error."
    listed = [
        (line.name, int(line.points[k][0]), line.points[k][1], line.points[k][2])
        for line in lines
        for k in np.unique(np.linspace(0, len(line.points) - 1, 40).astype(int))
    ]
    heads = ("run", steps, terms.axis, "seconds")
    return (
        f'{shown}<p class="soft">{note}</p>'
        f"<details><summary>The curve as a table</summary>{table(heads, listed)}</details>"
    )


def _factors(data: _Data) -> str:
    sides = (("U", data.result.U, data.rows), ("V", data.result.V, data.columns))
    return "".join(_factor(letter, F, axis) for letter, F, axis in sides if len(F))


def _factor(letter: str, F: np.ndarray, axis: Axis) -> str:
    given = F = np.asarray(F, dtype=np.float64)
    F = F / np.maximum(F.max(axis=0), np.finfo(float).tiny)
    owner, alive = F.argmax(axis=1), F.max(axis=1) > 0
    counts = np.bincount(owner[alive], minlength=F.shape[1])
    order = np.arange(len(F)) if axis.ordered else grouped(F)
    how = "in their order" if axis.ordered else "grouped by their largest component"
    how += ", means of neighbours" if len(F) > CELLS else ""
    words = f"{letter}: {_count(len(F), axis.what)} across, {how}; {_count(F.shape[1], 'component')} down"
    x = axis.cell_ticks() if axis.ordered else _group_ticks(np.bincount(owner, minlength=F.shape[1]))
    y = [((value - 0.5) / F.shape[1], label) for value, label in ticks(1, F.shape[1], 8, whole=True)]
    listed = table(
        ("component", f"{axis.what}s that it dominates", "first of them"),
        [(j + 1, int(counts[j]), axis.names[int(F[:, j].argmax())]) for j in range(F.shape[1])],
    )
    heads = (axis.what, *(f"component {j + 1}" for j in range(F.shape[1])))
    saved = download(f"{letter}.csv", heads, ((name, *map(float, row)) for name, row in zip(axis.names, given)))
    return (
        f"<h3>{letter}: {axis.what}s</h3>{heat_map(shrunk(F[order], CELLS).T, words, x, y)}"
        f'<p class="soft under">{axis.what}s{"" if axis.ordered else ", by component"}</p>'
        f'{colour_bar("0", "maximum of the component")}<p class="soft">{words}.</p>'
        f"<details><summary>{letter} as a table</summary>{listed}</details>{saved}"
    )


def _group_ticks(counts: np.ndarray) -> Ticks:
    """The number of each component below the middle of its group, if there is room."""
    ends = np.cumsum(counts) / counts.sum()
    widths = counts / counts.sum()
    return [(end - width / 2, str(j + 1)) for j, (end, width) in enumerate(zip(ends, widths)) if width > 0.03]


def _fit(data: _Data) -> str:
    if data.X is None:
        return "<p>Not available: the data were not passed to the report (<code>report(path, X)</code>).</p>"
    shape = data.shape if data.kind == "image" else None
    return fit_section(data.result, data.X, data.rows, data.columns, shape, data.kind == "spectrum")


def _settings(result: Result, command: str | None, source: str | None) -> str:
    from enmf import __version__

    facts: list[tuple[str, Any]] = [
        ("data", f"{source}, {_size(result)}" if source else _size(result)),
        ("rank", result.U.shape[1]),
        ("status", result.status),
        ("iterations", result.n_iter),
    ]
    facts += [(key, value) for key, value in result.settings.items() if value is not None]
    facts += [("enmf", __version__)]
    facts += [(name, version(name)) for name in ("numpy", "scipy", "scikit-learn")]
    facts += [("python", platform.python_version())]
    phases = [(name, p.seconds, p.passes, p.iterations) for name, p in result.phases.items()]
    if command is None:
        given = {key: value for key, value in result.settings.items() if value is not None}
        function = "complete" if "ridge_scaling" in given else "factorize"
        arguments = ", ".join(f"{key}={value!r}" for key, value in given.items())
        command = f"enmf.{function}(X, {result.U.shape[1]}, {arguments})"
    return (
        f"<p>To reproduce the run:</p><pre>{html.escape(command)}</pre>{table(('setting', 'value'), facts)}"
        f"<h3>Phases</h3>{table(('phase', 'seconds', 'passes over X', 'iterations'), phases)}"
    )


def _courses(results: list[Result], names: list[str], terms: Terms) -> str:
    """Smallest error so far against passes over X, which cost the same for every method."""
    lines = []
    for name, result in zip(names, results):
        c = result.certificate
        rows = [row for start in descents(result.trace) for row in start]
        best = np.minimum.accumulate([terms.shown(row.error, c) for row in rows])
        points = [(row.passes, float(error), row.seconds) for row, error in zip(rows, best)]
        lines += [Line(name, points, terms.shown(c.lower_bound, c))] if points else []
    if not lines:
        return "<p>No run needed iterations: the starts were already the solutions.</p>"
    note = f"The smallest {terms.what} so far, beginning with the first factors of the data."
    return _drawn(lines, "passes over X", note, terms)


def _comparison(results: list[Result], names: list[str]) -> str:
    losses = list(dict.fromkeys(terms_of(result.certificate) for result in results))
    together = losses[0] if len(losses) == 1 else None
    pairs = []
    for k, result in enumerate(results):
        for other in range(k):
            found = compare(results[other], result)
            same = {"E": "the same", "TE": "nearly the same", "NE": "different"}[found.verdict]
            pairs.append((names[other], names[k], same, 100 * found.share_U, 100 * found.share_V))
    verdict, listed = _ranking(results, names, together)
    courses = (
        ""
        if together is None
        else _section(
            "How the errors fell" if together.squares else "How the losses fell", _courses(results, names, together)
        )
    )
    return (
        _section("Verdict", f'<p class="verdict">{html.escape(verdict)}</p>{listed}')
        + courses
        + _section(
            "Are they the same?",
            table(("first", "second", "solutions are", "columns of U that agree, %", "of V, %"), pairs),
        )
    )


def _ranking(results: list[Result], names: list[str], terms: Terms | None) -> tuple[str, str]:
    """Which result is best, in a sentence, and all of them as a table; without `terms` their losses differ."""
    certificates = [result.certificate for result in results]
    best = min(range(len(results)), key=lambda k: certificates[k].error)
    seconds = [sum(phase.seconds for phase in result.phases.values()) for result in results]
    ends = [(f"{c.kkt:.1e}", spent) for c, spent in zip(certificates, seconds)]
    begins = [(name, c.rank, result.status) for name, c, result in zip(names, certificates, results)]
    if terms is not None and terms.squares:
        heads: tuple[str, ...] = ("error, % of ‖X‖", "error / bound")
        middles: list[tuple[Any, ...]] = [
            (100 * c.relative_error, times(c.ratio) if c.bounded else "not known") for c in certificates
        ]
        least, worst = certificates[best].relative_error, max(c.relative_error for c in certificates)
        verdict = f"{names[best]} has the smallest error, {percent(least)} of the norm of the data; "
        verdict += f"the largest is {percent(worst)}."
        if worst - least <= 1e-4:
            verdict = f"All errors agree to a hundredth of a percent: {percent(least)} of the norm."
    else:
        heads = ("loss", "its value", "explained, %")
        middles = [(terms_of(c).title, f"{c.loss:.8g}", 100 * c.explained) for c in certificates]
        verdict = "The results minimize different losses, whose values cannot be compared."
        if terms is not None:
            low, high = certificates[best].loss, max(c.loss for c in certificates)
            verdict = f"{names[best]} has the smallest loss, {low:.6g} ({terms.title}); the largest is {high:.6g}."
            if high - low <= 1e-4 * high:
                verdict = f"All losses agree to a hundredth of a percent: {low:.6g} ({terms.title})."
    rows = [(*begin, *middle, *end) for begin, middle, end in zip(begins, middles, ends)]
    return verdict, table(("result", "rank", "status", *heads, "KKT residual", "seconds"), rows)
