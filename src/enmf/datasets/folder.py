"""Real data from a folder of the user, named by the argument or by the environment variable ENMF_DATA.

The folder contains a file load.py with a function load(name, **options) -> X, labels. enmf comes without any data.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any


class DataFolderMissing(FileNotFoundError):
    """There is no data folder, or it contains no load.py."""


def load(name: str, folder: str | os.PathLike[str] | None = None, **options: Any) -> tuple[Any, dict[str, Any]]:
    """X and its labels, by name."""
    place = folder or os.environ.get("ENMF_DATA")
    if not place:
        raise DataFolderMissing("no data folder: set the environment variable ENMF_DATA or pass folder=")
    script = Path(place) / "load.py"
    if not script.is_file():
        raise DataFolderMissing(f"{script} does not exist: ENMF_DATA must name a folder with a load.py")
    spec = importlib.util.spec_from_file_location("enmf_data_loader", script)
    if spec is None or spec.loader is None:
        raise DataFolderMissing(f"{script} cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(name, **options)
