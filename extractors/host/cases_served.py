"""Cases and near misses of kernels beside another one that serve a case of their own."""

from __future__ import annotations

from extractors.host.samples import TWO_POINTER, TWO_TILE, HostCase, HostMiss, vary
from extractors.host.served import MISSING, WHOLE

_ASKED = "if x.shape[1] > 4096:"
_NONE = (_ASKED, "if w is None:")
_GIVEN = (_ASKED, "has = w is not None\n    if not has:")
_DIVIDED = ((_ASKED, "if x.shape[1] % 64 == 0:"), ("1024, True, 1024", "1024, True, 64"))
_OTHER = ((_ASKED, "if x.shape[1] % 64 == 0:"), ("(x, out, 64)", "(x, out, 32)"))
_UNREAD = ((_ASKED, "if w is None:"), ("x, w, out, 1024", "x, x, out, 1024"))

CASES = (
    HostCase(MISSING, vary(TWO_POINTER, _NONE)),
    HostCase(MISSING, vary(TWO_TILE, _NONE)),
    HostCase(MISSING, vary(TWO_POINTER, _GIVEN)),
    HostCase(WHOLE, vary(TWO_POINTER, *_DIVIDED)),
    HostCase(WHOLE, vary(TWO_TILE, *_DIVIDED)),
)
"""What must be seen."""

MISSES = (
    HostMiss(MISSING, TWO_POINTER, "the shape chooses"),
    HostMiss(MISSING, TWO_TILE, "the shape chooses"),
    HostMiss(MISSING, vary(TWO_POINTER, *_UNREAD), "neither kernel takes the array"),
    HostMiss(MISSING, vary(TWO_TILE, *_UNREAD), "neither kernel takes the array"),
    HostMiss(
        MISSING, vary(TWO_POINTER, _NONE, ("wide[(x.shape[0],)](x,", "wide[(x.shape[0],)](w,")),
        "both take it",
    ),
    HostMiss(WHOLE, vary(TWO_POINTER, *_OTHER), "the kernels have tiles of other sizes"),
    HostMiss(WHOLE, vary(TWO_TILE, *_OTHER), "the kernels have tiles of other sizes"),
)  # fmt: skip
"""What must not be seen."""
