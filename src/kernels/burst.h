// A burst: several iterations of HALS or one of its accelerations on a small X in one call, with the error after each of
// them and, every few, the KKT residual. On data whose step takes less than a millisecond, most of the time would
// otherwise pass between the kernels.
//
// A burst ends by itself before anything that needs a decision: it leaves the factors of the last iteration it has not
// judged. All threads of a burst work through the same blocks of rows and columns, each taking the next one that is
// free, and wait for each other after every half-step; sums are kept by block, so the result does not depend on them.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gradient.h"
#include "sparse.h"
#include "sweep.h"

namespace enmf {

// Threads wait here for each other; the last one to arrive opens it.
class Gate {
  public:
    void expect(int threads) {
        threads_ = threads;
        waiting_ = 0;
    }

    void pass() {
        if (threads_ == 1) return;
        const int turn = turn_.load(std::memory_order_acquire);
        if (waiting_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
            waiting_.store(0, std::memory_order_relaxed);
            turn_.store(turn + 1, std::memory_order_release);
            return;
        }
        for (int spins = 0; turn_.load(std::memory_order_acquire) == turn; ++spins)
            if (spins > PATIENCE) std::this_thread::yield();  // another process may have the core
    }

  private:
    static constexpr int PATIENCE = 4000;
    int threads_ = 1;
    std::atomic<int> waiting_{0}, turn_{0};
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
                for (Index k = 0; k < C.count; k += PANEL)
                    with_constant<PANEL>(C.count - k, [&](auto P) {
                        auto tile = Tile<T, P(), V()>::zero();
                        const T* lines = Xt_[0] + first + c;
                        T* to = out[k] + first + c;
                        if (last == LANES<T>) {
                            tile.add(C[k], C.stride, 1, lines, Xt_.stride, Xt_.count);
                            tile.write(to, out.stride);
                        } else {
                            tile.template add<false, true>(C[k], C.stride, 1, lines, Xt_.stride, Xt_.count, last);
                            tile.write_part(to, out.stride, last);
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
        for (Index k = 0; k < C.count; ++k)
            for (Index j = first; j < first + width; ++j) C_[j * C.count + k] = C[k][j];
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
    Rows<T> F;                  // r x n
    Rows<T> product;            // X C of the other factor C
    Rows<T> gram;               // FᵀF
    Rows<T> plain, best;        // before extrapolation; the best one so far
    std::unique_ptr<Side<T>> X;
    Index sweeps = 1;           // largest number
    bool knows_product = false;

    Index blocks() const { return ceil_div(F.width, BLOCK_LANES<T>); }
};

// What a burst is told, and what it leaves for the next one.
struct BurstState {
    // the method
    double progress = 0.0;
    bool extrapolates = false;
    double growth = 1.0, cap_growth = 1.0, shrink = 1.0;
    double beta = 0.0, last_beta = 0.0, cap = 1.0, judged = 0.0;  // `judged`: the objective before the last step
    bool begun = false;         // there is a plain pair
    std::vector<double> walls;  // soft walls of the coming iterations, relative to the mean Gram diagonal
    bool clips = false;         // after the last of them U is clipped before V is swept
    // X
    double squared_norm = 0.0;
    double size = 0.0;          // ||X||
    double extra = 0.0;
    // the run
    Index iteration = 0, most = 0;  // the next one, and how many may be done
    double seconds = 0.0;           // that a burst may take
    Index interval = 0;             // iterations between KKT residuals; 0: none
    Index evening = 8;              // iterations between looks at the column norms
    bool keeps_all = false;         // every pair may be the best one, else those at powers of two
    double best = 0.0;              // the smallest value so far
    double lowest = 0.0, lowest_at = 0.0, patience = 0.0, precision = 0.0;  // progress, as the stopping rule sees it
    // where decisions are due
    double least_value = 0.0;       // below it: digits are lost, or the error may be the last one
    double tol = 0.0, tol_from = 0.0;  // KKT residual; errors below tol_from lower it
    double apart = 1e12;
    // what it cost
    Index passes = 0;
    double measuring = 0.0;
    std::vector<double> values, residuals, times;
    std::vector<Index> passed;
};

template <class T>
class Burst {
  public:
    BurstHalf<T> halves[2];
    BurstState state;

    void prepare(int threads) {
        gate_.expect(threads);
        threads_ = threads;
        for (int side : {0, 1}) {
            const Index blocks = halves[side].blocks(), r = halves[side].F.count;
            if (grams_[side].size() < static_cast<std::size_t>(blocks * r * r)) {
                grams_[side].resize(static_cast<std::size_t>(blocks * r * r));
                crosses_[side].resize(static_cast<std::size_t>(blocks));
                squares_[side].resize(static_cast<std::size_t>(ceil_div(halves[side].F.width, BLOCK) * (r + EXTRAS)));
            }
        }
        state.values.clear();
        state.residuals.clear();
        state.times.clear();
        state.passed.clear();
        state.measuring = 0.0;
        began_ = Clock::now();
        going_ = true;
    }

    // What every thread does.
    void work(int thread) {
        Scratch mine(halves[0].F.count);
        both([&](int side, Index first, Index width) {
            halves[1 - side].X->changed(first, width, as_const(halves[side].F));
        });
        if (!halves[1].knows_product && !halves[0].knows_product) multiply(0);
        measure_cross(thread);
        while (true) {
            const bool measured = state.interval > 0 && state.iteration % state.interval == 0;
            if (measured) measure_gradients(thread);
            if (thread == 0) decide(measured);
            gate_.pass();
            if (!going_) return;
            if (restarts_) restore(thread, mine);
            step(0, mine);
            if (thread == 0) finish_gram(0);
            gate_.pass();
            step(1, mine);
            if (thread == 0) {
                finish_gram(1);
                cross_ = total(crosses_[1], halves[1].blocks());
                ++state.iteration;
            }
            gate_.pass();
        }
    }

  private:
    using Clock = std::chrono::steady_clock;

    struct Scratch {
        explicit Scratch(Index r) : work(r), right(r), skip(r) {}
        Block<T> work, right;
        Space<bool> skip;  // none
    };

    // The blocks of one side, each taken by the thread that comes first; returns when all are done.
    template <class Body>
    void each_block(int side, Body&& body) {
        const Index count = halves[side].blocks(), n = halves[side].F.width;
        for (Index b = next_.fetch_add(1); b < count; b = next_.fetch_add(1))
            body(b, b * BLOCK_LANES<T>, std::min(BLOCK_LANES<T>, n - b * BLOCK_LANES<T>));
        gate_.pass();
        next_.store(0);  // by all of them, before anyone can begin the next round
        gate_.pass();
    }

    template <class Body>
    void both(Body&& body) {
        for (int side : {0, 1})
            each_block(side, [&](Index, Index first, Index width) { body(side, first, width); });
    }

    void multiply(int side) {
        BurstHalf<T>& half = halves[side];
        each_block(side, [&](Index, Index first, Index width) {
            half.X->multiply(first, width, as_const(halves[1 - side].F), half.product);
        });
        // every thread writes the same
        half.knows_product = true;
    }

    static double inner(const Rows<T>& A, const Rows<T>& B, Index first, Index width) {
        double total = 0.0;
        for (Index k = 0; k < A.count; ++k) total += dot_in_double(A[k] + first, B[k] + first, width);
        return total;
    }

    static double total(const std::vector<double>& parts, Index count) {
        double sum = 0.0;
        for (Index b = 0; b < count; ++b) sum += parts[static_cast<std::size_t>(b)];
        return sum;
    }

    // <X C, F> of the side whose product is known.
    void measure_cross(int thread) {
        const int side = halves[1].knows_product && !halves[0].knows_product ? 1 : 0;
        each_block(side, [&](Index b, Index first, Index width) {
            crosses_[side][static_cast<std::size_t>(b)] = inner(halves[side].product, halves[side].F, first, width);
        });
        if (thread == 0) cross_ = total(crosses_[side], halves[side].blocks());
    }

    double value() const {
        double grams = 0.0;
        for (Index k = 0; k < halves[0].gram.count; ++k)
            grams += dot_in_double(halves[0].gram[k], halves[1].gram[k], halves[0].gram.count);
        return 0.5 * (state.squared_norm - 2.0 * cross_ + grams);
    }

    void measure_gradients(int thread) {
        const auto began = Clock::now();
        for (int side : {0, 1}) {
            const BurstHalf<T>& half = halves[side];
            if (!half.knows_product) {
                multiply(side);
                if (thread == 0) ++state.passes;
            }
            const Rows<double> partial{squares_[side].data(), ceil_div(half.F.width, BLOCK), half.F.count + EXTRAS,
                                       half.F.count + EXTRAS};
            each_block(side, [&](Index, Index first, Index width) {
                measure<T>(first, first + width, as_const(half.F), as_const(half.product),
                           as_const(halves[1 - side].gram), partial);
            });
        }
        if (thread == 0) state.measuring += seconds_since(began);
    }

    static double seconds_since(Clock::time_point then) {
        return std::chrono::duration<double>(Clock::now() - then).count();
    }

    // The scale-free norm of the projected gradient at columns of equal norm, see State.kkt.
    double kkt() const {
        const auto balancing = [&](double own, double other) {
            const double lone = own > 0.0 ? own : other > 0.0 ? state.size / other : 0.0;
            return other > 0.0 ? lone / other : 0.0;
        };
        double sum = 0.0;
        for (Index k = 0; k < halves[0].F.count; ++k) {
            const double norms[2] = {std::sqrt(static_cast<double>(halves[0].gram[k][k])),
                                     std::sqrt(static_cast<double>(halves[1].gram[k][k]))};
            for (int side : {0, 1}) {
                double squares = 0.0;
                const Index width = halves[side].F.count + EXTRAS;
                for (Index b = 0; b < ceil_div(halves[side].F.width, BLOCK); ++b)
                    squares += squares_[side][static_cast<std::size_t>(b * width + k)];
                sum += squares * balancing(norms[side], norms[1 - side]);
            }
        }
        return std::sqrt(sum) / (state.size * std::sqrt(state.size));
    }

    bool far_apart() const {
        for (Index k = 0; k < halves[0].gram.count; ++k) {
            const double u = halves[0].gram[k][k], v = halves[1].gram[k][k];
            if (!(u <= state.apart * v && v <= state.apart * u)) return true;
        }
        return false;
    }

    // By one thread: is this iteration one for the others to judge? If not, it is recorded, and the next step planned.
    void decide(bool measured) {
        const double now = value(), residual = measured ? kkt() : std::numeric_limits<double>::quiet_NaN();
        const double seconds = seconds_since(began_);
        const double error = std::sqrt(2.0 * std::max(now, 0.0));
        const bool little_progress = !(now < state.lowest * (1.0 - 8.0 * state.precision));
        const double quiet = little_progress ? static_cast<double>(state.iteration) - state.lowest_at : 0.0;
        const bool due = !std::isfinite(now) || now <= state.least_value ||
                         (measured && residual <= state.tol * std::min(1.0, error / state.tol_from)) ||
                         quiet >= state.patience || (state.iteration % state.evening == 0 && far_apart());
        going_ = !due && static_cast<Index>(state.values.size()) < state.most && seconds < state.seconds;
        if (!going_) return;
        if (!little_progress) {
            state.lowest = now;
            state.lowest_at = static_cast<double>(state.iteration);
        }
        state.values.push_back(now);
        state.residuals.push_back(residual);
        state.times.push_back(seconds - state.measuring);
        state.passed.push_back(state.passes);
        keeps_ = now < state.best && (state.keeps_all || (state.iteration & (state.iteration - 1)) == 0);
        if (keeps_) state.best = now;
        restarts_ = false;
        if (!state.extrapolates) return;
        if (!state.begun) {
            begins_ = true;
        } else if (now > state.judged) {
            restarts_ = true;
            state.cap = state.last_beta;
            state.beta /= state.shrink;
        } else {
            state.last_beta = state.beta;
            state.beta = std::min(state.cap, state.growth * state.beta);
            state.cap = std::min(1.0, state.cap_growth * state.cap);
        }
        state.judged = now;
    }

    // Back to the pair before extrapolation.
    void restore(int thread, Scratch& mine) {
        for (int side : {0, 1}) {
            BurstHalf<T>& half = halves[side];
            each_block(side, [&](Index b, Index first, Index width) {
                for (Index k = 0; k < half.F.count; ++k) std::copy_n(half.plain[k] + first, width, half.F[k] + first);
                halves[1 - side].X->changed(first, width, as_const(half.F));
                mine.work.load(as_const(half.F), first, width);
                add_to_gram(side, b, mine.work);
            });
            half.knows_product = false;
            if (thread == 0) finish_gram(side);
        }
        gate_.pass();
    }

    void step(int side, Scratch& mine) {
        BurstHalf<T>&half = halves[side], &other = halves[1 - side];
        const bool multiplies = !half.knows_product;
        const Rows<const T> G = as_const(other.gram);
        const SweepOptions how{wall(G), half.sweeps, state.progress};
        const Components<T> of(G, how.wall, mine.skip.get());
        const bool clips = !std::isinf(how.wall) && state.clips && state.values.size() == state.walls.size();
        each_block(side, [&](Index b, Index first, Index width) {
            if (multiplies) half.X->multiply(first, width, as_const(other.F), half.product);
            mine.work.load(as_const(half.F), first, width);
            if (keeps_) mine.work.store(half.best, first);
            if (begins_) mine.work.store(half.plain, first);
            mine.right.load(as_const(half.product), first, width);
            sweep_block(mine.work, mine.right, of, how);
            if (state.extrapolates || clips)
                mine.work.each_piece([&](Index k, Index lane, T* here, Index count, Index) {
                    if (clips)
                        for (Index c = 0; c < count; ++c) here[c] = here[c] > T(0) ? here[c] : T(0);
                    else
                        extrapolate_line(here, half.plain[k] + first + lane, count, static_cast<T>(state.beta));
                });
            mine.work.store(half.F, first);
            other.X->changed(first, width, as_const(half.F));
            add_to_gram(side, b, mine.work);
            if (side == 1)
                crosses_[1][static_cast<std::size_t>(b)] = inner(half.product, half.F, first, width);
        });
        // every thread writes the same
        half.knows_product = true;
        other.knows_product = false;
        if (multiplies && first_of_all()) ++state.passes;
    }

    double wall(const Rows<const T>& G) const {
        if (state.walls.empty()) return std::numeric_limits<double>::infinity();
        double mean = 0.0;
        for (Index k = 0; k < G.count; ++k) mean += static_cast<double>(G[k][k]) / static_cast<double>(G.count);
        return state.walls[state.values.size() - 1] * mean;
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
        for (Index i = 0; i < r; ++i)
            for (Index k = 0; k <= i; ++k) {
                T sum = T(0);
                for (Index b = 0; b < half.blocks(); ++b) sum += grams_[side][static_cast<std::size_t>((b * r + i) * r + k)];
                half.gram[i][k] = half.gram[k][i] = sum;
            }
    }

    Gate gate_;
    std::atomic<Index> next_{0};
    int threads_ = 1;
    Clock::time_point began_;
    bool going_ = true, keeps_ = false, begins_ = false, restarts_ = false;
    double cross_ = 0.0;
    std::vector<T> grams_[2];
    std::vector<double> crosses_[2], squares_[2];
};

}  // namespace enmf
