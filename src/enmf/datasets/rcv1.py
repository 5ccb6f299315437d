"""Reuters RCV1 (804,414 articles x 47,236 terms, 0.16 % stored), read through scikit-learn."""

from __future__ import annotations

import os

import scipy.sparse as sp

from enmf.datasets.folder import DataFolderMissing


def load_rcv1(folder: str | os.PathLike[str] | None = None, *, download: bool = False) -> sp.csr_matrix:
    """The matrix that `sklearn.datasets.fetch_rcv1` stores in `folder` (scikit-learn's own folder by default).

    Nothing is downloaded unless `download` is true: the file has 650 MB.
    """
    from sklearn.datasets import fetch_rcv1

    try:
        return fetch_rcv1(data_home=folder, download_if_missing=download).data
    except OSError as reason:
        raise DataFolderMissing(
            f"RCV1 was not found ({reason}): fetch it with load_rcv1(download=True), or sklearn.datasets.fetch_rcv1()"
        ) from None
