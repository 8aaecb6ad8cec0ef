"""Cases and near misses of what a host decides by the target: refusals, tables, definitions; and of
decorators that mark kernels, and launches whose values nothing searches."""

from __future__ import annotations

from extractors.host.backends import REGISTERED
from extractors.host.samples import (
    COMPUTED,
    HEAD,
    ROWS_POINTER,
    ROWS_TILE,
    SEARCH_POINTER,
    SEARCH_TILE,
    SPLITS,
    TWO_POINTER,
    TWO_TILE,
    HostCase,
    HostMiss,
    pointer,
    tile,
    vary,
)

_TARGETS = "architecture-dispatched-tuning-space"
_ARGS = "x, w, out, 1024, True, size"
_REFUSED = HEAD + (
    "    major, minor = torch.cuda.get_device_capability()\n"
    "    if major < 9:\n        raise ValueError('too old')\n"
)
_CHECKED = (
    "def check(x):\n    if not x.is_cuda or torch.cuda.get_device_capability() != (9, 0):\n"
    "        raise ValueError('another device')\n\n" + HEAD + "    check(x)\n"
)
_GATED = (
    "class Gate:\n    def __init__(self, least=None):\n        self.least = least\n\n"
    "    def opens(self):\n        return torch.cuda.get_device_capability() >= self.least\n\n"
    "def entry(gate):\n    return lambda one: one\n\n@entry(Gate(least=(9, 0)))\n" + HEAD
)
_ABOVE = (
    "GRADE = torch.cuda.get_device_capability()[0]\n\ndef start(x, w):\n    if GRADE >= 10:\n"
    "        raise ValueError('not yet')\n    elif GRADE >= 9:\n        return host(x, w)\n\n"
    + HEAD
)
_TABLE = """SIZES = {(8, 0): 512, (9, 0): 1024}

def grade(index):
    return torch.cuda.get_device_capability(index)

def chosen(index):
    found = grade(index)
    return SIZES.get(found) or SIZES[(8, 0)]

def host(x, w):
    out = torch.empty_like(x)
    size = min(chosen(x.device.index), triton.next_power_of_2(x.shape[1]))
"""
_ENTRY = vary(_TABLE, ("SIZES.get(found) or", "SIZES[found] if found in SIZES else"))
_ASKED = "if torch.cuda.get_device_capability() >= (9, 0):"
_DEFINED = vary(
    ROWS_POINTER,
    ("@triton.jit\ndef kern", _ASKED + "\n\n  @triton.jit\n  def kern"),
    ("    row = ", "      row = "), ("    at = ", "      at = "), ("    v = tl", "      v = tl"),
    ("    if HAS:\n    ", "      if HAS:\n      "), ("    tl.store", "      tl.store"),
)  # fmt: skip
_UNITS = HEAD + (
    "    count = torch.cuda.get_device_properties(x.device).multi_processor_count\n"
    "    if count < 8:\n        raise ValueError('too small')\n"
)

_RULE = "launch-values-by-a-closed-form-rule"
_BY_HAND = "launch-values-written-by-hand"
_FIRST = (
    "SPACE = [triton.Config({'T': 512}), triton.Config({'T': 1024})]\n\n"
    + HEAD
    + "    c = SPACE[0].kwargs\n"
)
_SHARED = HEAD + "    sms = torch.cuda.get_device_properties(x.device).multi_processor_count\n"
_DEFAULT = "warps-left-to-the-default"
_SHARING = "occupancy-left-to-the-compiler"
_OPERATOR = "launched-by-an-operator-of-the-framework"
_AS_OPERATOR = '@torch.library.custom_op("mine::rows", mutates_args=())\ndef host('
_APART = _AS_OPERATOR.replace("host", "more") + "x):\n    return x\n\n"
_UNNAMED = vary(ROWS_POINTER, (", num_warps=4)", ")"))
_FLAG = "x, w, out, 1024, True if x.shape[0] else x.shape[1] > 8, 1024"
_HANDED_ON = vary(ROWS_POINTER, ("num_warps=4", "num_warps=count"), ("(x, w):", "(x, w, count=4):"))
_EITHER = vary(HEAD, ("(x, w):", "(x, w, to=None):")) + "    to = out if to is None else to\n"
_MARKED = "kernel-marked-by-a-decorator"
_MARK = "def early(one):\n    one.note = 'may change'\n    return one\n\n@early\n"
_WRAP = "def early(one):\n    return Wrapped(one)\n\n@early\n"
_TABLED = "kernels-of-one-table"
_IN_TILE = (
    ("def host", "BY = {True: kern, False: wide}\n\ndef host"),
    ("(x.shape[0],), kern, (", "(x.shape[0],), BY[x.shape[0] > 9], ("),
)
_IN_POINTER = (_IN_TILE[0], ("    kern[(", "    BY[x.shape[0] > 9][("))
_MADE = "kernel-made-by-a-function"


def _made(text: str, mark: str) -> str:
    """The case with its kernel inside of a function that gives it back."""
    above, rest = text.split(mark)
    kernel, host = rest.split("\ndef host")
    inside = "".join(f"    {line}\n" for line in (mark + kernel).rstrip().splitlines())
    back = inside + "    return kern\n\nkern = make()\n\ndef host"
    return f"{above}def make():\n{back}{host}"


_ANSWER = "x, w, out, 1024, platform.is_rocm(), 1024"
_SAID = (
    "def asked():\n    return platform.is_cuda() and platform.has_device_capability(90)\n\n" + HEAD
)
_CARD = "'A100' in torch.cuda.get_device_name()"
_BOUND = _SAID + "    flag = asked()\n"
_LIES = "x, w, out, 1024, x.is_contiguous(), 1024"

_WHICHEVER = vary(SPLITS, ("torch.cuda.get_device", "on_device.get_device"))
"""Properties of the device by a module that nothing tells, with the method of PyTorch."""
_SPLIT = "sm-count-driven-split-count"

CASES = (
    HostCase(_SPLIT, tile(_WHICHEVER, "x, w, out, splits, True, 1024")),
    HostCase(_SPLIT, pointer(_WHICHEVER, "x, w, out, splits, True, 1024")),
    HostCase(_TARGETS, tile(HEAD, _ANSWER), "if capability"),
    HostCase(_TARGETS, pointer(HEAD, _ANSWER), "if capability"),
    HostCase(_TARGETS, pointer(_BOUND, "x, w, out, 1024, flag, 1024"), "if capability"),
    HostCase(_MADE, _made(ROWS_TILE, "@ct.kernel\n"), "closure factory"),
    HostCase(_MADE, _made(ROWS_POINTER, "@triton.jit\n"), "closure factory"),
    HostCase(_TABLED, vary(TWO_TILE, *_IN_TILE), "one kernel for each case, in a table"),
    HostCase(_TABLED, vary(TWO_POINTER, *_IN_POINTER), "one kernel for each case, in a table"),
    HostCase(_MARKED, vary(ROWS_TILE, ("@ct.kernel\n", _MARK + "@ct.kernel\n"))),
    HostCase(_MARKED, vary(ROWS_POINTER, ("@triton.jit\n", _MARK + "@triton.jit\n"))),
    HostCase(_TARGETS, tile(_REFUSED, "x, w, out, 1024, True, 1024"), "if capability"),
    HostCase(_TARGETS, pointer(_REFUSED, "x, w, out, 1024, True, 1024"), "if capability"),
    HostCase(_TARGETS, tile(_CHECKED, "x, w, out, 1024, True, 1024"), "if capability"),
    HostCase(_TARGETS, pointer(_CHECKED, "x, w, out, 1024, True, 1024"), "if capability"),
    HostCase(_TARGETS, tile(_GATED, "x, w, out, 1024, True, 1024"), REGISTERED),
    HostCase(_TARGETS, pointer(_GATED, "x, w, out, 1024, True, 1024"), REGISTERED),
    HostCase(_TARGETS, tile(_ABOVE, "x, w, out, 1024, True, 1024"), "if capability"),
    HostCase(_TARGETS, pointer(_ABOVE, "x, w, out, 1024, True, 1024"), "if capability"),
    HostCase(_TARGETS, pointer(_TABLE, _ARGS), "if capability"),
    HostCase(_TARGETS, pointer(_ENTRY, _ARGS), "if capability"),
    HostCase(_TARGETS, _DEFINED, "if capability"),
    HostCase(_TARGETS, pointer(HEAD, f"x, w, out, 1024, True, 512 if {_CARD} else 1024")),
    HostCase(_TARGETS, tile(HEAD, f"x, w, out, 1024, True, 512 if {_CARD} else 1024")),
    HostCase(_BY_HAND, tile(HEAD, "x, w, out, 1024, True, 1024"), "fixed"),
    HostCase(_BY_HAND, pointer(HEAD, "x, w, out, 1024, True, x.shape[1] - 1"), "fixed"),
    HostCase(_BY_HAND, pointer(HEAD, _FLAG), "fixed"),
    HostCase(_RULE, pointer(_SHARED, "x, w, out, (x.shape[0] + sms - 1) // sms, True, 1024")),
    HostCase(_RULE, tile(_SHARED, "x, w, out, (x.shape[0] + sms - 1) // sms, True, 1024")),
    HostCase(_DEFAULT, _UNNAMED, "auto"),
    HostCase(_SHARING, ROWS_TILE, "auto"),
    HostCase(_OPERATOR, vary(ROWS_TILE, ("def host(", _AS_OPERATOR))),
    HostCase(_OPERATOR, vary(ROWS_POINTER, ("def host(", _AS_OPERATOR))),
    HostCase("worker-warp-count-hint", _HANDED_ON, "given by the caller"),
    HostCase(_BY_HAND, pointer(_EITHER, "x, w, out, to.stride(0), True, 1024"), "fixed"),
    HostCase(_RULE, pointer(HEAD, "x, w, out, 1024, True, triton.next_power_of_2(x.shape[1])")),
    HostCase(_BY_HAND, pointer(HEAD, "x, w, out, 1024, True, 1024"), "fixed"),
)
MISSES = (
    HostMiss(
        _SPLIT,
        pointer(vary(_WHICHEVER, ("get_device_p", "get_p")), "x, w, out, splits, True, 1024"),
        "a method that says nothing",
    ),
    HostMiss(_RULE, pointer(_SHARED, "x, w, out, sms, True, 1024"), "their number as it stands"),
    HostMiss(_DEFAULT, ROWS_POINTER, "the launch names a number"),
    HostMiss(
        _DEFAULT,
        vary(
            _UNNAMED,
            ("@triton.jit", "@triton.heuristics({'num_warps': lambda a: 4})\n@triton.jit"),
        ),
        "a rule gives one",
    ),
    HostMiss(_DEFAULT, vary(_UNNAMED, (", 1024)", ", 1024, **more)")), "more is handed over"),
    HostMiss(_DEFAULT, SEARCH_POINTER, "a search gives one"),
    HostMiss(_DEFAULT, ROWS_TILE, "the dialect has no such option"),
    HostMiss(
        _SHARING, vary(ROWS_TILE, ("@ct.kernel\n", "@ct.kernel(occupancy=2)\n")), "the mark says it"
    ),
    HostMiss(
        _SHARING,
        vary(ROWS_TILE, ("kern, (x", "kern.replace_hints(occupancy=2), (x")),
        "the launch says it",
    ),
    HostMiss(_SHARING, SEARCH_TILE, "a search finds it"),
    HostMiss(_OPERATOR, ROWS_TILE, "a function of the module alone"),
    HostMiss(
        _OPERATOR,
        vary(ROWS_POINTER, ("def host(", _APART + "def host(")),
        "another function is the operator",
    ),
    HostMiss(
        _SHARING,
        vary(tile(_SHARED, "x, w, out, 1024, True, 1024"), ("(x.shape[0],), kern", "(sms,), kern")),
        "the grid says it",
    ),
    HostMiss(_SHARING, ROWS_POINTER, "the dialect has no such hint"),
    HostMiss(_BY_HAND, tile(COMPUTED, "x, w, out, 1024, True, tile"), "a rule computes the tile"),
    HostMiss(_BY_HAND, pointer(COMPUTED, "x, w, out, 1024, True, tile"), "a rule computes it"),
    HostMiss(_BY_HAND, pointer(_FIRST, "x, w, out, 1024, True, c['T']"), "the first of a list"),
    HostMiss(
        _BY_HAND,
        pointer(HEAD, "x, w, out, 1024, True, 512 if x.shape[0] > 8 else x.shape[1]"),
        "the size differs from case to case",
    ),
    HostMiss(_BY_HAND, SEARCH_TILE, "a search finds the tile"),
    HostMiss(_BY_HAND, SEARCH_POINTER, "a search finds the tile"),
    HostMiss(
        _BY_HAND,
        pointer(HEAD, "x, w, out, 1024, True, x.shape[1] * 2"),
        "the size is counted from an extent",
    ),
    HostMiss(
        _BY_HAND,
        pointer(HEAD, "x, w, out, 1024, True, size_of(x)"),
        "what an unknown function gives is not known",
    ),
    HostMiss(_TABLED, TWO_TILE, "no table holds the two"),
    HostMiss(
        _TABLED, vary(TWO_POINTER, ("def host", "T = {1: kern}\n\ndef host")),
        "a table of one",
    ),
    HostMiss(_MADE, ROWS_TILE, "the module defines it"),
    HostMiss(_MADE, ROWS_POINTER, "the module defines it"),
    HostMiss(_MARKED, ROWS_TILE, "the mark of the compiler alone"),
    HostMiss(
        _MARKED,
        vary(ROWS_POINTER, ("@triton.jit\n", _WRAP + "@triton.jit\n")),
        "the kernel is handed to something else",
    ),
    HostMiss(_TARGETS, tile(HEAD, _LIES), "what the array is asked"),
    HostMiss(
        _TARGETS,
        pointer(
            vary(_CHECKED, (" or torch.cuda.get_device_capability() != (9, 0)", "")),
            "x, w, out, 1024, True, 1024",
        ),
        "what the array is asked is checked",
    ),
    HostMiss(
        _TARGETS,
        tile(
            vary(_GATED, ("torch.cuda.get_device_capability()", "self.most")),
            "x, w, out, 1024, True, 1024",
        ),
        "the class asks for nothing of the target",
    ),
    HostMiss(
        _TARGETS,
        pointer(vary(_ABOVE, ("return host(x, w)", "return x")), "x, w, out, 1024, True, 1024"),
        "the branch leads to no launch",
    ),
    HostMiss(_TARGETS, pointer(_BOUND, _LIES), "the answer is not handed over"),
    HostMiss(
        _TARGETS,
        pointer(_UNITS, "x, w, out, 1024, True, 1024"),
        "the number of multiprocessors says how much work fills it",
    ),
    HostMiss(
        _TARGETS,
        pointer(vary(_TABLE, ("found = grade(index)", "found = (8, 0)")), _ARGS),
        "one entry for every target",
    ),
    HostMiss(
        _TARGETS,
        vary(_DEFINED, (_ASKED, "if torch.cuda.is_available():")),
        "defined for every target",
    ),
)  # fmt: skip
