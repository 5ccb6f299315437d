"""Reuters RCV1 (804,414 articles x 47,236 terms, 0.16 % stored), for those who have it, through scikit-learn."""

from __future__ import annotations

import os

import scipy.sparse as sp

from enmf.datasets.folder import DataFolderMissing


def load_rcv1(folder: str | os.PathLike[str] | None = None, *, download: bool = False) -> sp.csr_matrix:
    """The matrix that `sklearn.datasets.fetch_rcv1` keeps in `folder` (scikit-learn's own one by default).

    Nothing is fetched unless `download` says so: it is 650 MB.
    """
    from sklearn.datasets import fetch_rcv1

    try:
        return fetch_rcv1(data_home=folder, download_if_missing=download).data
    except OSError as reason:
        raise DataFolderMissing(
            f"RCV1 is not here ({reason}): fetch it with load_rcv1(download=True), or sklearn.datasets.fetch_rcv1()"
        ) from None
