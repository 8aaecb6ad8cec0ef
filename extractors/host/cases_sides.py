"""Cases and near misses of kernels that the host chooses between, and of arrays and extents that it
pads."""

from __future__ import annotations

from extractors.host.samples import (
    HEAD,
    ROWS_POINTER,
    ROWS_TILE,
    TWO_POINTER,
    TWO_TILE,
    HostCase,
    HostMiss,
    tile,
    vary,
)

_CHOSEN = "kernel-chosen-by-the-host"
_INSTEAD = "framework-instead-of-the-kernel"
_TARGET = "kernel-chosen-by-the-target"

_IF = "    if x.shape[1] > 4096:\n"
_WIDE = "        wide[(x.shape[0],)](x, out, 64)\n        return out\n"
_TRIED = """        try:
            wide[(x.shape[0],)](x, out, 64)
            return out
        except RuntimeError:
            pass
"""
_WIDE_TILE = "ct.launch(torch.cuda.current_stream(), (x.shape[0],), wide, (x, out, 64))\n"
TABLE = vary(
    TWO_POINTER,
    ("\ndef host(x, w)", '\nKINDS = {"wide": wide, "rows": kern}\n\ndef host(x, w, kind)'),
    (_IF + _WIDE, ""),
    ("    kern[", "    KINDS[kind]["),
)
"""One of two kernels by an entry of a table."""
TABLE_TILE = vary(
    TWO_TILE,
    ("\ndef host(x, w)", '\nKINDS = {"wide": wide, "rows": kern}\n\ndef host(x, w, kind)'),
    (_IF + "        " + _WIDE_TILE + "        return out\n", ""),
    (" kern, (", " KINDS[kind], ("),
)
_HELPER = "\ndef plain(x, w):\n    y = torch.softmax(x, 1)\n    return y * w\n\ndef host("
_PLAIN = "    if w is None:\n        return plain(x, x)\n"
HELPED = vary(ROWS_POINTER, ("\ndef host(", _HELPER), ("    kern[", _PLAIN + "    kern["))
"""A helper that computes with torch where an array is missing."""
HELPED_TILE = vary(ROWS_TILE, ("\ndef host(", _HELPER), ("    ct.launch", _PLAIN + "    ct.launch"))
_OPERATOR = "    if w is None:\n        torch.ops.mine.rows(x, out)\n        return out\n"
REGISTERED = vary(ROWS_POINTER, ("    kern[", _OPERATOR + "    kern["))
"""An operator that is registered with torch writes the results where an array is missing."""
REGISTERED_TILE = vary(ROWS_TILE, ("    ct.launch", _OPERATOR + "    ct.launch"))
_PLACED = "    if x.shape[0] < 8:\n        out[w] = x\n        return out\n"
SCATTERED = vary(ROWS_POINTER, ("    kern[", _PLACED + "    kern["))
"""Rows put where an array says, without a kernel, where there are few."""
FOREIGN = vary(
    ROWS_POINTER,
    ("\ndef host(", "\nfrom elsewhere import wide\n\ndef host("),
    ("    kern[", _IF + _WIDE + "    kern["),
)
"""A kernel of another module on one side of a test."""
_OWN = '@torch.library.triton_op("mine::rows", mutates_args=())\ndef host('
_BOUND = (_IF + _WIDE, "    one = wide if x.shape[1] > 4096 else kern\n")
_SMS = "    sms = torch.cuda.get_device_properties(0).multi_processor_count\n"
_DEVICE = "torch.cuda.get_device_capability()[0] >= 10"
_SWITCHED = (_IF, f"    big = True\n    if not {_DEVICE}:\n        big = False\n    if big:\n")
"""The flag that chooses is taken back where the device cannot do it."""

_PADDED = "array-padded-by-the-host"
_ROUNDED = "power-of-two-tile-padding-of-an-extent"
_PAD = "    x = torch.nn.functional.pad(x, (0, 24)).contiguous()\n"
PADDED = vary(ROWS_POINTER, ("    kern[", _PAD + "    kern["))
"""Rows made longer by the host."""
PADDED_TILE = vary(ROWS_TILE, ("    ct.launch", _PAD + "    ct.launch"))
_BACK = "class Rows(torch.autograd.Function):\n    @staticmethod\n"
_SAVING = f"""def size_of(x):
    return x, triton.next_power_of_2(x.shape[1])

{_BACK}    def forward(ctx, x):
        y, ctx.width = size_of(x)
        return y

    @staticmethod
    def backward(ctx, x):
        return host(x, ctx.width)

def host(x, size)"""
SAVED = vary(
    ROWS_POINTER,
    ("def host(x, w)", _SAVING),
    ("(x, w, out, 1024, True, 1024", "(x, x, out, 1024, True, int(size)"),
)
"""The size of the tile is saved by the forward pass and handed to the backward pass."""
_MULTIPLE = (
    "(x, w, out, 1024, True, 1024",
    "(x, w, out, 1024, True, triton.cdiv(x.shape[1], 64) * 64",
)
_ARGS = "x, w, out, 1024, True, "
_BITS = "(x.shape[1] - 1).bit_length()"
_POSITIVE = "max(x.shape[1] - 1, 0).bit_length()"
_SOME = (
    "(x, w, out, 1024, True, 1024",
    "(x, w, out, 1024, True, triton.next_power_of_2(x.shape[1]) if x.shape[1] < 999 else 512",
)

CASES = (
    HostCase(_TARGET, vary(TWO_POINTER, _SWITCHED), "if capability"),
    HostCase(_TARGET, vary(TWO_TILE, _SWITCHED), "if capability"),
    HostCase(_PADDED, PADDED, "padded on the host"),
    HostCase(_PADDED, PADDED_TILE, "padded on the host"),
    HostCase(_ROUNDED, tile(HEAD, f"{_ARGS}1 << {_BITS}"), "next_pow2 + OOB handling"),
    HostCase(_ROUNDED, tile(HEAD, f"{_ARGS}2 ** {_POSITIVE}"), "next_pow2 + OOB handling"),
    HostCase(_ROUNDED, SAVED, "next_pow2 + OOB handling"),
    HostCase(_ROUNDED, vary(ROWS_POINTER, _MULTIPLE), "rounded up to a multiple"),
    HostCase(_ROUNDED, vary(ROWS_POINTER, _SOME), "next_pow2 + OOB handling"),
    HostCase(_CHOSEN, TABLE),
    HostCase(_CHOSEN, TABLE_TILE),
    HostCase(_CHOSEN, vary(TWO_POINTER, (_WIDE, _TRIED))),
    HostCase(_CHOSEN, vary(TWO_POINTER, _BOUND, ("    kern[", "    one["))),
    HostCase(_CHOSEN, vary(TWO_POINTER, ("x.shape[1] > 4096", f"x.shape[1] > 4096 and {_DEVICE}"))),
    HostCase(_TARGET, vary(TWO_POINTER, ("x.shape[1] > 4096", f"x.shape[1] > 4096 and {_DEVICE}"))),
    HostCase(_TARGET, vary(TWO_TILE, (_IF, f"    new = {_DEVICE}\n    if new:\n"))),
    HostCase(_CHOSEN, FOREIGN),
    HostCase(_INSTEAD, SCATTERED),
    HostCase(_INSTEAD, HELPED),
    HostCase(_INSTEAD, HELPED_TILE),
    HostCase(_INSTEAD, REGISTERED),
    HostCase(_INSTEAD, REGISTERED_TILE),
)
"""What must be seen."""

MISSES = (
    HostMiss(_INSTEAD, vary(REGISTERED, ("def host(", _OWN)), "the operator runs the kernel"),
    HostMiss(_INSTEAD, vary(REGISTERED_TILE, ("def host(", _OWN)), "the operator runs the kernel"),
    HostMiss(_ROUNDED, tile(HEAD, f"{_ARGS}3 << {_BITS}"), "three times a power of two"),
    HostMiss(
        _TARGET,
        vary(TWO_POINTER, (_SWITCHED[0], _SWITCHED[1].replace(_DEVICE, "w is None"))),
        "an array chooses",
    ),
    HostMiss(_PADDED, vary(PADDED, ("    x = torch.nn", "    y = torch.nn")), "another array"),
    HostMiss(_PADDED, vary(PADDED_TILE, ("    x = torch.nn", "    y = torch.nn")), "another array"),
    HostMiss(_ROUNDED, vary(SAVED, ("int(size)", "1024")), "the size that was saved is not used"),
    HostMiss(
        _ROUNDED,
        vary(SAVED, ("return x, triton", "return triton"), (".shape[1])", ".shape[1]), x")),
        "what is saved is the array",
    ),
    HostMiss(
        _ROUNDED, vary(ROWS_POINTER, _MULTIPLE, (") * 64", ") * 32")), "no multiple that covers"
    ),
    HostMiss(_CHOSEN, vary(TABLE, ("KINDS[kind]", 'KINDS["rows"]')), "always the same entry"),
    HostMiss(_CHOSEN, vary(TABLE_TILE, ('"wide": wide, ', "")), "a table of one kernel"),
    HostMiss(_CHOSEN, vary(TWO_POINTER, ("        return out\n", "")), "both run for wide rows"),
    HostMiss(_CHOSEN, vary(TWO_TILE, ("        return out\n", "")), "both run for wide rows"),
    HostMiss(_CHOSEN, vary(FOREIGN, ("        return out\n", "")), "both run for wide rows"),
    HostMiss(_INSTEAD, vary(SCATTERED, ("out[w] = x", "out[0] = x")), "one row, at a known place"),
    HostMiss(
        _INSTEAD,
        vary(HELPED, ("    if w is", "    x = torch.randn(x.shape)\n    if w is")),
        "a benchmark that draws its arrays",
    ),
    HostMiss(
        _INSTEAD, vary(HELPED, ("torch.softmax(x, 1)", "torch.empty_like(x)")), "nothing computed"
    ),
    HostMiss(
        _INSTEAD,
        vary(HELPED_TILE, ("return plain(x, x)", "w = plain(x, x)")),
        "the kernel runs all the same",
    ),
    HostMiss(
        _TARGET,
        vary(TWO_TILE, (_IF, _SMS + "    if x.shape[0] > sms:\n")),
        "how much work there is for the device, not what it is",
    ),
)
"""What must not be seen."""
