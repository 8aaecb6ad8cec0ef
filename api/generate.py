"""generate(document, …): a design space and settings as one importable Python file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace

from api.generate_settings import Settings, scalar, sorted_settings
from extractors.detect import decisions_of
from generators.host_facts import HostRequest
from generators.host_signs import natural_parameters
from generators.launch_host import OPTIONS, LaunchRequest, launch_contract
from generators.launch_point import capability, chosen_point, launch_point
from generators.lower.roads import Manner
from generators.lower.triton import Lowered, to_triton
from generators.lower.views import LoweredParameter
from generators.module import Provenance, module_text
from generators.program_host import host_contract
from generators.rewrites.registry import apply
from kb.analysis.facts import Facts
from kb.analysis.inline import inline
from kb.dsl.model import Document
from kb.dsl.program import document_program
from kb.dsl.writer import write
from kb.errors import CannotEmit, InputError, UnknownName
from kb.evidence import AxisKind
from kb.families.model import Choice, ChosenBy, FamilyProgram
from kb.families.registry import family_of
from kb.graph.terms import targets
from kb.ir import Kernel, Parameter, ParameterKind
from kb.space import Scalar

DIALECTS = ("triton", "cutile")
FAMILY = "attention"
ATTENTION = frozenset({"fmha", "fmha_lse", "attention"})
"""Operations whose generated host function computes attention of q, k and v."""


def generate(
    document: Document, dialect: str, settings: Mapping[str, str] | None = None, arch: str = "sm_90"
) -> str:
    """The source of a kernel with its host function.

    Raises UnknownName for an axis that nothing follows, InputError for a value that cannot be
    built, ConstraintViolated for a point that breaks a constraint, CannotEmit when the dialect
    cannot say the program.
    """
    if dialect not in DIALECTS:
        raise InputError(f"`{dialect}` cannot be written.", hint=f"Write {' or '.join(DIALECTS)}.")
    values = {name: scalar(text) for name, text in (settings or {}).items()}
    if document.program is not None:
        program = _from_program(document, dialect, values, arch)
    else:
        program = family_of(document)(document, values)
    if program.kernel.dialect != dialect:
        raise CannotEmit(
            f"a host function in {dialect} cannot be written for this program.",
            hint=f"Write --dialect {program.kernel.dialect}.",
        )
    return module_text(program, provenance_of(document), arch=arch)


def provenance_of(document: Document) -> Provenance:
    """Where the file came from: the space, what it derives from, the source that was read."""
    space = document.space
    lines = [("derived from", origin) for origin in space.derived_from]
    if space.source_digest:
        place = f"{document.path or 'source'}, sha256 {space.source_digest}"
        if document.package:
            place = f"{document.package}, {place}"
        lines.append(("read from", place))
    if document.licence:
        lines.append(("licence of what was read", document.licence))
    return Provenance(
        name=space.name,
        operation=space.operation,
        space_digest=hashlib.sha256(write(document).encode()).hexdigest(),
        lines=tuple(lines),
    )


# -- a kernel that was read


def _from_program(
    document: Document, dialect: str, settings: Mapping[str, Scalar], arch: str
) -> FamilyProgram:
    """The program of a document with its design rewritten, lowered, under a host made from its
    launch.
    """
    kernel = document_program(document)
    chosen = sorted_settings(kernel, document, settings, dialect, arch)
    for axis, value in chosen.design.items():
        kernel = apply(kernel, axis, value)
    if kernel.dialect == dialect == "triton":
        return _launched(document, kernel, chosen, arch)
    if kernel.dialect != "cutile":
        raise CannotEmit(
            f"a {kernel.dialect} program cannot be written as a {dialect} file.",
            hint=f"Write --dialect {kernel.dialect}."
            if kernel.dialect in DIALECTS
            else "Transfer what it decides to an operation and write that: tilelore transfer.",
        )
    flat = inline(kernel)
    point = launch_point(document, flat, arch, chosen.tuned)
    if dialect == "triton":
        natural = natural_parameters(document, flat, point)
        manner = Manner(road=chosen.road, known=dict(point.values), natural=natural)
        lowered = to_triton(kernel, manner)
    else:
        hinted = _hinted(kernel, document, chosen.launch)
        lowered = Lowered(hinted, _own_parameters(flat), ())
    seen = _seen(lowered.kernel)
    request = HostRequest(
        document=document,
        program=flat,
        lowered=lowered.parameters,
        dialect=dialect,
        point=point,
        function=_function_name(document, kernel),
        summary=f"{_title(document)} over tensors of (batch, heads, rows, columns).",
        warps=chosen.warps(point),
        stages=chosen.stages,
        shared_bytes=_shared_bytes(arch),
        options=chosen.options(point),
        blocks=lowered.blocks,
    )
    return FamilyProgram(
        family=FAMILY if document.space.operation in ATTENTION else document.space.operation,
        kernel=lowered.kernel,
        host=host_contract(request),
        choices=(*_design_point(seen, chosen.made_by), *chosen.tuning_point(point, dialect)),
        residuals=(*lowered.residuals, *_changed(_seen(kernel), seen)),
        reference=_reference(document),
    )


def _launched(document: Document, kernel: Kernel, chosen: Settings, arch: str) -> FamilyProgram:
    """A Triton program as it is, with the launch that its source made."""
    target = capability(arch)
    point = chosen_point(document, kernel, target, chosen.tuned)
    options: dict[str, Scalar] = {name: v for name, v in point.items() if name in OPTIONS}
    options |= {name: value for name, value in chosen.launch.items() if name in OPTIONS}
    values = {n: v for n, v in point.items() if n in kernel.entry.parameter_names}
    request = LaunchRequest(
        document=document,
        kernel=kernel,
        function=_function_name(document, kernel),
        summary=f"Launches {kernel.name}.",
        capability=target,
        values=values,
        options=options,
    )
    host, notes = launch_contract(request)
    seen = _seen(kernel)
    tuned = tuple(
        Choice(
            axis=name,
            value=value,
            by=ChosenBy.SETTING if name in {*chosen.tuned, *chosen.launch} else ChosenBy.SPACE,
        )
        for name, value in {**values, **options}.items()
    )
    return FamilyProgram(
        family=document.space.operation or kernel.name,
        kernel=kernel,
        host=host,
        choices=(*_design_point(seen, chosen.made_by), *tuned),
        residuals=notes,
        reference="none",
    )


def _own_parameters(kernel: Kernel) -> tuple[LoweredParameter, ...]:
    """The parameters of a program that keeps its dialect: arrays stay arrays."""
    arrays = {access.array for access in Facts(kernel).accesses}

    def source(parameter: Parameter) -> str:
        if parameter.kind is ParameterKind.CONSTEXPR:
            return "constexpr"
        return "pointer" if parameter.name in arrays else "scalar"

    return tuple(LoweredParameter(p.name, source(p), p.name) for p in kernel.entry.parameters)


def _hinted(kernel: Kernel, document: Document, launch: Mapping[str, Scalar]) -> Kernel:
    """The kernel with the hints that it is launched with, those that were set first."""
    hints = dict(kernel.entry.options)
    if document.tuning is not None:
        hints |= {k: v for k, v in document.tuning.launched_with if not isinstance(v, str)}
    for name in ("occupancy", "num_ctas"):
        if name in launch:
            hints[name] = launch[name]
    if "num_warps" in launch:
        hints["num_worker_warps"] = launch["num_warps"]
    return replace(kernel, entry=replace(kernel.entry, options=tuple(hints.items())))


def _shared_bytes(arch: str) -> int:
    """Shared memory of one block; the smallest among the GPUs of an architecture."""
    limits = [t.limit("shared_bytes_per_block") for t in targets().values() if t.arch == arch]
    if not limits:
        known = ", ".join(sorted({target.arch for target in targets().values()}))
        raise UnknownName(f"no target has the architecture `{arch}`.", hint=f"Known are {known}.")
    return min(limits)


def _seen(kernel: Kernel) -> dict[str, str]:
    """The design axes that patterns see in a program, with their values."""
    found: dict[str, list[str]] = {}
    for decision in decisions_of(Facts(kernel)):
        if decision.kind is AxisKind.DESIGN:
            values = found.setdefault(decision.axis, [])
            if decision.value not in values:
                values.append(decision.value)
    return {axis: "; ".join(sorted(values)) for axis, values in found.items()}


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """What the dialect made of a decision."""
    return tuple(
        f"{axis}: `{value}` is `{after[axis]}` here"
        for axis, value in before.items()
        if axis in after and after[axis] != value
    )


def _design_point(seen: Mapping[str, str], design: frozenset[str]) -> tuple[Choice, ...]:
    """What the program that is written decides."""
    return tuple(
        Choice(axis=axis, value=value, by=ChosenBy.SETTING if axis in design else ChosenBy.SPACE)
        for axis, value in seen.items()
    )


def _title(document: Document) -> str:
    return "Attention" if document.space.operation in ATTENTION else document.space.operation


def _reference(document: Document) -> str:
    if document.space.operation in ATTENTION:
        return "torch.nn.functional.scaled_dot_product_attention"
    return "none"


def _function_name(document: Document, kernel: Kernel) -> str:
    """The operation as an identifier that is not the kernel's."""
    name = re.sub(r"\W", "_", document.space.operation) or "run"
    return f"run_{name}" if name in {function.name for function in kernel.functions} else name
