"""Images without a plotting library: arrays as PNG data URLs, curves as SVG.

An SVG is stretched to the available width; the labels around it are HTML, so that they keep their size on a phone.
"""

from __future__ import annotations

import base64
import html
import json
import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from enmf.report.numbers import growing_ticks, ticks

# from dark blue through green to yellow: readable on a light and on a dark page, and in greyscale
COLOURS = np.array([(38, 20, 71), (48, 68, 128), (38, 116, 139), (45, 161, 124), (128, 198, 79), (246, 226, 60)], float)
SIDE = 1000  # width and height of an SVG in its own units
POINTS = 600  # of a curve: longer ones are thinned
LONG = 50  # iterations above which their axis is logarithmic

Ticks = Sequence[tuple[float, str]]  # position, as a share of the axis, and label


def png(values: np.ndarray, top: float | None = None) -> str:
    """A matrix with entries from 0 to `top` (default: its largest entry) as an image in a data URL."""
    top = (float(values.max()) if values.size else 0.0) if top is None else top
    level = np.clip(values / top if top > 0 else np.zeros(values.shape), 0.0, 1.0) * (len(COLOURS) - 1)
    below = np.minimum(level.astype(int), len(COLOURS) - 2)
    share = (level - below)[..., None]
    pixels = np.rint(COLOURS[below] * (1 - share) + COLOURS[below + 1] * share).astype(np.uint8)
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    height, width = values.shape
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    data = b"\x89PNG\r\n\x1a\n"
    for name, body in parts:
        data += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return "data:image/png;base64," + base64.b64encode(data).decode()


def shrunk(values: np.ndarray, rows: int) -> np.ndarray:
    """At most `rows` rows, each the mean of neighbouring ones."""
    if len(values) <= rows:
        return values
    edges = np.linspace(0, len(values), rows + 1).astype(int)[:-1]
    return np.add.reduceat(values, edges, axis=0) / np.diff(np.append(edges, len(values)))[:, None]


def colour_bar(low: str, high: str) -> str:
    """The legend of a heat map: its colour scale."""
    stops = ", ".join("#{:02x}{:02x}{:02x}".format(*colour.astype(int)) for colour in COLOURS)
    scale = f'<i style="background: linear-gradient(to right, {stops})"></i>'
    return f'<p class="scale soft">{html.escape(low)}{scale}{html.escape(high)}</p>'


def heat_map(values: np.ndarray, words: str, x: Ticks, y: Ticks, top: float | None = None) -> str:
    """A matrix as colours, with labels on its axes."""
    image = f'<img alt="{html.escape(words)}" src="{png(values, top)}">'
    return framed(image, x, y, "heat")


def framed(picture: str, x: Ticks, y: Ticks, kind: str = "") -> str:
    """An image that fills its frame, with labels below and on the left."""
    room = max((len(label) for _, label in y), default=0) + 1
    left = "".join(f'<span class="y" style="top:{100 * at:.2f}%">{html.escape(label)}</span>' for at, label in y)
    below = "".join(_below(at, label) for at, label in x)
    return f'<div class="frame {kind}" style="margin-left:{room}ch">{picture}{left}{below}</div>'


def _below(at: float, label: str) -> str:
    """A label below the image; those at its ends stay inside the frame."""
    side = " first" if at < 0.04 else " last" if at > 0.96 else ""
    return f'<span class="x{side}" style="left:{100 * at:.2f}%">{html.escape(label)}</span>'


def curves(
    lines: Sequence[tuple[np.ndarray, np.ndarray]], words: str, x: Ticks, high: float, kind: str, marks: bool = True
) -> str:
    """Curves y(x) over 0 <= x <= 1, from 0 to `high`."""
    high = high or 1.0
    y = ticks(0.0, 1.05 * high, 4) if marks else []
    grid = "".join(_level(1 - value / (1.05 * high)) for value, _ in y) or _level(1.0)
    drawn = "".join(_polyline(k, a, 1 - b / (1.05 * high)) for k, (a, b) in enumerate(lines))
    picture = f"{_svg(words, 'curve')}{grid}{drawn}</svg>"
    return framed(picture, x, [(1 - value / (1.05 * high), label) for value, label in y], kind)


def _svg(words: str, kind: str, data: str = "") -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {SIDE} {SIDE}" preserveAspectRatio="none" role="img" '
        f'aria-label="{html.escape(words)}"{data}>'
    )


def _level(y: float) -> str:
    return f'<line class="axis" x1="0" x2="{SIDE}" y1="{SIDE * y:.1f}" y2="{SIDE * y:.1f}"/>'


def _polyline(k: int, x: Iterable[float], y: Iterable[float]) -> str:
    """A run; x and y are shares of the frame from the left and from the top. A single point is drawn as a dot."""
    places = [f"{SIDE * a:.1f},{SIDE * b:.1f}" for a, b in zip(x, y)]
    places = places * 2 if len(places) == 1 else places
    return f'<polyline class="run run{k % 6}" points="{" ".join(places)}"/>'


@dataclass(frozen=True)
class Line:
    """The course of a run: (step, error, seconds) per point, and the bound of the error, 0 if it is not known."""

    name: str
    points: list[tuple[float, float, float]] = field(repr=False)
    bound: float


def chart(lines: list[Line], steps: str, words: str, axis: str, unit: str) -> str:
    """Error against steps; `axis` names the error, `unit` follows its values.

    Drawn here, so that it prints and works without the script, which adds hover and zoom.
    """
    lines = [Line(line.name, _thinned(line.points), line.bound) for line in lines]
    last = max(point[0] for line in lines for point in line.points)
    log = last > LONG
    low, high, bounds = y_range(lines)
    end = (math.log10(1 + last) if log else last) or 1.0

    def across(step: float) -> float:
        return (math.log10(1 + step) if log else step) / end

    def down(error: float) -> float:
        return (high - error) / (high - low)

    y = [(down(value), label) for value, label in ticks(low, high)]
    x = growing_ticks(int(last)) if log else ticks(0.0, last or 1.0, whole=True)
    out = [_level(at) for at, _ in y]
    for bound in bounds:
        place = f"{SIDE * down(bound):.1f}"
        out.append(f'<line class="bound" x1="0" x2="{SIDE}" y1="{place}" y2="{place}"/>')
    for k, line in enumerate(lines):
        out.append(_polyline(k, [across(step) for step, _, _ in line.points], [down(e) for _, e, _ in line.points]))
    out.append(f'<rect class="pick" x="0" y="0" width="0" height="{SIDE}"/></svg>')
    data = {
        "log": log,
        "marks": [step for step, _ in x],
        "end": end,
        "y": (low, high),
        "lines": [line.points for line in lines],
        "names": [line.name for line in lines],
        "bounds": bounds,
        "steps": steps,
        "unit": unit,
    }
    opening = _svg(words, "chart", f' data-chart="{html.escape(json.dumps(data))}"')
    scale = " (logarithmic scale)" if log else ""
    return (
        f'<div class="course"><p class="soft">{html.escape(axis)}</p>'
        f"{framed(opening + ''.join(out), [(across(step), label) for step, label in x], y)}"
        f'<p class="soft under">{html.escape(steps)}{scale}</p>{_keys(lines)}'
        '<p class="readout soft" aria-live="polite">Move over the curve to read values; drag to zoom in.</p>'
        '<div class="tools"><button type="button" class="in">Zoom to the end</button>'
        '<button type="button" class="all">Show all</button></div></div>'
    )


def y_range(lines: list[Line]) -> tuple[float, float, list[float]]:
    """Ends of the error axis, and the bounds it includes: one that is far below would hide the descent."""
    errors = [point[1] for line in lines for point in line.points]
    low, high = min(errors), max(errors)
    near = sorted({line.bound for line in lines if line.bound > 0 and low - line.bound <= 2 * (high - low)})
    low = min([low, *near])
    room = (high - low or abs(high) or 1.0) * 0.05
    return low - room, high + room, near


def _keys(lines: list[Line]) -> str:
    if len(lines) < 2:
        return ""
    keys = (f'<span class="key run{k % 6}">{html.escape(line.name)}</span>' for k, line in enumerate(lines))
    return f'<p class="keys">{"".join(keys)}</p>'


def _thinned(points: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    if len(points) > POINTS:
        places = np.concatenate([np.linspace(1, len(points), POINTS), np.geomspace(1, len(points), POINTS)])
        points = [points[i] for i in np.unique(places.astype(int)) - 1]
    return [(step, float(f"{error:.10g}"), float(f"{seconds:.3g}")) for step, error, seconds in points]
