"""The channels of built-in algorithms, and records that SageMaker's SDK 2.257 has written."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.serve.algorithms.data import content_type, read_channel
from leadline.serve.algorithms.errors import UserError
from leadline.serve.algorithms.recordio import read_records

FLOATS: Final = (
    "0a23d7ce300000000a1a0a0676616c7565731210120e0a0c0000c03f000000c00000000012120a0676616c756573120812060a040000803f"
    "0a23d7ce300000000a1a0a0676616c7565731210120e0a0c0000803e000040400024744912120a0676616c756573120812060a0400000000"
)
DOUBLES: Final = (
    "0a23d7ce400000000a260a0676616c756573121c1a1a0a18000000000000f83f00000000000000c0000000000000000012160a0676616c"
    "756573120c1a0a0a08000000000000f03f0a23d7ce400000000a260a0676616c756573121c1a1a0a18000000000000d03f000000000000"
    "08400000000080842e4112160a0676616c756573120c1a0a0a080000000000000000"
)
INTEGERS: Final = (
    "0a23d7ce2e0000000a1b0a0676616c75657312113a0f0a0d01feffffffffffffffff01ac02120f0a0676616c75657312053a030a01070000"
)
ROWS: Final = [[1.5, -2.0, 0.0], [0.25, 3.0, 1e6]]


@pytest.mark.parametrize(
    ("text", "rows", "labels"),
    [
        (FLOATS, ROWS, [1, 0]),
        (DOUBLES, ROWS, [1, 0]),
        (INTEGERS, [[1, -2, 300]], [7]),
    ],
)
def test_records_of_the_sdk(tmp_path: Path, text: str, rows: list[list[float]], labels: list[float]) -> None:
    path = tmp_path / "data.recordio"
    path.write_bytes(bytes.fromhex(text))
    features, found = read_records(str(path))
    assert features.tolist() == rows
    assert found.tolist() == labels


@pytest.mark.parametrize("cut", [3, 9, 40, 100])
def test_damaged_records_are_refused(tmp_path: Path, cut: int) -> None:
    (tmp_path / "data").write_bytes(bytes.fromhex(FLOATS)[:cut])
    with pytest.raises(UserError, match=r"Failed to load recordio-protobuf data of data: "):
        read_channel(str(tmp_path), "recordio-protobuf")


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (None, "libsvm"),
        ("text/x-libsvm", "libsvm"),
        ("Text/CSV; label_size=1; charset=utf8", "csv"),
        ("parquet", "parquet"),
        ("application/x-recordio-protobuf", "recordio-protobuf"),
    ],
)
def test_content_types(given: str | None, kind: str) -> None:
    assert content_type(given) == kind


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("application/json", "application/json is not an accepted ContentType: csv, text/csv, libsvm"),
        ("csv;label_size=2", "csv;label_size=2 is not an accepted csv ContentType. Optional parameter label_size must"),
    ],
)
def test_other_content_types_are_refused(given: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        content_type(given)
    assert str(refused.value).startswith(message)


def test_the_files_of_a_channel_are_one_table(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "a.csv").write_text("1;2;\n3;4;5e-1\n")
    (tmp_path / "part" / "b.csv").write_text("6;7;8\n")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "z-empty.csv").write_text("")
    samples = read_channel(str(tmp_path), "csv")
    assert samples is not None
    assert samples.labels.tolist() == [1, 3, 6]
    assert np.array_equal(samples.features, [[2, np.nan], [4, 0.5], [7, 8]], equal_nan=True)
    weighted = read_channel(str(tmp_path), "csv", has_weights=True)
    assert weighted is not None
    assert weighted.weights is not None
    assert weighted.weights.tolist() == [2, 4, 7]
    assert weighted.features.shape == (3, 1)


def test_parquet_has_the_label_first(tmp_path: Path) -> None:
    pq.write_table(pa.table({"y": [1, 2], "a": [0.5, None], "b": [3, 4]}), tmp_path / "x.parquet")
    samples = read_channel(str(tmp_path), "parquet")
    assert samples is not None
    assert samples.labels.tolist() == [1, 2]
    assert np.array_equal(samples.features, [[0.5, 3], [np.nan, 4]], equal_nan=True)


def test_numbers_beyond_float32_are_infinite(tmp_path: Path) -> None:
    pq.write_table(pa.table({"y": [1, 2], "a": [0.5, -1e300]}), tmp_path / "x.parquet")
    samples = read_channel(str(tmp_path), "parquet")
    assert samples is not None
    assert samples.features.tolist() == [[0.5], [-np.inf]]


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("csv", "label,a\n1,2\n", "First line 'label,a...' of file 'x': not a CSV of numbers with the label first"),
        ("csv", "1,2\n1,2,3\n", "First line '1,2...' of file 'x'"),
        ("csv", "17\n", "Could not determine delimiter on line 17"),
        ("parquet", "PAR1", "Failed to load parquet data of x: "),
    ],
)
def test_other_contents_are_refused(tmp_path: Path, kind: str, text: str, message: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(UserError) as refused:
        read_channel(str(tmp_path), kind)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_a_channel_without_data(tmp_path: Path) -> None:
    assert read_channel(str(tmp_path), "csv") is None


def changed(valid: bytes) -> st.SearchStrategy[bytes]:
    """Return a file of which some bytes were replaced."""
    places = st.dictionaries(st.integers(0, len(valid) - 1), st.integers(0, 255), max_size=5)
    return places.map(lambda at: bytes(at.get(place, byte) for place, byte in enumerate(valid)))


CONTENTS: Final = st.one_of(
    st.binary(max_size=100),
    st.text("0123456789.:,-e \n#a").map(str.encode),
    *(changed(bytes.fromhex(text)) for text in (FLOATS, DOUBLES, INTEGERS)),
)


@pytest.mark.parametrize("kind", ["csv", "parquet", "recordio-protobuf"])  # libsvm needs scipy, which is not here
@settings(max_examples=60)
@given(content=CONTENTS)
def test_no_content_raises_another_error(kind: str, content: bytes) -> None:
    with TemporaryDirectory() as folder:
        Path(folder, "part").write_bytes(content)
        with suppress(UserError):
            read_channel(folder, kind)
