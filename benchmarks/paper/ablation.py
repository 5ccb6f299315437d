"""The paper's ablations: feasibility or projection, three descents, optimal or fixed step, exact or randomized SVD."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from enmf.bench.protocols import Goal, goals
from paper.case import Case, Row, reproduces
from paper.contests import REAL
from paper.runs import LETTER, bound_of, facts, problem, run, warm

STRATEGIES = (
    "feasibility+hals",
    "projection+hals",
    "projection+grad-mult",
    "projection+gradient",
    "feasibility+gradient",
)
SIXTH = "feasibility+grad-mult"  # not in the paper
FIXED_STEP, RANDOMIZED = "fixed step", "randomized SVD"


def strategy_options(name: str) -> dict[str, Any]:
    """Options of factorize(preset="paper") for one of the strategies."""
    if name == FIXED_STEP:
        return {"feasibility": "penalty-fixed-step"}
    if name == RANDOMIZED:
        return {"svd": "randomized"}
    stage, descent = name.split("+")
    feasibility = {"feasibility": {}, "projection": {"feasibility": "projection", "feasibility_options": {}}}[stage]
    return {**feasibility, "descent": descent}


@reproduces(
    "ablation",
    ("ablations", "step size", "randomized SVD"),
    "Ablations after the same rotation",
    tiny={"ranks": {"synthetic-20-60": (5,)}, "budget": 0.5},
    small={"ranks": {"verb": REAL["verb"], "face": (5, 10), "audio_waveform": (10,)}, "budget": 4.0},
    paper={"ranks": REAL, "budget": 3600.0},
)
def ablation(ranks: dict[str, tuple[int, ...]], budget: float) -> Iterator[Case]:
    """preset="paper" with one choice changed. Reference: feasibility stage with optimal steps, then HALS, to its KKT
    point or a limit of seconds. Equal error: seconds to that error, given up after some times its time. Equal time:
    error after its time over its error."""
    for data, some in ranks.items():
        for rank in some:
            yield Case({"data": data, "rank": rank}, partial(_ablation, data, rank, budget))


def _ablation(data: str, rank: int, budget: float) -> Iterator[Row]:
    target = problem(data)
    warm(target, "hals", "grad-mult", "gradient")
    ours = run(data, rank, LETTER, goal=Goal(budget), options=strategy_options(STRATEGIES[0]))
    bound, seconds = bound_of(target, rank), ours.trace[-1].seconds
    patience = min(10.0, max(1.5, budget / (4 * seconds)))
    for protocol in ("equal error", "equal time"):
        even = {"error_ratio": 1.0, "time_ratio": 1.0}
        yield {"protocol": protocol, "method": STRATEGIES[0], **facts(ours, bound), **even}
    for name in (*STRATEGIES[1:], SIXTH, FIXED_STEP, RANDOMIZED):
        for protocol, goal in reversed(goals(seconds, ours.error, patience).items()):
            result = run(data, rank, LETTER, goal=goal, options=strategy_options(name))
            yield {
                "protocol": protocol.replace("-", " "),
                "method": name,
                **facts(result, bound),
                "error_ratio": result.error / ours.error,
                "time_ratio": result.trace[-1].seconds / seconds,
            }
