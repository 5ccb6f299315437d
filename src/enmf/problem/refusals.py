"""What cannot be combined with what is known about the factors, and why: one table, which docs/structure.md shows.

A line is (word, thing): reason. Words are those of `enmf.factorize`; things are what a method needs (`NEEDS` of
`enmf.losses.base`), how X is stored, the loss, another word.
"""

from __future__ import annotations

from collections.abc import Iterable

from enmf.losses.base import NEEDS

AT_ONCE = "its steps change all entries of a factor at once"
ENTRIES = "its steps know nothing of entries that must stay"
BLOCKS = "it needs X in this process; load it"
MISSING = "it is not made for missing entries or weights of single entries"
BATCHES = "a stream learns nonnegative components by squares and nothing else; use fit on all rows"
RESUMED = "a checkpoint does not say what was known"
PENALIZED = "a penalty refers to nonnegative factors in the unit of X"
OTHER_LOSS = "only squares are defined there"
SUMS = "the sums decide on the size of the factors"
OWN_STEPS = "its half-steps are its own, and obey nothing else"
SCALED = "weights act by scaling X, and the penalty would see the scaled components"
SYMMETRIC = "both factors of a symmetric factorization are the same"

THINGS = {
    **{need: f"a method that needs {what}" for need, what in NEEDS.items()},
    "another method": "a method other than 'enmf' with its own descent",
    "blocks": "an X that is read in blocks",
    "missing": "missing entries",
    "batches": "batches of rows",
    "penalty": "a penalty",
    "checkpoint": "checkpoint",
    "other losses": "another loss than 'frobenius'",
    "itakura-saito": "the loss 'itakura-saito'",
}
_WHERE = {"blocks": BLOCKS, "missing": MISSING, "batches": BATCHES}
_METHODS = {"normal equations": AT_ONCE, "single entries": ENTRIES}
_SWEEPS = {need: AT_ONCE for need in NEEDS if need not in ("half-step", "all rows")}
_LAYERS = {**_WHERE, **_SWEEPS, "checkpoint": RESUMED, "other losses": OTHER_LOSS}
_SIGNS = {**_WHERE, **_METHODS, "checkpoint": RESUMED, "penalty": PENALIZED, "other losses": OTHER_LOSS}
_BY_WORD: dict[str, dict[str, str]] = {
    "fixed": {**_WHERE, **_METHODS, "terms": AT_ONCE, "checkpoint": RESUMED, "symmetric": SYMMETRIC},
    "support_U": {**_WHERE, **_METHODS, "checkpoint": RESUMED, "symmetric": SYMMETRIC},
    "support_V": {**_WHERE, **_METHODS, "checkpoint": RESUMED, "symmetric": SYMMETRIC},
    "row_weights": {
        **_WHERE,
        "itakura-saito": "weights act by scaling X, and this loss does not change when a row is scaled",
        "penalty": "weights act by scaling the factors, and a penalty would see the scaled ones",
        "symmetric": "weighted, X is not symmetric any more",
    },
    "nonnegative": {
        **_SIGNS,
        "terms": "multiplication does not change signs",
        "fixed": "known components are nonnegative, and so are the others",
        "symmetric": SYMMETRIC,
    },
    "negative": {**_WHERE, "terms": "multiplication needs X >= 0", "other losses": OTHER_LOSS},
    "symmetric": {**_SIGNS, "another method": "its steps would make the factors differ"},
}
_BY_WORD["column_weights"] = _BY_WORD["row_weights"]
_BY_WORD["simplex"] = {
    **_LAYERS,
    "penalty": SUMS,
    "row_weights": "weights act by scaling rows, and their sums would change",
    "support_U": "the rows are solved for over all components",
    "nonnegative": "mixtures are nonnegative",
    "symmetric": SYMMETRIC,
}
_BY_WORD["smooth"] = {
    **_LAYERS,
    **dict.fromkeys(("fixed", "support_U", "support_V", "nonnegative", "symmetric", "simplex"), OWN_STEPS),
    "row_weights": SCALED,
    "column_weights": SCALED,
}
_BY_WORD["total_variation"] = {**_BY_WORD["smooth"], "smooth": "they are two kinds of one penalty"}
_BY_WORD["guide"] = _BY_WORD["smooth"]
REFUSED = {(word, thing): reason for word, things in _BY_WORD.items() for thing, reason in things.items()}
REFUSED["symmetric", "terms"] = REFUSED["symmetric", "another method"]


def refuse(words: Iterable[str], things: Iterable[str], method: str | None = None) -> None:
    """Refuse the first of these words that does not go with one of these things, or with another word; what it is of
    the `method` that it does not go with, the reason says."""
    words = list(words)
    for word in words:
        for thing in (*sorted(things), *words):
            reason = REFUSED.get((word, thing))
            if reason is not None:
                named = method is not None and (thing in NEEDS or thing == "another method")
                what = f"method {method!r}" if named else THINGS.get(thing, thing)
                raise ValueError(f"{word} cannot be combined with {what}: {reason}")
