"""generate(document, …): a design space and settings as one importable Python file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace

from extractors.detect import decisions_of
from generators.host_facts import HostRequest
from generators.launch_point import ACCUMULATORS, LaunchPoint, launch_point
from generators.lower.triton import Lowered, to_triton
from generators.lower.views import LoweredParameter
from generators.module import Provenance, module_text
from generators.program_host import host_contract
from generators.rewrites.registry import apply, axes
from kb.analysis.facts import Facts
from kb.analysis.inline import inline
from kb.dsl.from_knowledge import document_program
from kb.dsl.model import Document
from kb.dsl.writer import write
from kb.errors import CannotEmit, InputError, SyntaxProblem, UnknownName
from kb.evidence import AxisKind
from kb.families.model import Choice, ChosenBy, FamilyProgram, matching
from kb.families.registry import family_of
from kb.graph.terms import targets
from kb.ir import Kernel, Parameter, ParameterKind
from kb.planner.expressions import parse
from kb.planner.nodes import Literal
from kb.space import Scalar

DIALECTS = ("triton", "cutile")
FAMILY = "attention"
ATTENTION = frozenset({"fmha", "fmha_lse", "attention"})
"""Operations whose generated host function computes attention of q, k and v."""

_NUMBER = re.compile(r"\d+")
_STAGES = ("num_stages", "prefetch_depth")
_LAUNCH = ("num_warps", *_STAGES, "num_ctas", "occupancy")
_REGISTERS = 65_536


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
    values = {name: _scalar(text) for name, text in (settings or {}).items()}
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


def _scalar(text: str) -> Scalar:
    """A setting as the number, truth value or word that it spells."""
    try:
        tree = parse(text)
    except SyntaxProblem:
        return text
    return tree.value if isinstance(tree, Literal) else text


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
    design, launch, tuned = _sorted_settings(kernel, document, settings)
    for axis, value in design.items():
        kernel = apply(kernel, axis, value)
    if kernel.dialect != "cutile":
        raise CannotEmit(
            f"a {kernel.dialect} program cannot be written as a {dialect} file yet.",
            hint="`tilelore verify --roundtrip` writes and compares its kernel without a host.",
        )
    flat = inline(kernel)
    point = launch_point(document, flat, arch, tuned)
    if dialect == "triton":
        lowered = to_triton(kernel)
    else:
        hinted = _hinted(kernel, document, launch)
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
        warps=_warps(launch, point),
        stages=_stages(launch),
        shared_bytes=_shared_bytes(arch),
        options=_options(launch, point),
    )
    return FamilyProgram(
        family=FAMILY if document.space.operation in ATTENTION else document.space.operation,
        kernel=lowered.kernel,
        host=host_contract(request),
        choices=(*_design_point(seen, design), *_tuning_point(point, launch, tuned, dialect)),
        residuals=(*lowered.residuals, *_changed(_seen(kernel), seen)),
        reference=_reference(document),
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


def _sorted_settings(
    kernel: Kernel, document: Document, settings: Mapping[str, Scalar]
) -> tuple[dict[str, str], dict[str, Scalar], dict[str, Scalar]]:
    """Settings of design axes, of launch options and of tile sizes.

    Raises UnknownName for an axis that none of them is, InputError for a value that no rewrite
    makes.
    """
    names = {name.casefold(): name for name in kernel.entry.parameter_names}
    design: dict[str, str] = {}
    launch: dict[str, Scalar] = {}
    tuned: dict[str, Scalar] = {}
    for axis, value in settings.items():
        if axis in axes():
            found = matching(value, axes()[axis])
            if found is None:
                known = ", ".join(axes()[axis])
                raise InputError(f"`{axis}` cannot be `{value}` here.", hint=f"It can be {known}.")
            design[axis] = str(found)
        elif axis in _LAUNCH:
            launch[axis] = _whole(axis, value)
        elif axis.casefold() in names:
            tuned[names[axis.casefold()]] = _whole(axis, value)
        else:
            known = ", ".join([*axes(), *_LAUNCH, *(n for n, _ in _searched(document))])
            raise UnknownName(
                f"nothing in this kernel follows the axis `{axis}`.", hint=f"It changes {known}."
            )
    return design, launch, tuned


def _searched(document: Document) -> tuple[tuple[str, Scalar], ...]:
    spaces = document.tuning.spaces if document.tuning is not None else ()
    return spaces[0].points[0] if spaces and spaces[0].points else ()


def _whole(axis: str, value: Scalar) -> int:
    """A whole number, also where words stand beside it as in `latency 4`."""
    digits = _NUMBER.findall(str(value))
    if isinstance(value, bool) or len(digits) != 1 or int(digits[0]) < 1:
        raise InputError(f"`{axis}` cannot be `{value}`.", hint="Give a whole number from 1 up.")
    return int(digits[0])


def _warps(launch: Mapping[str, Scalar], point: LaunchPoint) -> int:
    """Four warps, eight for a tile of scores that four cannot hold."""
    given = launch.get("num_warps")
    if isinstance(given, int):
        return given
    size = 1
    for _, value in point.values:
        size *= value
    return 8 if size >= ACCUMULATORS else 4


def _stages(launch: Mapping[str, Scalar]) -> int | None:
    found = [launch[name] for name in _STAGES if name in launch]
    return found[0] if found and isinstance(found[0], int) else None


def _options(launch: Mapping[str, Scalar], point: LaunchPoint) -> tuple[tuple[str, str], ...]:
    """Launch options beside warps and stages; occupancy becomes a bound on registers."""
    found: list[tuple[str, str]] = []
    if "num_ctas" in launch:
        found.append(("num_ctas", str(launch["num_ctas"])))
    blocks = launch.get("occupancy")
    if isinstance(blocks, int):
        registers = _REGISTERS // (blocks * 32 * _warps(launch, point))
        found.append(("maxnreg", str(min(255, registers // 8 * 8))))
    return tuple(found)


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


def _design_point(seen: Mapping[str, str], design: Mapping[str, str]) -> tuple[Choice, ...]:
    """What the program that is written decides."""
    return tuple(
        Choice(axis=axis, value=value, by=ChosenBy.SETTING if axis in design else ChosenBy.SPACE)
        for axis, value in seen.items()
    )


def _tuning_point(
    point: LaunchPoint, launch: Mapping[str, Scalar], tuned: Mapping[str, Scalar], dialect: str
) -> tuple[Choice, ...]:
    rows = [
        Choice(axis=name, value=value, by=ChosenBy.SETTING if name in tuned else ChosenBy.SPACE)
        for name, value in point.values
    ]
    if dialect == "triton" or "num_warps" in launch:
        by = ChosenBy.SETTING if "num_warps" in launch else ChosenBy.DEFAULT
        rows.append(Choice(axis="num_warps", value=_warps(launch, point), by=by))
    rows += [
        Choice(axis=name, value=value, by=ChosenBy.SETTING)
        for name, value in launch.items()
        if name != "num_warps"
    ]
    return tuple(rows)


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
