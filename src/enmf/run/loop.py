"""The only outer loop: measure, decide, step."""

from __future__ import annotations

import math

import numpy as np

from enmf.certificate.certificate import accurate_error, kkt_residual
from enmf.problem.state import Iterate
from enmf.run.method import Method
from enmf.run.stopping import Monitor

GROWTH = {np.dtype(np.float64): 8, np.dtype(np.float32): 2}  # iterations in which no column leaves the number range
WORSE = 1e-6  # share of the objective by which a stationary pair may exceed the best one seen


def descend(it: Iterate, method: Method, monitor: Monitor, *, phase: str = "descent", max_iter: int) -> str:
    """Step until the monitor has a verdict; leaves the best factors seen in `it` and returns the status.

    A method that may go up is compared with all pairs it has seen, a monotone one with a few: rounding can end it, too.
    """
    interval = _kkt_interval(it, method, monitor.stopping.tol)
    patience = GROWTH[it.X.dtype]
    best_objective = math.inf
    best: tuple[np.ndarray, np.ndarray] | None = None
    with monitor.phase(phase) as counter, np.errstate(over="ignore", invalid="ignore"):  # seen by the verdict
        while True:
            iteration = counter.iterations
            measured = interval > 0 and iteration % interval == 0
            if method.reuses_products and (measured or not (method.one_pass and it.one_pass)):
                it.prepare(kkt=measured)  # the next step needs it, so it is charged
            with monitor.measuring():
                squared = it.squared_error()
                objective = squared + it.squared_penalty()
                error = math.sqrt(max(squared, 0.0))
                if not it.penalty and monitor.proven(error):
                    error = accurate_error(it)  # before it is said
                kkt = kkt_residual(it) if measured else math.nan
            monitor.record(iteration, phase, error, kkt, it.U, it.V)
            status = monitor.verdict(iteration, max_iter, error, kkt, objective, bool(it.penalty))
            if status is not None:
                break
            if objective < best_objective and (not method.monotone or iteration & (iteration - 1) == 0):
                best_objective = objective
                best = _kept(it.U, best and best[0]), _kept(it.V, best and best[1])
            if iteration % patience == 0 and it.even_out():
                method.forget()
            method.step(it, objective)
            counter.iterations += 1
    if best is None or status in ("global_optimum", "exact") or objective <= best_objective:
        return status
    if status == "converged" and objective <= (1.0 + WORSE) * best_objective + 8.0 * it.rounding(best_objective):
        return status
    it.set_U(best[0])
    it.set_V(best[1])
    return "stalled" if status == "converged" else status  # the better pair is not the stationary one


def _kept(F: np.ndarray, place: np.ndarray | None) -> np.ndarray:
    """A copy of F, in the place of an earlier one: fresh memory costs more than the copy."""
    if place is None or not isinstance(F, np.ndarray):
        return F.copy(order="F")
    np.copyto(place, F)
    return place


def run_stage(
    it: Iterate,
    method: Method,
    monitor: Monitor,
    *,
    phase: str,
    max_iter: int,
    extra: float = 0.0,
    least_gain: float | None = None,
) -> None:
    """Steps of a stage that is not judged by the KKT residual: it ends by itself, at `max_iter`, or out of time.

    `extra` is added to the squared error: the part of ||X||² that a low-rank stand-in of X does not have. With a
    `least_gain` it also ends when the error has fallen by less than this share of it in ten steps.
    """
    errors: list[float] = []
    with monitor.phase(phase) as counter:
        while counter.iterations < max_iter and not method.finished(it) and not monitor.out_of_time():
            squared = it.squared_error()
            error = math.sqrt(max(squared + extra, 0.0))
            monitor.record(counter.iterations, phase, error, math.nan, it.U, it.V)
            errors.append(error)
            if least_gain is not None and len(errors) > 10 and error > (1.0 - least_gain) * errors[-11]:
                break
            method.step(it, squared)
            counter.iterations += 1


def _kkt_interval(it: Iterate, method: Method, tol: float) -> int:
    """Iterations between two KKT residuals: measuring them shall cost about a twentieth of the steps.

    It needs X V, so that a step which would do with one pass (one message, where workers have X) takes two. There none
    is measured (0) in a run without a tolerance, in which it decides nothing.
    """
    saves = method.one_pass and (it.X.narrow or it.X.allows_one_pass)
    if saves and tol == 0.0:
        return 0
    flops = it.measuring_flops() + it.rank * it.X.cost_per_column * saves
    return max(1, min(10, math.ceil(20.0 * flops / method.step_flops(it))))
