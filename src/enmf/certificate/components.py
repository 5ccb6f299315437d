"""What each component of U Vᵀ = sum_j u_j v_jᵀ contributes, and which ones are redundant.

share       <X, u_j v_jᵀ> / ||X||², over the observed entries if some are missing. At a stationary point without
            penalty these sum to the explained share 1 - ||X - U Vᵀ||² / ||X||². For other losses: `Loss.shares`.
dead        u_j = 0 or v_j = 0
duplicate   u_j and u_k (or v_j and v_k) are parallel: u v_jᵀ + u v_kᵀ = u (v_j + v_k)ᵀ, so one component replaces both
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from enmf.problem.state import State

PARALLEL = 1e-6  # columns with a cosine of at least 1 - this are parallel


@dataclass(frozen=True)
class Component:
    """One component: its size ||u_j|| ||v_j||, its share of X, and whether it is needed."""

    index: int
    norm: float
    share: float
    dead: bool
    duplicate_of: int | None


def describe_components(state: State) -> tuple[Component, ...]:
    """One description for each component; costs no pass over X when the product X V is at hand."""
    UtU, VtV = (half.gram.astype(np.float64) for half in state.halves)
    u, v = np.sqrt(np.diag(UtU)), np.sqrt(np.diag(VtV))
    alive = (u > 0) & (v > 0)
    shares = state.problem.loss.shares(state)
    parallel = np.triu(_cosines(UtU, u, alive) >= 1.0 - PARALLEL, 1) | np.triu(
        _cosines(VtV, v, alive) >= 1.0 - PARALLEL, 1
    )
    return tuple(
        Component(
            index=j,
            norm=float(u[j] * v[j]),
            share=float(shares[j]),
            dead=not alive[j],
            duplicate_of=int(np.argmax(parallel[:, j])) if parallel[:, j].any() else None,
        )
        for j in range(state.rank)
    )


def counted(indices: Iterable[int]) -> str:
    """Component numbers for display, counted from 1; in data they are counted from 0."""
    return ", ".join(str(index + 1) for index in indices)


def component_table(components: Iterable[Component], whole: str = "||X||²") -> str:
    """The components as lines of text, with their shares of the whole."""
    lines = [f"component        norm   {f'share of {whole}':>15}"]
    for c in components:
        note = "dead" if c.dead else f"duplicate of {counted([c.duplicate_of])}" if c.duplicate_of is not None else ""
        lines.append(f"{counted([c.index]):>9}  {c.norm:>10.4g}  {100 * c.share:>14.3f} %   {note}".rstrip())
    return "\n".join(lines)


def _cosines(gram: np.ndarray, length: np.ndarray, alive: np.ndarray) -> np.ndarray:
    safe = np.where(alive, length, 1.0)
    return gram / np.outer(safe, safe) * np.outer(alive, alive)


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Escaped names and values below a title."""
    cells = (f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{html.escape(title)}</caption><tbody>{''.join(cells)}</tbody></table>"
