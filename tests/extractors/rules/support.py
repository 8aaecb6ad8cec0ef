"""Findings of a module given as text: kernel and host code read the way `extract` reads them."""

from __future__ import annotations

from pathlib import Path

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.host.events import KernelSignature
from extractors.host.facts import HostFacts
from extractors.host.read import read_host
from extractors.modules import ModuleText
from extractors.read import read
from extractors.rules.base import Subject
from kb.analysis.facts import Facts
from kb.ir import Kernel, ParameterKind


def signature(kernel: Kernel) -> KernelSignature:
    """What host code needs to know of a kernel."""
    constexpr = ParameterKind.CONSTEXPR
    params = tuple((p.name, p.kind is constexpr) for p in kernel.entry.parameters)
    return KernelSignature(
        name=kernel.name, params=params, decorator_hints=kernel.entry.options,
        lines=kernel.entry.span.lines,
    )  # fmt: skip


def subjects(text: str) -> dict[str, Subject]:
    """Every kernel of a module with its host facts, by name; CUDA C++ where a kernel is global."""
    if "__global__" in text:
        cuda = read_cuda(text, "kernel.cu")
        told = host_facts(cuda)
        return {k.name: Subject(Facts(k), told.get(k.name, HostFacts())) for k in cuda.kernels}
    found = read(ModuleText("", "kernel.py", text))
    signatures = {kernel.name: signature(kernel) for kernel in found.kernels}
    hosts = read_host(found.tree, path=str(Path("kernel.py")), kernels=signatures)
    return {k.name: Subject(Facts(k), hosts.get(k.name, HostFacts())) for k in found.kernels}


def subject(text: str) -> Subject:
    """The last kernel of a module."""
    return list(subjects(text).values())[-1]
