"""Machine code of a CUDA binary without debug and line information, and what its compiler used of
the machine.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
import subprocess
import tempfile
from importlib import util
from pathlib import Path

from generators.compile_model import MachineCode

_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)")
_EXECUTABLE = 0x4
_PROGBITS = 1
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")


def code_sections(binary: bytes) -> tuple[bytes, ...]:
    """Contents of the sections that decide what runs: executable ones and constant tables.

    Debug, line and parameter information is elsewhere. Raises ValueError when the bytes are not a
    64-bit little-endian ELF file.
    """
    if binary[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    header = _HEADER.unpack_from(binary)
    offset, size, count, names = header[6], header[11], header[12], header[13]
    sections = [_SECTION.unpack_from(binary, offset + index * size) for index in range(count)]
    base = sections[names][4]
    found: list[bytes] = []
    for section in sections:
        name = binary[base + section[0] : binary.index(b"\0", base + section[0])]
        table = name.startswith(b".nv.constant") and not name.startswith(b".nv.constant0")
        if section[1] == _PROGBITS and (section[2] & _EXECUTABLE or table):
            found.append(binary[section[4] : section[4] + section[5]])
    return tuple(found)


def machine_code_digest(binary: bytes) -> str:
    """sha256 over the code sections, sorted: names of functions and their order do not count."""
    state = hashlib.sha256()
    for content in sorted(code_sections(binary)):
        state.update(len(content).to_bytes(8, "little"))
        state.update(content)
    return state.hexdigest()


def from_binary(binary: bytes) -> MachineCode:
    """Digest and resource use of a CUDA binary; the use is None when `cuobjdump` is nowhere."""
    digest = machine_code_digest(binary)
    tool = _cuobjdump()
    if tool is None:
        return MachineCode(digest=digest)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        command = [tool, "--dump-resource-usage", file.name]
        listing = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    usage = resource_usage(listing)
    if usage is None:
        return MachineCode(digest=digest)
    return MachineCode(
        digest=digest, registers=usage[0], stack_bytes=usage[1], shared_bytes=usage[2]
    )


def _cuobjdump() -> str | None:
    """The one that Triton brings, else the one on the search path."""
    package = util.find_spec("triton")
    if package is not None and package.origin:
        bundled = Path(package.origin).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
        if bundled.is_file():
            return str(bundled)
    return shutil.which("cuobjdump")


def resource_usage(listing: str) -> tuple[int, int, int] | None:
    """Registers per thread, stack bytes per thread, static shared bytes per block from `cuobjdump`
    text.
    """
    found = [tuple(map(int, match.groups())) for match in _USAGE.finditer(listing)]
    if not found:
        return None
    registers, stack, shared = zip(*found, strict=True)
    return max(registers), max(stack), max(shared)
