"""Tables in text files: what is header, what are names, what is a number, by what the file shows."""

import gzip
import io
import os
import threading

import numpy as np
import pandas as pd
import pytest

from enmf.io import tables
from enmf.io.tables import InputProblem

RNG = np.random.default_rng(0)
X = np.round(RNG.gamma(0.5, 1.0, (30, 12)), 4)
COUNTS = RNG.poisson(3.0, (30, 12))
SAMPLES = [f"s{i}" for i in range(30)]
WAVES = [str(400 + 10 * j) for j in range(12)]
UNEVEN = ["103.2", "110.9", "111.4", "150", "160.1", "171.3", "199.9", "205", "231.7", "240", "260.4", "301"]  # m/z


def read(tmp_path, content, name="x.csv", **how):
    place = tmp_path / name
    place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tables.read(str(place), **how)


def as_csv(values=X, rows=None, columns=None, corner="", **options):
    frame = pd.DataFrame(values, index=rows, columns=columns)
    return frame.to_csv(index=rows is not None, header=columns is not None, index_label=corner, **options)


def check(found, values=X, rows=None, columns=None):
    np.testing.assert_allclose(found.values, values, rtol=1e-12)
    assert found.rows == rows
    assert found.columns == columns


# ---------------------------------------------------------------- headers of numbers


@pytest.mark.parametrize("names", [WAVES, WAVES[::-1], UNEVEN, [str(2000 + j) for j in range(12)]])
@pytest.mark.parametrize("values", [X, COUNTS], ids=["reals", "counts"])
def test_a_header_of_numbers_is_no_data(names, values, tmp_path):
    for corner in ("", "sample", "id"):
        check(read(tmp_path, as_csv(values, SAMPLES, names, corner)), values, SAMPLES, names)
    check(read(tmp_path, as_csv(values, None, names)), values, None, names)


@pytest.mark.parametrize("values", [X, COUNTS], ids=["reals", "counts"])
def test_the_running_numbers_that_pandas_writes_are_header_and_names(values, tmp_path):
    plain = pd.DataFrame(values)
    numbers = [str(j) for j in range(12)]
    check(read(tmp_path, plain.to_csv(index=False)), values, None, numbers)
    check(read(tmp_path, plain.to_csv()), values, [str(i) for i in range(30)], numbers)
    check(read(tmp_path, plain.rename_axis("id").to_csv()), values, [str(i) for i in range(30)], numbers)


def test_years_over_few_columns(tmp_path):
    check(read(tmp_path, "2000,2001,2002\n5,3,8\n1,2,3\n4,0,1\n"), [[5, 3, 8], [1, 2, 3], [4, 0, 1]], None,
          ["2000", "2001", "2002"])  # fmt: skip
    check(read(tmp_path, "0,1,2\n50,43,58\n41,42,43\n44,40,41\n"), [[50, 43, 58], [41, 42, 43], [44, 40, 41]], None,
          ["0", "1", "2"])  # fmt: skip
    text = "country,1990,2000\nFrance,5,3\nSpain,1,2\n"
    assert read(tmp_path, text, header=True).columns == ["1990", "2000"]


@pytest.mark.parametrize("values", [X, COUNTS, X[:, :3], COUNTS[:, :2], COUNTS[:, :1], np.sort(X, axis=1)])
def test_a_file_of_numbers_alone_has_no_header(values, tmp_path):
    check(read(tmp_path, as_csv(values)), values)
    names = [f"s{i}" for i in range(len(values))]
    if values.shape[1] > 1:
        check(read(tmp_path, as_csv(values, names)), values, names)


def test_random_files_without_header_keep_their_first_line(tmp_path):
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(300):
        n, m = rng.integers(3, 30), rng.integers(2, 12)
        values = np.round(rng.gamma(1.0, 3.0, (n, m)), 2) if rng.random() < 0.5 else rng.poisson(4.0, (n, m))
        wrong += len(read(tmp_path, as_csv(values)).values) != n
    assert wrong <= 1


def test_a_missing_first_entry_is_no_empty_corner(tmp_path):
    values = X.copy()
    values[0, 0] = np.nan
    check(read(tmp_path, as_csv(values)), values)


def test_the_caller_overrules(tmp_path):
    text = as_csv(X, SAMPLES, WAVES, "sample")
    assert read(tmp_path, text, header=False).values.shape == (31, 12)
    assert read(tmp_path, as_csv(X), header=True).values.shape == (29, 12)
    assert read(tmp_path, as_csv(COUNTS, range(100, 130), UNEVEN, "id"), index="id").rows[:2] == ["100", "101"]
    assert read(tmp_path, as_csv(X), index="12").values.shape == (30, 11)
    assert read(tmp_path, pd.DataFrame(X).to_csv(), index="none").values.shape == (30, 13)
    with pytest.raises(InputProblem, match=r"--index what: no such column. The file has columns 1 to 13 \("):
        read(tmp_path, text, index="what")


def test_what_was_taken_for_header_and_names_is_said(tmp_path):
    assert read(tmp_path, as_csv(X, SAMPLES, WAVES)).notes == (
        "header: line 1 (400, 410, 420, ..., 510)",
        "row names: column 1 (s0, s1, s2, ..., s29)",
    )
    assert read(tmp_path, as_csv(X)).notes == ("header: none", "row names: none")
    assert "skipped: lines 1 to 2" in read(tmp_path, "# made\n\n" + as_csv(X)).notes


# ---------------------------------------------------------------- separators, decimals, lines above, encodings


def numpys(values, **options):
    text = io.StringIO()
    np.savetxt(text, values, **options)
    return text.getvalue()


named = {"rows": SAMPLES, "columns": [f"f{j}" for j in range(12)]}
LAYOUTS = {
    "savetxt.txt": (numpys(X), {}),
    "wide.txt": (numpys(X, fmt="%12.4f"), {}),
    "comment.txt": (numpys(X, header="made by hand, 2020"), {}),
    "names.txt": (numpys(X, header=" ".join(named["columns"])), {"columns": named["columns"]}),
    "excel.tsv": (as_csv(X, corner="sample", **named, sep="\t", decimal=","), named),
    "tabs.csv": (as_csv(X, **named, sep="\t"), named),
    "commas.tsv": (as_csv(X, **named), named),
    "bars.csv": (as_csv(X, **named, sep="|"), named),
    "told.csv": ("sep=;\r\n" + as_csv(X, **named, sep=";", decimal=","), named),
    "title.csv": ("My export\n" + as_csv(X, **named), named),
    "padded.csv": ("My export" + 12 * ";" + "\n" + as_csv(X, **named, sep=";"), named),
    "titles.csv": ("My export\nmade 2020, by hand\n\n" + as_csv(X, **named), named),
    "trailing.csv": (as_csv(X, **named).replace("\n", ",\n"), named),
    "below.csv": (as_csv(X, **named).replace("\n", ",\n").replace(",\n", "\n", 1), named),
    "above.csv": (as_csv(X, **named).replace("\n", ",,\n", 1), named),
    "otu.tsv": ("# from biom\n#OTU ID" + as_csv(X, **named, sep="\t"), named),
    "breaks.csv": (as_csv(X, rows=SAMPLES, columns=["a\nb", *named["columns"][1:]]),
                   {"rows": SAMPLES, "columns": ["a\nb", *named["columns"][1:]]}),
    "spaces.csv": (as_csv(X, **named).replace(",", ", "), named),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_that_programs_write(name, tmp_path):
    text, names = LAYOUTS[name]
    check(read(tmp_path, text, name), X, **names)
    check(read(tmp_path, gzip.compress(text.encode()), name), X, **names)  # packed, whatever the name


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_encodings_that_show(encoding, tmp_path):
    columns = ["Größe", *named["columns"][1:]]
    check(read(tmp_path, as_csv(X, SAMPLES, columns).encode(encoding)), X, SAMPLES, columns)


def test_encodings_that_must_be_said(tmp_path):
    columns = ["Größe", *named["columns"][1:]]
    content = as_csv(X, SAMPLES, columns).encode("latin-1")
    with pytest.raises(InputProblem, match=r"is not UTF-8 text \(byte 0xf6\). Give its encoding.*--encoding latin-1"):
        read(tmp_path, content)
    check(read(tmp_path, content, encoding="latin-1"), X, SAMPLES, columns)
    with pytest.raises(InputProblem, match="--encoding: unknown encoding: klingon"):
        read(tmp_path, content, encoding="klingon")


def test_separator_decimal_mark_and_lines_to_skip_can_be_said(tmp_path):
    text = "note: 1;2;3\n" + as_csv(X, sep=";", decimal=",")
    check(read(tmp_path, text, sep=";", decimal=",", skip=1))
    check(read(tmp_path, as_csv(X, sep="\t"), sep="tab"))
    check(read(tmp_path, "0,5\n0,7\n", decimal=","), [[0.5], [0.7]])
    for how, word in (({"sep": ",,"}, "not a single character"), ({"sep": ",", "decimal": ","}, "cannot also be")):
        with pytest.raises(InputProblem, match=word):
            read(tmp_path, text, **how)


def test_names_keep_their_zeros_and_duplicates(tmp_path):
    found = read(tmp_path, "id,a,a\n007,1,2\nNA,3,4\nx,5,7\ny,1,1\n")
    assert (found.rows, found.columns) == (["007", "NA", "x", "y"], ["a", "a"])


# ---------------------------------------------------------------- columns


@pytest.mark.parametrize("where", [1, 6, 12])
def test_a_column_of_labels_is_named_and_can_be_left_out(where, tmp_path):
    frame = pd.DataFrame(X, SAMPLES, named["columns"])
    frame.insert(where, "kind", ["wild", "tame"] * 15)
    with pytest.raises(InputProblem, match=r"column 'kind' holds text. Remove it with --drop kind,"):
        read(tmp_path, frame.to_csv())
    check(read(tmp_path, frame.to_csv(), drop=["kind"]), X, **named)
    bare = frame.to_csv(header=False)
    with pytest.raises(InputProblem, match=rf"column {where + 2} holds text. Remove it with --drop {where + 2},"):
        read(tmp_path, bare)
    check(read(tmp_path, bare, drop=[str(where + 2)]), X, SAMPLES)


def test_columns_are_left_out_of_every_format(tmp_path):
    np.save(tmp_path / "x.npy", X)
    check(tables.read(str(tmp_path / "x.npy"), drop=["1,3", "12"]), np.delete(X, [0, 2, 11], axis=1))
    with pytest.raises(InputProblem, match="--drop 13: no such column"):
        tables.read(str(tmp_path / "x.npy"), drop=["13"])
    with pytest.raises(InputProblem, match="--sep does not apply to npy"):
        tables.read(str(tmp_path / "x.npy"), sep=";")


def test_transposed(tmp_path):
    found = read(tmp_path, as_csv(X, **named), transpose=True)
    check(found, X.T, named["columns"], SAMPLES)


# ---------------------------------------------------------------- files without an ending, pipes


def test_a_file_without_ending_needs_its_format(tmp_path):
    with pytest.raises(InputProblem, match="--format csv"):
        read(tmp_path, as_csv(X, **named), "data")
    check(read(tmp_path, as_csv(X, **named), "data", format="csv"), X, **named)
    with pytest.raises(InputProblem, match="unknown format 'xls'"):
        read(tmp_path, "1", "data", format="xls")


@pytest.mark.parametrize("kind", ["csv", "npy", "npz", "mtx"])
def test_a_pipe_is_read_once(kind, tmp_path):
    import scipy.io

    held = io.BytesIO()
    {"csv": lambda: held.write(as_csv(X).encode()), "npy": lambda: np.save(held, X),
     "npz": lambda: np.savez(held, X), "mtx": lambda: scipy.io.mmwrite(held, X, precision=17)}[kind]()  # fmt: skip
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(held.getvalue()), daemon=True)
    writer.start()
    check(tables.read(str(pipe), format=kind))
    writer.join(10)
