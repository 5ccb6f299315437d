"""Options that several commands share, each declared once.

An option that is not given is None and means the default of the library, which is not imported for --help; `enmf info`
prints these defaults.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_origin

from typer import Argument, Option

from enmf.io.reading import option, parse_loss

Command = Callable[..., None]
DEFAULT = "  [default: see `enmf info`]"
FORMATS = "csv, tsv or other text, npy, npz, mtx, parquet, h5ad, or a 10x folder; - reads csv from standard input"
BLOCKS = "; a folder of npz, npy or parquet parts, or a zarr store, is read in blocks"

Data = Annotated[str, Argument(metavar="DATA", show_default=False, help=FORMATS)]
LargeData = Annotated[str, Argument(metavar="DATA", show_default=False, help=FORMATS + BLOCKS)]
Rank = Annotated[int, Option("--rank", "-r", metavar="N", min=1, help="number of components", show_default=False)]
Seed = Annotated[int, option("N", "random seed; the same seed gives the same result")]
Threads = Annotated[int | None, option("N", "number of threads  [default: all]", min=1)]
Loss = Annotated[
    str | None,
    option("NAME", "frobenius, kullback-leibler (counts), itakura-saito (power spectra), or beta from 0 to 2"),
]
Report = Annotated[str | None, option("FILE", "HTML page that shows the result")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="print nothing but problems")]
Force = Annotated[bool, Option("--force", help="replace existing files, but never an input")]
Json = Annotated[bool, Option("--json", help="print JSON")]


@dataclass(frozen=True)
class Solving:
    """Loss, limits, seed and threads of a run."""

    loss: Loss = None
    tol: Annotated[float | None, option("TOL", f"KKT residual at which the run has converged{DEFAULT}")] = None
    max_iter: Annotated[int | None, option("N", f"maximum number of descent iterations{DEFAULT}")] = None
    time_limit: Annotated[
        float | None, option("SECONDS", "stop after this time and take the factors reached so far")
    ] = None
    seed: Seed = 0
    threads: Threads = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of `enmf.factorize` and `enmf.complete`."""
        limits = given(tol=self.tol, max_iter=self.max_iter, time_limit=self.time_limit)
        return {**limits, **loss_given(self.loss), "random_state": self.seed, "n_threads": self.threads}


def loss_given(text: str | None) -> dict[str, Any]:
    """The argument `loss`, if it was given."""
    return {} if text is None else {"loss": parse_loss(text)}


def given(**options: Any) -> dict[str, Any]:
    """The options that were given; the others keep the defaults of the library."""
    return {name: value for name, value in options.items() if value is not None}


def grouped(**groups: type) -> Callable[[Command], Command]:
    """Replace parameters by groups of options: those fields of a dataclass that are `Annotated`."""

    def decorated(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters
        options = {name: _options(made) for name, made in groups.items()}

        @functools.wraps(command)
        def run(**values: Any) -> None:
            made = {name: groups[name](**{p.name: values.pop(p.name) for p in held}) for name, held in options.items()}
            command(**values, **made)

        shown = [p.replace(kind=p.KEYWORD_ONLY) for name, p in own.items() if name not in groups]
        shown += [p for held in options.values() for p in held]
        run.__annotations__ = {p.name: p.annotation for p in shown}
        run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        return run

    return decorated


def _options(made: type) -> list[inspect.Parameter]:
    fields = inspect.signature(made, eval_str=True).parameters.values()
    return [p.replace(kind=p.KEYWORD_ONLY) for p in fields if get_origin(p.annotation) is Annotated]
