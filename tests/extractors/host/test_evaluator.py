"""Host code to values: normal forms, merging branches, bounds, and what stays unknown."""

from __future__ import annotations

import pytest

from extractors.host.registries import points_of
from tests.extractors.host.conftest import Read

HEAD = """
import math, itertools, os
import torch, triton
import triton.language as tl
@triton.jit
def k(X, n, B: tl.constexpr):
    tl.store(X + n, B)
"""


def binding(read: Read, body: str, expression: str, **modules: str) -> str:
    text = (
        HEAD
        + body
        + f"\ndef run(x, m=None):\n    n = x.shape[0]\n    k[(1,)](x, {expression}, B=1)\n"
    )
    rows = {row.parameter: row.expression for row in read(text, **modules).launches[0].bindings}
    return rows["n"]


NPOW = """
def up(v):
    v -= 1
    v |= v >> 1
    v |= v >> 2
    v |= v >> 4
    v |= v >> 8
    v |= v >> 16
    return v + 1
"""
ROWS = """
def rows(x, d):
    m = 1
    for i in range(d):
        m *= x.shape[i]
    return m
"""
ALMOST = NPOW.replace("v >> 4", "v >> 5")


@pytest.mark.parametrize(
    ("body", "expression", "expected"),
    [
        pytest.param("", "math.ceil(n / 64)", "cdiv(X.shape[0], 64)", id="ceil of a quotient"),
        pytest.param("", "(n + 63) // 64", "cdiv(X.shape[0], 64)", id="plus block less one"),
        pytest.param("", "-(-n // 64)", "cdiv(X.shape[0], 64)", id="negated floor"),
        pytest.param("", "triton.cdiv(n, 64)", "cdiv(X.shape[0], 64)", id="library call"),
        pytest.param(
            "", "(n + 62) // 64", "(X.shape[0] + 62) // 64", id="near miss: not a rounding"
        ),
        pytest.param(
            NPOW, "up(n)", "next_power_of_two(X.shape[0])", id="helper known by its values"
        ),
        pytest.param(
            ROWS,
            "rows(x, m)",
            "prod(slice(X.shape, None, m))",
            id="product of the first extents",
        ),
        pytest.param(
            ROWS.replace("*=", "+="),
            "rows(x, m)",
            "unknown",
            id="near miss: their sum",
        ),
        pytest.param("", "x.shape[-2:][1]", "X.shape[-1]", id="of the last extents"),
        pytest.param("", "x.shape[1:][0]", "X.shape[1]", id="of the extents after the first"),
        pytest.param("", "x.shape[:-1][-1]", "X.shape[-2]", id="the last but one"),
        pytest.param(
            "",
            "x.shape[::2][1]",
            "slice(X.shape, None, None, 2)[1]",
            id="near miss: every other extent",
        ),
        pytest.param(
            "def first(x):\n    a, b, c = *x.shape, 3\n    return a * b\n",
            "first(x)",
            "X.shape[0] * X.shape[1]",
            id="spread shape counts its targets",
        ),
        pytest.param(NPOW, "up(100)", "128", id="helper on a constant"),
        pytest.param("", "min(n, 4, 8)", "min(X.shape[0], 4)", id="min folds constants"),
        pytest.param("", "max(t for t in (16, 64, 32))", "64", id="generator expression"),
        pytest.param("", "len(list(itertools.product([1, 2], [3, 4], [5])))", "4", id="product"),
        pytest.param(
            "",
            "sum(map(lambda v: v * 2, filter(lambda v: v > 1, range(4))))",
            "10",
            id="map and filter",
        ),
        pytest.param("", "4 if n > 8 else 2", "4 if X.shape[0] > 8 else 2", id="conditional"),
        pytest.param("", "x.stride(0)", "X.stride[0]", id="stride"),
        pytest.param("", "x.contiguous().view(-1, 8).shape[1]", "8", id="view"),
        pytest.param("", "int(f'{4}{2}')", "42", id="text"),
        pytest.param("", "dict(a=1).get('b', 7)", "7", id="default of get"),
        pytest.param(
            "", "(n if m is None else m)", "X.shape[0] if m == None else m", id="optional argument"
        ),
    ],
)
def test_expressions(read: Read, body: str, expression: str, expected: str) -> None:
    assert binding(read, body, expression) == expected


def test_a_helper_that_only_looks_like_rounding_is_not_named(read: Read) -> None:
    assert "next_power_of_two" not in binding(read, ALMOST, "up(n)")


def test_piecewise_rule_of_a_helper(read: Read) -> None:
    text = (
        HEAD
        + """
def settings(n):
    block = triton.next_power_of_2(n)
    if block > 65536:
        raise RuntimeError("too large")
    warps = 4
    if block >= 32768:
        warps = 32
    elif block >= 8192:
        warps = 16
    return block, warps
def run(x):
    block, warps = settings(x.shape[0])
    k[(1,)](x, 1, B=block, num_warps=warps)
"""
    )
    facts = read(text)
    assert facts.tuning.mechanism == "host rule"
    (launch,) = facts.launches
    assert launch.hints == (
        (
            "num_warps",
            "32 if next_power_of_two(X.shape[0]) >= 32768 "
            "else 16 if next_power_of_two(X.shape[0]) >= 8192 else 4",
        ),
    )
    assert [row.expression for row in facts.constraints] == [
        "next_power_of_two(X.shape[0]) <= 65536",
        "B == next_power_of_two(X.shape[0])",
    ]
    assert launch.when == "always"


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        pytest.param("load_them()", "not defined", id="undefined function"),
        pytest.param(
            "[triton.Config({'B': b}) for b in itertools.product(range(999), range(999))]",
            "product",
            id="huge product",
        ),
        pytest.param("forever()", "more than", id="endless generator"),
        pytest.param("deep(1)", "deeper|nested", id="deep recursion"),
        pytest.param("[triton.Config({'B': 2 ** 9 ** 9})]", "", id="huge power"),
        pytest.param("[triton.Config({'B': b}) for b in range(10 ** 9)]", "range", id="huge range"),
    ],
)
def test_bounds_give_a_reason(read: Read, configs: str, reason: str) -> None:
    text = f"""
import triton, itertools
import triton.language as tl
def forever():
    while True:
        yield triton.Config({{'B': 1}})
def deep(v):
    return deep(v + 1)
@triton.autotune(configs={configs}, key=['n'])
@triton.jit
def k(X, n, B: tl.constexpr):
    tl.store(X + n, B)
def run(x):
    k[(1,)](x, x.shape[0])
"""
    facts = read(text)
    assert facts.launches
    if reason:
        (space,) = facts.tuning.spaces
        assert any(word in (space.reason or "") for word in reason.split("|"))


def test_autotune_with_product_filter_and_grid_function(read: Read) -> None:
    text = """
import triton, itertools
import triton.language as tl
def keep(c):
    return c.kwargs['B'] * c.num_warps < 512
CONFIGS = [triton.Config({'B': b}, num_warps=w) for b, w in itertools.product([64, 128], [4, 8])]
@triton.autotune(configs=list(filter(keep, CONFIGS)), key=['n'], reset_to_zero=['X'])
@triton.jit
def k(X, n, B: tl.constexpr):
    tl.store(X + n, B)
def run(x):
    grid = lambda meta: (triton.cdiv(x.shape[0], meta['B']),)
    k[grid](x, x.shape[0])
"""
    facts = read(text)
    assert facts.tuning.spaces[0].points == ((("B", 64), ("num_warps", 4)),)
    assert facts.tuning.effective_axes == ("B", "num_warps")
    assert facts.tuning.cache_key == ("n",)
    assert facts.launches[0].grid == ("cdiv(X.shape[0], B)",)
    assert ("autotuning", "zero accumulators") in {(row.axis, row.value) for row in facts.decisions}


@pytest.mark.parametrize(
    ("options", "points"),
    [
        pytest.param("{'B': 8} | {'C': 2}", ((("B", 8), ("C", 2)),), id="union"),
        pytest.param("{'B': 8, 'C': 1} | dict(C=2)", ((("B", 8), ("C", 2)),), id="last one holds"),
        pytest.param("joined({'B': 8}, {'C': 2})", ((("B", 8), ("C", 2)),), id="union in place"),
        pytest.param("updated({'B': 8}, {'C': 2})", ((("B", 8), ("C", 2)),), id="update"),
        pytest.param("elsewhere()", None, id="unknown"),
        pytest.param("{'B': 8} | elsewhere()", None, id="union with an unknown one"),
        pytest.param("{'B': 8, **elsewhere()}", None, id="spread from an unknown one"),
        pytest.param("joined({'B': 8}, elsewhere())", None, id="joined in place, unknown"),
        pytest.param("updated({'B': 8}, elsewhere())", None, id="updated by an unknown one"),
        pytest.param("{'B': elsewhere()}", None, id="a value that is not known"),
    ],
)
def test_a_configuration_is_known_with_all_its_axes(
    read: Read, options: str, points: tuple[object, ...] | None
) -> None:
    text = f"""
import triton
import triton.language as tl
def joined(a, b):
    a |= b
    return a
def updated(a, b):
    a.update(b)
    return a
@triton.autotune(configs=[triton.Config({options})], key=['n'])
@triton.jit
def k(X, n, B: tl.constexpr, C: tl.constexpr = 2):
    tl.store(X + n, B + C)
def run(x):
    k[(1,)](x, x.shape[0])
"""
    (space,) = read(text).tuning.spaces
    assert space.complete == (points is not None)
    assert space.complete == (space.reason is None)
    if points is not None:
        assert space.points == points


def test_helpers_of_a_sibling_module_are_followed(read: Read) -> None:
    text = """
import cuda.tile as ct
from .help import cached, off
@ct.kernel(num_ctas=1)
def k(X, T: ct.Constant[int]):
    ct.store(X, (0,), T)
def run(x):
    kernel = k if off() else cached(k, occupancy=4)
    ct.launch(None, (1,), kernel, (x, 8))
"""
    helper = """
import os
memo = {}
def cached(kernel, **hints):
    key = (id(kernel), tuple(sorted(hints.items())))
    found = memo.get(key)
    if found is not None:
        return found
    memo[key] = kernel.replace_hints(**hints)
    return memo[key]
def off():
    return os.environ.get("OFF", "0") in ("1", "yes")
"""
    launches = read(text, pkg__help=helper).launches
    assert {(launch.when, launch.hints) for launch in launches} == {
        ("off()", (("num_ctas", 1),)),
        ("not off()", (("num_ctas", 1), ("occupancy", 4))),
    }


def test_sentinel_rows(read: Read) -> None:
    text = (
        HEAD
        + """
def run(x, y):
    n = x.shape[0]
    padded = torch.full((1, triton.cdiv(n, 128) * 128), float("inf"))
    padded[:, :n] = y
    k[(1,)](padded.view(-1).contiguous(), n, B=triton.next_power_of_2(n))
"""
    )
    seen = {(row.axis, row.subject) for row in read(text).decisions}
    assert {("oob_rows", "X"), ("tile_padding", "B")} <= seen


def test_points_from_a_generated_table_entry() -> None:
    text = (
        "op:\n- gen: true\n  param_map:\n    META: {B: bs}\n    num_warps: [4, 8]\n  bs: [16, 32]\n"
    )
    rows = points_of(text, "op")
    assert rows is not None
    assert rows[1] == (("B", 16), ("num_warps", 8))
    assert len(rows) == 4
    assert points_of(text, "other") is None


def test_a_helper_that_receives_the_kernel_is_followed_from_its_caller(read: Read) -> None:
    text = (
        HEAD
        + """
def go(kernel, x, warps):
    kernel[(1,)](x, 1, B=2, num_warps=warps)
class Op:
    def forward(self, x):
        go(k, x, 8)
"""
    )
    (launch,) = read(text).launches
    assert launch.hints == (("num_warps", 8),)
    assert launch.host_function == "forward"


def test_a_flag_that_a_function_sets_may_be_either(read: Read) -> None:
    flag = (
        "FAST = False\ndef turn(on=True):\n    global FAST\n    FAST = on\n"
        "def run(x):\n    if FAST:\n        k[(1,)](x, x.shape[0], B=1)\n"
    )
    assert [one.when for one in read(HEAD + flag).launches] == ["FAST"]
    assert not read(HEAD + flag.replace("    global FAST\n", "")).launches


def test_what_a_tensor_is_asked_by_a_call_is_an_attribute_of_its_type(read: Read) -> None:
    body = (
        "def run(x, y):\n    if y.dtype.is_floating_point:\n        raise TypeError\n"
        "    k[(1,)](x, x.shape[0], B=1)\n"
    )
    assert len(read(HEAD + body).launches) == 1


ENVIRONMENT = """import os
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    FAST: bool = False
READ = {"FAST": lambda: bool(int(os.getenv("FAST", "0")))}
SIZES = {"TILE": 64}
def __getattr__(name):
    return READ[name]() if name in READ else SIZES[name]
"""


def test_a_module_makes_what_it_is_asked_for(read: Read) -> None:
    """What a type checker reads is no value; what `__getattr__` gives is."""
    body = "from pkg import env\ndef run(x):\n    if env.FAST:\n        k[(1,)](x, env.TILE, B=1)\n"
    launch = read(HEAD + body, pkg__env=ENVIRONMENT).launches[0]
    assert launch.when == "env.FAST"
    assert {row.parameter: row.expression for row in launch.bindings}["n"] == "64"


def test_the_backend_of_another_vendor_is_not_there(read: Read) -> None:
    body = (
        "def run(x):\n    if hasattr(torch, 'npu'):\n        return x\n"
        "    k[(1,)](x, x.shape[0], B=1)\n"
    )
    assert [one.when for one in read(HEAD + body).launches] == ["always"]


OPERATOR = """
REGISTERED
def wide(x, w):
    return w * 2
torch.library.impl("mine::wide", "KEY", wide)
wide_op = torch.ops.mine.wide.default
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            OPERATOR.replace("REGISTERED", "").replace("KEY", "CUDA"),
            "X.shape[0] * 2",
            id="registered for the device",
        ),
        pytest.param(
            OPERATOR.replace("REGISTERED", '@torch.library.custom_op("mine::wide")').replace(
                "torch.library.impl", "print"
            ),
            "X.shape[0] * 2",
            id="made an operator",
        ),
        pytest.param(
            OPERATOR.replace("REGISTERED", "").replace("KEY", "CPU"),
            "torch.ops.mine.wide.default(x, X.shape[0])",
            id="near miss: registered for another device",
        ),
    ],
)
def test_operators(read: Read, body: str, expected: str) -> None:
    assert binding(read, body, "wide_op(x, n)") == expected
