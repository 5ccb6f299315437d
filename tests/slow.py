"""The slow, obvious twin of every kernel, in plain NumPy and with the kernel's meaning, not its layout."""

import itertools

import numpy as np


def sweep(U, G, B, wall=np.inf, sweeps=1, skip=()):
    """Coordinate sweeps on U (n x r)."""
    U = U.copy()
    for _ in range(sweeps):
        for k in range(U.shape[1]):
            if k in skip:
                continue
            if G[k, k] <= 0:
                U[B[:, k] < 0, k] = 0
                continue
            z = B[:, k] - U @ G[:, k] + U[:, k] * G[k, k]
            if np.isinf(wall):
                U[:, k] = np.maximum(z / G[k, k], 0)
            else:
                U[:, k] = np.where(z >= 0, z / G[k, k], z / (G[k, k] + wall))
    return U


def row_step(U, G, B, fixed_step=0.0, literal=False):
    """One projected gradient step a row (paper, eq. 8 to 11)."""
    U = U.copy()
    D = U @ G - B
    for i in range(len(U)):
        g = np.where(U[i] >= 0, D[i], 0.0)
        if not literal:
            g[(U[i] == 0) & (D[i] > 0)] = 0.0
        curvature = g @ G @ g
        step = fixed_step or (g @ g / curvature if curvature > 0 else 0.0)
        may_move = U[i] >= 0
        U[i, may_move] = np.maximum(U[i] - step * g, 0)[may_move]
    return U


def projected_gradient(U, G, B):
    D = U @ G - B
    return np.where(U > 0, D, np.minimum(D, 0)), D


def kkt(X, U, V):
    """The definition: projected gradient at balanced factors over ||X||^1.5."""
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X, dtype=np.float64)
    U, V = balanced(U.astype(np.float64), V.astype(np.float64), np.linalg.norm(X))
    residual = U @ V.T - X
    dU, dV = residual @ V, residual.T @ U
    pU = np.where(U > 0, dU, np.minimum(dU, 0))
    pV = np.where(V > 0, dV, np.minimum(dV, 0))
    return np.sqrt((pU**2).sum() + (pV**2).sum()) / np.linalg.norm(X) ** 1.5


def penalized_kkt(X, U, V, l1_U=0.0, l2_U=0.0, l1_V=0.0, l2_V=0.0):
    """The same with penalties, which fix the scale: at the factors as they are."""
    R = U @ V.T - X
    dU, dV = R @ V + l1_U + l2_U * U, R.T @ U + l1_V + l2_V * V
    squares = sum((np.where(F > 0, D, np.minimum(D, 0)) ** 2).sum() for F, D in ((U, dU), (V, dV)))
    return np.sqrt(squares) / np.linalg.norm(X) ** 1.5


def balanced(U, V, size):
    """Columns of equal norm; one beside a zero column gets the norm sqrt(size)."""
    U, V = U.copy(), V.copy()
    for u, v in zip(U.T, V.T):
        a, b = np.linalg.norm(u), np.linalg.norm(v)
        if a > 0 and b > 0:
            u *= np.sqrt(b / a)
            v *= np.sqrt(a / b)
        elif a > 0:
            u *= np.sqrt(size) / a
        elif b > 0:
            v *= np.sqrt(size) / b
    return U, V


def bound(X, rank):
    """Eckart-Young from the full SVD."""
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X, dtype=np.float64)
    s = np.linalg.svd(X, compute_uv=False)
    return np.sqrt((s[rank:] ** 2).sum())


def admm_rotation(W, R, rho, iterations):
    """Algorithm 1 of the paper as printed, with the unscaled dual Y and constant rho."""
    Y = np.zeros_like(W)
    for _ in range(iterations):
        B = W @ R - Y / rho
        Z = np.where(B > 0, B, np.where(-1 / rho <= B, 0.0, B + 1 / rho))
        C, _, Dt = np.linalg.svd(W.T @ (Z + Y / rho))
        R = C @ Dt
        Y = Y + rho * (Z - W @ R)
    return R


def general_admm(U, V, R2, rho, gamma, t, iterations):
    """Algorithm "rsr" of the paper as printed (U R1 L R2 with its R2), lambdas from numpy.roots."""
    W = np.vstack([U, V])
    W = W / np.abs(W).mean()
    n, r = len(U), W.shape[1]
    R1, lam = np.eye(r), np.ones(r)
    W2 = W.copy()
    M, N, P = np.zeros_like(W), np.zeros_like(W), np.zeros_like(W)
    for _ in range(iterations):
        B = W2 @ R2 - P
        W3 = np.where(B > 0, B, np.where(-1 / t <= B, 0.0, B + 1 / t))
        W1 = np.empty_like(W)
        for j in range(r):
            for rows, scale in ((slice(0, n), lam[j]), (slice(n, None), 1 / lam[j])):
                above = rho * (W @ R1 - M)[rows, j] + gamma * scale * (W2 + N)[rows, j]
                W1[rows, j] = above / (rho + gamma * scale**2)
        C, _, Dt = np.linalg.svd(W.T @ (W1 + M))
        R1 = C @ Dt
        scaled = np.vstack([W1[:n] * lam, W1[n:] / lam])
        W2 = (gamma * scaled - gamma * N + t * (W3 + P) @ R2.T) / (gamma + t)
        C, _, Dt = np.linalg.svd(W2.T @ (W3 + P))
        R2 = C @ Dt
        for i in range(r):
            one, two = W1[:n, i], W1[n:, i]
            to_one, to_two = (W2 + N)[:n, i], (W2 + N)[n:, i]
            roots = np.roots([one @ one, -to_one @ one, 0.0, to_two @ two, -two @ two])
            positive = roots[(np.abs(roots.imag) < 1e-9) & (roots.real > 0)].real
            cost = [np.sum((to_one - x * one) ** 2) + np.sum((to_two - two / x) ** 2) for x in positive]
            lam[i] = positive[int(np.argmin(cost))]
        M = M + W1 - W @ R1
        N = N + W2 - np.vstack([W1[:n] * lam, W1[n:] / lam])
        P = P + W3 - W2 @ R2
    return R1, lam, R2


def certificate(X, U, V):
    """Error, bound and KKT figures of any factors, from their definitions."""
    U, V = balanced(U, V, np.linalg.norm(X))
    R = U @ V.T - X
    dU, dV = R @ V, R.T @ U
    products = np.concatenate([(dU * U).ravel(), (dV * V).ravel()])
    return {
        "error": np.linalg.norm(R),
        "lower_bound": min(bound(X, U.shape[1]), np.linalg.norm(R)),
        "kkt": kkt(X, U, V),
        "kkt_max": products.max() if products.size else 0.0,
        "kkt_sum": products.sum(),
    }


def masked_normal(i, X, W, C, ridge):
    """G_i and b_i of row i: X dense with anything at the missing entries, W the weights, 0 where missing."""
    seen = np.flatnonzero(W[i])
    G = ridge[i] * np.eye(C.shape[1])
    b = np.zeros(C.shape[1])
    for j in seen:
        G = G + W[i, j] * np.outer(C[j], C[j])
        b = b + W[i, j] * X[i, j] * C[j]
    return G, b


def masked_sweep(U, V, X, W, ridge, wall=np.inf, sweeps=1):
    """Coordinate sweeps, every row on its own normal equations; the wall is relative to their mean diagonal."""
    new = U.copy()
    for i in range(len(U)):
        G, b = masked_normal(i, X, W, V, ridge)
        own = wall * np.diag(G).mean() if np.isfinite(wall) and np.diag(G).any() else np.inf
        new[i] = sweep(U[i : i + 1], G, b[None, :], own, sweeps)[0]
    return new


def masked_row_step(U, V, X, W, ridge):
    """One masked projected gradient step with the masked optimal step size."""
    new = U.copy()
    for i in range(len(U)):
        G, b = masked_normal(i, X, W, V, ridge)
        new[i] = row_step(U[i : i + 1], G, b[None, :])[0]
    return new


def masked_kkt(X, W, U, V, ridge_U, ridge_V):
    """Projected gradient over ||W^½ o X||^1.5; columns balanced where there is no ridge."""
    X = np.where(W > 0, X, 0.0)
    if not (np.any(ridge_U) or np.any(ridge_V)):
        u, v = np.linalg.norm(U, axis=0), np.linalg.norm(V, axis=0)
        alive = (u > 0) & (v > 0)
        U, V, u, v = U[:, alive], V[:, alive], u[alive], v[alive]
        U, V = U * np.sqrt(v / u), V * np.sqrt(u / v)
    residual = W * (U @ V.T - X)
    dU = residual @ V + ridge_U[:, None] * U
    dV = residual.T @ U + ridge_V[:, None] * V
    pU = np.where(U > 0, dU, np.minimum(dU, 0))
    pV = np.where(V > 0, dV, np.minimum(dV, 0))
    return np.sqrt((pU**2).sum() + (pV**2).sum()) / (W * X**2).sum() ** 0.75


def masked_certificate(X, W, U, V, ridge_U, ridge_V, fixed=None):
    """Error, KKT figures and shares on the observed entries from their definitions; W is 0 where X is missing."""
    X = np.where(W > 0, X, 0.0)
    if not (ridge_U.any() or ridge_V.any()):
        u, v = np.linalg.norm(U, axis=0), np.linalg.norm(V, axis=0)
        U, V = U * np.sqrt(v / u), V * np.sqrt(u / v)
    residual = W * (U @ V.T - X)
    gradients = {"U": residual @ V + ridge_U[:, None] * U, "V": residual.T @ U + ridge_V[:, None] * V}
    free = [(D, F) for (name, D), F in zip(gradients.items(), (U, V)) if name != fixed]
    projected = sum((np.where(F > 0, D, np.minimum(D, 0)) ** 2).sum() for D, F in free)
    whole, count, total = (W * X**2).sum(), (W > 0).sum(), W.sum()
    figures = {
        "error": np.sqrt((W * (X - U @ V.T) ** 2).sum()),
        "kkt": np.sqrt(projected) * (count / total) ** 0.25 / whole**0.75,  # of weights with mean 1
        "kkt_max": max((D * F).max() for D, F in free),
        "kkt_sum": sum((D * F).sum() for D, F in free),
        "min_gradient": min(D.min() for D, _ in free),
        "observed": count,
    }
    return figures, [(W * X * np.outer(u, v)).sum() / whole for u, v in zip(U.T, V.T)]


def sparse_transpose(X, height):
    """Xᵀ by blocks of `height` rows of X: starts, row numbers and values, sorted by block, column and row."""
    n, m = X.shape
    X = X.tocoo()
    order = np.lexsort((X.row, X.col, X.row // height))
    blocks = max(1, -(-n // height))
    counts = np.zeros((blocks, m), np.int64)
    np.add.at(counts, (X.row // height, X.col), 1)
    ends = counts.ravel().cumsum().reshape(blocks, m)
    starts = np.hstack([np.r_[0, ends[:-1, -1]][:, None] if m else np.zeros((blocks, 1)), ends])
    return starts, X.row[order], X.data[order]


def sparse_residual(X, U, V):
    """For every row of the sparse X: the sum over its stored entries of (x - p)² - p², p = (U Vᵀ)_ij."""
    out = np.zeros(X.shape[0])
    for i in range(X.shape[0]):
        for e in range(X.indptr[i], X.indptr[i + 1]):
            p = U[i] @ V[X.indices[e]]
            out[i] += (X.data[e] - p) ** 2 - p**2
    return out


def admm_split(WR, Y, threshold):
    """Z and Z + Y of the paper's eq. 7."""
    B = WR - Y
    Z = np.where(B > 0, B, np.where(-threshold <= B, 0.0, B + threshold))
    return Z, Z + Y


def turn(W, R, rho, rules, iterations):
    """Algorithm 1 with its changing rho and its end: the best R, the negative mass after every iteration, rho."""
    uneven, step, least, most, share, enough, window = rules
    WR, Y = W @ R, np.zeros_like(W)
    masses, best = [np.maximum(-WR, 0).sum() / np.abs(WR).sum()], R
    for _ in range(iterations):
        if min(masses) <= enough:
            break
        if len(masses) > window and min(masses) > (1 - share) * min(masses[: -int(window)]):
            break
        Z, ZY = admm_split(WR, Y, 1 / rho)
        C, _, Dt = np.linalg.svd(W.T @ ZY)
        R, before = C @ Dt, WR
        WR = W @ R
        Y = Y + Z - WR
        primal, dual = np.linalg.norm(Z - WR), rho * np.linalg.norm(WR - before)
        factor = step if primal > uneven * dual else 1 / step if dual > uneven * primal else 1.0
        if least < rho * factor < most:
            rho, Y = rho * factor, Y / factor
        masses.append(np.maximum(-WR, 0).sum() / np.abs(WR).sum())
        best = R if masses[-1] < min(masses[:-1]) else best
    return best, np.array(masses), rho


def row_steps(U, G, B, fixed_step, steps, literal):
    for _ in range(steps):
        U = row_step(U, G, B, fixed_step, literal)
    return U


def nnls(G, b):
    """argmin over x >= 0 of 1/2 xᵀ G x - bᵀ x for a regular G: the best of the solutions on all supports."""
    r = len(b)
    best, least = np.zeros(r), 0.0
    for support in itertools.product([False, True], repeat=r):
        P = np.array(support, dtype=bool)
        if not P.any():
            continue
        x = np.zeros(r)
        x[P] = np.linalg.solve(G[np.ix_(P, P)], b[P])
        value = 0.5 * x @ G @ x - b @ x
        if (x >= 0).all() and value < least:
            best, least = x, value
    return best


def nnls_violation(G, b, x):
    """How far x is from the optimality conditions x >= 0, G x - b >= 0, x (G x - b) = 0, in units of the problem."""
    D = G @ x - b
    size = np.abs(b).max(initial=0.0) + np.abs(G).max(initial=0.0) * np.abs(x).max(initial=0.0)
    violations = [0.0, *-x, *-D / (size or 1.0), *np.abs(D[x > 0]) / (size or 1.0)]
    return max(violations)


def on_passive_sets(G, B, passive):
    """Least squares on the passive set of every row, and D = F G - B, which is 0 there."""
    F, D = np.zeros_like(B), np.zeros_like(B)
    for i, P in enumerate(passive):
        F[i, P] = np.linalg.solve(G[np.ix_(P, P)], B[i, P])
        D[i] = np.where(P, 0.0, F[i] @ G - B[i])
    return F, D


def row_problem(entries, C, G0=0.0, b0=0.0, ridge=0.0):
    """Normal equations from the entries (column, a, t) of a row."""
    r = C.shape[1]
    G, b = ridge * np.eye(r) + G0, np.zeros(r) + b0
    for j, a, t in entries:
        G = G + a * np.outer(C[j], C[j])
        b = b + t * C[j]
    return G, b


def residual_times(entries, f, C, D, based):
    """sum_e (t - a p) D_e and what the entries add to the squared error, for one row f."""
    out, error = np.zeros(D.shape[1]), 0.0
    for j, a, t in entries:
        p = f @ C[j]
        out = out + (t - a * p) * D[j]
        error += a * p * p - 2 * t * p if based else (t - a * p) ** 2 / a
    return out, error


def sweeps_in_blocks(F, G, B, wall, sweeps, progress, block):
    """Sweeps that end, in each block of rows, when one changes it by less than `progress` times the first one."""
    F = F.copy()
    for rows in (slice(first, first + block) for first in range(0, len(F), block)):
        first_change = None
        for _ in range(sweeps):
            before = F[rows].copy()
            F[rows] = sweep(before, G, B[rows], wall)
            change = np.linalg.norm(F[rows] - before)
            first_change = change if first_change is None else first_change
            if change <= progress * first_change:
                break
    return F


class Burst:
    """Iterations of hals, a-hals, e-hals (with a `beta`) or walls on a dense X; see src/kernels/burst.h.

    What the iterations begin with is in `values`, `residuals` and `passed`; the rest is the state after the last one.
    """

    def __init__(self, X, U, V, sweeps=(1, 1), progress=0.0, block=128, beta=None, walls=(), clips=False, interval=0):
        self.X, self.pair = X, [U, V]
        self.sweeps, self.progress, self.block, self.interval = sweeps, progress, block, interval
        self.beta = self.last_beta = beta
        self.cap, self.judged, self.growth, self.cap_growth, self.shrink = 1.0, np.inf, 1.05, 1.01, 1.5
        self.walls, self.clips = walls, clips
        self.plain = None
        self.values, self.residuals, self.passed, self.restarts = [], [], [], 0
        self.known, self.passes = [True, False], 1  # products: X V, Xᵀ U

    def value(self):
        return 0.5 * np.linalg.norm(self.X - self.pair[0] @ self.pair[1].T) ** 2

    def multiply(self, side):
        self.passes += not self.known[side]
        self.known[side] = True

    def iterate(self, iterations):
        for iteration in range(len(self.values), len(self.values) + iterations):
            measured = self.interval > 0 and iteration % self.interval == 0
            if measured:
                self.multiply(0)  # the step needs it too
                self.known[1] = True  # for measuring alone: not counted
            value = self.value()
            self.values.append(value)
            self.residuals.append(kkt(self.X, *self.pair) if measured else np.nan)
            self.passed.append(self.passes)
            if self.beta is not None:
                self._plan(value)
            for side in (0, 1):
                self._half_step(side, self.walls[iteration] if len(self.walls) else None)
        return self

    def _plan(self, value):
        """The weight of the coming extrapolation (Ang and Gillis 2019), and a restart if the value has grown."""
        if self.plain is None:
            self.plain = [F.copy() for F in self.pair]
        elif value > self.judged:
            self.pair, self.known = [F.copy() for F in self.plain], [False, False]
            self.cap, self.beta = self.last_beta, self.beta / self.shrink
            self.restarts += 1
        else:
            self.last_beta = self.beta
            self.beta = min(self.cap, self.growth * self.beta)
            self.cap = min(1.0, self.cap_growth * self.cap)
        self.judged = value

    def _half_step(self, side, wall):
        self.multiply(side)
        self.known[1 - side] = False
        C, X = self.pair[1 - side], self.X.T if side else self.X
        G = C.T @ C
        hardness = np.inf if wall is None else wall * np.diag(G).mean()
        F = sweeps_in_blocks(self.pair[side], G, X @ C, hardness, self.sweeps[side], self.progress, self.block)
        if self.clips and wall is not None and wall == self.walls[-1]:
            F = np.maximum(F, 0)
        if self.beta is not None:
            F, self.plain[side] = np.maximum(0, F + self.beta * (F - self.plain[side])), F
        self.pair[side] = F


def half_step(X, U, V, shift, wall, sweeps, skip, old, beta):
    """U after sweeps for U VᵀV - (X V - shift), extrapolated if there is an `old`; Xᵀ U, Uᵀ U, and the new `old`."""
    U = new = sweep(U, V.T @ V, X @ V - shift, wall, sweeps, skip)
    if old is not None:
        U = np.maximum(0, new + beta * (new - old))
    return U, X.T @ U, U.T @ U, new


def divergence(x, m, beta):
    """d(x | m) of every entry, from its definition."""
    x, m = np.broadcast_arrays(np.asarray(x, dtype=float), np.asarray(m, dtype=float))
    with np.errstate(divide="ignore", invalid="ignore"):
        if beta == 1.0:
            return np.where(x > 0, x * (np.log(x) - np.log(m)), 0.0) - x + m
        if beta == 0.0:
            return x / m - (np.log(x) - np.log(m)) - 1.0
        terms = x**beta + (beta - 1.0) * m**beta - beta * np.where(x > 0, x * m ** (beta - 1.0), 0.0)
        return terms / (beta * (beta - 1.0))


class DivergenceRow:
    """The problem of one row: min over u >= 0 of sum_j w_j d(x_j | c_j . u) + l1 sum(u) + l2/2 ||u||²."""

    def __init__(self, x, w, C, beta, penalty=(0.0, 0.0), largest=1.0, single=False):
        self.x, self.w, self.C, self.beta, (self.l1, self.l2) = x, w, C, beta, penalty
        self.single = single
        floor = (1e-25 if beta == 1.0 else 1e-12) if single else 1e-30
        self.least = (1e-6 if single else 1e-10) * x + floor * largest

    def model(self, u):
        return np.maximum(self.C @ u, self.least)

    def is_held_off_zero(self, u):
        """Whether a model is too small beside its entry to be used as it is: steps then follow another slope."""
        return bool(((self.C @ u < self.least) & (self.w * self.x > 0)).any())

    def value(self, u):
        return float((self.w * divergence(self.x, self.model(u), self.beta))[self.w > 0].sum())

    def objective(self, u):
        return self.value(u) + self.l1 * u.sum() + 0.5 * self.l2 * (u @ u)

    def parts(self, u):
        """Up and down: the gradient is down - up."""
        m = self.model(u)
        return self.C.T @ (self.w * self.x * m ** (self.beta - 2)), self.C.T @ (self.w * m ** (self.beta - 1))

    def gradient(self, u):
        up, down = self.parts(u)
        return down - up + self.l1 + self.l2 * u

    def violation(self, u):
        """How far the KKT conditions are from holding, each relative to the two parts of its gradient."""
        up, down = self.parts(u)
        size = up + down + self.l1 + self.l2 * u + 1e-300
        D = (down - up + self.l1 + self.l2 * u) / size
        return max(np.where(u > 1e-9 * u.max(initial=0.0), np.abs(D), np.maximum(-D, 0.0)).max(initial=0.0), 0.0)

    def multiplied(self, u):
        up, down = self.parts(u)
        below = down + self.l1 + self.l2 * u
        exponent = 1.0 / (2.0 - self.beta) if self.beta < 1 else 1.0
        factor = np.divide(up, below, out=np.ones_like(up), where=below > 0)
        new = u * factor**exponent
        seen = np.finfo(np.float32 if self.single else np.float64).eps * (below * u).sum()
        return np.where((factor < 1) & (below * new < seen) & (below > 0), 0.0, new)

    def begun(self, u):
        """A multiplicative step, unless beta = 1 and the sums of the row and of its model nearly agree."""
        own, model = self.w @ self.x, self.w @ self.model(u)
        off = abs(own - model) / (own if own > 0 else 1.0)
        return u if self.beta == 1.0 and off <= 0.2 else self.multiplied(u)

    def derivatives(self, m):
        """w d' and w d'', for beta < 1 that of the convex part."""
        b, x = self.beta, self.x
        rising = (b - 1.0) * m ** (b - 2.0) if b > 1 else 0.0 * m
        return self.w * (m ** (b - 1) - x * m ** (b - 2)), self.w * (rising + (2.0 - b) * x * m ** (b - 3))

    def slope(self, u, p, share):
        """Slope at u + share p along p, of the loss with the tangent (at u) of its concave part."""
        m, after = self.model(u), self.model(u + p)
        there = after if share == 1.0 else np.maximum(m + share * (after - m), self.least)
        rising = (there if self.beta > 1 else m) ** (self.beta - 1)
        slope = self.w * (rising - self.x * there ** (self.beta - 2))
        return slope @ (after - m) + p.sum() * self.l1 + self.l2 * (p @ (u + share * p))

    def rise(self, u, p):
        """The change from u to u + p, of the loss with the tangent (at u) of its concave part; a bound for beta = 1."""
        b, x, m, after = self.beta, self.x, self.model(u), self.model(u + p)
        if b == 1.0:
            z = after / m - 1.0
            with np.errstate(divide="ignore", invalid="ignore"):
                log = np.where(z > 0, 2.0 * z / (2.0 + z), z * (2.0 + z) / (2.0 + 2.0 * z))
                change = after - m - np.where(x > 0, x * log, 0.0)
        else:
            rising = (after**b - m**b) / b if b > 1 else m ** (b - 1) * (after - m)
            change = rising - x * (after ** (b - 1) - m ** (b - 1)) / (b - 1)
        return self.w @ change + p.sum() * self.l1 + 0.5 * self.l2 * (p @ (2.0 * u + p))

    def model_line(self, u):
        """The second-order model without the penalty: the lower triangle of G, and both parts of the gradient."""
        G = (self.C.T * self.derivatives(self.model(u))[1]) @ self.C
        return np.concatenate([G[np.tril_indices(len(u))], *self.parts(u)])

    def newton(self, u, sweeps):
        """One Newton step, shortened unless it goes down: until the slope at its end is not positive."""
        m = self.model(u)
        slope, curvature = self.derivatives(m)
        G = (self.C.T * curvature) @ self.C + self.l2 * np.eye(len(u))
        p = sweep(u[None], G, (self.C.T @ (curvature * m - slope) - self.l1)[None], sweeps=sweeps)[0] - u
        if self.rise(u, p) <= 0.0:
            return u + p
        share, start = 1.0, self.slope(u, p, 0.0)
        for _ in range(13):
            end = self.slope(u, p, share)
            if end <= 0.0:
                return u + share * p
            if start >= 0.0:
                break
            share, start = max(share * start / (start - end), 0.1 * share), 0.5 * start
        return u

    def entry_sweep(self, u, damped):
        """Newton steps of single entries, one after another; the model follows each of them, and `lowest` tells how
        far down: what is left of it where nearly all is subtracted is rounding."""
        u, m, some = u.copy(), self.model(u), self.w * self.x > 0
        self.lowest = 1.0
        least = (self.w * self.x**self.beta)[some].min(initial=np.inf)
        for k in range(len(u)):
            c = self.C[:, k]
            slope, curvature = self.derivatives(m)
            g, h = c @ slope + self.l1 + self.l2 * u[k], c**2 @ curvature + self.l2
            new = max(u[k] - g / h, 0.0) if h > 0 else (0.0 if g > 0 else u[k])
            reach = np.sqrt(h / least) * abs(new - u[k])
            step = (new - u[k]) / (1.0 + reach if damped and g > 0 and reach > 0.683802 else 1.0)
            before, u[k], m = m, u[k] + step, np.maximum(m + step * c, self.least)
            self.lowest = min(self.lowest, (m / before).min(initial=1.0))
        return u


def swept_model(line, u, l1, l2, sweeps):
    """u after sweeps on the model of a line, penalty included."""
    r = len(u)
    G = np.zeros((r, r))
    G[np.tril_indices(r)] = line[: r * (r + 1) // 2]
    G += np.tril(G, -1).T
    up, down = line[-2 * r :].reshape(2, r)
    return sweep(u[None], G + l2 * np.eye(r), (G @ u + up - down - l1)[None], sweeps=sweeps)[0]


def divergence_kkt(X, U, V, beta, W=None):
    """The definition for beta divergences: projected gradient at balanced factors, times the root of a size of X over
    its mass."""
    W = np.ones_like(X) if W is None else W
    size = (W * X).sum() / np.sqrt(X.size)
    mass = (W * X**beta)[(X > 0) | (beta == 0.0)].sum()
    U, V = balanced(U, V, size)
    M = np.maximum(U @ V.T, 1e-10 * X + 1e-30 * X.max())
    D = W * (M ** (beta - 1) - X * M ** (beta - 2))
    squares = [np.where(F > 0, G, np.minimum(G, 0)) ** 2 for F, G in ((U, D @ V), (V, D.T @ U))]
    return np.sqrt(sum(of_one.sum() for of_one in squares) * size) / mass
