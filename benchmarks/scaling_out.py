"""X larger than memory, and on workers: time, passes and peak memory, written to benchmarks/results/scaling_out.csv.

    python benchmarks/scaling_out.py disk --folder SCRATCH [--gigabytes 8]   a float32 file, memory_limit 1 GB
    python benchmarks/scaling_out.py sparse    RCV1's shape and density, generated
    python benchmarks/scaling_out.py workers [--rounds 3]   audio tiled 4 times: memory, 1 and 2 workers, in turn
    python benchmarks/scaling_out.py limits    more rows of X and of U than a worker has memory for
    python benchmarks/scaling_out.py iteration --workers 1|2    processor seconds of an iteration, for the model
    python benchmarks/scaling_out.py model     fit the cost model, test it, look ahead

Each command runs in a process of its own, so that the peak belongs to it alone. `workers` needs ENMF_DATA; its rows are
medians of the rounds, its ratios are of runs in the same round. `cpu` are the processor seconds of the caller and of
its busiest worker, which take turns; `others` the cores that other processes, or a hypervisor, had meanwhile.
`iteration` writes benchmarks/results/scaling_model.csv.
"""

from __future__ import annotations

import argparse
import csv
import resource
import time
import warnings
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import psutil

import enmf
from enmf import parallel
from enmf.datasets import load, make_sparse

RESULTS = Path(__file__).parent / "results" / "scaling_out.csv"
MODEL = Path(__file__).parent / "results" / "scaling_model.csv"
FIELDS = ("case", "shape", "rank", "threads", "iterations", "passes", "seconds", "seconds_a_pass", "relative_error")
COLUMNS = (*FIELDS, "cpu", "others", "peak_GB")


def measure(case, X, shape, rank, threads, **options):
    """One run as a row of the table."""
    began, before, load = time.perf_counter(), processor_seconds(), machine_seconds()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = enmf.factorize(X, rank, random_state=0, n_threads=threads, **options)
    seconds = time.perf_counter() - began
    mine = {process: spent - before.get(process, 0.0) for process, spent in processor_seconds().items()}
    here = mine.pop(psutil.Process())
    others = machine_seconds() - load - here - sum(mine.values())
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
        "cpu": round(here + max(mine.values(), default=0.0), 2),
        "others": round(others / seconds, 2),
        "peak_GB": _peak(),
    }
    print(row, flush=True)
    return row


def processor_seconds():
    """Of this process and of each of its children."""
    me = psutil.Process()
    return {process: sum(process.cpu_times()[:2]) for process in (me, *me.children(recursive=True))}


def machine_seconds():
    machine = psutil.cpu_times()
    return machine.user + machine.nice + machine.system + getattr(machine, "steal", 0.0)


def write(row, path=RESULTS, columns=COLUMNS, names=("case",)):
    """Replace the row of the same names."""
    rows = []
    if path.exists():
        with path.open() as file:
            rows = [old for old in csv.DictReader(file) if any(old[name] != str(row[name]) for name in names)]
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, columns, lineterminator="\n")
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
    options = {"memory_limit": "1GB", "max_iter": 5, "tol": 0, "bound": False}
    write(measure(f"disk {gigabytes:g} GB", str(path), (n, m), 20, 2, **options))


def sparse():
    shape = (804_414, 47_236)
    X = make_sparse(shape, 0.0016, rank=20)
    options = {"memory_limit": "1.5GB", "max_iter": 5, "tol": 0, "bound": False}
    write(measure("sparse, generated", X, shape, 20, 2, **options))


def limits(count=20, limit="750MB"):
    """X of 840 MB and U of 800 MB on workers of 750 MB, of which an idle one needs 270: nothing of that length is ever
    in one place. From a given V, since the n x 2r arrays of an SVD need more workers. Workers are ended at 95 % of the
    limit; that they write data to disk from 60 % on and pause at 80 % is switched off: what they hold is all in use."""
    import dask

    n, m, rank = 10_000_000, 500, 20
    X = make_sparse((n, m), 10 / m, rank=20, chunks=n // (16 * count))
    V = np.random.default_rng(0).random((m, rank))
    never = {f"distributed.worker.memory.{what}": False for what in ("target", "spill", "pause")}
    with dask.config.set(never), cluster(count, limit) as client, client.as_current():
        options = {"method": "e-hals", "init": (None, V), "max_iter": 1, "tol": 0, "bound": False}
        row = measure(f"{count} workers of {limit}", X, (n, m), rank, 1, **options)
        peaks = client.run(_peak)
        print(f"{len(peaks)} workers are left, the largest had {max(peaks.values())} GB")
        write(row)


def _peak():
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2)


def _persist(client, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "large graph": X goes to the workers once, outside the clock
        return client.persist(X)


def workers(rounds):
    """Time from X in memory, here or on the workers, to the result. Workers have one thread, the caller as many as they
    have together: it works while they wait."""
    import dask.array as da

    X = np.tile(load("audio")[0], (4, 1)).astype(np.float32)
    options = {"max_iter": 40, "tol": 0, "bound": False}
    cases = {"in memory, 1 thread": (0, 1), "1 worker": (1, 1), "2 workers": (2, 2), "in memory, 2 threads": (0, 2)}
    rows = {name: [] for name in cases}
    for _ in range(rounds):
        for name, (count, threads) in cases.items():
            # each cluster alone: an idle one takes a tenth of a core; the first run imports
            with cluster(count) if count else nullcontext() as client:
                there = X if client is None else _persist(client, da.from_array(X, chunks=(1500, -1)))
                with client.as_current() if client is not None else nullcontext():
                    enmf.factorize(there, 20, random_state=0, n_threads=threads, **{**options, "max_iter": 1})
                    rows[name].append(measure(f"audio x 4, {name}", there, X.shape, 20, threads, **options))
    seconds = {name: np.array([row["seconds"] for row in found]) for name, found in rows.items()}
    for found in rows.values():
        write(sorted(found, key=lambda row: row["seconds"])[len(found) // 2])
    memory, first, second, both = seconds.values()
    for text, ratios in (
        ("one worker over memory", first / memory),
        ("one worker over two", first / second),
        ("one thread in memory over two", memory / both),
    ):
        print(f"{text}: median {np.median(ratios):.2f} of", ", ".join(f"{ratio:.2f}" for ratio in ratios))


@contextmanager
def cluster(count, memory="auto"):
    from distributed import Client, LocalCluster

    how = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": memory}
    with LocalCluster(n_workers=count, **how) as local, Client(local, set_as_default=False) as client:
        yield client


# The cost model -------------------------------------------------------------------------------------------------------

FITTED = (  # rows, columns, entries of a row, rank
    (60_000, 5_000, 40, 20),
    (240_000, 5_000, 40, 20),
    (60_000, 60_000, 40, 20),
    (60_000, 5_000, 200, 20),
    (120_000, 5_000, 40, 50),
    (30_000, 60_000, 100, 50),
    (40_000, 300_000, 60, 20),
    (20_000, 1_000_000, 100, 20),
    (240_000, 60_000, 40, 20),
    (120_000, 20_000, 100, 40),
)
HELD_OUT = ((500_000, 30_000, 60, 30), (60_000, 1_000_000, 100, 20))
HUGE = (10**9, 10**6, 100, 20)
NETWORK = 1.25e9  # bytes a second between machines: 10 Gb/s
ITERATIONS = 8  # of which the first two are not counted
L2, L3 = 1 << 20, 32 << 20  # bytes of cache: of a core, and of all of them


def iteration(count):
    """Processor seconds of a descent iteration (e-hals, float32), of the caller and of the busiest of `count` workers
    of one thread: they take turns. Other processes on the machine and the speed of a network are not in them."""
    with cluster(count) as client, client.as_current():
        for n, m, entries, rank in (*FITTED, *HELD_OUT):
            X = make_sparse((n, m), entries / m, rank=20, chunks=-(-n // 8))
            clock = {}

            def look(progress, clock=clock):
                if progress.iteration in (2, ITERATIONS):
                    clock[progress.iteration] = processor_seconds()

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start = {"init": "random", "method": "e-hals", "random_state": 0, "tol": 0, "bound": False}
                enmf.factorize(X, rank, max_iter=ITERATIONS, callback=look, **start)
            spent = {process: after - clock[2][process] for process, after in clock[ITERATIONS].items()}
            each = (spent.pop(psutil.Process()) + max(spent.values())) / (ITERATIONS - 2)
            row = {"rows": n, "columns": m, "entries": entries, "rank": rank, "workers": count, "cpu": round(each, 4)}
            print(row, flush=True)
            write(row, MODEL, tuple(row), ("rows", "columns", "entries", "rank", "workers"))


def terms(n, m, entries, rank, count):
    """What an iteration does: multiply-adds of products, bytes of V and XᵀU that these fetch from beyond a cache,
    sweeps and gradient of U, numbers of arrays as long as U, sweeps of V, bytes sent, messages (of constant cost).

    A stored number of X takes a row of V, and adds to a row of XᵀU. These are found in a cache of C bytes with the
    probability C / (m r w). Sweeps end early; that they take about the same number everywhere is part of what the fit
    tests.
    """
    products, V = 2.0 * n * entries * rank / count, 4.0 * m * rank
    near, far = (4.0 * products * max(0.0, 1.0 - cache / V) for cache in (L2, L3))
    return np.array([products, near, far, n * rank**2 / count, n * rank / count, m * rank**2, V * (1 + count), 1.0])


NAMES = (
    "products",
    "fetched from beyond L2",
    "fetched from beyond L3",
    "sweeps of U",
    "arrays of U",
    "sweeps of V",
    "V and XᵀU sent",
    "messages of an iteration",
)


def model():
    from scipy.optimize import nnls

    with MODEL.open() as file:
        rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    shape = [(int(r["rows"]), int(r["columns"]), r["entries"], int(r["rank"])) for r in rows]
    A = np.array([terms(*s, r["workers"]) for s, r in zip(shape, rows)])
    b = np.array([r["cpu"] for r in rows])
    fitted = np.array([s in FITTED for s in shape])
    cost, _ = nnls(A[fitted] / b[fitted, None], np.ones(fitted.sum()))  # relative errors
    print("nanoseconds for one of each:", ", ".join(f"{name} {1e9 * c:.3g}" for name, c in zip(NAMES, cost)))
    for s, r, seconds, predicted, known in zip(shape, rows, b, A @ cost, fitted):
        note = "" if known else "   <- not fitted"
        print(f"{s}, {int(r['workers'])} worker(s): {seconds:.3f} s, model {predicted:.3f} s{note}")
    n, m, entries, rank = HUGE
    for count in (100, 1000):
        work = terms(*HUGE, count) * cost
        broadcast = np.ceil(np.log2(count)) * m * rank * 4 / NETWORK
        reduction = np.ceil(np.log(count) / np.log(8)) * 8 * m * rank * 4 / NETWORK
        parts = {**dict(zip(NAMES, work)), "V and XᵀU sent": broadcast + reduction}
        memory = (n * entries * 8 + 6 * n * rank * 4) / count / 1e9
        print(
            f"{count} workers: {sum(parts.values()):.1f} s an iteration ("
            + ", ".join(f"{name} {seconds:.2f}" for name, seconds in parts.items())
            + f"), {memory:.0f} GB a worker"
        )


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("part", choices=["disk", "sparse", "workers", "limits", "iteration", "model"])
    arguments.add_argument("--folder", default=".")
    arguments.add_argument("--gigabytes", type=float, default=8.0)
    arguments.add_argument("--workers", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    with parallel.limit(2):
        if given.part == "disk":
            disk(given.folder, given.gigabytes)
        elif given.part == "iteration":
            iteration(given.workers)
        elif given.part == "workers":
            workers(given.rounds)
        else:
            {"sparse": sparse, "limits": limits, "model": model}[given.part]()


if __name__ == "__main__":
    main()
