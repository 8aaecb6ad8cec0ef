"""One archive of a package index, into a folder. Nothing of it is run.

Wheels come through `pip download`. Of a source distribution pip would make the metadata, which runs
its code, so that one file is asked for by the index's own interface (PEP 691) and taken as it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from kb.errors import InputError

PIP_SECONDS = 600
INDEX_SECONDS = 60.0
MAX_DOWNLOAD_BYTES = 512 * 1024 * 1024
INDEX = "https://pypi.org/simple"
LISTING = "application/vnd.pypi.simple.v1+json"
PYTHON = "3.11"
"""Wheels of one platform are chosen for this Python, whatever Python runs tilelore."""


def pip_download(requirement: str, folder: Path, *, platform: str = "") -> None:
    """Let the pip of the running interpreter download one wheel without its dependencies.

    `platform` (a tag such as `manylinux_2_28_x86_64`) asks for that platform's wheel. InputError.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-input", "--no-deps", "--only-binary=:all:", "--ignore-requires-python"]
    if platform:
        command += ["--platform", platform, "--python-version", PYTHON, "--implementation", "cp"]
        command += ["--abi", "abi3", "--abi", "none", "--abi", f"cp{PYTHON.replace('.', '')}"]
    command += ["--dest", str(folder), requirement]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise _no_download(requirement, f"no answer in {PIP_SECONDS} s") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        said = errors[-1].removeprefix("ERROR: ") if errors else done.stderr.strip()[-200:]
        raise _no_download(requirement, said)


def index_download(requirement: str, folder: Path, *, sha256: str) -> None:
    """Download the file that the index lists under this digest. InputError.

    The index is PIP_INDEX_URL, or PyPI.
    """
    index = os.environ.get("PIP_INDEX_URL", "").rstrip("/") or INDEX
    name = requirement.partition("==")[0]
    try:
        with httpx.Client(timeout=INDEX_SECONDS, follow_redirects=True) as client:
            listing = client.get(f"{index}/{name}/", headers={"Accept": LISTING})
            listing.raise_for_status()
            name, address = _listed(listing.json(), sha256, requirement)
            _stream(client, (name, str(listing.url.join(address))), folder, requirement)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise _no_download(requirement, str(error) or type(error).__name__) from None


def _listed(listing: Any, sha256: str, requirement: str) -> tuple[str, str]:
    """Name of the file with this digest, and its address, perhaps relative to the listing."""
    for file in listing["files"]:
        if file.get("hashes", {}).get("sha256") == sha256:
            return Path(str(file["filename"])).name, str(file["url"])
    raise _no_download(requirement, f"the index lists no file with the digest {sha256}")


def _stream(client: httpx.Client, file: tuple[str, str], folder: Path, requirement: str) -> None:
    name, address = file
    received = 0
    with client.stream("GET", address) as answer, (folder / name).open("wb") as sink:
        answer.raise_for_status()
        for block in answer.iter_bytes():
            received += len(block)
            if received > MAX_DOWNLOAD_BYTES:
                raise _no_download(requirement, f"more than {MAX_DOWNLOAD_BYTES} bytes")
            sink.write(block)


def _no_download(requirement: str, why: str) -> InputError:
    return InputError(
        f"it could not be downloaded: {why.rstrip('.')}.",
        where=requirement,
        hint="Check the network and pip's index settings; a copy in the cache needs neither.",
    )
