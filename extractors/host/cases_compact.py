"""Cases and near misses of arrays that the host makes contiguous on some way to a launch, makes
in place of missing ones, or hands over twice."""

from __future__ import annotations

from extractors.host.samples import (
    ROWS_POINTER,
    ROWS_TILE,
    SEARCH_TILE,
    HostCase,
    HostMiss,
    vary,
)
from extractors.host.stand_ins import STAND_IN

_LAID = "host-contiguity-alignment-normalisation"
_HELPER = (
    "def host(x, w)",
    (
        "def laid(x):\n    if x.stride(-1) == 1:\n        return x\n    return x.contiguous()\n\n"
        "def host(x, w)"
    ),
)
_CALL, _CALL_TILE = "    kern[", "    ct.launch("
_OUTER = "def outer(x, w):\n    x = x.contiguous()\n    return host(x, w)\n\ndef host(x, w)"
_ALL = "    x, w = [one if one.stride(-1) == 1 else one.contiguous() for one in (x, w)]\n"
HELPED = vary(ROWS_POINTER, _HELPER, (_CALL, "    x = laid(x)\n" + _CALL))
"""A helper that gives an array back as it is, or contiguous."""
HELPED_TILE = vary(ROWS_TILE, _HELPER, (_CALL_TILE, "    x = laid(x)\n" + _CALL_TILE))
_AFTER = ("1024, num_warps=4)\n", "1024, num_warps=4)\n    x = x.contiguous()\n")

_NONE = "    if w is None:\n        w = torch.empty(0, device=x.device)\n"
_CHOICE = "    w = torch.ones(8) if w is None else w\n"

_PRUNED = "config-pruning-predicate"
FITTING = vary(
    SEARCH_TILE,
    ("def host(", "def fitting(rows, n):\n    return [r for r in rows if r.T <= n]\n\ndef host("),
    ("configs = list(space())", "configs = fitting(list(space()), x.shape[1])"),
)
"""Configurations that a function of the module leaves out before the search gets them."""

_ALIAS = "one-tensor-for-input-and-output"
_ASKED = (
    "def host(x, w):\n    out = torch.empty_like(x)\n",
    "def host(x, w, same=False):\n    out = x if same else torch.empty_like(x)\n",
)
_COPY_FIRST = (
    ("def host(x, w):\n    out = torch.empty_like(x)\n",
     "def host(x, w):\n    out = x.clone() if w is None else x\n"),
    ("kern, (x, w, out,", "kern, (out, w, out,"),
)  # fmt: skip
_FLAT = ("kern, (x, w, out,", "kern, (x.view(-1, 8), w, out.view(-1, 8),")
_LEFT = "    if not x.is_contiguous():\n        return torch.softmax(x, 1)\n"
_DEMANDED = "contiguous tensors demanded"
LEFT = vary(ROWS_POINTER, (_CALL, _LEFT + _CALL))
LEFT_TILE = vary(ROWS_TILE, (_CALL_TILE, _LEFT + _CALL_TILE))
"""What is not contiguous is left to the framework."""
_TURNED = "column-major-operand-demanded"
_DOWN = "    assert w.stride(-2) == 1\n"
_OVER = "permuted-and-copied-on-the-host"
_MOVED = "    x = x.permute(1, 0).contiguous()\n"
_FOR_W = "    w = out if w is None else w\n"
_EXTENTS = "problem-extents-as-compile-time-constants"
_KEPT_OUT = vary(ROWS_POINTER, ("@triton.jit", '@triton.jit(do_not_specialize=["N"])'))

_BY_WIDTH = ("num_warps=4)", "num_warps=16 // x.element_size())")
CASES = (
    HostCase(_LAID, LEFT, _DEMANDED),
    HostCase(_LAID, LEFT_TILE, _DEMANDED),
    HostCase("worker-warp-count-hint", vary(ROWS_POINTER, _BY_WIDTH), "host rule"),
    HostCase(_ALIAS, vary(ROWS_POINTER, _ASKED)),
    HostCase(_ALIAS, vary(ROWS_TILE, _ASKED)),
    HostCase(_ALIAS, vary(ROWS_TILE, _ASKED, _FLAT)),
    HostCase(_ALIAS, vary(ROWS_TILE, *_COPY_FIRST)),
    HostCase(_TURNED, vary(ROWS_POINTER, (_CALL, _DOWN + _CALL))),
    HostCase(_TURNED, vary(ROWS_TILE, (_CALL_TILE, _DOWN + _CALL_TILE))),
    HostCase(_OVER, vary(ROWS_POINTER, (_CALL, _MOVED + _CALL))),
    HostCase(_OVER, vary(ROWS_TILE, (_CALL_TILE, _MOVED + _CALL_TILE))),
    HostCase(_EXTENTS, _KEPT_OUT, "runtime scalar"),
    HostCase(_PRUNED, FITTING, "predicate"),
    HostCase(STAND_IN, vary(ROWS_POINTER, (_CALL, _NONE + _CALL)), "dummy tensor + constexpr flag"),
    HostCase(STAND_IN, vary(ROWS_TILE, (_CALL_TILE, _NONE + _CALL_TILE))),
    HostCase(
        STAND_IN,
        vary(ROWS_POINTER, (_CALL, _NONE.replace(".empty(", ".zeros(") + _CALL)),
        "array of one number in place of None",
    ),
    HostCase(STAND_IN, vary(ROWS_POINTER, (_CALL, _CHOICE + _CALL))),
    HostCase(_LAID, HELPED, ".contiguous() on host"),
    HostCase(_LAID, HELPED_TILE, ".contiguous() on host"),
    HostCase(_LAID, vary(ROWS_POINTER, (_CALL, _ALL + _CALL)), ".contiguous() on host"),
    HostCase(_LAID, vary(ROWS_TILE, (_CALL_TILE, _ALL + _CALL_TILE)), ".contiguous() on host"),
    HostCase(_LAID, vary(ROWS_POINTER, ("def host(x, w)", _OUTER)), ".contiguous() on host"),
)
"""What must be seen."""

MISSES = (
    HostMiss(
        _LAID,
        vary(LEFT, ("return torch.softmax(x, 1)", "w = None")),
        "the kernel runs all the same",
        _DEMANDED,
    ),
    HostMiss(
        _LAID,
        vary(LEFT_TILE, ("not x.is_contiguous()", "not w.is_cuda")),
        "whether the device has it",
        _DEMANDED,
    ),
    HostMiss(_TURNED, vary(ROWS_POINTER, (_CALL, _DOWN.replace("-2", "-1") + _CALL)), "of rows"),
    HostMiss(
        _TURNED, vary(ROWS_TILE, (_CALL_TILE, _DOWN.replace("-2", "-1") + _CALL_TILE)), "rows"
    ),
    HostMiss(
        _EXTENTS,
        vary(_KEPT_OUT, ('do_not_specialize=["N"]', "noinline=True")),
        "no argument is named",
    ),
    HostMiss(
        _OVER,
        vary(ROWS_POINTER, (_CALL, _MOVED.replace(".permute(1, 0)", "") + _CALL)),
        "no axis moves",
    ),
    HostMiss(
        _OVER,
        vary(ROWS_TILE, (_CALL_TILE, _MOVED.replace(".contiguous()", "") + _CALL_TILE)),
        "nothing is copied",
    ),
    HostMiss(
        _ALIAS,
        vary(ROWS_POINTER, (_CALL, _FOR_W + _CALL)),
        "the array stands in for one that is missing",
    ),
    HostMiss(
        _ALIAS,
        vary(ROWS_TILE, _ASKED, (" x if same", " x.clone() if same"), _FLAT),
        "a copy is written",
    ),
    HostMiss(
        _ALIAS,
        vary(
            ROWS_TILE,
            ("    ct.launch(", "    one = torch.zeros(8)\n    ct.launch("),
            (
                "kern, (x, w, out,",
                "kern, (x, w if x.ndim > 1 else one, out if x.ndim > 2 else one,",
            ),
        ),
        "one array stands in for two",
    ),
    HostMiss(
        _ALIAS,
        vary(ROWS_TILE, _COPY_FIRST[0], ("kern, (x, w, out,", "kern, (x, w, out.clone(),")),
        "a copy is handed over",
    ),
    HostMiss(_PRUNED, vary(FITTING, (" if r.T <= n", "")), "every configuration is kept"),
    HostMiss(
        _PRUNED,
        vary(FITTING, ("= fitting(list", "= (list"), (", x.shape[1])\n    key", ",)[0]\n    key")),
        "the function is not called",
    ),
    HostMiss(
        STAND_IN,
        vary(ROWS_POINTER, (_CALL, _NONE.replace("is None", "is not None") + _CALL)),
        "made where the operand is there",
    ),
    HostMiss(
        STAND_IN,
        vary(ROWS_TILE, (_CALL_TILE, _NONE.replace("w = torch", "y = torch") + _CALL_TILE)),
        "the array is not handed over",
    ),
    HostMiss(
        STAND_IN,
        vary(ROWS_POINTER, (_CALL, "    if w is None:\n        w = x.sum(0)\n" + _CALL)),
        "computed of another operand",
    ),
    HostMiss(_LAID, vary(ROWS_POINTER, _AFTER), "after the launch"),
    HostMiss(_LAID, vary(HELPED, ("x = laid(x)", "y = laid(x)")), "another array is handed over"),
    HostMiss(
        _LAID, vary(HELPED_TILE, ("x = laid(x)", "y = laid(x)")), "another array is handed over"
    ),
    HostMiss(
        _LAID,
        vary(ROWS_POINTER, (_CALL, "    x = torch.exp(x.contiguous())\n" + _CALL)),
        "what the framework computes of it is another array",
    ),
)
"""What must not be seen."""
