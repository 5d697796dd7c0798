"""Files from and to S3, emulated by moto in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from leadline.serve.s3_files import S3Error, S3Files, join

BUCKET = "bucket"


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Files]:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
        yield S3Files("us-east-1")


def put(*keys: str) -> None:
    for key in keys:
        boto3.client("s3", region_name="us-east-1").put_object(Bucket=BUCKET, Key=key, Body=key.encode())


def below(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        (
            "data/train",
            {"a.csv": "data/train/a.csv", "deep/b.csv": "data/train/deep/b.csv", "train.csv": "data/train.csv"},
        ),
        ("data/train/", {"a.csv": "data/train/a.csv", "deep/b.csv": "data/train/deep/b.csv"}),
        ("data/train.csv", {"train.csv": "data/train.csv"}),
        ("data/train/deep", {"b.csv": "data/train/deep/b.csv"}),
        ("nothing", {}),
    ],
)
def test_a_prefix_is_a_folder_an_object_or_the_begin_of_names(
    files: S3Files, tmp_path: Path, prefix: str, found: dict[str, str]
) -> None:
    put("data/train/", "data/train/a.csv", "data/train/deep/b.csv", "data/train.csv", "other")
    assert files.download_prefix(f"s3://{BUCKET}/{prefix}", str(tmp_path)) == len(found)
    assert below(tmp_path) == found


@pytest.mark.parametrize("key", ["data/../../escaped", "data/..", "data//../x/../../escaped"])
def test_names_that_lead_out_of_the_folder_are_refused(files: S3Files, tmp_path: Path, key: str) -> None:
    put(key)
    with pytest.raises(S3Error, match="leads out of its folder"):
        files.download_prefix(f"s3://{BUCKET}/data/", str(tmp_path / "folder"))
    assert below(tmp_path) == {}


def test_a_folder_is_uploaded_with_its_names(files: S3Files, tmp_path: Path) -> None:
    (tmp_path / "from" / "deep").mkdir(parents=True)
    (tmp_path / "from" / "a").write_text("1")
    (tmp_path / "from" / "deep" / "b").write_text("2")
    files.upload_folder(str(tmp_path / "from"), f"s3://{BUCKET}/place/")
    files.download_prefix(f"s3://{BUCKET}/place", str(tmp_path / "to"))
    assert below(tmp_path / "to") == {"a": "1", "deep/b": "2"}


def test_errors_name_the_uri(files: S3Files, tmp_path: Path) -> None:
    with pytest.raises(S3Error, match=r"^s3://bucket/none: .*404"):
        files.download(f"s3://{BUCKET}/none", str(tmp_path / "x"))
    with pytest.raises(S3Error, match=r"^s3://no-such-bucket/x: .*NoSuchBucket"):
        files.download_prefix("s3://no-such-bucket/x", str(tmp_path))
    with pytest.raises(S3Error, match="must begin with s3://BUCKET/"):
        files.download("https://example.org/x", str(tmp_path / "x"))


def test_uris_are_joined() -> None:
    assert join("s3://bucket/out/", "job", "output") == join("s3://bucket/out", "job", "output")
