"""Real data from a folder of the user, named by the argument or by the environment variable ENMF_DATA.

The folder contains a file load.py with a function load(name, **options) -> X, labels. enmf comes without any data.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import scipy.sparse as sp


class DataFolderMissing(FileNotFoundError):
    """There is no data folder, or it contains no load.py.

    Examples
    --------
    >>> import tempfile
    >>> from enmf.datasets import DataFolderMissing, load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     try:
    ...         X, labels = load("digits", folder)
    ...     except DataFolderMissing as missing:
    ...         print(str(missing).endswith("ENMF_DATA must name a folder with a load.py"))
    True
    """


def load(name: str, folder: str | os.PathLike[str] | None = None, **options: Any) -> tuple[Any, dict[str, Any]]:
    """X and its labels, by name.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from enmf.datasets import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     script = "import numpy as np\\ndef load(name): return np.ones((3, 2)), {'name': name}"
    ...     _ = pathlib.Path(folder, "load.py").write_text(script)
    ...     X, labels = load("ones", folder)
    >>> X.shape, labels
    ((3, 2), {'name': 'ones'})
    """
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


def load_rcv1(folder: str | os.PathLike[str] | None = None, *, download: bool = False) -> sp.csr_matrix:
    """Reuters RCV1 (804,414 articles x 47,236 terms, 0.16 % stored), as scikit-learn stores it.

    `folder` is where `sklearn.datasets.fetch_rcv1` has put it (scikit-learn's own folder by default).
    Nothing is downloaded unless `download` is true: the file has 650 MB.

    Examples
    --------
    >>> import tempfile
    >>> from enmf.datasets import DataFolderMissing, load_rcv1
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     try:
    ...         X = load_rcv1(empty)
    ...     except DataFolderMissing as missing:
    ...         print(str(missing)[:18])
    RCV1 was not found
    """
    from sklearn.datasets import fetch_rcv1

    try:
        return fetch_rcv1(data_home=folder, download_if_missing=download).data
    except OSError as reason:
        raise DataFolderMissing(
            f"RCV1 was not found ({reason}): fetch it with load_rcv1(download=True), or sklearn.datasets.fetch_rcv1()"
        ) from None
