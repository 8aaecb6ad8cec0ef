"""Machine code without debug information, from ELF bytes built by hand."""

from __future__ import annotations

import struct

import pytest

from generators.machine_code import code_sections, machine_code_digest, resource_usage

PROGBITS, EXECUTABLE = 1, 0x4


def elf(*sections: tuple[str, bytes, int]) -> bytes:
    """A little 64-bit ELF file: name, content, flags of each section."""
    named = [("", b"", 0), *sections, (".shstrtab", b"", 0)]
    names, offsets = b"", []
    for name, _, _ in named:
        offsets.append(len(names))
        names += name.encode() + b"\0"
    body, rows = b"", []
    for (name, content, flags), offset in zip(named, offsets, strict=True):
        data = names if name == ".shstrtab" else content
        rows.append((offset, PROGBITS if name else 0, flags, 0, 64 + len(body), len(data)))
        body += data
    table = b"".join(struct.pack("<IIQQQQIIQQ", *row, 0, 0, 0, 0) for row in rows)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01", 2, 190, 1, 0, 0, 64 + len(body), 0, 64, 0, 0,
        64, len(rows), len(rows) - 1,
    )  # fmt: skip
    return head + body + table


CODE = (".text.kernel", b"\x01\x02", EXECUTABLE)
TABLE = (".nv.constant2", b"\x03", 0)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(elf(CODE, TABLE), True, id="itself"),
        pytest.param(elf((".text.other", b"\x01\x02", EXECUTABLE), TABLE), True, id="renamed"),
        pytest.param(elf(TABLE, CODE), True, id="order of sections"),
        pytest.param(elf(CODE, TABLE, (".debug_line", b"x", 0)), True, id="line information"),
        pytest.param(elf(CODE, TABLE, (".nv.constant0.k", b"x", 0)), True, id="parameters"),
        pytest.param(elf((".text.kernel", b"\x01\x03", EXECUTABLE), TABLE), False, id="code"),
        pytest.param(elf(CODE, (".nv.constant2", b"\x04", 0)), False, id="constant table"),
        pytest.param(elf(CODE), False, id="table gone"),
    ],
)
def test_what_counts(other: bytes, same: bool) -> None:
    assert (machine_code_digest(elf(CODE, TABLE)) == machine_code_digest(other)) is same


def test_not_an_elf_file() -> None:
    with pytest.raises(ValueError, match="not a 64-bit"):
        code_sections(b"MZ" + b"\0" * 80)


@pytest.mark.parametrize(
    ("listing", "usage"),
    [
        pytest.param("", None, id="nothing"),
        pytest.param(" REG:32 STACK:8 SHARED:1024 LOCAL:0", (32, 8, 1024), id="one"),
        pytest.param(
            "REG:32 STACK:0 SHARED:8\nREG:64 STACK:16 SHARED:4", (64, 16, 8), id="the most"
        ),
    ],
)
def test_resource_usage(listing: str, usage: tuple[int, int, int] | None) -> None:
    assert resource_usage(listing) == usage
