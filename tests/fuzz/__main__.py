"""Thousands of cases in processes of their own, so that crashes and hangs are counted; or one case by its seed.

    python -m tests.fuzz --seeds 0:10000 --jobs 2
    python -m tests.fuzz --seed 17

Prints the number of cases by outcome and the seeds of all faults; the exit code is 1 where there is one.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from .cases import CRASH, HANG, OUTCOMES, Outcome, draw, judge

BATCH = 50  # seeds that one process is asked for
PATIENCE = 120.0  # seconds for one case, compilation included


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Random calls of enmf, judged.")
    parser.add_argument("--seed", type=int, help="one case, here, with its call and what is wrong")
    parser.add_argument("--seeds", type=_range, default=range(1000), metavar="FIRST:END", help="default 0:1000")
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time")
    parser.add_argument("--work", type=_range, help=argparse.SUPPRESS)  # what a process of the driver does
    chosen = parser.parse_args()
    faulthandler.enable()
    if chosen.work is not None:
        return work(chosen.work)
    return replay(chosen.seed) if chosen.seed is not None else drive(chosen.seeds, chosen.jobs)


def _range(text: str) -> range:
    first, end = text.split(":") if ":" in text else (0, text)
    return range(int(first), int(end))


def replay(seed: int) -> int:
    case = draw(seed)
    print(case, flush=True)
    print(f"expected: {case.call.expected}", flush=True)
    outcome = judge(case)
    print("\n".join([outcome.word, *outcome.details]))
    return int(outcome.fault)


def work(seeds: range) -> int:
    """One line when a case begins, one when it has ended; the driver reads them."""
    for seed in seeds:
        print(json.dumps([seed]), flush=True)
        outcome = judge(draw(seed))
        print(json.dumps([seed, outcome.word, outcome.summary]), flush=True)
    return 0


def drive(seeds: range, jobs: int) -> int:
    batches = [seeds[i : i + BATCH] for i in range(0, len(seeds), BATCH)]
    found: dict[int, Outcome] = {}
    with ThreadPoolExecutor(jobs) as pool:
        for outcomes in pool.map(lambda batch: dict(run_batch(batch)), batches):
            found.update(outcomes)
            faults = sum(outcome.fault for outcome in found.values())
            print(f"\r{len(found)} of {len(seeds)} cases, {faults} faults", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return report(found)


def run_batch(seeds: range) -> Iterator[tuple[int, Outcome]]:
    """Outcomes of a batch; after a crash or a hang a new process goes on behind that case."""
    while seeds:
        watched = Watched(seeds)
        yield from watched.ended.items()
        if watched.fate is None:
            return
        yield watched.begun, Outcome(watched.fate)
        seeds = range(watched.begun + 1, seeds.stop)


class Watched:
    """A process that judges cases, and is killed when one of them takes longer than PATIENCE."""

    def __init__(self, seeds: range) -> None:
        self.begun, self.ended = seeds.start, dict[int, Outcome]()
        self.fate: str | None = None  # of the process: None, crash or hang
        command = [sys.executable, "-m", "tests.fuzz", "--work", f"{seeds.start}:{seeds.stop}"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        with self.process:
            self._read()
        if self.process.returncode != 0 and self.fate is None:
            self.fate = CRASH

    def _read(self) -> None:
        assert self.process.stdout is not None
        clock = self._clock()
        for line in self.process.stdout:
            if line.startswith("["):  # libraries below print too
                self._note(*json.loads(line))
            clock.cancel()
            clock = self._clock()
        clock.cancel()

    def _note(self, seed: int, word: str | None = None, summary: str = "") -> None:
        if word is None:
            self.begun = seed
        else:
            self.ended[seed] = Outcome(word, (summary,))

    def _clock(self) -> threading.Timer:
        clock = threading.Timer(PATIENCE, self._kill)
        clock.daemon = True
        clock.start()
        return clock

    def _kill(self) -> None:
        self.fate = HANG
        self.process.kill()


def report(found: dict[int, Outcome]) -> int:
    faults = {seed: outcome for seed, outcome in sorted(found.items()) if outcome.fault}
    for seed, outcome in faults.items():
        print(f"seed {seed:<8}{outcome.word:<15}{outcome.summary}")
    counts = Counter(outcome.word for outcome in found.values())
    print(", ".join(f"{counts[word]} {word}" for word in OUTCOMES), f"of {len(found)} cases")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
