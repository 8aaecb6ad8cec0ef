"""Corpora: pinned, digest checked, unpacked safely, and nothing left behind after a failure."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import tarfile
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from api import archives
from api.corpora import Download, cache_folder, default_set, fetch, pinned
from api.downloads import index_download
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


def test_the_default_set() -> None:
    assert sorted(default_set()) == [
        "attn-gym==0.0.17",
        "fla-core==0.6.0",
        "flag-gems==5.0.2",
        "flash-attn==2.8.3.post2",
        "flashinfer-python==0.7.2.post1",
        "gemlite==0.6.0.post2",
        "liger-kernel==0.8.5",
        "sageattention==1.0.6",
        "tilegym==1.5.1",
        "torchao==0.18.0",
        "unsloth==2026.10.9",
        "xformers==0.0.35",
    ]


def test_what_is_pinned_beyond_the_default_set_is_read_when_it_is_named() -> None:
    assert set(default_set()) < set(pinned().values())
    assert pinned()["vllm"] == "vllm==0.33.0" not in default_set()


def sdist(*extra: tarfile.TarInfo) -> bytes:
    data = io.BytesIO()
    texts = {"tiny-1.0/PKG-INFO": METADATA, "tiny-1.0/csrc/k.cu": "x", "tiny-1.0/setup.cfg": "y"}
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in texts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
        for entry in extra:
            archive.addfile(entry)
    return data.getvalue()


def giving_sdist(data: bytes) -> Download:
    return lambda _requirement, folder: _ignored((folder / "tiny-1.0.tar.gz").write_bytes(data))


def _ignored(_count: int) -> None:
    return None


def test_a_source_distribution_loses_its_outer_folder_and_what_is_no_source() -> None:
    data = sdist()
    found = fetch("tiny==1.0", sha256=digest(data), download=giving_sdist(data))
    assert [str(name) for name in found.files] == ["PKG-INFO", "csrc/k.cu"]
    assert found.licence == "MIT"


def linked(name: str, target: str = "/etc/passwd") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    return entry


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(tarfile.TarInfo("tiny-1.0/../../outside.py"), id="parent folder inside"),
        pytest.param(tarfile.TarInfo("../outside.py"), id="parent folder"),
        pytest.param(tarfile.TarInfo("/outside.py"), id="absolute"),
        pytest.param(linked("tiny-1.0/link.py"), id="symbolic link"),
    ],
)
def test_a_source_distribution_cannot_write_outside(corpora: Path, entry: tarfile.TarInfo) -> None:
    data = sdist(entry)
    with pytest.raises(InputError, match="not a plain file inside"):
        fetch("tiny==1.0", sha256=digest(data), download=giving_sdist(data))
    assert list(corpora.iterdir()) == []


def test_what_unpacks_to_too_much_is_refused(
    corpora: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 100)
    data = wheel(("tiny/big.py", "#" * 101))
    with pytest.raises(InputError, match="unpacks to"):
        fetch("tiny==1.0", sha256=digest(data), download=giving(data))
    assert list(corpora.iterdir()) == []


def test_only_source_files_are_kept() -> None:
    data = wheel(("tiny/native.so", "binary"), ("tiny/tuned.yaml", "a: 1"))
    found = fetch("tiny==1.0", sha256=digest(data), download=giving(data))
    assert {name.suffix for name in found.files} == {".py", ".yaml", ""}


class Index(BaseHTTPRequestHandler):
    """A package index whose listing gives addresses relative to itself, as PEP 691 allows."""

    data = sdist()

    def do_GET(self) -> None:
        if self.path == "/simple/tiny/":
            hashes = {"sha256": digest(self.data)}
            file = {"filename": "tiny-1.0.tar.gz", "url": "../../files/t.tar.gz", "hashes": hashes}
            answer = json.dumps({"files": [file]}).encode()
        else:
            answer = self.data if self.path == "/files/t.tar.gz" else b""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_an_index_may_give_relative_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HTTPServer(("127.0.0.1", 0), Index) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        index_download("tiny==1.0", tmp_path, sha256=digest(Index.data))
        server.shutdown()
    assert (tmp_path / "tiny-1.0.tar.gz").read_bytes() == Index.data
