"""Kernels as facts, from a few lines of source."""

from __future__ import annotations

from extractors.modules import ModuleText
from extractors.read import read
from kb.analysis.facts import Facts
from kb.analysis.symbolic import Expr

TILE = "import math\nimport cuda.tile as ct\nInt = ct.Constant[int]\n"
POINTER = "import triton\nimport triton.language as tl\n"


def facts(text: str) -> Facts:
    """Facts of the last kernel of a module."""
    return Facts(read(ModuleText("", "kernel.py", text)).kernels[-1])


def tile(signature: str, *lines: str, helpers: str = "") -> Facts:
    """Facts of a cuTile kernel with these parameters and statements."""
    body = "\n    ".join(lines)
    return facts(f"{TILE}{helpers}\n@ct.kernel\ndef k({signature}):\n    {body}\n")


def pointer(signature: str, *lines: str, helpers: str = "") -> Facts:
    """Facts of a Triton kernel with these parameters and statements."""
    body = "\n    ".join(lines)
    return facts(f"{POINTER}{helpers}\n@triton.jit\ndef k({signature}):\n    {body}\n")


def stored(found: Facts) -> Expr:
    """Integer meaning of what the last store stores."""
    return found.values.expr(found.stores[-1].value)
