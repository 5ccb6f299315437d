"""What share of a default fit's time goes by outside kernels and BLAS, on the complete data sets.

ENMF_DATA=FOLDER python benchmarks/outside.py [--sets digits verb ...] [--seconds 5] [--rate 100] [--out outside]

Each set has a process of its own: one fit that does not count, some that are timed undisturbed, then whole fits for at
least so many seconds, while py-spy (pip install py-spy; Linux, with the right to trace) looks where they are. It stops
the process for every look, so that the fits take somewhat longer by the clock (column "slowed"), and all parts alike.

Samples of the thread that called `factorize` count, as long as it is there. One is
- inside if a kernel or BLAS (LAPACK comes with it) has been called from the innermost Python function,
- waiting if the thread has done its share of a kernel or a product, and others have not (`parallel.run`),
- outside in all other cases: the interpreter, NumPy, SciPy, handing work to threads, waiting for the GIL.
The largest of the latter are listed by their innermost Python function, with percentages of all samples. The standard
error of a share p is sqrt(p (1 - p) / samples). Prints a table and writes benchmarks/results/outside.csv.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pandas

from before_after import RANKS, SRC

COMPILED = re.compile(r"openblas|mkl_|/_(baseline|avx2|avx512)\.")  # libraries, as py-spy names them
PYTHON = re.compile(r"(.+) \((.+\.py):\d+\)")
ALONE = 1.0  # seconds of fits that are timed undisturbed


def work(name: str) -> None:
    """The process of a set: fits for as many seconds as a line says; answers with the seconds of a fit."""
    import enmf
    from enmf.bench.data import matrix

    warnings.simplefilter("ignore")
    X = matrix(name)
    enmf.factorize(X, RANKS[name], random_state=0)
    print(json.dumps(os.getpid()), flush=True)
    for line in sys.stdin:
        fits, began = 0, time.perf_counter()
        while fits == 0 or time.perf_counter() - began < json.loads(line):
            enmf.factorize(X, RANKS[name], random_state=fits % 5)
            fits += 1
        print(json.dumps((time.perf_counter() - began) / fits), flush=True)


class Sampler:
    """py-spy, looking at a process."""

    def __init__(self, pid: int, rate: int, file: Path) -> None:
        program = shutil.which("py-spy", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        if program is None:
            sys.exit("py-spy is not there: pip install py-spy")
        command = [program, "record", "--native", "--threads", "--idle", "--format", "raw"]
        command += ["--rate", str(rate), "--output", str(file), "--pid", str(pid)]
        self.file = file
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "Sampling process" in line:
                return
        sys.exit("py-spy cannot look at the process: it needs the right to trace")

    def stop(self) -> list[tuple[list[str], int]]:
        """What it has seen: stacks, the outermost function first, and how often."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()
        lines = [line.rpartition(" ") for line in self.file.read_text().splitlines()]
        return [(stack.split(";"), int(count)) for stack, _, count in lines]


def classify(stack: list[str]) -> tuple[str, str]:
    """Inside, waiting or outside, and the innermost Python function."""
    innermost = max(i for i, frame in enumerate(stack) if PYTHON.fullmatch(frame))
    match = PYTHON.fullmatch(stack[innermost])
    assert match is not None
    function = f"{match[1]} ({match[2]})"
    if any(COMPILED.search(frame) for frame in stack[innermost + 1 :]):
        return "inside", function
    return "waiting" if function == "_Worker.finish (enmf/parallel.py)" else "outside", function


def measure(name: str, seconds: float, rate: int) -> dict[str, Any]:
    command, pipe = [sys.executable, __file__, "--worker", name], subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        pid = json.loads(process.stdout.readline())
        print(ALONE, file=process.stdin, flush=True)
        alone = json.loads(process.stdout.readline())
        sampler = Sampler(pid, rate, Path(folder) / "samples")
        print(seconds, file=process.stdin, flush=True)
        sampled = json.loads(process.stdout.readline())
        stacks = sampler.stop()
        process.stdin.close()
    where: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for stack, count in stacks:
        if any(frame.startswith("factorize (enmf/api/factorize.py") for frame in stack):
            kind, function = classify(stack)
            where[kind] += count
            functions[function] += count if kind == "outside" else 0
    total = where.total()
    return {
        "set": name,
        "rank": RANKS[name],
        "fit seconds": alone,
        "slowed": sampled / alone,
        "samples": total,
        **{f"{kind} %": 100 * where[kind] / total for kind in ("inside", "waiting", "outside")},
        "largest": ", ".join(f"{function} {100 * count / total:.1f}" for function, count in functions.most_common(3)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(RANKS))
    parser.add_argument("--seconds", type=float, default=5.0, help="of sampled fits")
    parser.add_argument("--rate", type=int, default=100, help="samples per second")
    parser.add_argument("--out", default="outside", help="name of the csv file in benchmarks/results")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return
    rows = []
    print(f"{'set':16s}{'fit s':>8s}{'slowed':>8s}{'samples':>8s}{'inside':>8s}{'waiting':>8s}{'outside':>8s}  largest")
    for name in options.sets:
        rows.append(measure(name, options.seconds, options.rate))
        _, _, alone, slowed, total, *shares, largest = rows[-1].values()
        percentages = "".join(f"{share:8.1f}" for share in shares)
        print(f"{name:16s}{alone:8.3f}{slowed:8.2f}{total:8d}{percentages}  {largest}", flush=True)
    table = pandas.DataFrame(rows)
    print(f"outside: median {table['outside %'].median():.1f} %, largest {table['outside %'].max():.1f} %")
    table.to_csv(Path(__file__).parent / "results" / f"{options.out}.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
