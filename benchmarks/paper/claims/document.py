"""docs/paper.md: a table of verdicts, then each claim with its evidence, then printed errors and the paper's letter."""

from __future__ import annotations

from pathlib import Path

from paper import views
from paper.case import REPRODUCTIONS
from paper.claims.claim import CLAIMS, Tables, judge, markdown
from paper.runner import overview, read
from paper.runs import LETTER, TOL
from paper.tidy import each, pick
from paper.views import fmt, settings

READING = """How to read it: the Eckart-Young bound is the error of the truncated SVD; nothing of that rank is closer to
X, so *error / bound* is at least one for everybody, and one is a proof of optimality. *Holds* means that our rows show
it at this size; most are smaller than the paper's, and each table says by how much. A claim about speed is one about
two implementations: ours of the opponents are tuned as well as ours of eNMF."""

LETTER_TEXT = f"""`preset="paper"` (`{LETTER}` in the tables): exact SVD, rotation from the identity, penalty stage,
plain HALS, all on X. Our defaults differ: a spread start of the rotation, a soft wall instead of the penalty,
feasibility and a first descent on a small core, extrapolated HALS. Both to a KKT residual of {TOL:.0e} or a limit of
seconds:"""


def write_claims(path: str | Path, size: str, folder: Path) -> Path:
    """Write the claims with their verdicts as markdown."""
    tables = read(folder, size)
    place = f"../{folder.as_posix()}"
    summary, details = [], []
    lines_of = {line["name"]: line for line in overview(list(REPRODUCTIONS.values()), size, folder)}
    for position, one in enumerate(CLAIMS, 1):
        word, text = judge(one, tables)
        name = f"[{position}](#claim-{position}). {one.said.text}"
        summary.append((name, one.said.where, f"**{word.split(':')[0]}**"))
        sources = ", ".join(f"[{name}.csv]({place}/{size}/{name}.csv)" for name in one.tables)
        details += [f"## Claim {position}", "", f"{one.said.text} ({one.said.where})", ""]
        parts = [lines_of[name] for name in one.tables if name in lines_of]
        missing = [
            f"{part['done']} of {part['cases']} of {part['name']}" for part in parts if part["done"] < part["cases"]
        ]
        so_far = f" Cases so far: {', '.join(missing)}." if missing else ""
        details += [f"**{word[0].upper()}{word[1:]}.** {text}", "", f"Rows: {sources}.{so_far}", ""]
    lines = [
        "# The paper's claims, one by one",
        "",
        f"Every figure of ours on this page is taken by `benchmarks/paper/claims` from the tables in "
        f"[{folder.as_posix()}/{size}]({place}/{size}); the paper's are in "
        f"[figures.csv](../benchmarks/paper/figures.csv). Tables and figures side by side: "
        f"[{folder.as_posix()}/index.html]({place}/index.html).",
        "",
        "```sh",
        f"python benchmarks/reproduce.py all --size {size} --docs docs/paper.md   # ENMF_DATA names the data folder",
        "```",
        "",
        *_made(tables),
        READING,
        "",
        *markdown(("claim", "in the paper", "verdict"), summary),
        "",
        *details,
        *_below(tables),
        *_letter(tables),
    ]
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Path(path)


def _made(tables: Tables) -> list[str]:
    if "about" not in tables:
        return []
    about = tables["about"]
    kinds = ["; ".join(about[name].unique()) for name in ("machine", "versions")]
    minutes = about["seconds"].sum() / 60
    when = " to ".join(dict.fromkeys((about["date"].min(), about["date"].max())))
    return [f"Made on {when}, {kinds[0]}; {kinds[1]}. {minutes:.0f} minutes in all.", ""]


def _below(tables: Tables) -> list[str]:
    lines = []
    for row in each(tables["bounds"].dropna(subset="bound")) if "bounds" in tables else []:
        ours, best = views.paper_errors(row["data"], row["rank"])
        mark = " (below the bound)" if views.below_bound(row) else ""
        lines.append((f"{row['data']} {row['rank']}", fmt(row["bound"], 6), f"{fmt(ours, 6)}{mark}", fmt(best, 6)))
    heads = ("data, r", "bound", "paper, eNMF", "paper, best opponent")
    return ["## Printed errors against the bound", "", *markdown(heads, lines), ""]


def _letter(tables: Tables) -> list[str]:
    """Our defaults beside preset="paper"."""
    rows = tables["phases"].dropna(subset="ratio") if "phases" in tables else None
    lines = []
    for data, rank in settings(rows) if rows is not None else []:
        cells = [
            f"{fmt(row['seconds'], 3)}, {row['ratio']:.5f}, {row['status']}"
            for method in ("enmf", LETTER)
            for row in each(pick(rows, data=data, rank=rank, method=method))
        ]
        lines.append((f"{data} {rank}", *cells))
    heads = ("data, r", "ours: seconds, error / bound, status", "letter: seconds, error / bound, status")
    return ["## The paper's letter and ours", "", LETTER_TEXT, "", *markdown(heads, lines)]
