"""What an installed wheel has to do, whatever the machine: `python -I tests/smoke.py`, from anywhere.

Fits of dense, sparse, incomplete and single-precision data with every instruction set, and `python -m enmf.kernels`. It
needs nothing but the package.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import enmf
from enmf import kernels


def fits():
    rng = np.random.default_rng(0)
    X = rng.random((60, 4)) @ rng.random((4, 40)) + 0.01 * rng.random((60, 40))
    holes = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    for given in (X, sp.csr_array(np.where(X > 1, X, 0)), X.astype(np.float32)):
        result = enmf.factorize(given, 4, random_state=0, tol=1e-4)
        assert result.U.dtype == given.dtype
        assert min(result.U.min(), result.V.min()) >= 0
        assert result.status in ("converged", "global_optimum"), result.status
    result = enmf.complete(holes, 4, random_state=0)
    assert np.abs(result.U @ result.V.T - X).max() < 0.05 * X.max()


def main():
    home = Path(enmf.__file__).parent
    assert home.parent.name == "site-packages", f"{home} is not an installed package"
    assert {"py.typed", "report/page.js", "report/style.css"} <= {
        path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()
    }
    for level in kernels.available():
        print(f"fits with {level}", flush=True)
        environment = {**os.environ, "ENMF_KERNELS": level}
        subprocess.run([sys.executable, "-I", __file__, "fits"], env=environment, check=True)
    subprocess.run([sys.executable, "-I", "-m", "enmf.kernels"], check=True)


if __name__ == "__main__":
    fits() if sys.argv[1:] == ["fits"] else main()
