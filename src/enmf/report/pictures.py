"""Pictures without a plotting library: arrays as PNG data addresses, runs as SVG."""

from __future__ import annotations

import base64
import html
import json
import math
import struct
import zlib
from dataclasses import dataclass

import numpy as np

# dark blue over green to yellow, readable on light and on dark paper and in grey
COLOURS = np.array([(38, 20, 71), (48, 68, 128), (38, 116, 139), (45, 161, 124), (128, 198, 79), (246, 226, 60)], float)
WIDTH, HEIGHT = 900, 340
BOX = (70, 20, 880, 295)  # left, top, right, bottom of the plot itself
POINTS = 600


def png(values: np.ndarray) -> str:
    """A matrix, 0 to its largest entry, as an image that needs no file."""
    top = float(values.max()) if values.size else 0.0
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
    """At most `rows` rows, each the mean of its neighbours."""
    if len(values) <= rows:
        return values
    edges = np.linspace(0, len(values), rows + 1).astype(int)[:-1]
    return np.add.reduceat(values, edges, axis=0) / np.diff(np.append(edges, len(values)))[:, None]


@dataclass(frozen=True)
class Line:
    """A run: (seconds, per cent, phase) each, and the bound in per cent (0 where it is not known)."""

    name: str
    points: list[tuple[float, float, str]]
    bound: float


def chart(lines: list[Line], bands: list[tuple[float, float, str]], words: str) -> str:
    """Error against time. Drawn here, so that it prints and needs no script; the script adds hover and zoom."""
    lines = [Line(line.name, _thinned(line.points), line.bound) for line in lines]
    times = [point[0] for line in lines for point in line.points] + [band[1] for band in bands]
    errors = [point[1] for line in lines for point in line.points]
    bounds = [line.bound for line in lines if line.bound > 0]
    low, high = min(errors + bounds), max(errors + bounds)
    x1 = 5 * _round_up((max(times) or 1.0) / 5)
    room = (high - low or abs(high) or 1.0) * 0.05
    left, top, right, bottom = BOX

    def px(t: float) -> float:
        return left + t / x1 * (right - left)

    def py(v: float) -> float:
        return bottom - (v - low + room) / (high - low + 2 * room) * (bottom - top)

    out = []
    for k, (a, b, name) in enumerate(bands):
        out.append(
            f'<rect class="band" x="{px(a):.1f}" y="{top}" width="{px(b) - px(a):.1f}" height="{bottom - top}" '
            f'opacity="{1 if k % 2 == 0 else 0.35}"/>'
        )
        hidden = "" if px(b) - px(a) > 60 else ' style="display:none"'
        out.append(
            f'<text class="bandname" x="{(px(a) + px(b)) / 2:.1f}" y="{top + 14}" text-anchor="middle"{hidden}>'
            f"{html.escape(name)}</text>"
        )
    for k in range(6):
        x, y = left + (right - left) * k / 5, bottom - (bottom - top) * k / 5
        value = low - room + (high - low + 2 * room) * k / 5
        out.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text class="y" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>')
        out.append(f'<text class="x" x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{x1 * k / 5:.3g}</text>')
    out.append(f'<text x="{(left + right) / 2}" y="{HEIGHT - 6}" text-anchor="middle">seconds</text>')
    out.append(f'<text x="{left}" y="{top - 6}">error, % of ‖X‖</text>')
    for bound in bounds:
        out.append(f'<line class="bound" x1="{left}" x2="{right}" y1="{py(bound):.1f}" y2="{py(bound):.1f}"/>')
    for k, line in enumerate(lines):
        places = " ".join(f"{px(t):.1f},{py(v):.1f}" for t, v, _ in line.points)
        out.append(f'<polyline class="run run{k % 6}" points="{places}"/>')
        if len(lines) > 1:
            name = html.escape(line.name)
            out.append(
                f'<text class="key run{k % 6}" x="{right}" y="{top + 16 * k + 4}" text-anchor="end">{name}</text>'
            )
    out.append(f'<rect class="pick" x="{left}" y="{top}" width="0" height="{bottom - top}"/>')
    data = {
        "box": BOX,
        "size": (WIDTH, HEIGHT),
        "x": (0.0, x1),
        "y": (low, high),
        "lines": [line.points for line in lines],
        "names": [line.name for line in lines],
        "bounds": bounds,
        "bands": [(a, b) for a, b, _ in bands],
    }
    return (
        f'<div><svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(words)}" '
        f'data-chart="{html.escape(json.dumps(data))}">{"".join(out)}</svg>'
        '<p class="readout soft" aria-live="polite">Move over the curve to read it; drag to look closer.</p>'
        '<div class="tools"><button type="button" class="in">Closer to the end</button>'
        '<button type="button" class="all">Show all</button></div></div>'
    )


def _round_up(step: float) -> float:
    """The next number with few digits, for marks on an axis."""
    unit = 10.0 ** math.floor(math.log10(step))
    return unit * next(mark for mark in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if mark * unit >= step * (1 - 1e-9))


def _thinned(points: list[tuple[float, float, str]]) -> list[tuple[float, float, str]]:
    if len(points) > POINTS:
        points = [points[i] for i in np.unique(np.linspace(0, len(points) - 1, POINTS).astype(int))]
    return [(float(f"{t:.5g}"), float(f"{v:.8g}"), phase) for t, v, phase in points]
