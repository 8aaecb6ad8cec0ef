"""`tilelore diff` and `tilelore blame`: over kernels, packages and small git repositories."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from api import corpora, schemas, versions
from api.cli import app
from api.http import create_app
from api.revisions import Repository
from api.services import services
from kb.errors import InputError
from kb.store import ONTOLOGY, LocalStore
from tests.api.asgi_client import AsgiClient

HEAD = "import triton\nimport triton.language as tl\n\n"
DOUBLE = (
    HEAD
    + """@triton.jit
def double(x, y, n, T: tl.constexpr):
    i = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(y + i, tl.load(x + i, mask=i < n, other=0.0) * 2, mask=i < n)
"""
)
HINTED = DOUBLE.replace("other=0.0)", 'other=0.0, eviction_policy="evict_first")')
RENAMED = HINTED.replace("def double", "def twice").replace("i = ", "place = ").replace(
    "+ i", "+ place").replace("=i < n", "=place < n")  # fmt: skip
WIDE = RENAMED.replace("tl.program_id(0) * T", "tl.program_id(0).to(tl.int64) * T")
OTHER = (
    HEAD
    + """@triton.jit
def total(x, y, n, T: tl.constexpr):
    i = tl.arange(0, T)
    tl.store(y, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))
"""
)


def tilelore(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def document(result: Result, code: int) -> dict[str, Any]:
    assert result.exit_code == code, result.output
    found = json.loads(result.stdout)
    model = schemas.Blame if found["schema"].startswith("tilelore.blame") else schemas.Difference
    model.model_validate(found)
    assert isinstance(found, dict)
    return found


class Repo:
    """A small repository; `commit` gives the digest of what it made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.count = 0

    def git(self, *arguments: str) -> str:
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@example.org",
            "GIT_AUTHOR_DATE": f"2026-01-{getattr(self, 'count', 0) + 1:02d}T00:00:00+00:00",
        }  # fmt: skip
        done = subprocess.run(
            ["git", "-C", str(self.folder), *arguments], capture_output=True, text=True,
            check=True, env=environment,
        )  # fmt: skip
        return done.stdout.strip()

    def commit(self, summary: str, **files: str | None) -> str:
        """Write files (`pkg__k` is pkg/k.py; None removes it) and commit."""
        self.count += 1
        for name, text in files.items():
            path = self.folder / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", summary)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


# -- diff


def test_two_kernels_of_two_files(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text(DOUBLE)
    two.write_text(OTHER + HINTED.removeprefix(HEAD))
    found = document(tilelore("diff", f"{one}::double", f"{two}::double", "-f", "json"), 1)
    assert found["schema"] == "tilelore.diff/2"
    (pair,) = found["pairs"]
    assert pair["match"] == "asked"
    (row,) = [row for row in pair["decisions"] if row["axis"] == "cache_hint"]
    assert (row["left"], row["right"]) == (["none"], ["evict_first"])
    assert (row["left_lines"], row["right_lines"]) == ([[7, 7]], [[11, 11]])
    assert pair["decisions_in_both"] > 3
    assert "evict_first" in tilelore("diff", f"{one}::double", f"{two}::double").stdout


def test_other_operands_are_compared_by_axis(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text(DOUBLE)
    two.write_text(RENAMED.replace("(x, y, n", "(source, y, n").replace("load(x", "load(source"))
    found = document(tilelore("diff", f"{one}::double", f"{two}::twice", "-f", "json"), 1)
    (pair,) = found["pairs"]
    assert {row["axis"] for row in pair["decisions"]} == {"cache_hint"}
    assert {row["subject"] for row in pair["decisions"]} == {None}


def test_the_same_is_exit_code_0_and_bad_input_2(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(DOUBLE)
    assert document(tilelore("diff", path, path, "-f", "json"), 0)["same"] is True
    for arguments in ((path,), (path, path, path), (path, tmp_path / "none.py"),
                      (f"{path}::nothing", path)):  # fmt: skip
        assert tilelore("diff", *arguments).exit_code == 2


def test_two_revisions(repo: Repo) -> None:
    old = repo.commit("first", k__a=DOUBLE, k__b=OTHER, k__same=OTHER.replace("total", "kept"))
    new = repo.commit("second", k__a=HINTED, k__b=None, k__c=OTHER.replace("total", "summed"))
    found = document(tilelore("diff", "--git", repo.folder, old, new, "-f", "json"), 1)
    matches = {(pair["left"], pair["right"]): pair["match"] for pair in found["pairs"]}
    assert matches == {("double", "double"): "file and name", ("total", "summed"): "same program"}
    assert found["unchanged_files"] == 1
    assert found["kernels"] == {"unchanged": 1, "changed": 1, "moved": 1, "removed": 0, "added": 0}
    below = tilelore("diff", "--git", repo.folder, old, new, "k/b.py", "k/c.py", "-f", "json")
    assert [pair["left"] for pair in document(below, 0)["pairs"]] == ["total"]
    assert document(tilelore("diff", "--git", repo.folder, old, old, "-f", "json"), 0)["same"]
    assert not (repo.folder / "k" / "b.py").exists()


def test_added_and_removed_kernels(repo: Repo) -> None:
    old = repo.commit("first", a=DOUBLE)
    new = repo.commit("second", a=None, b=OTHER)
    found = document(tilelore("diff", "--git", repo.folder, old, new, "-f", "json"), 1)
    assert [row["name"] for row in found["only_left"]] == ["double"]
    assert [row["name"] for row in found["only_right"]] == ["total"]
    shown = tilelore("diff", "--git", repo.folder, old, new).stdout
    assert "1 removed, 1 added" in shown


@pytest.mark.parametrize(
    "revision",
    [
        pytest.param("--output=pwned", id="an option"),
        pytest.param("-x", id="a short option"),
        pytest.param("nothing", id="no such revision"),
        pytest.param("HEAD\n--all", id="a line end"),
        pytest.param("", id="nothing at all"),
        pytest.param("HEAD:a.py", id="a file"),
    ],
)
def test_what_names_no_revision_is_refused(repo: Repo, revision: str) -> None:
    repo.commit("first", a=DOUBLE)
    with Repository(repo.folder) as repository, pytest.raises(InputError):
        repository.resolve(revision)
    assert tilelore("diff", "--git", repo.folder, "HEAD", "--", revision).exit_code == 2
    assert not list(Path().glob("pwned"))


@pytest.mark.parametrize("path", ["../else", "/etc", ".git/config", "a\nb", ":(top)x/../../y"])
def test_paths_outside_are_refused(repo: Repo, path: str) -> None:
    repo.commit("first", a=DOUBLE)
    assert tilelore("diff", "--git", repo.folder, "HEAD", "HEAD", path).exit_code == 2


def test_nothing_of_the_repository_runs(repo: Repo, tmp_path: Path) -> None:
    """Hooks, filters, textconv, external diff, pager and fsmonitor all leave a mark when run."""
    mark = tmp_path / "ran"
    script = tmp_path / "script.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    script.chmod(0o755)
    old = repo.commit("first", a=DOUBLE)
    new = repo.commit("second", a=HINTED)
    for setting in ("core.fsmonitor", "core.pager", "diff.external", "diff.evil.textconv",
                    "diff.evil.command", "filter.evil.smudge", "filter.evil.clean",
                    "gpg.program", "core.sshCommand"):  # fmt: skip
        repo.git("config", setting, str(script))
    repo.git("config", "log.showSignature", "true")
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        place = repo.folder / ".git" / "hooks" / hook
        place.write_text(script.read_text())
        place.chmod(0o755)
    (repo.folder / ".git" / "info" / "attributes").write_text("*.py diff=evil filter=evil\n")
    assert tilelore("diff", "--git", repo.folder, old, new).exit_code == 1
    assert tilelore("blame", "a.py::double", "--repo", repo.folder).exit_code == 0
    assert not mark.exists()


def test_links_and_strange_names_are_left_out(repo: Repo, tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text(OTHER)
    (repo.folder / "link.py").symlink_to(secret)
    commit = repo.commit("first", a=DOUBLE)
    with Repository(repo.folder) as repository:
        assert [blob.path for blob in repository.files(commit)] == ["a.py"]


def test_no_repository(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        assert tilelore("diff", "--git", folder, "HEAD", "HEAD").exit_code == 2


def test_two_kernels_over_http(tmp_path: Path) -> None:
    for name, text in (("one", DOUBLE), ("two", OTHER)):
        (tmp_path / f"{name}.py").write_text(text)
    kb = tmp_path / "kb"
    assert tilelore("extract", tmp_path / "one.py", tmp_path / "two.py", "--kb", kb).exit_code == 0
    with LocalStore(kb, vocabulary=ONTOLOGY) as store:
        client = AsgiClient(create_app(store, services=services(store)))
        answer = client.get("/diff?left=double&right=total")
        assert answer.status_code == 200, answer.text
        (pair,) = answer.json()["pairs"]
        assert (pair["left"], pair["right"], pair["same"]) == ("double", "total", False)
        assert client.get("/diff?left=double&right=nothing").status_code == 404
        assert client.get("/diff?left=double").status_code == 422
        bare = AsgiClient(create_app(store))
        assert bare.get("/diff?left=double&right=total").status_code == 501


# -- packages


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An index with two versions of a package, and an empty cache; digests by requirement."""
    monkeypatch.setenv("TILELORE_CACHE", str(tmp_path / "cache"))
    index = tmp_path / "index"
    index.mkdir()
    digests = {}
    for version, text in (("1.0", DOUBLE), ("1.1", HINTED)):
        path = index / f"pkg-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("pkg/__init__.py", "")
            archive.writestr("pkg/a.py", text)
            archive.writestr("pkg/b.py", OTHER)
            archive.writestr(f"pkg-{version}.dist-info/METADATA", "License: MIT\n")
        digests[f"pkg=={version}"] = sha256(path.read_bytes()).hexdigest()

    def download(requirement: str, folder: Path, **_: object) -> None:
        name = f"pkg-{requirement.partition('==')[2]}-py3-none-any.whl"
        (folder / name).write_bytes((index / name).read_bytes())

    monkeypatch.setattr(corpora, "index_download", download)
    monkeypatch.setattr(versions, "pip_download", download)
    return digests


def test_two_versions_by_digest(wheels: dict[str, str]) -> None:
    sides = [f"{name}@sha256:{digest}" for name, digest in wheels.items()]
    found = document(tilelore("diff", *sides, "-f", "json"), 1)
    assert (found["left"], found["right"]) == ("pkg==1.0", "pkg==1.1")
    assert found["unchanged_files"] == 1
    assert found["kernels"] == {"unchanged": 1, "changed": 1, "moved": 0, "removed": 0, "added": 0}
    (changed,) = [pair for pair in found["pairs"] if not pair["same"]]
    assert changed["left_path"] == "pkg/a.py"
    assert {row["axis"] for row in changed["decisions"]} == {"cache_hint"}
    one = tilelore("diff", f"{sides[0]}::double", f"{sides[1]}::double", "-f", "json")
    assert len(document(one, 1)["pairs"]) == 1


def test_a_version_by_digest_is_read_into_the_base(wheels: dict[str, str], tmp_path: Path) -> None:
    (name, digest), *_ = wheels.items()
    done = tilelore("extract", f"{name}@sha256:{digest}", "--kb", tmp_path / "kb")
    assert done.exit_code == 0, done.stderr
    assert f"({name})" in done.stdout
    bare = tilelore("extract", name)
    assert bare.exit_code == 2
    assert f"Write {name}@sha256:DIGEST" in bare.stderr


def test_a_version_without_digest_needs_trust(wheels: dict[str, str]) -> None:
    assert tilelore("diff", *wheels).exit_code == 2
    done = tilelore("diff", *wheels, "--trust-index")
    assert done.exit_code == 1
    for name, digest in wheels.items():
        assert f"{name} has sha256:{digest}" in done.stderr
    assert tilelore("diff", *wheels).exit_code == 1  # recorded, and no longer asked


def test_names_of_packages_are_normalised() -> None:
    asked = versions.package_asked("Liger_Kernel==0.8.5@sha256:ab::k")
    assert asked == versions.Asked("liger-kernel==0.8.5", "ab", "k")
    assert versions.package_asked("kernel_of_the_base") is None


def test_a_wrong_digest_is_refused(wheels: dict[str, str]) -> None:
    first, second = wheels
    sides = (f"{first}@sha256:{wheels[second]}", f"{second}@sha256:{wheels[second]}")
    assert tilelore("diff", *sides).exit_code == 2
    assert tilelore("diff", f"{first}@md5:1", second).exit_code == 2


# -- blame


def origins(found: dict[str, Any]) -> dict[str, str]:
    return {row["axis"]: row["summary"] for row in found["decisions"]}


def test_blame_follows_kernel_and_file(repo: Repo) -> None:
    repo.commit("first", old=DOUBLE)
    repo.commit("unrelated", other=OTHER)
    repo.commit("hint", old=HINTED)
    repo.commit("rename the kernel", old=RENAMED)
    repo.commit("move the file", old=None, new__place=RENAMED)
    last = repo.commit("widen", new__place=WIDE)
    result = tilelore("blame", "new/place.py::twice", "--repo", repo.folder, "-f", "json")
    found = document(result, 0)
    assert found["schema"] == "tilelore.blame/1"
    told = origins(found)
    assert told["cache_hint"] == "hint"
    assert told["access_mode"] == "first"
    assert told["index_width"] == "widen"
    (row,) = [row for row in found["decisions"] if row["axis"] == "index_width"]
    assert (row["revision"], row["date"]) == (last, "2026-01-07T00:00:00+00:00")
    assert row["lines"][0][0] == 6
    (row,) = [row for row in found["decisions"] if row["axis"] == "cache_hint"]
    assert (row["path_then"], row["kernel_then"]) == ("old.py", "double")
    assert found["revisions_read"] == 5
    shown = tilelore("blame", "new/place.py::twice", "--repo", repo.folder, "--axis", "cache_hint")
    assert "hint" in shown.stdout
    assert "widen" not in shown.stdout


def test_blame_sees_what_came_back(repo: Repo) -> None:
    """A decision that was taken out and put in again is as old as its last coming."""
    repo.commit("with", a=HINTED)
    repo.commit("without", a=DOUBLE)
    repo.commit("with again", a=HINTED)
    told = origins(document(tilelore("blame", "a.py::double", "--repo", repo.folder, "-f", "json"),
                            0))  # fmt: skip
    assert told["cache_hint"] == "with again"
    assert told["access_mode"] == "with"


def test_blame_goes_through_merges(repo: Repo) -> None:
    repo.commit("first", a=DOUBLE)
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("hint on a side", a=HINTED)
    repo.git("checkout", "-q", "main")
    repo.commit("main goes on", b=OTHER)
    repo.git("merge", "-q", "--no-ff", "-m", "merged", "side")
    told = origins(document(tilelore("blame", "a.py::double", "--repo", repo.folder, "-f", "json"),
                            0))  # fmt: skip
    assert told["cache_hint"] == "hint on a side"
    assert told["access_mode"] == "first"


def test_blame_tells_of_a_revision_that_cannot_be_read(repo: Repo) -> None:
    repo.commit("broken", a=DOUBLE + "def f(:\n")
    repo.commit("mended", a=DOUBLE)
    found = document(tilelore("blame", "a.py::double", "--repo", repo.folder, "-f", "json"), 0)
    assert set(origins(found).values()) == {"mended"}
    assert len(found["notes"]) == 1


def test_blame_refuses(repo: Repo, tmp_path: Path) -> None:
    repo.commit("first", a=DOUBLE)
    for arguments in (
        ("a.py::nothing", "--repo", repo.folder),
        ("b.py::double", "--repo", repo.folder),
        ("../a.py::double", "--repo", repo.folder),
        ("a.py::double", "--repo", tmp_path),
        ("a.py::double", "--repo", repo.folder, "--rev=--all"),
        ("a.py::double", "--repo", repo.folder, "--axis", "softmax_scheme"),
    ):
        assert tilelore("blame", *arguments).exit_code == 2
