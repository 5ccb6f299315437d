"""What the first fit of a process takes beyond the second, and what importing enmf takes.

    python benchmarks/first_fit.py [--processes 5]

Every figure is a median over fresh processes; one more, which does not count, leaves bytecode on disk. Fits are of the
digits at rank 10, with the data loaded and scikit-learn (and Dask) imported before the clock starts; modules of enmf
are imported when a name of it is first used, which is in the first fit. Prints a table and writes
benchmarks/results/first_fit.csv, in seconds.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

IMPORTS = {
    "import enmf": "import enmf",
    "import enmf: factorize, complete": "import enmf; enmf.factorize, enmf.complete",
    "import enmf: factorize, complete, ENMF": "import enmf; enmf.factorize, enmf.complete, enmf.ENMF",
    "import sklearn.decomposition": "import sklearn.decomposition",
}
FITS = ["dense", "sparse", "masked", "float32", "dask"]


def data(kind: str) -> Any:
    import numpy as np
    import scipy.sparse as sp
    import sklearn.decomposition  # noqa: F401
    from sklearn.datasets import load_digits

    X = load_digits().data
    if kind == "dask":
        import dask.array as da

        return da.from_array(X, chunks=(600, -1))
    hidden = np.random.default_rng(0).random(X.shape) < 0.1
    gaps = np.where(hidden, np.nan, X)
    return {"dense": X, "sparse": sp.csr_array(X), "masked": gaps, "float32": np.float32(X)}[kind]


def work(case: str) -> None:
    """One process: the seconds of two fits."""
    import enmf

    X, seconds = data(case), []
    for _ in range(2):
        began = time.perf_counter()
        (enmf.complete if case == "masked" else enmf.factorize)(X, 10, random_state=0)
        seconds.append(time.perf_counter() - began)
    print(json.dumps(seconds))


def measured(case: str) -> list[float]:
    """The answer of a fresh process."""
    clock = "import time, json; t = time.perf_counter(); {}; print(json.dumps([time.perf_counter() - t]))"
    program = ["-c", clock.format(IMPORTS[case])] if case in IMPORTS else [__file__, "--worker", case]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, *program], stdout=subprocess.PIPE, text=True, env=environment, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--worker", choices=FITS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.worker)
    import pandas  # here: a worker imports nothing that its fit might have to

    cases = [case for case in (*IMPORTS, *FITS) if case != "dask" or importlib.util.find_spec("dask")]
    rounds = [{case: measured(case) for case in cases} for _ in range(options.processes + 1)][1:]
    named = [{"case": case, **dict(zip(("first", "second"), one[case]))} for one in rounds for case in cases]
    found = pandas.DataFrame(named)
    found["difference"] = found["first"] - found["second"]
    table = found.groupby("case", sort=False).median().reset_index()
    print(table.to_string(index=False, float_format="%.3f", na_rep=""))
    table.to_csv(Path(__file__).parent / "results" / "first_fit.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
