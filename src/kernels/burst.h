// A burst: several iterations of HALS or one of its accelerations on a small X in one call, with the error after each of
// them and, every few, the KKT residual. On data whose step takes less than a millisecond, most of the time would
// otherwise pass between the kernels.
//
// A burst ends by itself before anything that needs a decision: it leaves the factors of an iteration that it has not
// judged. All threads of a burst share the blocks of rows and columns of a half-step. Sums are kept by block, so the
// result does not depend on the threads.
#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <thread>
#include <vector>

#include "sparse.h"
#include "sweep.h"

namespace enmf {
inline namespace ENMF_MODULE {  // these are types for Python, and every instruction set has its own

// One thread leads: it opens a round of blocks, takes part in it, and waits for those who have joined. The others join
// when they come to it; one that is late, because another library or process has its core, holds nobody up. One that is
// stopped in the middle of a block does: after such a wait the leader goes on alone for a while.
class Crew {
    using Clock = std::chrono::steady_clock;

  public:
    // Before the threads begin.
    void expect(int threads) {
        threads_ = threads;
        door_.store(door_.load() & ~OPEN);
        over_.store(false);
        shares_ = std::vector<Share>(static_cast<std::size_t>(threads));
    }

    // By the leader, number 0: body(thread, block) for all blocks, on all threads.
    template <class Body>
    void round(Index blocks, const Body& body) {
        if (threads_ == 1 || rounds_alone_ > 0) {
            rounds_alone_ -= rounds_alone_ > 0;
            for (Index b = 0; b < blocks; ++b) body(0, b);
            return;
        }
        for (Share& share : shares_) share.begun.store(0, std::memory_order_relaxed);
        blocks_ = blocks;
        body_ = &body;
        call_ = [](const void* what, int thread, Index block) { (*static_cast<const Body*>(what))(thread, block); };
        door_.store((door_.load(std::memory_order_relaxed) + ROUND) | OPEN, std::memory_order_release);
        take_part(0);
        door_.fetch_and(~OPEN, std::memory_order_acq_rel);
        wait_for_others();
    }

    // By the others, until the leader says that it is over, or is not heard of: it may have been interrupted.
    void join(int thread) {
        std::uint64_t last = 0;
        auto heard = Clock::now();
        for (int spins = 0; !over_.load(std::memory_order_acquire); ++spins) {
            std::uint64_t seen = door_.load(std::memory_order_acquire);
            const bool open = (seen & OPEN) && seen / ROUND != last;
            if (open && door_.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) {
                take_part(thread);
                last = seen / ROUND;
                door_.fetch_sub(1, std::memory_order_release);
                spins = 0;
                heard = Clock::now();
            } else if (spins > PATIENCE) {
                if (Clock::now() - heard > SILENCE) return;
                std::this_thread::yield();  // another process may have the core
            }
        }
    }

    void end() { over_.store(true, std::memory_order_release); }

    int threads() const { return threads_; }

  private:
    struct alignas(64) Share {
        std::atomic<Index> begun{0};  // blocks that are done or begun
    };

    // Every thread has its share of the blocks, always the same, as they are in its cache; then it takes what others
    // have left of theirs.
    void take_part(int thread) {
        for (int i = 0; i < threads_; ++i) {
            const int of = (thread + i) % threads_;
            const Index first = blocks_ * of / threads_, end = blocks_ * (of + 1) / threads_;
            std::atomic<Index>& begun = shares_[static_cast<std::size_t>(of)].begun;
            for (Index b = first + begun.fetch_add(1); b < end; b = first + begun.fetch_add(1)) call_(body_, thread, b);
        }
    }

    void wait_for_others() {
        const auto absent = [&] { return (door_.load(std::memory_order_acquire) & JOINED) == 0; };
        for (int spins = 0; spins < PATIENCE; ++spins)
            if (absent()) return;
        const auto began = Clock::now();
        while (!absent()) std::this_thread::yield();
        if (Clock::now() - began > LONG_WAIT) rounds_alone_ = ROUNDS_ALONE;
    }

    static constexpr int PATIENCE = 4000;
    static constexpr std::chrono::microseconds LONG_WAIT{500};  // many times as long as a block
    static constexpr std::chrono::milliseconds SILENCE{100};    // longer than a burst
    static constexpr Index ROUNDS_ALONE = 200;                  // some ten milliseconds, as long as threads spin
    // The door counts rounds; its last bits say whether one may still join, and how many have.
    static constexpr std::uint64_t ROUND = 1 << 16, OPEN = 1 << 15, JOINED = OPEN - 1;

    int threads_ = 1;
    Index rounds_alone_ = 0;  // that are still to come
    Index blocks_ = 0;
    const void* body_ = nullptr;
    void (*call_)(const void*, int, Index) = nullptr;
    std::atomic<std::uint64_t> door_{0};
    std::atomic<bool> over_{false};
    std::vector<Share> shares_;
};

// X seen from one side: the product of its rows first .. first + width with the other factor C (r x m), into out (r x n).
template <class T>
struct Side {
    virtual ~Side() = default;
    virtual void multiply(Index first, Index width, const Rows<const T>& C, const Rows<T>& out) const = 0;
    virtual void changed(Index, Index, const Rows<const T>&) {}  // these columns of C are new
};

// Dense: X is given by its columns (m x n), so that lines run along its rows.
template <class T>
class DenseSide : public Side<T> {
  public:
    explicit DenseSide(const Rows<const T>& Xt) : Xt_(Xt) {}

    void multiply(Index first, Index width, const Rows<const T>& C, const Rows<T>& out) const override {
        const Index vectors = ceil_div(width, LANES<T>);
        for (Index v = 0; v < vectors; v += STRIP)
            with_constant<STRIP>(vectors - v, [&](auto V) {
                const Index c = v * LANES<T>, last = std::min(LANES<T>, width - c - (V() - 1) * LANES<T>);
                const Part<T> rest(last);
                for (Index k = 0; k < C.count; k += PANEL)
                    with_constant<PANEL>(C.count - k, [&](auto P) {
                        auto tile = Tile<T, P(), V()>::zero();
                        const T* lines = Xt_[0] + first + c;
                        T* to = out[k] + first + c;
                        if (last == LANES<T>) {
                            tile.add(C[k], C.stride, 1, lines, Xt_.stride, Xt_.count);
                            tile.write(to, out.stride);
                        } else {
                            tile.template add<false, true>(C[k], C.stride, 1, lines, Xt_.stride, Xt_.count, rest);
                            tile.write_part(to, out.stride, rest);
                        }
                    });
            });
    }

  private:
    const Rows<const T> Xt_;
};

// Sparse: entries by rows, in blocks of columns; the other factor is kept with its components side by side.
template <class T, class I>
class SparseSide : public Side<T> {
  public:
    SparseSide(const Starts& starts, Index blocks, const Entries<T, I>& entries, Index columns, Index r)
        : starts_(starts), blocks_(blocks), entries_(entries), columns_(columns), C_(columns * r) {}

    void changed(Index first, Index width, const Rows<const T>& C) override {
        constexpr Index FEW_ROWS = 8;
        for (Index top = first; top < first + width; top += FEW_ROWS)
            for (Index k = 0; k < C.count; ++k)
                for (Index j = top; j < std::min(top + FEW_ROWS, first + width); ++j) C_[j * C.count + k] = C[k][j];
    }

    void multiply(Index first, Index width, const Rows<const T>& C, const Rows<T>& out) const override {
        const Rows<const T> side_by_side{C_.get(), columns_, C.count, C.count};
        times<T, T, I>(first, first + width, starts_, blocks_, entries_, side_by_side, out);
    }

  private:
    const Starts starts_;
    const Index blocks_;
    const Entries<T, I> entries_;
    const Index columns_;
    Space<T> C_;
};

// One factor, and what is known about it.
template <class T>
struct BurstHalf {
    Rows<T> F{};                // r x n
    Rows<T> product{};          // X C of the other factor C
    Rows<T> gram{};             // FᵀF
    Rows<T> plain{}, best{};    // before extrapolation; the best one so far
    std::unique_ptr<Side<T>> X;
    Index sweeps = 1;           // largest number
    bool knows_product = false;

    Index blocks() const { return ceil_div(F.width, BLOCK_LANES<T>); }
};

// When going on promises little: `left` of enmf/run/prospect.py, with its constants.
struct Outlook {
    bool judges = false;
    std::vector<double> lowest;  // the smallest error after each of the iterations so far
    Index first = 0, per_doubling = 1;
    double slowest = 0.0, fastest = 0.0, comes_back = 0.0;
    double settled = 0.0;  // share of the error that is little
    double rival = 0.0;    // the error to beat

    bool due_at(Index iteration) const {
        if (!judges || iteration < first) return false;
        if (iteration == first) return true;
        const Index before = iteration - 1;
        const auto doubling = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(before)));
        const Index step = std::max(doubling / per_doubling, Index{2});
        return (before / step + 1) * step == iteration;
    }

    // Whether the run may end with this error.
    bool ends_with(double error) const {
        const std::size_t k = lowest.size();
        const double now = std::min(lowest.back(), error), half = lowest[k / 2], quarter = lowest[k / 4];
        if (now <= 0.0) return true;
        const double last = half - now, before = quarter - half;
        const double q = before > 0.0 ? std::min(std::max(last / before, slowest), fastest) : fastest;
        const double left = std::max(last, comes_back * before) / now * q / (1.0 - q);
        return !(left > settled && error * (1.0 - std::min(left, 1.0)) <= rival);
    }

    void add(double error) {
        if (judges) lowest.push_back(lowest.empty() ? error : std::min(lowest.back(), error));
    }
};

// What a burst is told, and what it leaves for the next one.
struct BurstState {
    // The method
    double progress = 0.0;  // sweeps end when one changes a block by less than this share of the first
    bool extrapolates = false;
    double growth = 1.0, cap_growth = 1.0, shrink = 1.0;
    double beta = 0.0, last_beta = 0.0, cap = 1.0;
    double judged = 0.0;        // the value before the last step
    bool begun = false;         // there is a pair before extrapolation
    std::vector<double> walls;  // of the coming iterations, relative to the mean Gram diagonal; none: F >= 0
    bool clips = false;         // with the last wall, factors are clipped at zero
    // X
    double squared_norm = 0.0, size = 0.0;  // ||X||², ||X||
    // The run
    Index iteration = 0, most = 0;  // the coming one, and how many may be done
    double seconds = 0.0;           // that they may take; the first one is done in any case
    Index interval = 0;             // iterations between KKT residuals; 0: none
    bool keeps_all = true;          // any pair may be the best one, else those at powers of two
    double best = 0.0;              // the smallest value so far
    double lowest = 0.0;            // the last value that was progress, and its iteration
    Index lowest_at = 0;
    double precision = 0.0;
    // What calls for a judgement
    double least_value = 0.0;          // digits are lost below it, or it may be the last error
    double tol = 0.0, tol_from = 1.0;  // KKT residual; it shrinks with errors below `tol_from`
    Index patience = 0;                // iterations without progress
    Index evening = 0;                 // every so many iterations: column norms that are far apart
    double apart = 0.0;                // by this factor, squared
    Outlook outlook;                   // a run without a tolerance
    // What happened
    bool due = false;  // it has ended before an iteration that calls for a judgement
    Index passes = 0;
    double measuring = 0.0;  // seconds
    std::vector<double> values, residuals, times;
    std::vector<Index> passed;
};

// squares[k] = sum of squares of the projected gradient of component k, D = F G - B, over the lanes of a block.
template <class T>
void projected_squares(const Block<T>& F, const Block<T>& B, const Rows<const T>& G, double* squares) {
    const Index r = G.count;
    std::fill_n(squares, r, 0.0);
    each_strip(F, [&](Index s, auto V) {
        constexpr Index lanes = V() * LANES<T>;
        each_panel(r, [&](Index k, auto P) {
            auto descent = Tile<T, P(), V()>::read(B.strip(s) + k * lanes, lanes);  // becomes -D
            descent.template add<true>(G[0] + k, 1, G.stride, F.strip(s), lanes, r);
            for (int p = 0; p < P(); ++p) {
                Vector<T> total{};
                for (int v = 0; v < V(); ++v) {
                    const Vector<T> f = load(F.strip(s) + (k + p) * lanes + v * LANES<T>);
                    const Vector<T> d = f > Vector<T>{} ? descent.at[p][v] : positive<T>(descent.at[p][v]);
                    total += d * d;
                }
                squares[k + p] += static_cast<double>(sum<T>(total));
            }
        });
    });
}

template <class T>
class Burst {
  public:
    BurstHalf<T> halves[2];
    BurstState state;

    // Before the threads begin.
    void prepare(int threads) {
        crew_.expect(threads);
        scratch_.clear();
        for (int thread = 0; thread < threads; ++thread) scratch_.emplace_back(halves[0].F.count);
        for (int side : {0, 1}) {
            const auto blocks = static_cast<std::size_t>(halves[side].blocks());
            const auto r = static_cast<std::size_t>(halves[side].F.count);
            grams_[side].resize(blocks * r * r);
            squares_[side].resize(blocks * r);
            crosses_[side].resize(blocks);
        }
        state.values.clear();
        state.residuals.clear();
        state.times.clear();
        state.passed.clear();
        state.measuring = 0.0;
        began_ = Clock::now();
    }

    // What every thread does: the first one leads.
    void work(int thread) {
        if (thread > 0) {
            crew_.join(thread);
            return;
        }
        for (int side : {0, 1})
            round(side, [&](Scratch&, Index, Index first, Index width) {
                halves[1 - side].X->changed(first, width, as_const(halves[side].F));
            });
        if (!halves[0].knows_product && !halves[1].knows_product) multiply(0);
        measure_cross(halves[1].knows_product ? 1 : 0);  // as after a step: a new burst changes no digit
        while (true) {
            const bool judged = state.outlook.due_at(state.iteration);
            const bool measured = judged || (state.interval > 0 && state.iteration % state.interval == 0);
            if (measured) measure_gradients();
            if (!decide(judged, measured)) break;
            if (restarts_) restore();
            step(0);
            step(1);
        }
        crew_.end();
    }

  private:
    using Clock = std::chrono::steady_clock;

    struct Scratch {
        explicit Scratch(Index r) : work(r), right(r) {}
        Block<T> work, right;
    };

    // body(scratch, block, first, width) for the blocks of one side.
    template <class Body>
    void round(int side, const Body& body, Index lanes = BLOCK_LANES<T>) {
        const Index n = halves[side].F.width;
        crew_.round(ceil_div(n, lanes), [&](int thread, Index b) {
            body(scratch_[static_cast<std::size_t>(thread)], b, b * lanes, std::min(lanes, n - b * lanes));
        });
    }

    void multiply(int side) {
        BurstHalf<T>& half = halves[side];
        const auto body = [&](Scratch&, Index, Index first, Index width) {
            half.X->multiply(first, width, as_const(halves[1 - side].F), half.product);
        };
        round(side, body, STRIP_LANES<T>);
        half.knows_product = true;
        ++state.passes;
    }

    // <X C, F>, where the product is known.
    void measure_cross(int side) {
        const BurstHalf<T>& half = halves[side];
        round(side, [&](Scratch&, Index b, Index first, Index width) { cross(side, b) = inner(half, first, width); });
        add_crosses(side);
    }

    static double inner(const BurstHalf<T>& half, Index first, Index width) {
        double total = 0.0;
        for (Index k = 0; k < half.F.count; ++k)
            total += dot_in_double(half.product[k] + first, half.F[k] + first, width);
        return total;
    }

    double& cross(int side, Index block) { return crosses_[side][static_cast<std::size_t>(block)]; }

    void add_crosses(int side) {
        cross_ = 0.0;
        for (const double part : crosses_[side]) cross_ += part;
    }

    void measure_gradients() {
        if (!halves[0].knows_product) multiply(0);  // the next step needs it too, so it is charged
        const auto began = Clock::now();
        const Index passes = state.passes;
        if (!halves[1].knows_product) multiply(1);
        state.passes = passes;
        for (int side : {0, 1}) {
            const BurstHalf<T>& half = halves[side];
            round(side, [&](Scratch& mine, Index b, Index first, Index width) {
                mine.work.load(as_const(half.F), first, width);
                mine.right.load(as_const(half.product), first, width);
                projected_squares(mine.work, mine.right, as_const(halves[1 - side].gram),
                                  squares_[side].data() + b * half.F.count);
            });
        }
        state.measuring += seconds_since(began);
    }

    static double seconds_since(Clock::time_point then) {
        return std::chrono::duration<double>(Clock::now() - then).count();
    }

    double value() const {
        const Index r = halves[0].F.count;
        double grams = 0.0;
        for (Index k = 0; k < r; ++k) grams += dot_in_double(halves[0].gram[k], halves[1].gram[k], r);
        return 0.5 * (state.squared_norm - 2.0 * cross_ + grams);
    }

    // The scale-free norm of the projected gradient at columns of equal norm, as State.kkt defines it.
    double kkt() const {
        const auto balancing = [&](double own, double other) {
            if (!(other > 0.0)) return 0.0;
            return (own > 0.0 ? own : state.size / other) / other;
        };
        double sum = 0.0;
        const Index r = halves[0].F.count;
        for (Index k = 0; k < r; ++k) {
            const double u = std::sqrt(static_cast<double>(halves[0].gram[k][k]));
            const double v = std::sqrt(static_cast<double>(halves[1].gram[k][k]));
            for (int side : {0, 1}) {
                double squares = 0.0;
                for (Index b = 0; b < halves[side].blocks(); ++b)
                    squares += squares_[side][static_cast<std::size_t>(b * r + k)];
                sum += squares * (side == 0 ? balancing(u, v) : balancing(v, u));
            }
        }
        return std::sqrt(sum) / (state.size * std::sqrt(state.size));
    }

    bool far_apart() const {
        for (Index k = 0; k < halves[0].F.count; ++k) {
            const auto u = static_cast<double>(halves[0].gram[k][k]), v = static_cast<double>(halves[1].gram[k][k]);
            if (!(u <= state.apart * v && v <= state.apart * u)) return true;
        }
        return false;
    }

    // Unless this iteration is one for the caller to judge, it is recorded, and the next step planned.
    bool decide(bool judged, bool measured) {
        const double now = value(), residual = measured ? kkt() : std::numeric_limits<double>::quiet_NaN();
        const double seconds = seconds_since(began_);
        const double error = std::sqrt(2.0 * std::max(now, 0.0));
        const bool falls = now < state.lowest * (1.0 - 8.0 * state.precision);
        const Index quiet = falls ? 0 : state.iteration - state.lowest_at;
        const bool due = !std::isfinite(now) || now <= state.least_value || quiet >= state.patience ||
                         (measured && residual <= state.tol * std::min(1.0, error / state.tol_from)) ||
                         (judged && state.outlook.ends_with(error)) ||
                         (state.evening > 0 && state.iteration % state.evening == 0 && far_apart());
        const std::size_t done = state.values.size();
        state.due = due || (!state.walls.empty() && done == state.walls.size());
        const bool in_time = done == 0 || seconds < state.seconds;  // at least one: else a busy machine gets nowhere
        if (state.due || static_cast<Index>(done) >= state.most || !in_time) return false;
        if (falls) {
            state.lowest = now;
            state.lowest_at = state.iteration;
        }
        state.outlook.add(error);
        state.values.push_back(now);
        state.residuals.push_back(residual);
        state.times.push_back(seconds - state.measuring);
        state.passed.push_back(state.passes);
        keeps_ = now < state.best && (state.keeps_all || (state.iteration & (state.iteration - 1)) == 0);
        if (keeps_) state.best = now;
        begins_ = state.extrapolates && !state.begun;
        restarts_ = state.extrapolates && state.begun && now > state.judged;
        state.begun = state.begun || begins_;
        if (restarts_) {
            state.cap = state.last_beta;
            state.beta /= state.shrink;
        } else if (!begins_) {
            state.last_beta = state.beta;
            state.beta = std::min(state.cap, state.growth * state.beta);
            state.cap = std::min(1.0, state.cap_growth * state.cap);
        }
        state.judged = now;
        return true;
    }

    // Back to the pair before extrapolation.
    void restore() {
        for (int side : {0, 1}) {
            BurstHalf<T>& half = halves[side];
            round(side, [&](Scratch& mine, Index b, Index first, Index width) {
                mine.work.load(as_const(half.plain), first, width);
                mine.work.store(half.F, first);
                halves[1 - side].X->changed(first, width, as_const(half.F));
                add_to_gram(side, b, mine.work);
            });
            finish_gram(side);
            halves[1 - side].knows_product = false;
        }
    }

    void step(int side) {
        BurstHalf<T>&half = halves[side], &other = halves[1 - side];
        const Rows<const T> G = as_const(other.gram);
        const SweepOptions how{wall(G), half.sweeps, state.progress};
        const Space<bool> skip(G.count);  // none
        const Components<T> of(G, how.wall, skip.get());
        const bool clips = state.clips && state.values.size() == state.walls.size();
        if (!half.knows_product && half.blocks() < 2 * crew_.threads()) multiply(side);  // there is more to share out
        const bool multiplies = !half.knows_product;
        round(side, [&](Scratch& mine, Index b, Index first, Index width) {
            if (multiplies) half.X->multiply(first, width, as_const(other.F), half.product);
            mine.work.load(as_const(half.F), first, width);
            if (keeps_) mine.work.store(half.best, first);
            if (begins_) mine.work.store(half.plain, first);
            mine.right.load(as_const(half.product), first, width);
            sweep_block(mine.work, mine.right, of, how);
            if (state.extrapolates || clips)
                mine.work.each_piece([&](Index k, Index lane, T* here, Index count, Index) {
                    if (clips)
                        std::transform(here, here + count, here, [](T f) { return f > T(0) ? f : T(0); });
                    else
                        extrapolate_line(here, half.plain[k] + first + lane, count, static_cast<T>(state.beta));
                });
            mine.work.store(half.F, first);
            other.X->changed(first, width, as_const(half.F));
            add_to_gram(side, b, mine.work);
            if (side == 1) cross(side, b) = inner(half, first, width);
        });
        finish_gram(side);
        half.knows_product = true;
        other.knows_product = false;
        state.passes += multiplies;
        if (side == 0) return;
        add_crosses(side);
        ++state.iteration;
    }

    double wall(const Rows<const T>& G) const {
        if (state.walls.empty()) return std::numeric_limits<double>::infinity();
        double sum = 0.0;
        for (Index k = 0; k < G.count; ++k) sum += static_cast<double>(G[k][k]);
        return state.walls[state.values.size() - 1] * sum / static_cast<double>(G.count);
    }

    void add_to_gram(int side, Index block, const Block<T>& work) {
        const Index r = work.components();
        const Rows<T> part{grams_[side].data() + block * r * r, r, r, r};
        std::fill_n(part.data, r * r, T(0));
        add_inner<T, true>(work, work, part);
    }

    void finish_gram(int side) {
        const BurstHalf<T>& half = halves[side];
        const Index r = half.F.count;
        for (Index i = 0; i < r; ++i) {
            T* line = half.gram[i];
            std::fill_n(line, i + 1, T(0));
            for (Index b = 0; b < half.blocks(); ++b) {
                const T* part = grams_[side].data() + (b * r + i) * r;
                for (Index k = 0; k <= i; ++k) line[k] += part[k];
            }
            for (Index k = 0; k < i; ++k) half.gram[k][i] = line[k];
        }
    }

    Crew crew_;
    std::deque<Scratch> scratch_;  // one for each thread
    Clock::time_point began_;
    bool keeps_ = false, begins_ = false, restarts_ = false;
    double cross_ = 0.0;
    std::vector<T> grams_[2];
    std::vector<double> crosses_[2], squares_[2];
};

}  // namespace ENMF_MODULE
}  // namespace enmf
