"""Reading a host snippet the way the reader does, with kernels taken from the snippet itself."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from extractors.host.events import KernelSignature
from extractors.host.facts import HostFacts
from extractors.host.modules import TextLoader
from extractors.host.read import read_host

Read = Callable[..., HostFacts]


def signatures(tree: ast.Module) -> dict[str, KernelSignature]:
    """Decorated functions of a snippet whose name starts with `k` or `_k`."""
    found = {}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef)
            and node.decorator_list
            and node.name.lstrip("_").startswith("k")
        ):
            params = tuple((arg.arg, arg.annotation is not None) for arg in node.args.args)
            lines = (node.lineno, node.end_lineno or node.lineno)
            found[node.name] = KernelSignature(name=node.name, params=params, lines=lines)
    return found


@pytest.fixture
def read() -> Read:
    """Facts of the only kernel (or of the kernel named) of a snippet."""

    def run(text: str, kernel: str | None = None, **modules: str) -> HostFacts:
        tree = ast.parse(text)
        loader = TextLoader({name.replace("__", "."): source for name, source in modules.items()})
        facts = read_host(tree, path="pkg/main.py", kernels=signatures(tree), loader=loader)
        return facts[kernel] if kernel else next(iter(facts.values()))

    return run
