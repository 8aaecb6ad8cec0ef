"""Names that the dialect tables know, and functions that find such a name for themselves."""

from __future__ import annotations

import ast
from functools import cache

from extractors.constants import is_docstring
from kb.dialects.registry import DIALECTS


@cache
def native_names() -> frozenset[str]:
    """Every name of a dialect table that is there today, and the modules that they live in."""
    found: set[str] = set()
    for dialect in DIALECTS.values():
        for path in {*dialect.by_path, *dialect.dtypes, *dialect.enums} - dialect.former:
            parts = path.split(".")
            found.update(".".join(parts[:end]) for end in range(1, len(parts) + 1))
    return frozenset(found)


def looked_up(function: ast.FunctionDef, given: list[ast.expr]) -> str | None:
    """The member that `function(name)` returns, when all it returns is `getattr(module, name)`: of
    the modules that it lists as text, the first in which a dialect knows the name."""
    wanted = [a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    parameters = [a.arg for a in function.args.args]
    returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
    if not len(wanted) == len(given) == len(parameters) == 1 or not returned:
        return None
    for value in returned:
        match value:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Name(id=name)]):
                if name != parameters[0]:
                    return None
            case _:
                return None
    listed = [
        f"{n.value}.{wanted[0]}"
        for statement in function.body
        if not is_docstring(statement)
        for n in ast.walk(statement)
        if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]
    return next((path for path in listed if path in native_names()), None)


def only_raises(function: ast.FunctionDef) -> bool:
    """True of a stand-in for what is not installed."""
    body = [statement for statement in function.body if not is_docstring(statement)]
    return all(isinstance(statement, ast.Raise) for statement in body)


_GLUON = "triton.experimental.gluon."
_INNER_ONLY = {
    "triton.language._log2": "triton.language.standard._log2",
    "triton.language.get_int_dtype": "triton.language.core.get_int_dtype",
}
"""Names that a library offers through one inner module only."""


def normal_path(path: str) -> str:
    """One spelling for names that a library also offers through its inner modules."""
    if path.startswith(_GLUON):
        for inner in ("language._core.", "language._standard.", "language._math.", "_runtime.",
                      "language._layouts."):  # fmt: skip
            path = path.replace(inner, inner.partition("_")[0])
        path = path.replace(f"{_GLUON}language.extra.", "triton.language.extra.")
    for inner in (".core.", ".standard.", ".random."):
        path = path.replace(f"triton.language{inner}", "triton.language.")
    for inner in ("_numeric_semantics.", "_datatype.", "_stub."):
        path = path.replace(f"cuda.tile.{inner}", "cuda.tile.")
    return _INNER_ONLY.get(path) or path.replace("triton.runtime.jit.", "triton.")
