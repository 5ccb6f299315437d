// The extension module, compiled once for every instruction set: _baseline, _avx2, _avx512.
#include "module.h"

#include "lanes.h"

#if defined(_MSC_VER) && (defined(__x86_64__) || defined(_M_X64))
#include <intrin.h>
#endif

namespace enmf {

// The best instruction set of this machine: 0 baseline, 1 AVX2 with FMA, 2 AVX-512.
static int best_level() {
#if defined(_MSC_VER) && (defined(__x86_64__) || defined(_M_X64))
    int leaf[4];
    __cpuidex(leaf, 1, 0);
    const bool saves = (leaf[2] >> 27) & 1, fma = (leaf[2] >> 12) & 1;  // OSXSAVE: the system keeps wide registers
    if (!saves || !fma) return 0;
    const unsigned long long kept = _xgetbv(0);
    __cpuidex(leaf, 7, 0);
    if ((kept & 0x6) != 0x6 || !((leaf[1] >> 5) & 1)) return 0;
    const int needed = (1 << 16) | (1 << 17) | (1 << 28) | (1 << 30);  // F, DQ, CD, BW
    const bool vl = static_cast<unsigned>(leaf[1]) >> 31;
    return (kept & 0xe6) == 0xe6 && (leaf[1] & needed) == needed && vl ? 2 : 1;
#elif defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) return 0;
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl");
    return wide ? 2 : 1;
#else
    return 0;
#endif
}

}  // namespace enmf

#if defined(__clang__)
#define ENMF_COMPILER "Clang " __clang_version__
#elif defined(__GNUC__)
#define ENMF_COMPILER "GCC " __VERSION__
#else
#define ENMF_COMPILER "an unknown compiler"
#endif

NB_MODULE(ENMF_MODULE, m) {
    using namespace enmf;
    m.attr("COMPILER") = ENMF_COMPILER;
    m.attr("VECTOR_BYTES") = VECTOR_BYTES;
    m.attr("BLOCK") = BLOCK;
    m.attr("LANE_BYTES") = LANE_BYTES;
    m.attr("RANGE") = RANGE;
    m.def("best_level", &best_level);
    const auto add = [&](const char* name, void (*bind)(nb::module_&)) {
        nb::module_ part = m.def_submodule(name);
        bind(part);
    };
    add("burst", bind_burst);
    add("onepass", bind_onepass);
    add("admm", bind_admm);
    add("dense", bind_dense);
    add("divergence", bind_divergence);
    add("gradient", bind_gradient);
    add("rotation", bind_rotation);
    add("rowstep", bind_rowstep);
    add("sparse", bind_sparse);
    add("masked", bind_masked);
    add("nnls", bind_nnls);
    add("pivoting", bind_pivoting);
    add("sweep", bind_sweep);
}
