"""One importable Python file from a program and its host contract: what `tilelore generate` writes.

The file depends on torch and on triton or cuda.tile alone. Same program, contract and version: same
bytes.
"""

from __future__ import annotations

import importlib.resources
import keyword
import pprint
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from jinja2 import Environment, FunctionLoader, StrictUndefined

from generators.emit import emit_program
from generators.host_descriptors import DESCRIPTOR_IMPORT, described
from generators.host_text import HostNames
from kb.errors import CannotEmit
from kb.families.contract import Check, HostContract, OutputContract, TensorContract
from kb.families.model import ChosenBy, FamilyProgram
from kb.ir import ParameterKind
from kb.ir_text import program_digest
from kb.planner.expressions import names as expression_names
from kb.planner.expressions import parse

LINE = 100
TEXT = 96
FORMAT_SECONDS = 60.0
_STANDARD = frozenset({"math", "typing"})
_BY = {
    ChosenBy.SETTING: "set by the caller", ChosenBy.SPACE: "from the design space",
    ChosenBy.DEFAULT: "default",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a generated file came from: labels with texts for its docstring, and facts for
    TILELORE.
    """

    name: str
    operation: str
    space_digest: str
    lines: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """One `if … raise` of the host function."""

    condition: str
    error: str
    message: str


def module_text(program: FamilyProgram, provenance: Provenance, *, arch: str) -> str:
    """The formatted source of one file.

    Raises CannotEmit, with the span, for an operation that the dialect cannot write.
    """
    _only_identifiers(program)
    source = emit_program(program.kernel, program.kernel.dialect)
    head, _, body = source.partition("\n\n\n")
    host = program.host
    device = _device(host)
    given = {tensor.name: tensor.name for tensor in host.tensors}
    cutile = program.kernel.dialect == "cutile"
    names = HostNames(given=given, device=device, own_functions=cutile)
    view = _view(host, names, program)
    imports = {*head.splitlines(), "import torch", *([] if cutile else ["import triton"])}
    imports |= {f"import {name}" for name in names.imports}
    if any(scalar.annotation == "Any" for scalar in host.scalars):
        imports.add("from typing import Any")
    imports |= {DESCRIPTOR_IMPORT} if any(d.name for d in host.descriptors) else set()
    values = {
        "docstring": _docstring(program, provenance, arch),
        "imports": _sorted(imports),
        "facts": _facts(program, provenance, arch),
        "kernel_source": body.strip("\n"),
        "kernel": program.kernel.name,
        "helpers": sorted(names.helpers),
        "cutile": cutile,
        **view,
    }
    environment = Environment(
        loader=FunctionLoader(_template), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,
    )  # fmt: skip
    return formatted(environment.get_template("module.py.j2").render(values))


def _only_identifiers(program: FamilyProgram) -> None:
    """A program may come from a file that a person wrote: its names become code, so they are
    checked.
    """
    host = program.host
    written = [name for f in program.kernel.functions for name in (f.name, *f.parameter_names)]
    written += [host.function, *(t.name for t in host.tensors), *(s.name for s in host.scalars)]
    written += [output.name for output in host.outputs]
    written += [item.name for item in (*host.constants, *host.configuration)]
    for name in written:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise CannotEmit(f"`{name}` is no name in Python.", hint="Rename it in the program.")


def _template(name: str) -> str:
    return (importlib.resources.files("generators") / "templates" / name).read_text(
        encoding="utf-8"
    )


def generator_version() -> str:
    """Name and version of this tool."""
    try:
        return f"tilelore {version('tilelore')}"
    except PackageNotFoundError:
        return "tilelore from a checkout"


def formatted(text: str) -> str:
    """The text as `ruff format` lays it out.

    Raises CannotEmit when ruff is missing or refuses the text, which no generated file should see.
    """
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", str(LINE)]
    command += ["--target-version", "py311", "--stdin-filename", "generated.py", "-"]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=FORMAT_SECONDS
    )
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()
        raise CannotEmit(
            f"the generated file could not be formatted: {words[0] if words else 'no message'}.",
            hint="Install `ruff`, or report the design point.",
        )
    return done.stdout


def _sorted(imports: set[str]) -> list[str]:
    """Imports in groups: the standard library, then what is installed."""
    standard = sorted(line for line in imports if line.split()[1] in _STANDARD)
    others = sorted(imports - set(standard), key=lambda line: (line.startswith("from"), line))
    return [*standard, *([""] if standard else []), *others]


# -- docstring and facts


def _docstring(program: FamilyProgram, provenance: Provenance, arch: str) -> str:
    lines = [program.host.summary, ""]
    lines += [f"Written by {generator_version()} for {arch}; do not edit, generate it again.", ""]
    lines += [
        "Design point",
        *_rows([(c.axis, f"{c.value} ({_BY[c.by]})") for c in program.choices]),
    ]
    facts = [
        ("design space", f"{provenance.name}, sha256 {provenance.space_digest}"),
        ("tile program", f"sha256 {program_digest(program.kernel)}"),
        *provenance.lines,
    ]
    lines += ["", "Provenance", *_rows(facts)]
    lines += ["", f"Reference: {program.reference}"]
    if program.residuals:
        lines += ["", "Left open"]
        for note in program.residuals:
            lines += textwrap.wrap(note, TEXT, initial_indent="    ", subsequent_indent="        ")
    return "\n".join(line.replace("\\", "\\\\").replace('"""', "'''") for line in lines)


def _rows(rows: list[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows) + 2 if rows else 0
    found: list[str] = []
    for name, text in rows:
        head = f"    {name:<{width}}"
        found += textwrap.wrap(
            text, TEXT, initial_indent=head, subsequent_indent=" " * len(head),
            break_long_words=False, break_on_hyphens=False,
        ) or [head.rstrip()]  # fmt: skip
    return found


def _facts(program: FamilyProgram, provenance: Provenance, arch: str) -> str:
    """What the file says of itself, as a literal: reading it needs no import."""
    facts = {
        "generator": generator_version(),
        "family": program.family,
        "operation": provenance.operation,
        "dialect": program.kernel.dialect,
        "arch": arch,
        "host": program.host.function,
        "kernel": program.kernel.name,
        "design_point": {choice.axis: choice.value for choice in program.choices},
        "set": [c.axis for c in program.choices if c.by is ChosenBy.SETTING],
        "scalars": {scalar.name: scalar.default for scalar in program.host.scalars},
        "computed": {c.name: c.expression for c in program.host.constants},
        "program_sha256": program_digest(program.kernel),
        "space_sha256": provenance.space_digest,
    }
    return _literal(facts)


# -- the host function


def _view(host: HostContract, names: HostNames, program: FamilyProgram) -> dict[str, object]:
    """Everything of the host function, as the text that the template lays out."""
    arguments = _arguments(host, names, program)
    placed = _placed(program)
    late = [check for check in host.checks if _late(check, host)]
    early = [check for check in host.checks if check not in late]
    return {
        "host": host,
        "first": _device(host),
        "parameters": _parameters(host, names),
        "returns": _returns(host),
        "optional": [tensor.name for tensor in host.tensors if tensor.optional],
        "searched": _literal([dict(point) for point in host.searched]) if host.searched else "",
        "tensors": host.tensors,
        "pairs": _listed([f'("{t.name}", {t.name})' for t in host.tensors]),
        "dtypes": ", ".join(f"torch.{name}" for t in host.tensors[:1] for name in t.dtypes),
        "configuration": [(c.name, names.text(c.expression)) for c in host.configuration],
        "checks": [*_shape_checks(host, names), *(_stated(check, names) for check in early)],
        "late_checks": [_stated(check, names) for check in late],
        "constants": [(c.name, names.text(c.expression)) for c in host.constants],
        "outputs": [_output(output, names, host) for output in host.outputs],
        "returned": [_returned(output, names) for output in host.outputs],
        "empty_when": names.text(host.empty_when) if host.empty_when else "",
        "grid": _listed([names.text(axis) for axis in host.grid]) if host.grid else "",
        "arguments": arguments,
        "runtime": arguments[:placed],
        "static": arguments[placed:],
        "options": [(name, names.text(text)) for name, text in host.options],
        **described(host, names),
    }


def _listed(items: list[str]) -> str:
    """Items of a tuple; one alone needs its comma."""
    return f"{items[0]}," if len(items) == 1 else ", ".join(items)


def _device(host: HostContract) -> str:
    """The tensor whose device runs the kernel."""
    return host.device or host.tensors[0].name


def _literal(value: object) -> str:
    return pprint.pformat(value, width=LINE, sort_dicts=False)


def _returns(host: HostContract) -> str:
    if len(host.outputs) < 2:
        return "torch.Tensor" if host.outputs else "None"
    return f"tuple[{', '.join('torch.Tensor' for _ in host.outputs)}]"


def _parameters(host: HostContract, names: HostNames) -> list[str]:
    found = [
        f"{tensor.name}: torch.Tensor{' | None' if tensor.optional else ''}"
        for tensor in host.tensors
    ]
    for scalar in sorted(host.scalars, key=lambda scalar: scalar.has_default):
        default = f" = {scalar.default!r}" if scalar.has_default else ""
        found.append(f"{scalar.name}: {scalar.annotation}{default}")
    return found


def _late(check: Check, host: HostContract) -> bool:
    """Whether a check needs a matrix view or a constant, which come after the others."""
    computed = {constant.name for constant in host.constants}
    computed |= {f"{tensor.name}_rows" for tensor in host.tensors if tensor.rows}
    used = {name.partition(".")[0] for name in expression_names(parse(check.expression))}
    return bool(used & computed)


def _stated(check: Check, names: HostNames) -> _Check:
    condition, message = names.broken(check.expression), names.message(check.message)
    if check.when:
        condition = f"{names.text(check.when)} and {condition}"
    return _Check(condition=condition, error="ValueError", message=message)


def _shape_checks(host: HostContract, names: HostNames) -> list[_Check]:
    found: list[_Check] = []
    for tensor in host.tensors:
        found += _tensor_checks(tensor, names)
    return found


def _tensor_checks(tensor: TensorContract, names: HostNames) -> list[_Check]:
    name = tensor.name
    found: list[_Check] = []
    if tensor.rows:
        found.append(
            _Check(
                condition=f"{name}.ndim == 0 or {name}.shape[-1] == 0",
                error="ValueError",
                message=f'f"{name} has shape {{tuple({name}.shape)}}; its last axis is empty"',
            )
        )
    if tensor.rank is not None:
        found.append(
            _Check(
                condition=f"{name}.ndim != {tensor.rank}",
                error="ValueError",
                message=f'f"{name} has {{{name}.ndim}} axes, not {tensor.rank}"',
            )
        )
    if any(extent is not None for extent in tensor.shape):
        extents = [
            names.text(extent) if extent is not None else f"{name}.shape[{axis}]"
            for axis, extent in enumerate(tensor.shape)
        ]
        comma = "," if len(extents) == 1 else ""
        shape = f"({', '.join(extents)}{comma})"
        found.append(
            _Check(
                condition=f"{name}.shape != {shape}",
                error="ValueError",
                message=f'f"{name} has shape {{tuple({name}.shape)}}, not {{{shape}}}"',
            )
        )
    if tensor.dtype_of is not None:
        other = tensor.dtype_of
        found.append(
            _Check(
                condition=f"{name}.dtype != {other}.dtype",
                error="TypeError",
                message=f'f"{name} is {{{name}.dtype}} and {other} {{{other}.dtype}}; use one"',
            )
        )
    return found


def _output(output: OutputContract, names: HostNames, host: HostContract) -> tuple[str, str]:
    """Name of an output and the call that allocates it; kernels write it in row-major order."""
    tensors = {tensor.name for tensor in host.tensors}
    dtype = f"{output.dtype}.dtype" if output.dtype in tensors else f"torch.{output.dtype}"
    if output.like is not None:
        shape = f"{output.like}.shape"
    else:
        extents = [names.text(extent) for extent in output.shape]
        shape = f"({', '.join(extents)}{',' if len(extents) == 1 else ''})"
    device = host.tensors[0].name
    return output.name, f"torch.empty({shape}, dtype={dtype}, device={device}.device)"


def _returned(output: OutputContract, names: HostNames) -> str:
    if output.returned_leading_of is not None:
        return f"{output.name}.reshape({output.returned_leading_of}.shape[:-1])"
    if output.returned_shape:
        text = f"{output.name}.view({', '.join(names.text(e) for e in output.returned_shape)})"
        return f"{text}[..., : {names.text(output.trimmed_to)}]" if output.trimmed_to else text
    return output.name


def _placed(program: FamilyProgram) -> int:
    """How many arguments are passed by their place: those before the first compile-time value."""
    kinds = [parameter.kind for parameter in program.kernel.entry.parameters]
    return (*kinds, ParameterKind.CONSTEXPR).index(ParameterKind.CONSTEXPR)


def _arguments(
    host: HostContract, names: HostNames, program: FamilyProgram
) -> list[tuple[str, str]]:
    """Kernel parameters with what the host passes, in the order of the kernel.

    Raises CannotEmit when a parameter without a default is not bound.
    """
    bound = {binding.parameter: binding.expression for binding in host.bindings}
    found: list[tuple[str, str]] = []
    for parameter in program.kernel.entry.parameters:
        if parameter.name not in bound:
            if parameter.has_default:
                continue
            raise CannotEmit(
                f"the host passes nothing for `{parameter.name}`.",
                hint="Add a binding to the launch of the design space.",
            )
        found.append((parameter.name, names.text(bound[parameter.name])))
    return found
