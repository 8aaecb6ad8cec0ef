"""emit_program(kernel, dialect): a tile program as source text of its kernel and helpers."""

from __future__ import annotations

from generators.source.function import INDENT, function_body
from generators.source.spelling import Spelling
from kb.dialects.registry import DIALECTS
from kb.dialects.registry import dialect as dialect_named
from kb.errors import CannotEmit
from kb.ir import Function, Kernel, Literal, Parameter, ParameterKind, walk

LINE = 100


def emit_program(kernel: Kernel, dialect: str) -> str:
    """Imports, constants, helpers and kernel, in that order; nothing of the original text is
    needed.

    Raises CannotEmit, with the span, for an opaque operation or one that the dialect cannot say.
    """
    known = DIALECTS.get(kernel.dialect)
    if kernel.dialect and (known is None or not known.written):
        raise CannotEmit(
            f"a kernel read from {kernel.dialect} is not written: it has no emitter.",
            where=str(kernel.entry.span),
            hint="Transfer what it decides to an operation and write that: tilelore transfer.",
        )
    spelling = Spelling(dialect_named(dialect), reserved=_taken(kernel))
    spelling.native(spelling.dialect.module)
    bodies = [_function(kernel, function, spelling) for function in (*kernel.helpers, kernel.entry)]
    constants = [_constant(name, value, spelling) for name, value in spelling.constants.items()]
    spelling.native(spelling.dialect.kernel_mark)
    imports = sorted(spelling.imports, key=lambda line: (line.startswith("from"), line))
    blocks = ["\n".join(imports)]
    if constants:
        blocks.append("\n".join(constants))
    return "\n\n\n".join([*blocks, *bodies]) + "\n"


def _taken(kernel: Kernel) -> frozenset[str]:
    """Names that a module-level constant may not use: functions, parameters and local variables."""
    names: set[str] = set()
    for function in kernel.functions:
        names.add(function.name)
        names.update(function.parameter_names)
        for op in walk(function.body):
            names.update(value.hint for value in op.results)
            names.update(value.hint for region in op.regions for value in region.arguments)
    return frozenset(names)


def _constant(name: str, value: Literal, spelling: Spelling) -> str:
    if value is None:
        return f"{name} = None  # chosen by the host"
    text = spelling.literal(value).text
    wrapper = spelling.dialect.constant_wrapper
    return f"{name} = {spelling.native(wrapper)}({text})" if wrapper else f"{name} = {text}"


def _function(kernel: Kernel, function: Function, spelling: Spelling) -> str:
    parameters = [_parameter(parameter, spelling) for parameter in function.parameters]
    head = f"def {function.name}({', '.join(parameters)}):"
    if len(head) > LINE:
        inner = "".join(f"{INDENT}{parameter},\n" for parameter in parameters)
        head = f"def {function.name}(\n{inner}):"
    lines = [*_decorator(kernel, function, spelling), head]
    return "\n".join([*lines, *function_body(kernel, function, spelling)])


def _decorator(kernel: Kernel, function: Function, spelling: Spelling) -> list[str]:
    given = dict(function.options).get("decorator")
    if isinstance(given, str):
        return [f"@{spelling.native(given)}"]
    helper = function is not kernel.entry
    if helper and (not spelling.dialect.marks_helpers or _runs_in_python(kernel, function)):
        return []
    name = spelling.native(spelling.dialect.kernel_mark)
    options = [f"{key}={_option(key, value, spelling)}" for key, value in function.options]
    return [f"@{name}({', '.join(options)})" if options else f"@{name}"]


def _runs_in_python(kernel: Kernel, function: Function) -> bool:
    """True for a plain function that only functions of the compile-time interpreter call."""
    callers = [
        other
        for other in kernel.functions
        if any(op.attribute("callee") == function.name for op in walk(other.body))
    ]
    outside = ("decorator" in dict(other.options) for other in callers)
    return not function.decorated and bool(callers) and all(outside)


def _option(key: str, value: Literal, spelling: Spelling) -> str:
    """An option of the decorator; one that the host computes is a constant of the module, which
    leaves it to the compiler until it is set.
    """
    if value is None and key.upper() not in spelling.reserved:
        spelling.constants[key.upper()] = None
        return key.upper()
    if isinstance(value, str) and value.startswith("by_target("):
        return f"{spelling.native('cuda.tile.ByTarget')}({value[10:-1]})"
    if isinstance(value, str) and value.startswith("names("):
        return str([name for name in value[6:-1].split(", ") if name])
    return spelling.literal(value).text


def _parameter(parameter: Parameter, spelling: Spelling) -> str:
    text = parameter.name
    annotation = _annotation(parameter, spelling)
    if annotation:
        text += f": {annotation}"
    if parameter.has_default:
        text += " = " if annotation else "="
        text += spelling.literal(parameter.default).text
    return text


def _annotation(parameter: Parameter, spelling: Spelling) -> str:
    if parameter.kind is ParameterKind.CONSTEXPR:
        typed = spelling.dialect.constexpr_typed and parameter.annotation
        inner = f"[{parameter.annotation}]" if typed else ""
        return spelling.native(spelling.dialect.constexpr_mark) + inner
    if parameter.kind is ParameterKind.SCALAR:
        return parameter.annotation
    if parameter.annotation == "indexed_i64":
        return spelling.native("cuda.tile.IndexedWithInt64")
    native = spelling.dialect.dtype_paths.get(parameter.annotation)
    return spelling.native(native) if native else ""
