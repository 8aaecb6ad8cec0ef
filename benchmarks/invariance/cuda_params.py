"""Other spellings of what stands around a launch in CUDA C++: parameters in a struct, checks as
branches, branches as a switch, and quotients that are rounded up by a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.invariance.cuda_hosts import (
    Kernel,
    Site,
    _hosts,
    _kernels,
    _outermost,
    _sites,
    _template_names,
    _written,
)
from benchmarks.invariance.cuda_spellings import _declarator
from benchmarks.invariance.cuda_syntax import Edit, applied, below, text_of
from extractors.cuda.grammar import syntax_tree

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax

_NUMBER = re.compile(r"-?\d+")
_CEIL = re.compile(r"(?i)(\w+::)*(ceil_?div|div_?(round_?)?up|cdiv|ceil_?divide|ceildiv)")
_CHECK = re.compile(r"(TVM_FFI_I|STD_TORCH_|TORCH_|FLASHINFER_)?CHECK")
_PARAMETER = re.compile(r"(?s)(.*?[\s*])(\w+)")


def checks_as_branches(text: str) -> str:
    """`TORCH_CHECK(a, …)` as `if (!(a)) throw`."""
    edits = []
    for node, given in _checks(syntax_tree(text)):
        throw = 'throw std::runtime_error("check");'
        edits.append((node.start_byte, node.end_byte, f"if (!({text_of(given)})) {{ {throw} }}"))
    return applied(text, edits)


def branches_as_checks(text: str) -> str:
    """`if (a) throw …;` as `TORCH_CHECK(!(a), …)`."""
    edits = []
    for function in _hosts(syntax_tree(text)):
        for node in below(function):
            asked = node.child_by_field_name("condition") if node.type == "if_statement" else None
            then = node.child_by_field_name("consequence")
            if asked is None or then is None or node.child_by_field_name("alternative") is not None:
                continue
            if node.has_error or asked.child_by_field_name("initializer") is not None:
                continue
            done = list(_written(then)) if then.type == "compound_statement" else [then]
            if len(done) == 1 and done[0].type == "throw_statement":
                check = f'TORCH_CHECK(!{text_of(asked)}, "check");'
                edits.append((node.start_byte, node.end_byte, check))
    return applied(text, edits)


def checks_apart(text: str) -> str:
    """The check of `a && b` as two checks."""
    edits = []
    for node, given in _checks(syntax_tree(text)):
        parts = list(_conjuncts(given))
        if len(parts) > 1:
            whole = text_of(node)
            first, last = given.start_byte - node.start_byte, given.end_byte - node.start_byte
            apart = " ".join(whole[:first] + text_of(one) + whole[last:] for one in parts)
            edits.append((node.start_byte, node.end_byte, f"{{ {apart} }}"))
    return applied(text, edits)


def checks_together(text: str) -> str:
    """Two checks, one behind the other, as one of `a && b`."""
    edits: list[Edit] = []
    taken = 0
    for (node, given), (other, too) in pairwise(_checks(syntax_tree(text))):
        if node.next_named_sibling != other or node.start_byte < taken:
            continue
        word = text_of(node).partition("(")[0]
        if text_of(other).partition("(")[0] == word:
            taken = other.end_byte
            whole = f'{word}(({text_of(given)}) && ({text_of(too)}), "check");'
            edits.append((node.start_byte, other.end_byte, whole))
    return applied(text, edits)


def _checks(root: Syntax) -> Iterator[tuple[Syntax, Syntax]]:
    """Statements of the host that check a condition, with it."""
    for function in _hosts(root):
        for node in below(function):
            if node.type != "expression_statement" or node.has_error or not node.named_children:
                continue
            call = node.named_children[0]
            called = call.child_by_field_name("function")
            given = call.child_by_field_name("arguments")
            if call.type != "call_expression" or called is None or given is None:
                continue
            listed = list(_written(given))
            if _CHECK.fullmatch(text_of(called)) and listed:
                yield node, listed[0]


def _conjuncts(node: Syntax) -> Iterator[Syntax]:
    if node.type == "parenthesized_expression" and node.named_child_count == 1:
        yield from _conjuncts(node.named_children[0])
        return
    operator = node.child_by_field_name("operator")
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if node.type != "binary_expression" or operator is None or text_of(operator) != "&&":
        yield node
    elif left is not None and right is not None:
        yield from _conjuncts(left)
        yield from _conjuncts(right)


def branches_as_switch(text: str) -> str:
    """`if (x == 1) … else if (x == 2) … else …` as a switch."""
    edits: list[Edit] = []
    for function in _hosts(syntax_tree(text)):
        for node in below(function):
            above = node.parent
            if node.type != "if_statement" or (above is not None and above.type == "else_clause"):
                continue
            chain = _chain(node)
            if chain is None:
                continue
            asked, cases = chain
            told = [
                f"{f'case {label}' if label else 'default'}: {{ {body} break; }}"
                for label, body in cases
            ]
            whole = f"switch ({asked}) {{ {' '.join(told)} }}"
            edits.append((node.start_byte, node.end_byte, whole))
    return applied(text, edits)


def _chain(node: Syntax) -> tuple[str, list[tuple[str, str]]] | None:
    """What a chain of branches compares, and for each number the statements."""
    cases: list[tuple[str, str]] = []
    asked = ""
    one: Syntax | None = node
    while one is not None and one.type == "if_statement":
        test = one.child_by_field_name("condition")
        then, other = one.child_by_field_name("consequence"), one.child_by_field_name("alternative")
        met = re.fullmatch(r"\(\s*([A-Za-z_]\w*) == (\d+)\s*\)", text_of(test)) if test else None
        if met is None or then is None or one.has_error or (asked and met.group(1) != asked):
            return None
        if any(c.type == "constexpr" for c in one.children) or _leaves(then):
            return None
        asked = met.group(1)
        cases.append((met.group(2), text_of(then)))
        inner = list(_written(other)) if other is not None else []
        one = inner[0] if len(inner) == 1 else None
    if one is not None:
        if _leaves(one):
            return None
        cases.append(("", text_of(one)))
    return (asked, cases) if len(cases) > 2 else None


def _leaves(node: Syntax) -> bool:
    """Whether statements leave a loop or a switch around them."""
    return any(one.type in ("break_statement", "continue_statement") for one in below(node))


def switch_as_branches(text: str) -> str:
    """A switch over a name as a chain of branches."""
    edits: list[Edit] = []
    for function in _hosts(syntax_tree(text)):
        for node in below(function):
            asked, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
            if node.type != "switch_statement" or asked is None or body is None or node.has_error:
                continue
            cases = _cases(body)
            if cases is None or not re.fullmatch(r"\([\w.]+\)", text_of(asked)):
                continue
            what = text_of(asked)[1:-1]
            told = [f"if ({what} == {at}) {{ {inner} }}" for at, inner in cases if at]
            told += [f"{{ {inner} }}" for at, inner in cases if not at]
            edits.append((node.start_byte, node.end_byte, " else ".join(told)))
    return applied(text, edits)


def _cases(body: Syntax) -> list[tuple[str, str]] | None:
    """Label and statements of each case; None where one falls through or leaves in between."""
    found = []
    cases = list(_written(body))
    for at, case in enumerate(cases):
        if case.type != "case_statement":
            return None
        value = case.child_by_field_name("value")
        inner = [one for one in _written(case) if one != value]
        while len(inner) == 1 and inner[0].type == "compound_statement":
            inner = list(_written(inner[0]))
        last = inner[-1] if inner else None
        if last is None or (value is None and at < len(cases) - 1):
            return None
        if last.type == "break_statement":
            inner = inner[:-1]
        elif last.type not in ("return_statement", "throw_statement") and at < len(cases) - 1:
            return None
        if any(_leaves(one) for one in inner):
            return None
        found.append((text_of(value) if value is not None else "", " ".join(map(text_of, inner))))
    return found if len(found) > 1 else None


def params_by_field(text: str) -> str:
    """A kernel's parameters as the fields of a struct that the host fills one by one."""

    def filled(kind: str, name: str, fields: list[str], given: list[str]) -> str:
        told = [f"{name}.{key} = {one};" for key, one in zip(fields, given, strict=True)]
        return f"{kind} {name}; {' '.join(told)}"

    return _in_struct(text, filled)


def params_in_braces(text: str) -> str:
    """A kernel's parameters as the fields of a struct that the host fills in braces."""

    def filled(kind: str, name: str, fields: list[str], given: list[str]) -> str:
        return f"{kind} {name}{{{', '.join(given)}}};"

    return _in_struct(text, filled)


def _in_struct(text: str, filled: Callable[[str, str, list[str], list[str]], str]) -> str:
    root = syntax_tree(text)
    edits: list[Edit] = []
    sites: dict[str, list[Site]] = {}
    for site in _sites(root):
        sites.setdefault(site.name, []).append(site)
    for name, kernel in _kernels(root).items():
        mine = sites.get(name, [])
        uses = [x for x in below(root) if x.type == "identifier" and text_of(x) == name]
        own = _fields(kernel)
        names = _template_names(kernel.template)
        fits = own is not None and names is not None and len(uses) == len(mine) + 1 and all(
            len(site.template) == len(kernel.template)
            and len(list(_written(site.arguments))) == len(kernel.parameters) for site in mine
        )  # fmt: skip
        if not fits or own is None or names is None or not mine:
            continue
        edits += _struct(name, kernel, own, names)
        for number, site in enumerate(mine):
            given = f"<{', '.join(map(text_of, site.template))}>" if site.template else ""
            held = f"params_{name}{number}"
            before = filled(f"{name}_params{given}", held, list(kernel.parameters),
                            [text_of(one) for one in _written(site.arguments)])  # fmt: skip
            inside = ", ".join(text_of(one) for one in site.extents)
            edits.append(site.instead(before, f"{text_of(site.kernel)}<<<{inside}>>>({held})"))
    return applied(text, edits)


def _fields(kernel: Kernel) -> list[str] | None:
    """The parameters of a kernel as fields; None where one cannot be a field, or where a name in
    the body may mean something else than the parameter."""
    declarator, body = _declarator(kernel.function), kernel.function.child_by_field_name("body")
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    if listed is None or body is None or body.has_error or not kernel.parameters:
        return None
    fields = []
    for one in _written(listed):
        met = _PARAMETER.fullmatch(text_of(one))
        if one.type != "parameter_declaration" or met is None or "&" in text_of(one):
            return None
        kind = re.sub(r"__grid_constant__|^const (?=[\w: ]+$)", "", met.group(1).strip())
        fields.append(f"{kind} {met.group(2)};")
    for node in below(body):
        held = text_of(node) in kernel.parameters
        if held and node.type == "identifier" and node.parent is not None and (
            node.parent.type.endswith("declarator") or node.parent.type == "declaration"
        ) and node.parent.child_by_field_name("value") != node:  # fmt: skip
            return None
        if held and node.type == "type_identifier":
            return None
        if node.type in ("lambda_expression", "preproc_ifdef", "preproc_if", "preproc_def"):
            return None
    return fields


def _struct(name: str, kernel: Kernel, fields: list[str], names: list[str]) -> list[Edit]:
    """The struct before a kernel, its parameter, and fields in the place of names."""
    declarator, body = _declarator(kernel.function), kernel.function.child_by_field_name("body")
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    above = kernel.whole.child_by_field_name("parameters") if names else None
    if listed is None or body is None:
        return []
    head = f"template {text_of(above)} " if above is not None else ""
    start = kernel.whole.start_byte
    given = f"<{', '.join(names)}>" if names else ""
    return [
        (start, start, f"{head}struct {name}_params {{ {' '.join(fields)} }};\n"),
        (listed.start_byte, listed.end_byte, f"(const {name}_params{given} params)"),
        *((node.start_byte, node.end_byte, f"params.{text_of(node)}") for node in below(body)
          if node.type == "identifier" and text_of(node) in kernel.parameters),
    ]  # fmt: skip


def rounded_up(text: str) -> str:
    """`(a + b - 1) / b` by a helper function."""
    edits, starts = [], set()
    for function in _hosts(syntax_tree(text)):
        for node in below(function):
            pair = _rounding(node)
            if pair is not None:
                edits.append((node.start_byte, node.end_byte, f"parts_of_({', '.join(pair)})"))
                starts.add(_outermost(function).start_byte)
    if edits:
        helper = (
            "template <typename A, typename B>\n"
            "inline auto parts_of_(A a, B b) { return (a + b - 1) / b; }\n"
        )
        edits.append((min(starts), min(starts), helper))
    return applied(text, edits)


def spelled_out(text: str) -> str:
    """A call of a helper that rounds a quotient up as `(a + b - 1) / b`."""
    edits = []
    for function in _hosts(syntax_tree(text)):
        for node in below(function):
            called = node.child_by_field_name("function")
            given = node.child_by_field_name("arguments")
            if called is None or given is None or not _CEIL.fullmatch(text_of(called)):
                continue
            sides = [f"({text_of(one)})" for one in _written(given)]
            if len(sides) == 2:
                made = f"(({sides[0]} + {sides[1]} - 1) / {sides[1]})"
                edits.append((node.start_byte, node.end_byte, made))
    return applied(text, edits)


def _rounding(node: Syntax) -> tuple[str, str] | None:
    """Dividend and divisor of a quotient that is rounded up."""
    if node.type != "binary_expression" or node.has_error:
        return None
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None or left.type != "parenthesized_expression":
        return None
    by = text_of(right)
    whole = re.fullmatch(r"\((.*)\+\s*(.*?)\s*-\s*1\s*\)", text_of(left), re.DOTALL)
    less = re.fullmatch(r"\((.*)\+\s*\(\s*(.*?)\s*-\s*1\s*\)\s*\)", text_of(left), re.DOTALL)
    for met in (less, whole):
        if met is not None and met.group(2) == by and "/" in text_of(node):
            inner = met.group(1).strip()
            balanced = inner.count("(") == inner.count(")")
            return (inner, by) if balanced and re.fullmatch(r"[\w.()\s*>-]+", inner) else None
    if _NUMBER.fullmatch(by):
        met = re.fullmatch(r"\(([\w.]+)\s*\+\s*(\d+)\s*\)", text_of(left))
        if met is not None and int(met.group(2)) == int(by) - 1:
            return met.group(1), by
    return None


CHANGES: dict[str, Callable[[str], str]] = {
    "rounded up by a function": rounded_up,
    "rounding up spelled out": spelled_out,
    "parameters in a struct, by field": params_by_field,
    "parameters in a struct, in braces": params_in_braces,
    "checks as branches": checks_as_branches,
    "branches as checks": branches_as_checks,
    "checks apart": checks_apart,
    "checks together": checks_together,
    "branches as a switch": branches_as_switch,
    "switch as branches": switch_as_branches,
}
