"""Reproductions of the paper, end to end at tiny sizes: structure, the bound, the page and the claims; no times."""

import ast
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import paper
import slow
from enmf.bench.data import matrix
from paper import published, tidy, views
from paper.case import Case, Reproduction
from paper.claims import CLAIMS, judge
from paper.claims.claim import by, listed, span, verdict
from paper.complexity import slope
from paper.runs import LETTER, OPPONENTS
from reproduce import app


def main(arguments):
    return app(arguments, standalone_mode=False) or 0


def table(folder, name):
    return tidy.each(tidy.read(folder / "tiny" / f"{name}.csv"))


def check_contest(rows, X, rank, opponents):
    """Two rows per method, none below the bound, which is the one of a plain SVD."""
    bound = slow.bound(X, rank)
    for protocol in ("equal-time", "equal-error"):
        assert next(row["method"] for row in rows if row["protocol"] == protocol) == "enmf"
        assert {row["method"] for row in rows if row["protocol"] == protocol} == {"enmf", LETTER, *opponents}
    for row in rows:
        assert row["bound"] == pytest.approx(bound, rel=1e-5)
        assert row["error"] >= bound * (1 - 1e-6)
        assert row["ratio"] >= 1 - 1e-6
        assert row["status"] in ("global_optimum", "converged", "target_reached", "timeout", "stalled")
        assert np.isfinite(row["kkt"])


def test_synthetic_end_to_end(tmp_path, capsys):
    arguments = ["table", "3", "--size", "tiny", "--out", str(tmp_path), "--threads", "1"]
    docs = tmp_path / "paper.md"
    assert main([*arguments, "--docs", str(docs)]) == 0
    rows = table(tmp_path, "synthetic")
    check_contest(rows, matrix("synthetic-60-60"), 2, OPPONENTS)
    ours = [row for row in rows if row["method"] == "enmf"]
    assert all(row["status"] == "global_optimum" for row in ours)
    assert "Equal time: error / bound of the best start (paper)" in capsys.readouterr().out
    page = (tmp_path / "tiny.html").read_text()
    assert "nmf-admm" in page
    assert "http" not in page.replace("http://www.w3.org", "")  # offline: it refers to nothing
    about = table(tmp_path, "about")
    assert about[0]["command"] == "python benchmarks/reproduce.py synthetic --size tiny --threads 1"
    words = docs.read_text()
    assert words.count("## Claim ") == len(CLAIMS)
    assert "not run" in words  # the other tables are not there

    before = (tmp_path / "tiny" / "synthetic.csv").read_bytes()
    assert main(arguments) == 0  # goes on where it ended: nothing is left to do
    assert (tmp_path / "tiny" / "synthetic.csv").read_bytes() == before


def test_verb_end_to_end(tmp_path, real_data):
    X = real_data("verb").toarray()
    assert main(["real", "--size", "tiny", "--out", str(tmp_path), "--threads", "1"]) == 0
    check_contest(table(tmp_path, "real"), X, 5, (*OPPONENTS, "anls-bpp"))
    assert main(["bounds", "--size", "tiny", "--out", str(tmp_path)]) == 0
    (row,) = table(tmp_path, "bounds")
    assert row["bound"] == pytest.approx(slow.bound(X, 10), rel=1e-6)
    assert views.below_bound(row)  # the paper's 13.59


def test_a_failing_case_is_a_row_and_is_tried_again(tmp_path):
    tries = []

    def cases():
        def broken():
            tries.append(1)
            if len(tries) < 2:
                raise RuntimeError("no such matrix")
            return {"status": "done", "error": 1.5}

        yield Case({"data": "a"}, broken)
        yield Case({"data": "b"}, lambda: [{"status": "done", "error": 2.0}])

    one = Reproduction("thing", (), "", "", {"tiny": {}}, cases)
    assert paper.run([one], "tiny", tmp_path, say=lambda line: None)
    assert [row["status"] for row in table(tmp_path, "thing")] == ["failed: RuntimeError: no such matrix", "done"]
    assert paper.run([one], "tiny", tmp_path, say=lambda line: None)
    assert {row["data"]: row["error"] for row in table(tmp_path, "thing")} == {"a": 1.5, "b": 2.0}
    assert not paper.run([one], "tiny", tmp_path, seconds=0.0, again=True, say=lambda line: None)


def test_names_of_the_paper_lead_to_reproductions():
    assert [one.name for one in paper.find("Table 4")] == ["real"]
    assert [one.name for one in paper.find("figure 7")] == ["tending"]
    assert len(paper.find("all")) == len(paper.REPRODUCTIONS)
    with pytest.raises(ValueError, match="'table 99' is not known"):
        paper.find("table 99")
    assert all({"small", "paper"} <= set(one.sizes) and one.text for one in paper.REPRODUCTIONS.values())
    assert set(views.VIEWS) == set(paper.REPRODUCTIONS)


def test_the_papers_figures():
    assert published.figure("Table 4", "verb", 10, "enmf") == 13.59
    assert published.figure("Table 1", "synthetic-100", 500, "r1d") == 1390.5
    assert np.isnan(published.figure("Table 4", "verb", 11, "enmf"))
    counts = {name: len(published.figures(name)) for name in published.tables()}
    assert counts["Table 1"] == 25 * 10
    assert counts["Table 10"] == 40 * 10 * 2
    assert counts["Table 13"] == 25 * 9 * 4
    # two of the five impossible errors need no data to be recognised, given the bounds of an exact SVD
    for data, rank, bound in (("face", 20, 7407.73), ("face", 25, 5974.60)):
        assert views.below_bound({"data": data, "rank": rank, "bound": bound})
    assert not views.below_bound({"data": "face", "rank": 10, "bound": 11567.37})


def test_slopes_are_exponents():
    rows = [{"vary": "side", "side": n, "rank": 5, "svd": 3e-9 * n**1.7} for n in (100, 200, 400)]
    measured, formula = slope(pd.DataFrame(rows), "side", "svd")
    assert measured == pytest.approx(1.7)
    assert formula == pytest.approx(2.0)


def test_claims_say_what_is_missing():
    for one in CLAIMS:
        assert judge(one, {})[0] == "not run"
        assert set(one.tables) <= set(paper.REPRODUCTIONS)


NAMES = r"[Tt]able \d+|MovieLens 1M|movielens_1m|paper, 1M|RCV1|R1|@10|bound - 1|Algorithm 1|#[0-9a-f]{6}"


def sentences(path):
    """Texts of a module, without docstrings, format codes and names of tables."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            skipped |= {id(part) for part in ast.walk(node.format_spec)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield re.sub(NAMES, "", node.value)


def test_no_sentence_holds_a_figure():
    """What we measured comes from the tables, what the paper says from figures.csv."""
    home = Path(paper.__file__).parent
    typed = []
    for path in [*sorted((home / "claims").glob("*.py")), home / "views.py", home / "pictures.py"]:
        # "+.3f" and the like are format codes, a lone sign is no sentence
        texts = (text for text in sentences(path) if " " in text.strip())
        typed += [f"{path.name}: {text}" for text in texts if re.search(r"\d", text)]
    assert not typed


def test_ranges_of_the_claims_are_those_of_the_papers_tables():
    def gains(table, data, ranks, best, gain):
        of = [[published.figure(table, data, rank, name) for name in ("enmf", *OPPONENTS)] for rank in ranks]
        return [gain(ours, best(others)) for ours, *others in of]

    faces = gains("Table 5", "faces", (5, 10, 15, 20, 25), max, lambda ours, other: ours - other)
    digits = gains("Table 6", "digits", (10, 20, 40, 80, 100), max, lambda ours, other: ours - other)
    audio = gains("Table 4", "audio", (10, 20, 40, 80, 100), min, lambda ours, other: 1 - ours / other)
    face = gains("Table 4", "face", (5, 10, 15, 20, 25), min, lambda ours, other: 1 - ours / other)
    synthetic = [
        other
        for snr in (20, 40, 60, 80, 100)
        for other in gains("Table 3", f"synthetic-{snr}", (50, 100, 200, 400, 500), min, lambda ours, other: other - 1)
    ]
    counts = [
        value
        for kind in ("synthetic", "real")
        for value in published.figures(f"orthogonality, {kind}", quantity="iterations")["number"]
    ]
    for name, low, high in (
        ("faces", min(faces), max(faces)),
        ("digits", min(digits), max(digits)),
        ("real_equal_time", min(audio), max(face)),
        ("synthetic_opponents", min(synthetic), max(synthetic)),
        ("orthogonal", min(counts), max(counts)),
    ):
        said = published.said(name)
        assert (said.low, said.high) == (pytest.approx(low, abs=5e-4), pytest.approx(high, abs=5e-4)), name


def test_verdicts_say_where():
    assert verdict({"a": True, "b": True}) == "holds"
    assert verdict({"a": False}) == "does not hold"
    assert verdict({"a": True, "b": False, "c": False}) == "holds only in 1 of 3 settings: a"
    assert verdict({"a": True, "b": False, "c": True}) == "holds only in 2 of 3 settings: all but b"
    with pytest.raises(ValueError, match="no setting"):
        verdict({})
    rows = pd.DataFrame({"data": ["x", "x"], "rank": [2, 3], "ratio": [1.0, 2.0]})
    assert by(rows, lambda row: row["ratio"] == 1.0) == "holds only in 1 of 2 settings: x r = 2"
    assert span([3.0, 1.0, 2.0], ".1f") == "1.0 to 3.0"
    assert span([2.0, 2.0], ".1f") == "2.0"
    assert listed([str(k) for k in range(10)]).endswith("7 and 2 more")


def test_verdicts_follow_the_rows():
    """The same claim, judged by rows that say the opposite."""
    one = next(one for one in CLAIMS if one.judge.__name__ == "rotation_alone")
    point = {"data": "synthetic-60-5000", "rank": 50, "point": "spread start", "rotation_iterations": 0}
    arrived = {**point, "negative_entries": 0.0, "ratio": 1.0000001, "status": "global_optimum"}
    outside = {**point, "rank": 500, "negative_entries": 0.01, "ratio": 1.3, "status": "outside"}

    def judged(*rows):
        return judge(one, {"rotation": pd.DataFrame(rows)})

    assert judged(arrived)[0] == "holds"
    assert judged(outside)[0] == "does not hold"
    word, text = judged(arrived, outside)
    assert word == "holds only in 1 of 2 settings: 60 dB r = 50"
    assert "1.300000" in text
    assert judged({"status": "failed: no memory"})[0] == "not decided"


def test_overview_counts_cases_and_their_seconds(tmp_path):
    def cases():
        for name in ("a", "b"):
            yield Case({"data": name}, lambda: {"status": "done"})

    one = Reproduction("thing", ("table 0",), "", "", {"tiny": {}}, cases)
    assert [line["done"] for line in paper.overview([one], "tiny", tmp_path)] == [0]
    for _ in range(2):  # made again, they are counted once
        paper.run([one], "tiny", tmp_path, again=True, say=lambda line: None)
    (line,) = paper.overview([one], "tiny", tmp_path)
    assert (line["done"], line["cases"]) == (2, 2)
    (about,) = table(tmp_path, "about")
    assert about["cases"] == 2


def test_a_table_is_written_as_it_was_read(tmp_path):
    """Else a run that resumes would rewrite the rows of others."""
    found = sorted((Path(paper.__file__).parent / "small").glob("*.csv"))
    assert len(found) > 10
    for path in found:
        tidy.write(tidy.read(path), tmp_path / path.name)
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path
