"""Cases and near misses of partial results that are added up later, of strides by layout, and of
decorators that make tensors contiguous."""

from __future__ import annotations

from extractors.host.samples import HostCase, HostMiss, vary

_HEAD = "import torch\nimport triton\nimport triton.language as tl\n"
_HEAD_TILE = "import torch\nimport cuda.tile as ct\n"
_FIRST = """
@triton.jit
def piece(x, parts, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(parts + tl.program_id(0), tl.sum(tl.load(x + at, mask=at < n, other=0.0), axis=0))
"""
_JOIN = """
@triton.jit
def join(parts, out, k, W: tl.constexpr):
    at = tl.arange(0, W)
    tl.store(out, tl.sum(tl.load(parts + at, mask=at < k, other=0.0), axis=0))
"""
STAGED = (
    _HEAD
    + _FIRST
    + _JOIN
    + """
def host(x):
    n = x.shape[0]
    blocks = triton.cdiv(n, 1024)
    parts = torch.empty([blocks], device=x.device)
    out = torch.empty([1], device=x.device)
    piece[(blocks,)](x, parts, n, 1024)
    join[(1,)](parts, out, blocks, triton.next_power_of_2(blocks))
    return out
"""
)
"""A sum in two kernels."""

_FIRST_TILE = """
@ct.kernel
def piece(x, parts, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(parts, index=(i,), tile=ct.sum(ct.load(x, index=(i,), shape=(T,)), 0, keepdims=True))
"""
_JOIN_TILE = """
@ct.kernel
def join(parts, out, W: ct.Constant[int]):
    ct.store(out, index=(0,), tile=ct.sum(ct.load(parts, index=(0,), shape=(W,)), 0, keepdims=True))
"""
STAGED_TILE = (
    _HEAD_TILE
    + _FIRST_TILE
    + _JOIN_TILE
    + """
def host(x):
    blocks = x.shape[0] // 1024
    parts = torch.empty([blocks], device=x.device)
    out = torch.empty([1], device=x.device)
    ct.launch(torch.cuda.current_stream(), (blocks,), piece, (x, parts, 1024))
    ct.launch(torch.cuda.current_stream(), (1,), join, (parts, out, blocks))
    return out
"""
)
GROUPS = vary(
    STAGED,
    ("torch.empty([blocks], device", "torch.empty([64, n], device"),
    ("torch.empty([1], device", "torch.empty([n], device"),
    ("join[(1,)]", "join[(triton.cdiv(n, 32), 2)]"),
)
GROUPS_TILE = vary(
    STAGED_TILE,
    ("torch.empty([blocks], device", "torch.empty([64, blocks], device"),
    ("torch.empty([1], device", "torch.empty([blocks], device"),
    ("(1,), join", "(blocks // 8, 2), join"),
)
"""Rows of partial results, of which a second kernel makes one."""

GROUPED = vary(
    STAGED,
    ("piece[(blocks,)]", "piece[(x.shape[1], x.shape[2], blocks)]"),
    ("torch.empty([blocks]", "torch.empty([x.shape[1], x.shape[2], blocks]"),
    ("join[(1,)]", "join[(x.shape[1], x.shape[3])]"),
)
"""A block of the second kernel takes what blocks of a group left along two axes."""

_FILL = "@triton.jit\ndef fill(x, out):\n    tl.store(out, tl.load(x))\n\n"
_FILLED_AHEAD = vary(
    GROUPS,
    ("@triton.jit\ndef join", _FILL + "@triton.jit\ndef join"),
    ("    piece[(blocks", "    fill[(1,)](x, out)\n    piece[(blocks"),
)
"""A row of numbers that a third kernel fills before."""

SUMMED = (
    _HEAD
    + _FIRST
    + """
def host(x):
    n = x.shape[0]
    blocks = triton.cdiv(n, 1024)
    parts = torch.empty([blocks], device=x.device)
    piece[(blocks,)](x, parts, n, 1024)
    return parts.sum()
"""
)
SUMMED_TILE = (
    _HEAD_TILE
    + _FIRST_TILE
    + """
def host(x):
    blocks = x.shape[0] // 1024
    parts = torch.empty([blocks], device=x.device)
    ct.launch(torch.cuda.current_stream(), (blocks,), piece, (x, parts, 1024))
    return torch.sum(parts)
"""
)
_GIVEN = """
class Given(torch.autograd.Function):
    @staticmethod
    def backward(ctx, g):
        return host(g)

def host("""
GRADIENT = vary(SUMMED, ("\ndef host(", _GIVEN))
GRADIENT_TILE = vary(SUMMED_TILE, ("\ndef host(", _GIVEN))
_GUARD = """
def guard(fn):
    def inner(*args, **kwargs):
        return fn(*[flat(one) for one in args], **kwargs)

    return inner

def flat(one):
    return one.contiguous() if isinstance(one, torch.Tensor) else one

@guard
def host("""
GUARDED = vary(SUMMED, ("\ndef host(", _GUARD))
GUARDED_TILE = vary(SUMMED_TILE, ("\ndef host(", _GUARD))

LAYOUTS = (
    _HEAD
    + """
@triton.jit
def turn(x, out, sh, sn, T: tl.constexpr):
    at = tl.program_id(0) * sh + tl.program_id(1) * sn + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at) * 2.0)

def host(x, out, heads_first):
    if heads_first:
        sh, sn = x.stride(0), x.stride(1)
    else:
        sh, sn = x.stride(1), x.stride(0)
    turn[(8, 8)](x, out, sh, sn, 128)
"""
)
INSTEAD = vary(
    LAYOUTS, ("    if heads", "    if not x.is_cuda:\n        return torch.exp(x)\n    if heads")
)
INSTEAD_TILE = vary(
    SUMMED_TILE,
    ("    blocks = ", "    if not x.is_cuda:\n        return torch.exp(x)\n    blocks = "),
)
_COUNTED = vary(
    SUMMED,
    ("piece[(blocks,)]", "piece[(min(blocks, sms),)]"),
    (
        "    parts =",
        "    sms = torch.cuda.get_device_properties(x.device).multi_processor_count\n    parts =",
    ),
)
_COUNTED_TILE = vary(
    SUMMED_TILE,
    ("(blocks,), piece", "(min(blocks, sms),), piece"),
    (
        "    parts =",
        "    sms = torch.cuda.get_device_properties(x.device).multi_processor_count\n    parts =",
    ),
)
_ASKS = "def new():\n    return torch.cuda.get_device_capability()[0] >= 9\n\ndef host("
_DEMANDED = vary(SUMMED, ("def host(", _ASKS), ("    n = x", "    assert new()\n    n = x"))
_DEMANDED_TILE = vary(
    SUMMED_TILE, ("def host(", _ASKS), ("    blocks =", "    assert new()\n    blocks =")
)
_PLATFORM = vary(SUMMED, ("    n = x", "    assert not here.is_rocm()\n    n = x"))
_PLATFORM_TILE = vary(
    SUMMED_TILE, ("    blocks =", "    assert here.has_device_capability(90)\n    blocks =")
)
_LIES = "    assert torch.cuda.get_device_properties().holds(x)\n"
_BOTH = "x.stride(1), x.stride(0)"

_ROW = "torch.empty([blocks], device=x.device)"
_HALF = "torch.empty([blocks], dtype=x.dtype, device=x.device)"
_TYPE = "type-of-the-buffer-of-partials"
_MERGED = "partial-results-merged-by-a-second-kernel"
_ADDED = "partial-results-summed-by-the-host"
_BRANCHED = vary(
    SUMMED,
    ("    piece[", "    if n > 4096:\n        piece["),
    ("    return parts.sum()", "        return parts\n    else:\n        return parts.sum()"),
)
_SLICED = vary(
    SUMMED,
    (
        "    piece[(blocks,)](x, parts,",
        "    for k in range(0, blocks, 8):\n        some = parts[k : k + 8]\n"
        "        piece[(8,)](x[k * 1024 :], some,",
    ),
)
_SLICED_TILE = vary(SUMMED_TILE, ("(x, parts, 1024)", "(x, parts[:blocks], 1024)"))
_STARTED_TILE = vary(
    SUMMED_TILE,
    ("\ndef host(", "\ndef start(grid, kernel, args):\n"
     "    ct.launch(torch.cuda.current_stream(), grid, kernel, args)\n\ndef host("),
    ("ct.launch(torch.cuda.current_stream(), (blocks,), piece, (x", "start((blocks,), piece, (x"),
)  # fmt: skip
_BEFORE_TILE = vary(
    _STARTED_TILE,
    ("    start(", "    before = torch.sum(parts)\n    start("),
    ("return torch.sum(parts)", "return parts, before"),
)
_WHOLE = "results-of-all-programs-summed-by-the-host"
_BUFFER = "buffer-of-partials-summed-by-the-host"
_TOLD = "layouts-told-apart-by-strides"
_INSTEAD = "framework-instead-of-the-kernel"
_GRADIENT = "gradient-summed-by-the-host"
_HEADS = "heads-of-a-group-summed-by-the-host"
_TWO = "reduction-in-two-kernels"
_BLOCKS = "blocks-per-multiprocessor-by-the-grid"
_TARGETS = "architecture-dispatched-tuning-space"
_SECOND = "gradient-summed-by-a-second-kernel"
_LAID = "host-contiguity-alignment-normalisation"

CASES = (
    HostCase(_MERGED, GROUPS, "second kernel"),
    HostCase(_MERGED, GROUPS_TILE, "second kernel"),
    HostCase(_MERGED, vary(GROUPS, ("([64, n]", "([n, 64]")), "second kernel"),
    HostCase(_SECOND, vary(GROUPS, ("\ndef host(", _GIVEN)), "second kernel"),
    HostCase(_SECOND, vary(GROUPS_TILE, ("\ndef host(", _GIVEN)), "second kernel"),
    HostCase(_TARGETS, _DEMANDED, "if capability"),
    HostCase(_TARGETS, _DEMANDED_TILE, "if capability"),
    HostCase(_BLOCKS, _COUNTED, "grid-coupled"),
    HostCase(_BLOCKS, _COUNTED_TILE, "grid-coupled"),
    HostCase(_MERGED, STAGED, "second kernel"),
    HostCase(_MERGED, GROUPED, "second kernel"),
    HostCase(_MERGED, vary(STAGED, ("([blocks]", "([blocks, 3]")), "second kernel"),
    HostCase(_MERGED, STAGED_TILE, "second kernel"),
    HostCase(_ADDED, SUMMED, "split with host torch.sum"),
    HostCase(_ADDED, SUMMED_TILE, "split with host torch.sum"),
    HostCase(_ADDED, _STARTED_TILE, "split with host torch.sum"),
    HostCase(_ADDED, _SLICED, "split with host torch.sum"),
    HostCase(_ADDED, _SLICED_TILE, "split with host torch.sum"),
    HostCase(_ADDED, vary(SUMMED, ("parts.sum()", "parts.amax()")), "split, compared by the host"),
    HostCase(
        _ADDED,
        vary(SUMMED_TILE, ("torch.sum(parts)", "torch.argmax(parts)")),
        "split, compared by the host",
    ),
    HostCase(_TARGETS, _PLATFORM, "if capability"),
    HostCase(_TARGETS, _PLATFORM_TILE, "if capability"),
    HostCase(_BUFFER, vary(SUMMED, ("parts.sum()", "parts.sum(0)"))),
    HostCase(_WHOLE, SUMMED),
    HostCase(_WHOLE, SUMMED_TILE),
    HostCase(_BUFFER, vary(SUMMED_TILE, ("torch.sum(parts)", "torch.sum(parts, dim=0)"))),
    HostCase(_GRADIENT, GRADIENT, "per-CTA partials then reduce"),
    HostCase(_GRADIENT, GRADIENT_TILE, "per-CTA partials then reduce"),
    HostCase(_GRADIENT, vary(GRADIENT, ("parts.sum()", "parts.view(2, -1).sum(1).to(x)"))),
    HostCase(_HEADS, vary(SUMMED, ("parts.sum()", "parts.view(2, n, 4, 2, -1).sum(3)"))),
    HostCase(_HEADS, vary(SUMMED, ("parts.sum()", "parts.view(2, n, 4, 2).sum(dim=-1)"))),
    HostCase(
        _HEADS,
        vary(
            SUMMED,
            (
                "    return parts.sum()",
                "    parts = parts.reshape(2, n // g, g, 4, -1)\n    return parts.sum(dim=2)",
            ),
        ),
    ),
    HostCase(_HEADS, vary(SUMMED, ("parts.sum()", 'reduce(parts, "b (h g) -> b h", "sum", g=2)'))),
    HostCase(
        _HEADS, vary(SUMMED_TILE, ("torch.sum(parts)", "parts.reshape(2, 8, 4, 2, -1).sum(3)"))
    ),
    HostCase(_TYPE, vary(SUMMED, (_ROW, _HALF)), "partial results in the type of an argument"),
    HostCase(_TYPE, vary(SUMMED_TILE, (_ROW, _HALF)), "partial results in the type of an argument"),
    HostCase(_TWO, STAGED, "partials merged by a second kernel"),
    HostCase(_TWO, STAGED_TILE, "partials merged by a second kernel"),
    HostCase(_INSTEAD, INSTEAD),
    HostCase(_INSTEAD, INSTEAD_TILE),
    HostCase(_TOLD, LAYOUTS, "strides as arguments"),
    HostCase(_LAID, GUARDED, ".contiguous() on host"),
    HostCase(_LAID, GUARDED_TILE, ".contiguous() on host"),
)
"""What must be seen."""

MISSES = (
    HostMiss(_HEADS, vary(SUMMED, ("parts.sum()", "parts.view(2, -1).sum(1)")), "rows are added"),
    HostMiss(
        _HEADS, vary(SUMMED, ("parts.sum()", 'reduce(parts, "a b -> a", "sum")')), "a whole axis"
    ),
    HostMiss(_HEADS, vary(SUMMED_TILE, ("torch.sum(parts)", "parts.sum(-1)")), "all parts"),
    HostMiss(_MERGED, vary(STAGED, ("([blocks]", "([blocks, n]")), "a row for each block"),
    HostMiss(
        _MERGED, vary(GROUPED, ("x.shape[2], blocks], d", "x.shape[2], 2], d")), "a pair each"
    ),
    HostMiss(_MERGED, vary(GROUPED, ("x.shape[3])]", "x.shape[3], 2)]")), "as many axes"),
    HostMiss(_MERGED, _FILLED_AHEAD, "what is as long as a row was filled before"),
    HostMiss(_MERGED, vary(GROUPS, ("([64, n]", "([64, 8]")), "no row is as long as the outcome"),
    HostMiss(_ADDED, _BEFORE_TILE, "before the launch"),
    HostMiss(_TYPE, SUMMED, "32 bits"),
    HostMiss(_TYPE, SUMMED_TILE, "32 bits"),
    HostMiss(_SECOND, GROUPS, "no gradient"),
    HostMiss(_SECOND, GROUPS_TILE, "no gradient"),
    HostMiss(_TARGETS, vary(_DEMANDED, ("assert new()", "assert x.is_contiguous()")), "the tensor"),
    HostMiss(_TARGETS, vary(_DEMANDED_TILE, ("assert new()", "assert x.ndim == 1")), "the tensor"),
    HostMiss(_TARGETS, vary(SUMMED, ("    n = x", _LIES + "    n = x")), "where the tensor lies"),
    HostMiss(
        _TARGETS, vary(SUMMED_TILE, ("    blocks =", _LIES + "    blocks =")), "where it lies"
    ),
    HostMiss(_BLOCKS, SUMMED, "as many blocks as parts"),
    HostMiss(_BLOCKS, SUMMED_TILE, "as many blocks as parts"),
    HostMiss(
        _BLOCKS,
        vary(_COUNTED, ("min(blocks, sms)", "blocks"), ("parts.sum()", "parts.sum() / sms")),
        "the number of multiprocessors is no part of the grid",
    ),
    HostMiss(
        _BLOCKS,
        vary(_COUNTED_TILE, ("@ct.kernel", "@ct.kernel(occupancy=2)")),
        "the decorator says how many",
    ),
    HostMiss(
        _MERGED,
        vary(STAGED, ("join[(1,)]", "join[(blocks,)]")),
        "as many blocks as before: each goes on with its own",
    ),
    HostMiss(
        _MERGED,
        vary(STAGED_TILE, ("(1,), join", "(blocks,), join")),
        "as many blocks as before: each goes on with its own",
    ),
    HostMiss(
        _MERGED,
        vary(STAGED, ("join[(1,)](parts", "join[(1,)](x")),
        "the second kernel reads something else",
    ),
    HostMiss(
        _ADDED,
        vary(SUMMED, ("return parts.sum()", "return parts.max()")),
        "the largest, no sum",
        "split with host torch.sum",
    ),
    HostMiss(
        _ADDED, vary(SUMMED_TILE, ("torch.sum(parts)", "torch.sum(x)")), "the input is added up"
    ),
    HostMiss(_BUFFER, SUMMED, "all numbers become one"),
    HostMiss(
        _ADDED, vary(_SLICED_TILE, ("torch.sum(parts)", "torch.sum(x)")), "the input is added up"
    ),
    HostMiss(_ADDED, vary(_SLICED, ("parts[k : k + 8]", "x.new_empty(8)")), "an array of its own"),
    HostMiss(_WHOLE, vary(SUMMED, ("parts.sum()", "parts.sum(0)")), "one axis alone is added up"),
    HostMiss(
        _WHOLE, vary(SUMMED_TILE, ("torch.sum(parts)", "torch.sum(parts, 0)")), "one axis alone"
    ),
    HostMiss(_BUFFER, SUMMED_TILE, "all numbers become one"),
    HostMiss(_ADDED, _BRANCHED, "the sum stands on the other side of a branch"),
    HostMiss(_GRADIENT, SUMMED, "a sum, no gradient"),
    HostMiss(_GRADIENT, SUMMED_TILE, "a sum, no gradient"),
    HostMiss(_TWO, SUMMED_TILE, "one kernel, the host adds up"),
    HostMiss(_INSTEAD, SUMMED_TILE, "nothing leaves before the launch"),
    HostMiss(_TWO, SUMMED, "one kernel, the host adds up"),
    HostMiss(
        _INSTEAD, vary(INSTEAD, ("torch.exp(x)", "torch.empty_like(x)")), "nothing is computed"
    ),
    HostMiss(
        _INSTEAD,
        vary(INSTEAD, ("return torch.exp(x)", "x = x.exp()")),
        "the kernel runs all the same",
    ),
    HostMiss(_TOLD, vary(LAYOUTS, (_BOTH, "x.stride(0), x.stride(1)")), "both sides say the same"),
    HostMiss(_LAID, vary(GUARDED, ("one.contiguous()", "one.clone()")), "a copy keeps the strides"),
    HostMiss(
        _LAID, vary(GUARDED_TILE, ("one.contiguous()", "one.clone()")), "a copy keeps the strides"
    ),
    HostMiss(
        _LAID,
        vary(GUARDED, ("fn(*[flat(one) for one in args], **kwargs)", "flat(fn)")),
        "what is decorated gets no arguments",
    ),
)
"""What must not be seen."""
