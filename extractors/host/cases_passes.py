"""Cases and near misses of work that is cut into kernels: passes of a differentiable function,
arrays handed from kernel to kernel; and of what a launch tells the compiler."""

from __future__ import annotations

from extractors.host.cases_partial import (
    GRADIENT,
    GRADIENT_TILE,
    STAGED,
    STAGED_TILE,
    SUMMED,
    SUMMED_TILE,
)
from extractors.host.compiler_options import FLUSHED, FUSED, UNFUSED
from extractors.host.framework import FINISHED, PREPARED
from extractors.host.passes import HANDED_ON, LATER, LEFT, PASSES, TAKEN
from extractors.host.reciprocals import RECIPROCAL
from extractors.host.samples import HostCase, HostMiss, vary
from extractors.host.saved import INPUTS, READ, SAVED

_BACK = "    @staticmethod\n    def backward(ctx, g):\n        return host(g)\n"
_BOTH = (_BACK, _BACK + "\n    @staticmethod\n    def forward(ctx, x):\n        return host(x)\n")
_OWN = (_BACK, _BACK + "\n    @staticmethod\n    def forward(ctx, x):\n        return x.exp()\n")
_AGAIN = (_BOTH[0], _BOTH[1].replace("host(g)", "g * host(ctx.saved_tensors[0])"))
_UNDO = "def undo(g, x):\n    return g * host(x)\n\nclass"
_UNDONE = _AGAIN[1].replace("g * host(ctx.saved_tensors[0])", "undo(g, ctx.saved_tensors[0])")
_HELPED = ((_BACK, _UNDONE), ("class", _UNDO))
_HELPED_BACK = ((_BACK, _UNDONE), ("class", _UNDO.replace("g * host(x)", "host(g) * x")))
_PICKED = (
    ("def host(x)", "def picked(x):\n    return ct.launch.hints(piece)\n\ndef host(x)"),
    ("(blocks,), piece, (x,", "(blocks,), piece if picked(x) else piece, (x,"),
)
_ON = "torch.cuda.current_stream(), (4,)"
_LATER = """
import torch
import triton

@triton.jit
def back(x, out, n):
    pass

@triton.jit
def ahead(x, out, n):
    pass

class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        ahead[(4,)](x, out, x.numel())
        return out

    @staticmethod
    def backward(ctx, g):
        out = torch.empty_like(g)
        back[(4,)](g, out, g.numel())
        return out
"""
_LATER_TILE = vary(
    _LATER,
    ("import triton\n", "import cuda.tile as ct\n"),
    ("@triton.jit", "@ct.kernel"),
    ("ahead[(4,)](x, out, x.numel())", f"ct.launch({_ON}, ahead, (x, out, x.numel()))"),
    ("back[(4,)](g, out, g.numel())", f"ct.launch({_ON}, back, (g, out, g.numel()))"),
)
_SAVING = (
    "        return out\n\n    @staticmethod\n    def backward(ctx, g):\n",
    "        ctx.save_for_backward(x)\n        return out\n\n    @staticmethod\n"
    "    def backward(ctx, g):\n        (x,) = ctx.saved_tensors\n",
)
_SAVED = vary(_LATER, _SAVING)
_SAVED_TILE = vary(_LATER_TILE, _SAVING)
_BACK_AGAIN = "def first(y, by):\n    y = y.view(-1).contiguous()\n    return y.view(2, -1), by\n\n"
_MADE = "        out = torch.empty_like(x)"
_BY_ANOTHER = (
    ("class Loss", _BACK_AGAIN + "class Loss"),
    (_MADE, "        x, by = first(x, 2)\n" + _MADE),
)
_TURNED = (
    ("ahead[(4,)](", "none[(4,)]("),
    ("back[(4,)](", "ahead[(4,)]("),
    ("none[(4,)](", "back[(4,)]("),
)
_TURNED_TILE = (("ahead, (x", "none, (x"), ("back, (g", "ahead, (g"), ("none, (x", "back, (x"))
_SHARED = "backward by the same kernel"
_APART = "separate backward kernel"
_FIRST = "piece[(blocks,)](x, parts, n, 1024)\n    join[(1,)](parts"
_EITHER = (
    "if n > 5:\n        piece[(blocks,)](x, parts, n, 1024)\n    else:\n        join[(1,)](parts"
)
_LAUNCH = "(blocks,), piece, (x, parts, 1024))"

_SORTED = ("    piece[(blocks,)](x,", "    y = torch.sort(x).values\n    piece[(blocks,)](y,")
_SORTED_TILE = ("    ct.launch(", "    x = x.cumsum(0)\n    ct.launch(")
_PRODUCT = ("    piece[(blocks,)](x,", "    y = (x @ x.t()) * 2\n    piece[(blocks,)](y,")
_TIMES = (
    "    piece[(blocks,)](x,",
    "    x = x.view(-1).contiguous()\n    x = x * 2.0\n    piece[(blocks,)](x,",
)
_TIMES_TILE = ("    ct.launch(", "    x = x.contiguous()\n    x = x * 2.0\n    ct.launch(")
_LENGTH = ("    piece[(blocks,)](x,", "    n = x.sum().item()\n    piece[(blocks,)](x,")
_BIASED = ("return parts.sum()", "out = parts.view(-1)\n    return out + x[0]")
_VIEWED = ("return parts.sum()", "return parts.view(-1)")
_BIASED_TILE = ("return torch.sum(parts)", _BIASED[1])
_VIEWED_TILE = ("return torch.sum(parts)", _VIEWED[1])
_INVERSE = ("piece[(blocks,)](x, parts, n,", "by = 1.0 / n\n    piece[(blocks,)](x, parts, by,")
_OF_A_NAME = (_INVERSE[0], "sqrt = n + 1\n    " + _INVERSE[1].replace("/ n", "/ sqrt"))
_OF_A_ROOT = (_INVERSE[0], "all = n**0.5\n    " + _INVERSE[1].replace("/ n", "/ all"))
_INVERSE_TILE = ("(x, parts, 1024))", "(x, parts, float(1 / blocks)))")
_UNFUSED = ("parts, n, 1024)", "parts, n, 1024, enable_fp_fusion=False)")
_FUSED = (_UNFUSED[0], _UNFUSED[1].replace("False", "True"))
_FLUSHED = (_UNFUSED[0], "parts, n, 1024, **{'enable_reflect_ftz': fast})")
_FAST = ("def host(x)", "def host(x, fast)")

CASES = (
    HostCase(PASSES, vary(GRADIENT, _BOTH), _SHARED),
    HostCase(PASSES, vary(GRADIENT_TILE, _BOTH), _SHARED),
    HostCase(PASSES, vary(GRADIENT, *_HELPED_BACK), _SHARED),
    HostCase(PASSES, vary(GRADIENT_TILE, *_HELPED_BACK), _SHARED),
    HostCase(PASSES, vary(GRADIENT_TILE, _BOTH, *_PICKED), _SHARED),
    HostCase(PASSES, vary(GRADIENT, _OWN), _APART),
    HostCase(PASSES, vary(GRADIENT_TILE, _OWN), _APART),
    HostCase(PASSES, _LATER, LATER),
    HostCase(PASSES, _LATER_TILE, LATER),
    HostCase(SAVED, _SAVED, INPUTS),
    HostCase(SAVED, _SAVED_TILE, INPUTS),
    HostCase(SAVED, vary(_SAVED, *_BY_ANOTHER), INPUTS),
    HostCase(SAVED, vary(_SAVED_TILE, *_BY_ANOTHER), INPUTS),
    HostCase(SAVED, vary(_SAVED, *_TURNED), READ),
    HostCase(SAVED, vary(_SAVED_TILE, *_TURNED_TILE), READ),
    HostCase(HANDED_ON, STAGED, TAKEN),
    HostCase(HANDED_ON, STAGED_TILE, TAKEN),
    HostCase(
        HANDED_ON,
        vary(
            STAGED_TILE,
            (_LAUNCH, "(1,), join, (x, parts, 1024))"),
            ("(1,), join, (parts", "(blocks,), piece, (parts"),
            ("piece, (parts, out, blocks)", "piece, (parts, out, 1024)"),
        ),
    ),
    HostCase(RECIPROCAL, vary(SUMMED, _INVERSE)),
    HostCase(RECIPROCAL, vary(SUMMED_TILE, _INVERSE_TILE)),
    HostCase(RECIPROCAL, vary(SUMMED, _OF_A_NAME)),
    HostCase(UNFUSED, vary(SUMMED, _UNFUSED)),
    HostCase(FUSED, vary(SUMMED, _FUSED)),
    HostCase(FLUSHED, vary(SUMMED, _FAST, _FLUSHED)),
    HostCase(PREPARED, vary(SUMMED, _SORTED)),
    HostCase(PREPARED, vary(SUMMED_TILE, _SORTED_TILE)),
    HostCase(PREPARED, vary(SUMMED, _PRODUCT)),
    HostCase(PREPARED, vary(SUMMED, _TIMES)),
    HostCase(PREPARED, vary(SUMMED_TILE, _TIMES_TILE)),
    HostCase(FINISHED, vary(SUMMED, _BIASED)),
    HostCase(FINISHED, vary(SUMMED_TILE, _BIASED_TILE)),
)
"""What must be seen."""

MISSES = (
    HostMiss(PASSES, SUMMED, "no function is differentiated"),
    HostMiss(PASSES, GRADIENT, "the class computes nothing forward"),
    HostMiss(PASSES, GRADIENT_TILE, "the class computes nothing forward"),
    HostMiss(PASSES, vary(GRADIENT, _BOTH), "the forward takes the same kernel", _APART),
    HostMiss(PASSES, vary(GRADIENT, _OWN), "the forward takes none", _SHARED),
    HostMiss(PASSES, vary(GRADIENT, _AGAIN), "what the forward computed is computed again"),
    HostMiss(PASSES, vary(GRADIENT_TILE, _AGAIN), "what the forward computed is computed again"),
    HostMiss(PASSES, vary(GRADIENT, *_HELPED), "computed again by a function that takes both"),
    HostMiss(PASSES, vary(GRADIENT_TILE, *_HELPED), "computed again by a function"),
    HostMiss(PASSES, vary(_LATER, ("back[(4,)](", "ahead[(4,)](")), "the same kernel", LATER),
    HostMiss(
        PASSES,
        vary(_LATER_TILE, (f"        ct.launch({_ON}, back, (g, out, g.numel()))\n", "")),
        "no kernel in the backward pass",
    ),
    HostMiss(SAVED, _LATER, "nothing is saved"),
    HostMiss(
        SAVED,
        vary(_SAVED, *_BY_ANOTHER, ("return y.view(2, -1), by", "return y.exp(), by")),
        "the function that hands it back computes it anew",
    ),
    HostMiss(SAVED, _LATER_TILE, "nothing is saved"),
    HostMiss(
        SAVED, vary(_SAVED, ("backward(x)", "backward(x, out)")), "what the kernel makes, too"
    ),
    HostMiss(
        SAVED,
        vary(_SAVED_TILE, ("        out = torch.empty_like(x)", "        out = x = x.exp()")),
        "a parameter with another content",
    ),
    HostMiss(SAVED, vary(_SAVED, ("back[(4,)](", "ahead[(4,)](")), "one kernel for both passes"),
    HostMiss(HANDED_ON, SUMMED, "one kernel"),
    HostMiss(HANDED_ON, SUMMED_TILE, "one kernel"),
    HostMiss(HANDED_ON, vary(STAGED, (_FIRST, _EITHER)), "one of two kernels is launched"),
    HostMiss(
        HANDED_ON, vary(STAGED, ("join[(1,)](parts", "join[(1,)](x")), "an input, given to both"
    ),
    HostMiss(
        PREPARED,
        vary(SUMMED, (_TIMES[0], _TIMES[1].replace("x = x.view(-1).contiguous()", "n = n + 1"))),
        "nothing says that it is an array",
    ),
    HostMiss(
        PREPARED,
        vary(SUMMED_TILE, (_TIMES_TILE[0], _TIMES_TILE[1].replace("x = x * 2.0", "y = x * 2.0"))),
        "what is computed is not given to the kernel",
    ),
    HostMiss(RECIPROCAL, SUMMED, "nothing is divided"),
    HostMiss(
        RECIPROCAL,
        vary(SUMMED, (_INVERSE[0], _INVERSE[1].replace("1.0 / n", "2.0 / n"))),
        "no reciprocal",
    ),
    HostMiss(
        RECIPROCAL,
        vary(
            SUMMED_TILE,
            (_INVERSE_TILE[0], _INVERSE_TILE[1].replace("1 / blocks", "1 / blocks**0.5")),
        ),
        "the scale of scores",
    ),
    HostMiss(RECIPROCAL, vary(SUMMED, _OF_A_ROOT), "the scale of scores by way of a name"),
    HostMiss(UNFUSED, SUMMED, "the launch says nothing"),
    HostMiss(UNFUSED, SUMMED_TILE, "the launch says nothing"),
    HostMiss(UNFUSED, vary(SUMMED, _FUSED), "the compiler may join them"),
    HostMiss(FUSED, vary(SUMMED, _UNFUSED), "the compiler may not join them"),
    HostMiss(FUSED, SUMMED, "the launch says nothing"),
    HostMiss(FUSED, SUMMED_TILE, "the launch says nothing"),
    HostMiss(
        FLUSHED,
        vary(SUMMED, (_FLUSHED[0], _FLUSHED[1].replace("fast", "False"))),
        "denormals are kept",
    ),
    HostMiss(PREPARED, SUMMED, "the array as the caller gave it"),
    HostMiss(PREPARED, SUMMED_TILE, "the array as the caller gave it"),
    HostMiss(
        PREPARED,
        vary(SUMMED, ("return parts.sum()", "x = torch.sort(x).values\n    return x")),
        "sorted after the launch",
    ),
    HostMiss(PREPARED, vary(SUMMED, _LENGTH), "a number that the host reads"),
    HostMiss(FINISHED, vary(SUMMED, _VIEWED), "a view of what the kernel wrote"),
    HostMiss(FINISHED, vary(SUMMED_TILE, _VIEWED_TILE), "a view of what the kernel wrote"),
    HostMiss(HANDED_ON, STAGED, "the last kernel comes later", LEFT),
)
"""What must not be seen."""
