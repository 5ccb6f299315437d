// What the module consists of: every file adds its kernels to a submodule.
#pragma once

#include "python.h"

namespace enmf {

void bind_burst(nb::module_&);
void bind_onepass(nb::module_&);
void bind_admm(nb::module_&);
void bind_dense(nb::module_&);
void bind_divergence(nb::module_&);
void bind_gradient(nb::module_&);
void bind_rotation(nb::module_&);
void bind_rowstep(nb::module_&);
void bind_sparse(nb::module_&);
void bind_masked(nb::module_&);
void bind_nnls(nb::module_&);
void bind_pivoting(nb::module_&);
void bind_sweep(nb::module_&);

}  // namespace enmf
