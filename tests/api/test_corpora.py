"""Corpora: pinned, digest checked, unpacked safely, and nothing left behind after a failure."""

from __future__ import annotations

import hashlib
import io
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from api.corpora import Download, cache_folder, fetch, pinned
from kb.errors import InputError

METADATA = "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\nLicense: MIT License\n\nText.\n"


def wheel(*extra: tuple[str, str], mode: int = 0) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("tiny/kernel.py", "x = 1\n")
        archive.writestr("tiny-1.0.dist-info/METADATA", METADATA)
        for name, text in extra:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            archive.writestr(entry, text)
    return data.getvalue()


def giving(data: bytes, calls: list[str] | None = None) -> Download:
    def download(requirement: str, folder: Path) -> None:
        if calls is not None:
            calls.append(requirement)
        (folder / "tiny-1.0-py3-none-any.whl").write_bytes(data)

    return download


def failing(requirement: str, folder: Path) -> None:
    (folder / "tiny-1.0-py3-none-any.whl").write_bytes(b"half")
    raise InputError("no network", where=requirement)


@pytest.fixture(autouse=True)
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELORE_CACHE", str(tmp_path))
    return tmp_path / "corpora"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_wheel_is_unpacked_once_and_then_read_offline(corpora: Path) -> None:
    data, calls = wheel(), list[str]()
    first = fetch("Tiny==1.0", sha256=digest(data), download=giving(data, calls))
    again = fetch("tiny==1.0", sha256=digest(data), download=failing)
    assert first == again
    assert calls == ["tiny==1.0"]
    assert (first.package, first.version, first.licence) == ("tiny", "1.0", "MIT")
    assert [str(name) for name in first.files] == ["tiny-1.0.dist-info/METADATA", "tiny/kernel.py"]
    assert (first.folder / "tiny/kernel.py").read_text() == "x = 1\n"
    assert [path.name for path in corpora.iterdir()] == [first.folder.name]


@pytest.mark.parametrize(
    ("data", "download", "says"),
    [
        pytest.param(wheel(), failing, "no network", id="half a download"),
        pytest.param(b"no zip", giving(b"no zip"), "broken", id="not an archive"),
        pytest.param(wheel(), giving(wheel(("a.py", "2"))), "is wanted", id="another digest"),
        pytest.param(wheel(), lambda _name, _folder: None, "gave nothing", id="no wheel"),
    ],
)
def test_a_failure_leaves_nothing(
    corpora: Path, data: bytes, download: Download, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        fetch("tiny==1.0", sha256=digest(data), download=download)
    assert list(corpora.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param("../outside.py", 0, id="parent folder"),
        pytest.param("tiny/../../outside.py", 0, id="parent folder inside"),
        pytest.param("/outside.py", 0, id="absolute"),
        pytest.param("C:outside.py", 0, id="drive"),
        pytest.param("link", stat.S_IFLNK | 0o777, id="symbolic link"),
    ],
)
def test_an_archive_cannot_write_outside(corpora: Path, name: str, mode: int) -> None:
    data = wheel((name, "/etc/passwd"), mode=mode)
    with pytest.raises(InputError, match="not a plain file inside"):
        fetch("tiny==1.0", sha256=digest(data), download=giving(data))
    assert list(corpora.iterdir()) == []
    assert not list(corpora.parent.glob("**/outside.py"))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        pytest.param(lambda: fetch("tiny==1.0"), "not pinned", id="unknown package"),
        pytest.param(lambda: fetch("tilegym==9.9"), "not pinned", id="unknown version"),
        pytest.param(lambda: fetch("tilegym"), "exact version", id="no version"),
        pytest.param(lambda: fetch("tilegym>=1"), "exact version", id="a range"),
        pytest.param(lambda: fetch("--index-url==1"), "exact version", id="an option of pip"),
        pytest.param(lambda: fetch("tiny==1.0", sha256="ab"), "64", id="not a digest"),
        pytest.param(
            lambda: fetch("tilegym==1.5.1", sha256="0" * 64), "not the pinned", id="other digest"
        ),
    ],
)
def test_a_request_is_refused_before_any_download(call: Callable[[], object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        call()
    assert not cache_folder().joinpath("corpora").exists()


def test_the_pinned_corpora() -> None:
    assert sorted(pinned().values()) == [
        "fla-core==0.6.0",
        "flag-gems==5.0.2",
        "liger-kernel==0.8.5",
        "tilegym==1.5.1",
    ]
