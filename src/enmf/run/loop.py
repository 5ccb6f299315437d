"""The only outer loop: measure, decide, step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf import parallel
from enmf.kernels import dense
from enmf.matrix.factor import copied, here
from enmf.run.bursts import bursts_of
from enmf.run.prospect import is_outlook
from enmf.run.stopping import Moment

if TYPE_CHECKING:
    from enmf.problem.state import State
    from enmf.run.method import Method
    from enmf.run.monitor import Monitor
    from enmf.run.walk import Walk

GROWTH = {np.dtype(np.float64): 8, np.dtype(np.float32): 2}  # iterations within which no column overflows
WORSE = 1e-6  # share of the objective by which a stationary pair may exceed the best one seen
COPIED = 20.0  # flops that take as long as to copy a number from memory to memory
WINDOW = 10  # steps over which a stage must gain something


class Best:
    """The pair with the smallest objective so far."""

    def __init__(self) -> None:
        self.objective = math.inf
        self.pair: tuple[Any, Any] | None = None

    def keep(self, state: State, objective: float) -> None:
        pair = state.U, state.V
        self.objective = objective
        if self.pair is None or any(here(F) is None for F in pair):
            self.pair = copied(state.U), copied(state.V)
            return
        for F, place in zip(pair, self.pair):  # fresh memory would cost more than the copy
            parallel.run(dense.copy, parallel.even_bounds(len(F), COPIED * F.shape[1]), F.T, place.T)


def descend_in_single(walk: Walk) -> None:
    """The first iterations of a descent, where the walk has X in single precision, for as long as they promise much."""
    rough = walk.in_single()
    if rough is not None:
        descend(rough)
        walk.go_on(rough)


def descend(walk: Walk) -> None:
    """Step until the monitor has a verdict; leaves the best factors seen in the state. Goes on where an earlier descent
    of this walk ended.

    A method that may increase the objective is compared with all its pairs, a monotone one (for rounding) with a few.
    """
    state, method, monitor = walk.state, walk.method, walk.monitor
    settles, prospect = walk.settles, walk.prospect
    interval = 0 if settles else _kkt_interval(state, method, monitor.stopping.least_kkt)
    patience, penalized, loss = GROWTH[state.X.dtype], state.penalized, state.problem.loss
    reuses, by_products = method.reuses_products(state), loss.shares_products and state.X.complete
    rows, columns = state.halves
    best, began = Best(), prospect.iteration
    if began > 0:  # the same pair is measured again
        if prospect.row is not None and monitor.trace[-1] is prospect.row:
            monitor.trace.pop()
        prospect.lowest.pop()
    bursts = bursts_of(state, method, monitor)
    if bursts is not None:
        bursts.judge(interval, patience, best, prospect, walk.rival if settles else None)
    memory = method.begin(state)
    with monitor.phase("descent") as counter, np.errstate(over="ignore", invalid="ignore"):  # the verdict reports them
        while True:
            iteration = began + counter.iterations
            if bursts is not None and (iteration > began or began == 0):
                counter.iterations += bursts.take(iteration, walk.max_iter - iteration, memory, "descent")
                iteration = began + counter.iterations
            judged = settles and is_outlook(iteration)
            measured = judged or (interval > 0 and iteration % interval == 0)
            if reuses and (measured or not by_products or rows.knows_product or not columns.knows_product):
                loss.prepare(state, measured)  # the next step needs this too, so it is charged
            with monitor.measuring():
                value = loss.value(state)
                objective = value + state.problem.penalty.value(state) if penalized else value
                error = loss.error(value)
                if not penalized and monitor.proven(error):
                    error = state.accurate_error()  # the exact error, before the verdict is final
                kkt = state.kkt() if measured else math.nan
            monitor.record(iteration, "descent", error, kkt, state.U, state.V)
            prospect.add([loss.error(objective)])
            prospect.row = monitor.trace[-1]
            left = prospect.left() if judged else math.inf
            now = Moment(iteration, walk.max_iter, error, kkt, objective, penalized, left, walk.rival)
            status = monitor.verdict(now)
            if status is not None:
                break
            if objective < best.objective and (not method.monotone or iteration & (iteration - 1) == 0):
                best.keep(state, objective)
            if iteration % patience == 0 and state.even_out():
                memory = method.rescaled(state, memory)
            method.step(state, memory, objective)
            counter.iterations += 1
    walk.status, walk.left = status, prospect.left(1.0)
    if best.pair is None or status in ("global_optimum", "exact") or objective <= best.objective:
        return
    hardly_worse = objective <= (1.0 + WORSE) * best.objective + 8.0 * state.rounding(best.objective)
    if status == "converged" and hardly_worse:
        return
    state.replace(*best.pair)
    walk.status = "stalled" if status == "converged" else status  # the better pair is not the stationary one


@dataclass(frozen=True)
class Stage:
    """Steps that the KKT residual does not judge: they end by themselves, at `max_iter`, or when time is up.

    `extra` is added to the squared error: the part of ||X||² that a low-rank surrogate of X lacks. With a `least_gain`
    the stage also ends when ten steps have lowered the error by less than this share of it, and where its pairs are
    `nonnegative`, when the error is on target.
    """

    phase: str
    max_iter: int = 10_000
    extra: float = 0.0
    least_gain: float | None = None
    nonnegative: bool = True


def run_stage(state: State, method: Method, monitor: Monitor, stage: Stage, memory: Any = None) -> Any:
    """Run a stage, continuing with the memory of an earlier one if given; returns the memory."""
    memory = method.begin(state) if memory is None else memory
    errors: list[float] = []
    bursts = bursts_of(state, method, monitor) if stage.least_gain is None else None
    with monitor.phase(stage.phase) as counter:
        if bursts is not None:
            counter.iterations = bursts.take(0, stage.max_iter, memory, stage.phase)
        while counter.iterations < stage.max_iter and not method.finished(state, memory) and not monitor.out_of_time():
            value = state.value()
            error = state.problem.loss.error(value + 0.5 * stage.extra)
            monitor.record(counter.iterations, stage.phase, error, math.nan, state.U, state.V)
            errors.append(error)
            gain = stage.least_gain
            if gain is not None and len(errors) > WINDOW and error > (1.0 - gain) * errors[-1 - WINDOW]:
                break
            if stage.nonnegative and monitor.arrived(error):
                break
            method.step(state, memory, value + state.problem.penalty.value(state))
            counter.iterations += 1
    return memory


def _kkt_interval(state: State, method: Method, tol: float) -> int:
    """Iterations between two KKT residuals, so that measuring them costs about a twentieth of the steps.

    The residual needs X V, so a step that could do with one pass (one message, where workers hold X) takes two. There
    it is not measured (0) in a run without a tolerance, in which it decides nothing.
    """
    X, loss = state.X, state.problem.loss
    saves = method.fused and loss.shares_products and X.complete and (X.narrow or X.allows_one_pass)
    if saves and tol == 0.0:
        return 0
    flops = loss.measuring_flops(X, state.rank) + state.rank * X.cost_per_column * saves
    return max(1, min(10, math.ceil(20.0 * flops / method.step_flops(state))))
