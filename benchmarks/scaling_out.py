"""X larger than memory, and on workers: time, passes and peak memory, written to benchmarks/results/scaling_out.csv.

    python benchmarks/scaling_out.py disk --folder SCRATCH [--gigabytes 8]   a float32 file, memory_limit 1 GB
    python benchmarks/scaling_out.py sparse    RCV1's shape and density, generated
    python benchmarks/scaling_out.py workers   audio tiled 4 times: memory, 1 and 2 workers

Each command runs in a process of its own, so that the peak belongs to it alone. `workers` needs ENMF_DATA.
"""

from __future__ import annotations

import argparse
import csv
import resource
import time
import warnings
from pathlib import Path

import numpy as np

import enmf
from enmf import parallel
from enmf.datasets import load, make_sparse

RESULTS = Path(__file__).parent / "results" / "scaling_out.csv"
FIELDS = ("case", "shape", "rank", "threads", "iterations", "passes", "seconds", "seconds_a_pass", "relative_error")
COLUMNS = (*FIELDS, "peak_GB")


def measure(case, X, shape, rank, threads, **options):
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = enmf.factorize(X, rank, random_state=0, n_threads=threads, **options)
    seconds = time.perf_counter() - began
    passes = sum(phase.passes for phase in result.phases.values())
    row = {
        "case": case,
        "shape": f"{shape[0]} x {shape[1]}",
        "rank": rank,
        "threads": threads,
        "iterations": result.n_iter,
        "passes": passes,
        "seconds": round(seconds, 2),
        "seconds_a_pass": round(seconds / max(passes, 1), 3),
        "relative_error": f"{result.certificate.relative_error:.8f}",
        "peak_GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }
    print(row, flush=True)
    write(row)
    return seconds


def write(row):
    """Replace the row of this case."""
    rows = []
    if RESULTS.exists():
        with RESULTS.open() as file:
            rows = [old for old in csv.DictReader(file) if old["case"] != row["case"]]
    with RESULTS.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows([*rows, row])


def make_file(path, n, m, rank=20):
    """Low rank and noise, written block by block."""
    rng = np.random.default_rng(0)
    V = rng.random((rank, m), dtype=np.float32) * (rng.random((rank, m)) < 0.3)
    height = 10_000
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (n, m)})
        for first in range(0, n, height):
            U = rng.random((min(height, n - first), rank), dtype=np.float32)
            block = U @ V.astype(np.float32)
            block += rng.random(block.shape, dtype=np.float32)
            block.tofile(file)


def disk(folder, gigabytes):
    m = 4096
    n = round(gigabytes * 1e9 / (4 * m))
    path = Path(folder) / f"dense-{n}.npy"
    if not path.exists():
        make_file(path, n, m)
    measure(f"disk {gigabytes:g} GB", str(path), (n, m), 20, 2, memory_limit="1GB", max_iter=5, tol=0, bound=False)


def sparse():
    shape = (804_414, 47_236)
    X = make_sparse(shape, 0.0016, rank=20)
    measure("sparse, generated", X, shape, 20, 2, memory_limit="1.5GB", max_iter=5, tol=0, bound=False)


def workers():
    import dask.array as da
    from distributed import Client, LocalCluster

    X = np.tile(load("audio")[0], (4, 1)).astype(np.float32)
    options = {"max_iter": 40, "tol": 0, "bound": False}
    here = measure("audio x 4, in memory", X, X.shape, 20, 1, **options)
    for count in (1, 2):
        with LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as local, Client(local):
            lazy = da.from_array(X, chunks=(1500, -1)).persist()
            enmf.factorize(lazy, 20, random_state=0, max_iter=1, tol=0, bound=False)  # kernels are compiled
            there = measure(f"audio x 4, {count} worker(s)", lazy, X.shape, 20, 1, **options)
            print(f"{count} worker(s): {there / here:.2f} times the time in memory on one thread")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("part", choices=["disk", "sparse", "workers"])
    arguments.add_argument("--folder", default=".")
    arguments.add_argument("--gigabytes", type=float, default=8.0)
    given = arguments.parse_args()
    with parallel.limit(2):
        if given.part == "disk":
            disk(given.folder, given.gigabytes)
        else:
            {"sparse": sparse, "workers": workers}[given.part]()


if __name__ == "__main__":
    main()
