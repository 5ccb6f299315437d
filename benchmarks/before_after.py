"""Default fits of two versions of enmf in one run: interleaved pairs on the complete data sets, ratios of their times.

python benchmarks/before_after.py OLD/src [--old-python PATH] [--sets digits verb ...] [--pairs 7] [--out before_after]

OLD/src is the source folder of the version to compare with (a checkout beside this one). `--old-python` is the one of
its own environment: in one with an editable install of this version, that would come before OLD/src. Each version has a
process of its own, which loads the set, makes one fit that does not count (it imports), and then fits when it is its
turn; the turns alternate. A row is a set: medians of both, the median of the ratios new / old of the pairs, and how the
results compare. Sets that are not there (ENMF_DATA) are left out by name.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas

RANKS = {
    "verb": 20, "face": 10, "faces": 49, "audio": 20, "audio_waveform": 20, "single_cell": 20, "hyperspectral": 10,
    "newsgroups": 20, "imdb": 20, "digits": 20, "olivetti": 25, "coil20": 20, "jasper_ridge": 10, "swimmer": 17,
    "signatures": 4, "mutations": 20, "birds": 10, "friends": 30, "press": 50, "music": 20, "neurons": 20,
    "air_quality": 8,
}  # fmt: skip
SRC = Path(__file__).resolve().parents[1] / "src"


def work(source: Path) -> None:
    """The process of one version: a set by name, then a seed per line; answers with seconds and figures."""
    import enmf
    from enmf.bench.data import matrix

    assert Path(enmf.__file__).is_relative_to(source.resolve()), f"enmf is that of {enmf.__file__}"
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        order = json.loads(line)
        if "set" in order:
            X, rank = matrix(order["set"]), RANKS[order["set"]]
            enmf.factorize(X, rank, random_state=0, max_iter=30)
            answer: dict[str, Any] = {"ready": True}
        else:
            began = time.perf_counter()
            result = enmf.factorize(X, rank, random_state=order["seed"])
            seconds = time.perf_counter() - began
            answer = {"seconds": seconds, "error": result.error, "iterations": result.n_iter, "status": result.status}
        print(json.dumps(answer), flush=True)


class Version:
    """A process with one version of the package."""

    def __init__(self, source: Path, python: str = sys.executable) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source)}
        command = [python, __file__, "--worker", str(source)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def ask(self, **order: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


def compare(name: str, versions: tuple[Version, Version], pairs: int) -> dict[str, Any]:
    for version in versions:
        version.ask(set=name)
    found: tuple[list[Any], list[Any]] = ([], [])
    for pair in range(pairs):
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        for which in order:
            found[which].append(versions[which].ask(seed=pair % 5))
    old, new = (np.array([answer["seconds"] for answer in answers]) for answers in found)
    errors = [np.median([answer["error"] for answer in answers]) for answers in found]
    same = [a["iterations"] == b["iterations"] and a["status"] == b["status"] for a, b in zip(*found)]
    return {
        "set": name,
        "rank": RANKS[name],
        "old": np.median(old),
        "new": np.median(new),
        "new / old": np.median(new / old),
        "error, new / old": errors[1] / errors[0],
        "same path": f"{sum(same)} of {pairs}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, nargs="?")
    parser.add_argument("--old-python", default=sys.executable)
    parser.add_argument("--sets", nargs="+", default=list(RANKS))
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--out", default="before_after", help="name of the csv file in benchmarks/results")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.old)
        return
    versions = Version(options.old, options.old_python), Version(SRC)
    rows = []
    for name in options.sets:
        rows.append(compare(name, versions, options.pairs))
        print(
            "  ".join(
                f"{key} {value:.4g}" if isinstance(value, float) else f"{value}" for key, value in rows[-1].items()
            ),
            flush=True,
        )
    table = pandas.DataFrame(rows)
    mean = float(np.exp(np.log(table["new / old"]).mean()))
    print(f"geometric mean of new / old {mean:.3f}, largest {table['new / old'].max():.3f}")
    table.to_csv(Path(__file__).parent / "results" / f"{options.out}.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
