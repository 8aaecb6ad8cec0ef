"""What another module works out for a launch is told with its lines there."""

from __future__ import annotations

from tests.extractors.host.conftest import Read

_SETTINGS = """import triton
def settings(n):
    block = triton.next_power_of_2(n)
    warps = 4
    if block >= 2048:
        warps = 8
    return block, warps
"""
_MAIN = """import triton
from pkg.near import settings
@triton.jit
def k(x, n, BLOCK: "tl.constexpr"):
    pass
def run(x):
    n = x.shape[-1]
    size, count = settings(n)
    k[(x.shape[0],)](x, n, BLOCK=size, num_warps=count)
"""
_OWN = _MAIN.replace("from pkg.near import settings\n", _SETTINGS.partition("\n")[2])


def test_an_imported_function_leads_to_its_assignments(read: Read) -> None:
    found = read(_MAIN, pkg__near=_SETTINGS).decisions
    led = {d.axis: d.elsewhere for d in found if d.elsewhere}
    assert led["num_warps"] == (("pkg/near.py", (4, 6)),)
    assert led["tile_padding"] == (("pkg/near.py", (3, 3)),)


_TABLE = """import triton
configs = [
    triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128) for w in (4, 8)
]
"""
_TUNED = """import triton
from pkg.near import configs
@triton.autotune(configs=configs, key=["n"])
@triton.jit
def k(x, n, BLOCK: "tl.constexpr"):
    pass
def run(x):
    n = x.shape[-1]
    k[(x.shape[0],)](x, n)
"""


def test_a_search_leads_to_an_imported_table(read: Read) -> None:
    found = read(_TUNED, pkg__near=_TABLE).decisions
    led = {d.axis: d.elsewhere for d in found if d.elsewhere}
    assert led == dict.fromkeys(("autotuning", "num_warps"), (("pkg/near.py", (2, 4)),))


def test_a_function_of_the_file_leads_nowhere(read: Read) -> None:
    assert not [d for d in read(_OWN).decisions if d.elsewhere]


def test_a_module_that_is_not_there_leads_nowhere(read: Read) -> None:
    assert not [d for d in read(_MAIN).decisions if d.elsewhere]


_KEPT = """import triton
import tools
@triton.autotune(configs=tools.kept("k"), key=["n"])
@triton.jit
def k(x, n, BLOCK: "tl.constexpr"):
    pass
def run(x):
    n = x.shape[-1]
    k[(x.shape[0],)](x, n)
"""
_ENTRY = """other:
  - META: {BLOCK: 16}
k:
  - META:
      BLOCK: 64
    num_warps: 4

  - META: {BLOCK: 128}
    num_warps: 8
# what follows is another's
next:
  - META: {BLOCK: 32}
"""


def test_a_search_leads_to_the_entry_of_a_table(read: Read) -> None:
    found = read(_KEPT, **{"pkg/nvidia/tune.yaml": _ENTRY}).decisions
    led = {d.axis: d.elsewhere for d in found if d.elsewhere}
    place = ("pkg/nvidia/tune.yaml", (3, 9))
    assert led == dict.fromkeys(("autotuning", "num_warps"), (place,))


_RULED = """import triton
from pkg.rules import size, TABLE
@triton.heuristics({"BLOCK": size})
@triton.jit
def k(x, n, BLOCK: "tl.constexpr"):
    pass
def run(x):
    n = x.shape[-1]
    k[(x.shape[0],)](x, n)
"""
_RULES = """import triton
def size(args):
    return triton.next_power_of_2(args["n"])
TABLE = {"k": {"BLOCK": size}}
"""


def test_an_attached_rule_leads_to_its_function(read: Read) -> None:
    found = read(_RULED, pkg__rules=_RULES).decisions
    led = {d.axis: d.elsewhere for d in found if d.elsewhere}
    place = ("pkg/rules.py", (2, 3))
    assert led["autotuning"] == led["tile_padding"] == (place,)
    here = _RULED.replace("from pkg.rules import size, TABLE\n", _RULES.partition("\n")[2])
    assert not [d for d in read(here).decisions if d.elsewhere]


_HELPED = """import functools
import triton
from pkg.near import settings
@triton.jit
def k(x, n, BLOCK: "tl.constexpr"):
    pass
def own(n):
    size, count = settings(n)
    return size, count
kept = functools.lru_cache(maxsize=None)(own)
def start(kernel, grid, args, **options):
    kernel[grid](*args, **options)
def run(x):
    n = x.shape[-1]
    size, count = kept(n)
    start(k, (x.shape[0],), (x, n), BLOCK=size, num_warps=count)
"""


def test_what_a_helper_hands_on_leads_there_through_a_kept_function(read: Read) -> None:
    found = read(_HELPED, pkg__near=_SETTINGS).decisions
    led = {d.axis: d.elsewhere for d in found if d.elsewhere}
    assert led["num_warps"] == (("pkg/near.py", (4, 6)),)
    assert led["tile_padding"] == (("pkg/near.py", (3, 3)),)
