"""Conditions that hold where a kernel is launched: checks of the host, and static assertions.

A check is a call that stops when its argument is false, or a branch that throws, exits or returns
an error. It is told in the words of the kernel: by parameter, or by template argument.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.matched import matched, matches
from extractors.cuda.plain_text import is_plain, with_functions
from extractors.cuda.render import shown
from kb.dialects.cuda import ERROR_CODES
from kb.dialects.cuda_libraries import DISPATCHES
from kb.space import Constraint, Origin

MAX_LABELS = 16
"""Values of a dispatch that one constraint lists."""

_CHECKS = {"TORCH_CHECK": "", "STD_TORCH_CHECK": "", "TORCH_INTERNAL_ASSERT": "", "assert": "",
           "TVM_FFI_ICHECK": "", "TVM_FFI_CHECK": "", "AT_ASSERTM": "", "CHECK": "",
           "TORCH_CHECK_EQ": "==", "TVM_FFI_ICHECK_EQ": "==", "CHECK_EQ": "==",
           "TORCH_CHECK_LE": "<=", "TVM_FFI_ICHECK_LE": "<=", "CHECK_LE": "<=",
           "TORCH_CHECK_GE": ">=", "TVM_FFI_ICHECK_GE": ">=", "CHECK_GE": ">=",
           "TVM_FFI_ICHECK_LT": "<", "TVM_FFI_ICHECK_GT": ">", "RuntimeCheck": "",
           "host::RuntimeCheck": "", "CHECK_HOST": "", "FLASHINFER_CHECK": "", "TLLM_CHECK": "",
           "TLLM_CHECK_WITH_INFO": ""}  # fmt: skip
"""Calls that stop when a condition is false, with how they compare two arguments. Source: PyTorch,
c10/util/Exception.h; Apache TVM FFI, tvm/ffi/error.h; SGLang, sgl_kernel/utils.h; FlashInfer,
flashinfer/exception.h; TensorRT-LLM, tensorrt_llm/common/assert.h; assert.h."""

CHECKS = frozenset(_CHECKS) - {"CHECK", "CHECK_EQ", "CHECK_LE", "CHECK_GE", "assert"}
"""Those whose names belong to one library: they are known by them, however they are made."""

_STOPS = frozenset({"exit", "abort", "std::exit", "std::abort", "std::terminate"})
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_NAME = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*")
_WORDS = frozenset({"and", "or", "not", "True", "False", "none", "bytes_of", "is_power_of_two",
                    "min", "max", "cdiv"})  # fmt: skip
_NUMBERS = {"INT32_MAX": "2147483647", "INT_MAX": "2147483647", "UINT32_MAX": "4294967295"}
_TYPES = {"Half": "float16", "Float16": "float16", "BFloat16": "bfloat16", "Float": "float32",
          "Float32": "float32", "Double": "float64", "Int": "int32", "Int32": "int32",
          "Long": "int64", "Int64": "int64", "Byte": "uint8", "Char": "int8",
          "Float8_e4m3fn": "float8_e4m3fn", "Float8_e5m2": "float8_e5m2"}  # fmt: skip
_TYPE = re.compile(r"(?:(?:torch|at|c10)::(?:headeronly::)?(?:ScalarType::|k)|ScalarType::)(\w+)")
"""Element types as C++ names them, and in the words of constraints. Source: PyTorch,
c10/core/ScalarType.h, torch/types.h."""

_BYTES = re.compile(r"\bsizeof\(([\w:]+)\)")
_SAME = re.compile(r"\bstd::is_same(?:_v<([\w:]+), ?([\w:]+)>|<([\w:]+), ?([\w:]+)>::value\b)")
"""How C++ asks whether two types are one."""

_GIVEN = re.compile(r"(not )?\b([A-Za-z_]\w*(?:\.\w+)*)\.has_value\(\)")
"""How C++ asks whether there is something. Source: std::optional."""

_LAST = re.compile(r"\b([A-Za-z_]\w*)\.(shape|stride)\[\1\.(?:ndim|ndim\(\)) - 1\]")
"""The last extent of a tensor, counted from the first."""

_LARGEST = re.compile(r"\bstd::numeric_limits<(u?int32|int)(?:_t)?>::max\(\)")
"""The largest number of a type. Source: C++ standard library, numeric_limits."""

_ADDRESS = re.compile(r"\b([A-Za-z_]\w*)\.data_ptr\(\)(?= %)")
_BEHIND = re.compile(r"\*(\w+)")
"""An address that something is left of, and what an address that is handed over leads to."""

_POWER = re.compile(r"\((\w+(?:\.\w+)*) & \(?\1 - 1\)?\) == 0")
"""How C++ asks for a power of two."""


MAX_STEPS = 3
"""Names behind names that a check is followed through."""

MAX_CALLED = 2
"""Functions, one calling the other, below one that is called, whose checks are looked at."""

MAX_NAMES = 24
"""Names of one check that are looked up."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a caller hands to a function, with the names that it gets there, and `own`: all names
    that the function declares, which mean something else in the caller."""

    words: tuple[tuple[str, str], ...]
    own: frozenset[str]


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that holds after a place of the host, or inside a kernel; `given` are the
    parameters of a function that checks with what they are given, `handed` the functions that it
    is passed on to, one after the other, `made` what names were given that it speaks of, and
    `chooses` whether it also chooses a type that is compiled in."""

    condition: n.Expr
    at: n.Place
    given: tuple[tuple[str, str], ...] | None = None
    handed: tuple[Step, ...] = ()
    made: tuple[tuple[str, str], ...] = ()
    chooses: bool = False


def checked(node: n.Stmt | n.Expr) -> Iterator[Check]:
    """The conditions that hold once a statement is passed."""
    match node:
        case n.Assert(condition=condition):
            yield Check(condition, node.at)
        case n.Call(function=n.Name(text=text), arguments=(first, *rest)) if text in _CHECKS:
            operator = _CHECKS[text]
            condition = n.Binary(node.at, operator, first, rest[0]) if operator and rest else first
            yield from _parts(condition, node.at)
        case n.Call(function=n.Field()) if matches(node):
            yield Check(node, node.at)
        case n.If():
            yield from _passed(node)
            yield from _under(node)
        case n.Switch(value=value, cases=cases):
            others = [body for label, body in cases if label is None]
            labels = [label for label, _ in cases if label is not None]
            if any(refuses(body) for body in others) and 0 < len(labels) <= MAX_LABELS:
                tests = [n.Binary(node.at, "==", value, one) for one in labels]
                yield Check(_one_of(tests), node.at)


def _fixed(value: n.Expr | None, own: set[str]) -> bool:
    """Whether a value is a number, or a constant that functions share."""
    while isinstance(value, n.Cast):
        value = value.operand
    shared = isinstance(value, n.Name) and value.text not in own
    return shared or isinstance(value, n.Constant)


def _same(name: str, text: str, *own: Container[str]) -> bool:
    """Whether functions share a name: it stands for itself, and this one has none of its own."""
    return name == text and not any(name in one for one in own)


def _done(statement: n.Stmt) -> n.Stmt | n.Expr:
    """What a statement is for: a call by itself, or one whose message is streamed to it."""
    inner: n.Stmt | n.Expr = statement.value if isinstance(statement, n.Do) else statement
    while isinstance(inner, n.Binary) and inner.operator == "<<":
        inner = inner.left
    return inner


def callees(
    name: str, functions: Mapping[str, Sequence[n.Definition]], owner: n.Record | None
) -> Sequence[n.Definition]:
    """The functions that a call of the host may mean: methods of the struct at hand, else functions
    of the file."""
    last = name.rpartition("::")[2]
    own = [one for one in owner.methods if one.name == last] if owner is not None else []
    return own or functions.get(last, ())


def checked_by(
    called: Sequence[n.Definition], arguments: Sequence[n.Expr],
    functions: Mapping[str, Sequence[n.Definition]], depth: int = 0,
) -> Iterator[Check]:  # fmt: skip
    """What a function of the host that is called checks before anything else can end it, by itself
    or by functions that it calls; nothing for one that has overloads."""
    if len(called) != 1 or {"__global__", "__device__"} & set(called[0].words):
        return
    names = [one.name for one in called[0].parameters]
    made = {one.name: one for one in n.inside(called[0].body) if isinstance(one, n.Variable)}
    given = (
        *zip(names, map(shown, arguments), strict=False),
        *(
            (name, shown(one.value))
            for name, one in made.items()
            if "constexpr" in one.storage and _fixed(one.value, {*names, *made})
        ),
    )
    for statement in called[0].body.body:
        inner = _done(statement)
        for check in checked(inner):
            used = {one.text for one in n.inside(check.condition) if isinstance(one, n.Name)}
            shared = sorted(used - {*names, *made})
            yield replace(check, given=(*given, *((name, name) for name in shared)))
        if isinstance(inner, n.Call) and isinstance(inner.function, n.Name) and depth < MAX_CALLED:
            next_ = functions.get(inner.function.text.rpartition("::")[2], ())
            for check in checked_by(next_, inner.arguments, functions, depth + 1):
                told = tuple(
                    (name, text if text.isdigit() or _same(name, text, names, made)
                     else in_words(text, dict(given), whole=True) or "?")
                    for name, text in check.given or ()
                )  # fmt: skip
                yield replace(check, given=told)


def dispatched(node: n.Call) -> Iterator[Check]:
    """What holds inside a call for the element type of a tensor."""
    name = node.function.text if isinstance(node.function, n.Name) else ""
    types, more = DISPATCHES.get(name, ((), 0))
    if types and len(node.arguments) > more:
        asked = node.arguments[more]
        of = [*node.arguments[:more], *(n.Name(node.at, f"at::{one}") for one in types)]
        asks = _one_of([n.Binary(node.at, "==", asked, one) for one in of])
        yield Check(asks, node.at, chooses=True)


def _under(node: n.If) -> Iterator[Check]:
    """What a branch checks before it goes on: it holds unless the other one is taken."""
    for body, other in (
        (node.then.body, denied(node.condition)),
        (node.other.body, node.condition),
    ):
        if refuses(body) or any(isinstance(x, n.Call) and x.launch for x in n.inside(body)):
            continue
        for one in body:
            inner = _done(one)
            for check in checked(inner) if isinstance(inner, n.Call | n.Assert) else ():
                either = n.Binary(check.at, "||", other, check.condition)
                yield replace(check, condition=either)


def _passed(node: n.If) -> Iterator[Check]:
    """A branch one of whose sides refuses."""
    if refuses(node.then.body):
        yield from _parts(denied(node.condition), node.at)
        return
    if not node.other.body and _leaves(node.then.body):
        left = list(_parts(denied(node.condition), node.at))
        if all(_filled(one.condition) for one in left):
            yield from left
        return
    tests = [node.condition]
    other = node.other.body
    while len(other) == 1 and isinstance(other[0], n.If) and len(tests) < MAX_LABELS:
        tests.append(other[0].condition)
        other = other[0].other.body
    if refuses(other):
        yield Check(_one_of(tests), node.at)


def _leaves(body: Sequence[n.Stmt]) -> bool:
    """Whether statements return without an error and without a launch."""
    last = body[-1] if body else None
    if isinstance(last, n.Block):
        return _leaves(last.body)
    calls = any(isinstance(one, n.Call) and one.launch for one in n.inside(tuple(body)))
    return isinstance(last, n.Leave) and last.word == "return" and not calls


def _filled(condition: n.Expr) -> bool:
    """Whether a number is asked to be above zero, or another one than zero."""
    match condition:
        case n.Binary(operator=">" | "!=", right=n.Constant(value=0)):
            return True
        case n.Binary(operator=">=", right=n.Constant(value=1)):
            return True
    return False


def refuses(body: Sequence[n.Stmt]) -> bool:
    """Whether statements end without going on: an error is thrown or returned."""
    for one in reversed(body):
        match one:
            case n.Block(body=inner):
                return refuses(inner)
            case n.Skipped(what=what):
                return "throw" in what
            case n.Do(value=n.Call(function=n.Name(text=text), arguments=arguments)):
                failed = bool(arguments) and shown(arguments[0]) in ("False", "0")
                return text in _STOPS or (failed and _CHECKS.get(text) == "")
            case n.Leave(word="return", value=n.Name(text=text)):
                return text.rpartition("::")[2].startswith(ERROR_CODES)
            case n.Leave(word="break"):
                continue
        return False
    return False


def denied(node: n.Expr) -> n.Expr:
    """What holds where a condition does not."""
    match node:
        case n.Unary(operator="!", operand=operand):
            return operand
        case n.Binary(operator=operator) if operator in _OPPOSITE:
            return n.Binary(node.at, _OPPOSITE[operator], node.left, node.right)
        case n.Binary(operator="||"):
            return n.Binary(node.at, "&&", denied(node.left), denied(node.right))
    return n.Unary(node.at, "!", node)


def _parts(node: n.Expr, at: n.Place) -> Iterator[Check]:
    """Conditions that hold together, one by one."""
    if isinstance(node, n.Binary) and node.operator == "&&":
        yield from _parts(node.left, at)
        yield from _parts(node.right, at)
    else:
        yield Check(node, at)


def _one_of(tests: Sequence[n.Expr]) -> n.Expr:
    found = tests[0]
    for other in tests[1:]:
        found = n.Binary(other.at, "||", found, other)
    return found


def with_made(checks: Iterable[Check], names: Mapping[str, n.Expr | n.Variable]) -> Iterator[Check]:
    """Checks with what the names in them were given, where that is an extent, a field or a name."""
    for check in checks:
        made: dict[str, str] = {}
        pending = [one.text for one in n.inside(check.condition) if isinstance(one, n.Name)]
        for name in pending[:MAX_NAMES]:
            value: object = names.get(name)
            while isinstance(value, n.Cast):
                value = value.operand
            scoped = isinstance(value, n.Name) and value.scope is not None
            plain = isinstance(value, n.Name | n.Field | n.Call) and not scoped
            text = shown(value) if plain else ""
            if name not in made and is_plain(with_functions(text)):
                made[name] = text
                pending += [one for one in _NAME.findall(text) if one.isidentifier()]
        yield replace(check, made=tuple(made.items()))


def stated(checks: Iterable[Check], words: Mapping[str, str]) -> Iterator[Constraint]:
    """Checks in the words of a kernel: `words` are its parameters by what the host calls them, and
    names of the host that a launch is made of by themselves."""
    for check in checks:
        told = _in_kernel(check, words, {})
        if told is None and check.made:
            told = _in_kernel(check, words, dict(check.made))
        if told is not None:
            yield Constraint(
                expression=told, origin=Origin.STATED, lines=place(check.at), checked_by_host=True,
                because="the code stops where it does not hold",
            )  # fmt: skip


def _in_kernel(check: Check, words: Mapping[str, str], made: Mapping[str, str]) -> str | None:
    """A check in the words of a kernel, or in those that its names were `made` of."""
    tensors = matches(check.condition)
    text = matched(check.condition) if tensors else shown(check.condition)
    if check.given is not None and text:
        pointed = {name: given.removeprefix("&") for name, given in check.given}
        text = in_words(_BEHIND.sub(r"\1", text), pointed, whole=True) or ""
    for _ in range(MAX_STEPS if made else 0):
        text = _NAME.sub(lambda one: made.get(one.group(), one.group()), text)
    for step in check.handed:
        text = _carried(text, step) if text else ""
    return in_words(text, words) if text else None


def _carried(text: str, step: Step) -> str:
    """A condition of a caller as the function may say it; empty where a name would change."""
    return in_words(text, dict(step.words), own=step.own) or ""


def in_words(
    text: str, words: Mapping[str, str], whole: bool = False, own: frozenset[str] | None = None
) -> str | None:
    """A condition with the names of a kernel; None when it speaks of nothing that is known, or,
    with `whole`, of anything else. Other names stay, unless a parameter is called so; with `own`
    names of a function, it may speak of anything that these do not mean."""
    text = _BYTES.sub(r"bytes_of(\1)", _POWER.sub(r"is_power_of_two(\1)", text))
    text = with_functions(text)
    text = _GIVEN.sub(lambda one: f"{one[2]} {'==' if one[1] else '!='} none", text)
    text = _LARGEST.sub(lambda one: _NUMBERS[f"{one[1].upper()}_MAX"], text)
    text = _ADDRESS.sub(r"\1.address", _LAST.sub(r"\1.\2[-1]", text))
    text = _SAME.sub(lambda same: " == ".join(filter(None, same.groups())), text)
    taken = {*words.values(), *(own or ())}
    known: list[bool] = []

    def renamed(match: re.Match[str]) -> str:
        name = match.group()
        if name in _WORDS or name in _NUMBERS:
            return _NUMBERS.get(name, name)
        type_ = _TYPE.fullmatch(name)
        if type_ is not None and type_.group(1) in _TYPES and name not in words:
            return f"torch.{_TYPES[type_.group(1)]}"
        head, _, rest = name.replace("::", ".").partition(".")
        made = words.get(name) or (f"{words[head]}.{rest}" if rest and head in words else "")
        known.append(bool(made))
        if not made and (whole or head in taken):
            clashes.append(name)
        return (made or name).replace("::", ".")

    clashes: list[str] = []
    made = _NAME.sub(renamed, text)
    return made if is_plain(made) and (any(known) or own is not None) and not clashes else None
