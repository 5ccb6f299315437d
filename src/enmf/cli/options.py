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

from enmf.io.messages import InputProblem
from enmf.io.reading import Reading, option, parse_loss

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
    tol: Annotated[
        float | None, option("TOL", "KKT residual at which the run has converged [default: when going on gains little]")
    ] = None
    max_iter: Annotated[int | None, option("N", f"maximum number of descent iterations{DEFAULT}")] = None
    time_limit: Annotated[
        float | None, option("SECONDS", "stop after this time and take the factors reached so far")
    ] = None
    scale: Annotated[
        str | None, option("balanced|sum|max|norm", "what the columns of V have in common  [default: balanced with U]")
    ] = None
    seed: Seed = 0
    threads: Threads = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of `enmf.factorize` and `enmf.complete`."""
        limits = given(tol=self.tol, max_iter=self.max_iter, time_limit=self.time_limit, scale=self.scale)
        return {**limits, **loss_given(self.loss), "random_state": self.seed, "n_threads": self.threads}


@dataclass(frozen=True)
class Shape:
    """What is known about the components (docs/structure.md)."""

    simplex: Annotated[bool, Option("--simplex", help="rows of U sum to one: every row is a mixture")] = False
    smooth: Annotated[
        float | None, option("WEIGHT", "penalty on squared differences of neighbouring columns", min=0)
    ] = None
    total_variation: Annotated[
        float | None, option("WEIGHT", "penalty on absolute differences of neighbouring columns", min=0)
    ] = None
    grid: Annotated[str | None, option("HxW", "columns are the cells of a grid, as in 48x42  [default: a line]")] = None
    guide: Annotated[
        str | None, option("FILE", "JSON file, name to list of columns: what the first components should contain")
    ] = None

    def arguments(self, columns: list[str] | None) -> dict[str, Any]:
        """Arguments of `enmf.factorize`, for a table whose columns have these names."""
        cells = None if self.grid is None else self.grid.lower().split("x")
        if cells is not None and not all(map(str.isdigit, cells)):
            raise InputProblem("--grid", f"{self.grid!r} is not height x width", "Write it like 48x42")
        return given(
            simplex="U" if self.simplex else None,
            smooth=self.smooth,
            total_variation=self.total_variation,
            grid=None if cells is None else tuple(map(int, cells)),
            guide=None if self.guide is None else read_guide(self.guide, columns),
        )


def read_guide(path: str, columns: list[str] | None) -> dict[str, list[int]] | None:
    """Sets of columns from a JSON file, as their numbers."""
    import json

    from enmf.problem.validation.layers import guide_columns

    remedy = 'Write it like {"sports": ["ball", "game"]}, with names of columns, or their numbers from 0'
    try:
        with open(path, encoding="utf-8") as file:
            return guide_columns(json.load(file), columns)
    except OSError as problem:
        raise InputProblem(path, f"cannot be read ({problem.strerror or problem})", remedy) from None
    except (TypeError, ValueError) as problem:
        raise InputProblem(path, f"is no guide: {problem}", remedy) from None


FILES = ("fixed", "support_u", "support_v", "row_weights", "column_weights")


@dataclass(frozen=True)
class Knowing:
    """What is known about the factors: files of numbers, and words."""

    fixed: Annotated[str | None, option("FILE", "known components, one in each row; they stay as they are")] = None
    support_u: Annotated[str | None, option("FILE", "1 where U may be positive, 0 where it is zero")] = None
    support_v: Annotated[str | None, option("FILE", "1 where V may be positive, 0 where it is zero")] = None
    row_weights: Annotated[str | None, option("FILE", "one positive number for each row")] = None
    column_weights: Annotated[str | None, option("FILE", "one positive number for each column")] = None
    nonnegative: Annotated[str | None, option("both|V|U", "the nonnegative factors; X may then be negative")] = None
    negative: Annotated[str | None, option("refuse|keep", "whether X may be negative if U and V are not")] = None
    symmetric: Annotated[bool, Option("--symmetric", help="V = U, for a symmetric table")] = False

    def files(self) -> list[str | None]:
        return [getattr(self, name) for name in FILES]

    def arguments(self) -> dict[str, Any]:
        """Arguments of `enmf.factorize`."""
        found: dict[str, Any] = given(nonnegative=self.nonnegative, negative=self.negative)
        if self.symmetric:
            found["symmetric"] = True
        for name in FILES:
            file = getattr(self, name)
            if file is not None:
                found[name.replace("_u", "_U").replace("_v", "_V")] = _numbers(file, name)
        return found


def _numbers(file: str, name: str) -> Any:
    """The numbers of a file: a matrix, of booleans for a support, or a line of weights."""
    from enmf.io import tables

    values = tables.read(file, Reading()).values
    if name.endswith("weights"):
        return values.reshape(-1)
    return values != 0 if name.startswith("support") else values


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
