"""Archives are unpacked inside their folder, without links, and not without end."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from grader.batch import archive
from grader.errors import UsageError


def tar_of(path: Path, members: list[tarfile.TarInfo], content: bytes = b"x = 1\n") -> Path:
    with tarfile.open(path, "w:gz") as out:
        for member in members:
            member.size = len(content) if member.isreg() else 0
            out.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return path


def link(name: str, to: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    return member


def unpacked(path: Path, tmp_path: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    target = tmp_path / "inside" / "target"
    target.mkdir(parents=True)
    left = archive.unpack(path, target)
    for found in (tmp_path / "inside").rglob("*"):
        assert not found.is_symlink()
        assert found.resolve().is_relative_to(target) or target.is_relative_to(found)
    files = {f.relative_to(target).as_posix(): f.read_bytes() for f in target.rglob("*") if f.is_file()}
    return files, {one.name: one.why for one in left}


@pytest.mark.parametrize("name", ["../out.py", "a/../../out.py", "/etc/out.py", "..\\out.py", "C:/out.py", "a\\b.py"])
def test_no_member_leaves_the_folder(tmp_path: Path, name: str) -> None:
    zipped = tmp_path / "a.zip"
    with zipfile.ZipFile(zipped, "w") as out:
        out.writestr(zipfile.ZipInfo(name), "x = 1\n")
        out.writestr("good.py", "x = 1\n")
    files, left = unpacked(zipped, tmp_path)
    assert files == {"good.py": b"x = 1\n"}
    assert set(left.values()) == {"its path leads out of the archive"}


@pytest.mark.parametrize("name", ["../out.py", "/tmp/out.py", "a/../../out.py"])
def test_no_member_of_a_tar_leaves_the_folder(tmp_path: Path, name: str) -> None:
    files, left = unpacked(tar_of(tmp_path / "a.tar.gz", [tarfile.TarInfo(name), tarfile.TarInfo("good.py")]), tmp_path)
    assert files == {"good.py": b"x = 1\n"}
    assert list(left) == [name]


def test_links_devices_and_pipes_are_left_out(tmp_path: Path) -> None:
    pipe, device = tarfile.TarInfo("pipe"), tarfile.TarInfo("device")
    pipe.type, device.type = tarfile.FIFOTYPE, tarfile.CHRTYPE
    members = [
        link("soft.py", "/etc/passwd", tarfile.SYMTYPE),
        link("hard.py", "/etc/passwd", tarfile.LNKTYPE),
        # A folder that is a link, and a member that would go through it.
        link("folder", "..", tarfile.SYMTYPE),
        tarfile.TarInfo("folder/through.py"),
        pipe,
        device,
        tarfile.TarInfo("good.py"),
    ]
    files, left = unpacked(tar_of(tmp_path / "a.tar.gz", members), tmp_path)
    assert set(files) == {"good.py", "folder/through.py"}
    assert set(left) == {"soft.py", "hard.py", "folder", "pipe", "device"}


def test_links_in_a_zip_are_left_out(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("soft.py")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        out.writestr(info, "/etc/passwd")
    files, left = unpacked(tmp_path / "a.zip", tmp_path)
    assert files == {} and left == {"soft.py": "it is a link"}


def test_sizes_are_counted_as_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_FILE_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("big.py", b"\0" * (2 << 20))
    (tmp_path / "t").mkdir()
    with pytest.raises(UsageError, match="more than may be unpacked"):
        archive.unpack(tmp_path / "bomb.zip", tmp_path / "t")


def test_all_bytes_and_all_files_are_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 3000)
    path = tar_of(tmp_path / "a.tar.gz", [tarfile.TarInfo(f"{n}.py") for n in range(4)], b"x" * 1000)
    (tmp_path / "t").mkdir()
    with pytest.raises(UsageError, match="more than may be unpacked"):
        archive.unpack(path, tmp_path / "t")
    monkeypatch.setattr(archive, "MAX_BYTES", 1 << 30)
    monkeypatch.setattr(archive, "MAX_FILES", 3)
    (tmp_path / "u").mkdir()
    with pytest.raises(UsageError, match="more than 3 files"):
        archive.unpack(path, tmp_path / "u")


@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])
@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut off", b"\x1f\x8b\x08\x00 cut off"])
def test_damage_is_a_plain_error(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    (tmp_path / "t").mkdir()
    with pytest.raises(UsageError, match=r"cannot be read|a\.tar\.gz"):
        archive.unpack(path, tmp_path / "t")


@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])
def test_a_cut_archive_is_a_plain_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w") as out:
            out.writestr("a.py", "x = 1\n" * 500)
    else:
        tar_of(path, [tarfile.TarInfo("a.py")], bytes(range(256)) * 200)
    whole = path.read_bytes()
    for number, length in enumerate(range(0, len(whole), max(1, len(whole) // 12))):
        path.write_bytes(whole[:length])
        target = tmp_path / str(number)
        target.mkdir()
        with pytest.raises(UsageError):
            archive.unpack(path, target)


def test_two_members_of_one_name_and_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        out.writestr("a.py", "first")
        with pytest.warns(UserWarning):
            out.writestr("a.py", "second")
        out.writestr("a.py/inner.py", "third")
        out.writestr("folder/x.py", "x")
        out.writestr("folder", "y")
    files, left = unpacked(tmp_path / "a.zip", tmp_path)
    assert files == {"a.py": b"first", "folder/x.py": b"x"}
    assert set(left) == {"a.py", "a.py/inner.py", "folder"}


def test_encrypted_members_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("a.py", "x = 1\n")
    blob = bytearray(path.read_bytes())
    blob[6] |= 1
    blob[blob.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(blob)
    files, left = unpacked(path, tmp_path)
    assert files == {} and left == {"a.py": "it is encrypted"}


def test_what_nobody_handed_in_is_not_spoken_of(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        for name in ("__MACOSX/._softmax.py", "._softmax.py", "__pycache__/softmax.pyc", "softmax.py"):
            out.writestr(name, "x = 1\n")
    files, left = unpacked(tmp_path / "a.zip", tmp_path)
    assert set(files) == {"softmax.py"} and left == {}
