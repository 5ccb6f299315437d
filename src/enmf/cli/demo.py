"""`enmf demo` and `make demo`: factorize the handwritten digits that come with scikit-learn, and show the result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

from enmf.api.factorize import factorize

SHADES = " .:-=+*#%@"


def main() -> None:
    console = Console()
    X = load_digits().data
    console.print(f"\nHandwritten digits, {X.shape[0]} images of 8 x 8 pixels, at rank 16\n", highlight=False)
    result = factorize(X, 16, random_state=0, verbose=console.is_terminal)

    phases = Table("phase", "seconds", "passes over X", "iterations", title="Phases of the run", title_justify="left")
    for name, phase in result.phases.items():
        phases.add_row(name, f"{phase.seconds:.3f}", str(phase.passes), str(phase.iterations))
    console.print(phases)
    console.print(f"\n{result.plan}\n", highlight=False, soft_wrap=True)
    console.print(str(result.certificate), highlight=False)
    console.print("\nThe 16 components, largest first: parts of digits\n")
    pictures = [_picture(v.reshape(8, 8)) for v in result.V.T]
    for first in range(0, 16, 4):
        for lines in zip(*pictures[first : first + 4]):
            console.print("  " + " | ".join(lines), highlight=False)
        console.print()
    page = result.report("digits.html", X, image_shape=(8, 8), title="Handwritten digits in 16 components")
    console.print(f"Report: {Path(page).resolve()}", soft_wrap=True, highlight=False)


def _picture(image: np.ndarray) -> list[str]:
    """Lines of text: two characters per pixel, darker for larger values."""
    levels = np.minimum((image / (image.max() or 1.0) * len(SHADES)).astype(int), len(SHADES) - 1)
    return ["".join(SHADES[level] * 2 for level in row) for row in levels]
