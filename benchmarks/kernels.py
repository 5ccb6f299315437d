"""Kernel by kernel and in both precisions: an older version's and the present ones, interleaved in one run.

python benchmarks/kernels.py OLD/src [--old-python PATH] [--only TEXT] [--level avx512] [--pairs 7] [--out kernels]

OLD/src is the source folder of the version to compare with (a checkout beside this one), PATH the interpreter of its
environment if it needs another one. Each version has a process of its own, which makes the inputs of a case
(benchmarks/kernel_cases.py) and times calls when it is its turn; the turns alternate, and each has at least 5 ms of
calls. Kernels are called directly, on one thread. What a call has changed is restored before the next, outside the
clock, where that call would otherwise have less to do.

A row is a case: medians of both, and the median of the ratios old / new of the pairs. For sweeps of 50 components and
more there is also the speed of the present kernel as a share of that of the matrix product G @ F of the same shape
(BLAS on one thread), the best times of both. Writes benchmarks/results/kernels.csv.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from threadpoolctl import threadpool_limits

from before_after import SRC
from before_after import Version as Process
from kernel_cases import CASES, Case, Held

TURN = 0.005  # seconds of calls
TOLERANCE = {"float64": 1e-6, "float32": 1e-2}


class Timed:
    """A case in one of the versions, ready to be called."""

    def __init__(self, case: Case, precision: str, old: bool) -> None:
        stop, arguments = case.make(np.dtype(precision).type)
        restored, name = [arguments[i] for i in case.restored], case.kernel
        package = import_module("enmf.kernels")
        compiled = not old or hasattr(package, "level")
        if not compiled and case.before is not None:
            name, arguments = case.before(*arguments)
        elif compiled:
            arguments = tuple(float(a) if isinstance(a, np.floating) else a for a in arguments)
        module, function = name.split(".")
        where = getattr(package, module) if compiled else import_module(f"enmf.kernels.{module}")
        if isinstance(arguments[0], Held):  # a method
            where, arguments = arguments[0].made(where, precision), arguments[1:]
        self.kernel: Callable[..., Any] = getattr(where, function)
        self.arguments = arguments if stop is None else (0, stop, *arguments)
        self.kept = [(A, A.copy()) for A in restored]
        self.kernel(*self.arguments)
        arrays = [A for A in arguments if isinstance(A, np.ndarray) and A.dtype.kind == "f" and A.ndim < 3]
        self.result = float(sum(np.abs(A).sum(dtype=float) for A in arrays))  # sums of parts may be padded
        self.calls = 1
        while self.seconds() * self.calls < TURN:
            self.calls *= 2

    def seconds(self) -> float:
        """Mean of a call."""
        kernel, arguments, clock = self.kernel, self.arguments, time.perf_counter
        if not self.kept:
            began = clock()
            for _ in range(self.calls):
                kernel(*arguments)
            return (clock() - began) / self.calls
        total = 0.0
        for _ in range(self.calls):
            for A, first in self.kept:
                A[...] = first
            began = clock()
            kernel(*arguments)
            total += clock() - began
        return total / self.calls

    def product(self) -> float:
        """Seconds of G @ F for the arguments of a sweep: the best of several."""
        _, _, F, _, G, *_ = self.arguments
        out, best = np.empty_like(F), np.inf
        for _ in range(15):
            began = time.perf_counter()
            for _ in range(self.calls):
                np.matmul(G, F, out=out)
            best = min(best, (time.perf_counter() - began) / self.calls)
        return best


def work(old: bool) -> None:
    """The process of one version: a case by its number, then turns; answers with seconds."""
    import enmf

    with threadpool_limits(1):
        for line in sys.stdin:
            order = json.loads(line)
            if "case" in order:
                try:
                    timed = Timed(CASES[order["case"]], order["precision"], old)
                    answer = {"result": timed.result, "file": enmf.__file__}
                except (AttributeError, ModuleNotFoundError) as problem:
                    answer = {"missing": str(problem), "file": enmf.__file__}
            else:
                answer = {"seconds": timed.product() if "product" in order else timed.seconds()}
            print(json.dumps(answer), flush=True)


class Version(Process):
    """A process with one version of the package."""

    def __init__(self, python: str, source: Path, *options: str, **environment: str) -> None:
        self.source = source.resolve()
        variables = {**os.environ, "PYTHONPATH": str(self.source), **environment}
        command, pipe = [python, __file__, "--worker", *options], subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=variables)


def compare(number: int, precision: str, versions: tuple[Version, Version], pairs: int) -> dict[str, Any] | None:
    """A row; None if the older version has no such kernel."""
    case, results = CASES[number], []
    for version in versions:
        answer = version.ask(case=number, precision=precision)
        assert Path(answer["file"]).is_relative_to(version.source), answer["file"]
        if "missing" in answer and version is versions[0]:
            return None
        results.append(answer["result"])
    if not np.isclose(*results, rtol=TOLERANCE[precision]):
        print(f"{case.kernel} {case.name} {precision}: results differ, {results[0]:.6g} and {results[1]:.6g}")
    found: tuple[list[float], list[float]] = ([], [])
    for pair in range(pairs):
        for which in (0, 1) if pair % 2 == 0 else (1, 0):
            found[which].append(versions[which].ask()["seconds"])
    old, new = np.array(found)
    share = np.nan
    if case.kernel == "sweep.sweep" and case.make.args[1] >= 50:  # type: ignore[attr-defined]
        share = 3 * versions[1].ask(product=True)["seconds"] / new.min()  # three sweeps
    row = {"kernel": case.kernel, "case": case.name, "dtype": precision}
    times = {"old µs": np.median(old) * 1e6, "new µs": np.median(new) * 1e6}
    return {**row, **times, "old / new": np.median(old / new), "of product": share}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, nargs="?")
    parser.add_argument("--old-python", default=sys.executable, help="interpreter of the older version's environment")
    parser.add_argument("--only", default="", help="only cases whose kernel and name contain this")
    parser.add_argument("--level", default="", help="instruction set of the present kernels, by default the best")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--out", default="kernels", help="name of the csv file in benchmarks/results")
    parser.add_argument("--worker", choices=("old", "new"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker == "old")
        return
    versions = (
        Version(options.old_python, options.old, "old"),
        Version(sys.executable, SRC, "new", ENMF_KERNELS=options.level),
    )
    rows = []
    print(f"{'kernel':26s}{'case':26s}{'dtype':8s}{'old µs':>12s}{'new µs':>12s}{'old / new':>11s}")
    for number, case in enumerate(CASES):
        if options.only not in f"{case.kernel} {case.name}":
            continue
        for precision in case.precisions:
            row = compare(number, precision, versions, options.pairs)
            if row is None:
                print(f"{case.kernel:26s}{case.name:26s}{precision:8s} new")
                continue
            rows.append(row)
            kernel, name, dtype, old, new, ratio, _ = rows[-1].values()
            print(f"{kernel:26s}{name:26s}{dtype:8s}{old:12.1f}{new:12.1f}{ratio:11.2f}", flush=True)
    table = pandas.DataFrame(rows)
    ratios, least = table["old / new"], table.loc[table["old / new"].idxmin()]
    print(f"geometric mean of old / new {np.exp(np.log(ratios).mean()):.3f} over {len(table)} cases")
    print(f"smallest {least['old / new']:.3f}: {least['kernel']} {least['case']} {least['dtype']}")
    for _, row in table.dropna().iterrows():
        print(f"sweep {row['case']} {row['dtype']}: {row['of product']:.0%} of the speed of a matrix product")
    table.to_csv(Path(__file__).parent / "results" / f"{options.out}.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
