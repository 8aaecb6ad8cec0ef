"""Other spellings of launches in CUDA C++ that mean the same: extents with names and without,
through an address, a configuration, a function or a lambda, and named template arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.invariance.cuda_spellings import _declarator, _given
from benchmarks.invariance.cuda_syntax import Edit, applied, below, text_of
from extractors.cuda.grammar import syntax_tree

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax

_WORDS = ("grid", "block", "bytes", "stream")
_KINDS = ("dim3", "dim3", "size_t", "auto")
"""What a launch gives in its brackets, and types of it."""


@dataclass(frozen=True, slots=True)
class Site:
    """A statement that launches a kernel and nothing else."""

    statement: Syntax
    kernel: Syntax
    extents: tuple[Syntax, ...]
    arguments: Syntax

    @property
    def name(self) -> str:
        """The kernel without namespaces and template arguments."""
        return text_of(self.kernel).partition("<")[0].rpartition("::")[2].strip()

    @property
    def template(self) -> tuple[Syntax, ...]:
        """The template arguments that are written down."""
        node = next((x for x in below(self.kernel) if x.type == "template_argument_list"), None)
        return tuple(_written(node)) if node is not None else ()

    def instead(self, before: str, launch: str) -> Edit:
        """Declarations and a launch in place of this one; in braces where declarations stand in no
        block of their own."""
        block = self.statement.parent is not None and self.statement.parent.type == (
            "compound_statement"
        )
        whole = f"{before} {launch};" if block else f"{{ {before} {launch}; }}"
        return (self.statement.start_byte, self.statement.end_byte, whole)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the text that has no namesake."""

    whole: Syntax
    function: Syntax
    parameters: tuple[str, ...]
    template: tuple[Syntax, ...]


def _written(node: Syntax) -> Iterator[Syntax]:
    return (one for one in node.named_children if one.type != "comment")


def _sites(root: Syntax) -> Iterator[Site]:
    for node in below(root):
        if node.type != "expression_statement" or node.has_error or node.named_child_count != 1:
            continue
        call = node.named_children[0]
        extents = [one for one in call.children if one.type == "kernel_call_syntax"]
        kernel = call.child_by_field_name("function")
        arguments = call.child_by_field_name("arguments")
        if call.type != "call_expression" or len(extents) != 1 or kernel is None:
            continue
        given = tuple(_written(extents[0]))
        if arguments is not None and 2 <= len(given) <= len(_WORDS):
            yield Site(node, kernel, given, arguments)


def _kernels(root: Syntax) -> dict[str, Kernel]:
    """The kernels of a text by name that no other function or specialisation shares."""
    found: dict[str, Kernel | None] = {}
    for node in below(root):
        if node.type != "function_definition":
            continue
        declarator = _declarator(node)
        name = declarator.child_by_field_name("declarator") if declarator is not None else None
        text = text_of(name).partition("<")[0] if name is not None else ""
        body = node.child_by_field_name("body")
        head = text_of(node)[: body.start_byte - node.start_byte] if body is not None else ""
        given = None if declarator is None or declarator.has_error else _given(node)
        if text in found or given is None or "__global__" not in head:
            found[text] = None
            continue
        above = node.parent
        whole = above if above is not None and above.type == "template_declaration" else node
        listed = whole.child_by_field_name("parameters") if whole is not node else None
        template = tuple(_written(listed)) if listed is not None else ()
        found[text] = Kernel(whole, node, tuple(given), template)
    return {name: one for name, one in found.items() if one is not None}


def _pointed(site: Site, kernels: dict[str, Kernel]) -> bool:
    """Whether the address of the launched kernel says which one it is."""
    kernel = kernels.get(site.name)
    if kernel is None or len([*_written(site.arguments)]) != len(kernel.parameters):
        return False
    open_ = kernel.template[len(site.template) :]
    return all(one.child_by_field_name("default_value") is not None for one in open_)


def extents_named(text: str) -> str:
    """What a launch gives in its brackets gets a name of its own, each."""
    edits = []
    for number, site in enumerate(_sites(syntax_tree(text))):
        told, declared = [], []
        for at, (one, word, kind) in enumerate(zip(site.extents, _WORDS, _KINDS, strict=False)):
            plain = one.type == "identifier" or (at > 1 and one.type == "number_literal")
            told.append(text_of(one) if plain else f"{word}{number}_")
            declared += [] if plain else [_named(one, told[-1], kind)]
        launch = f"{text_of(site.kernel)}<<<{', '.join(told)}>>>{text_of(site.arguments)}"
        edits += [site.instead(" ".join(declared), launch)] if declared else []
    return applied(text, edits)


def _named(extent: Syntax, name: str, kind: str) -> str:
    """A declaration of what stands in the brackets of a launch."""
    if kind != "dim3" or extent.type == "identifier":
        return f"{kind} {name} = {text_of(extent)};"
    if extent.type == "compound_literal_expression":
        return f"dim3 {name}{text_of(extent)};"
    called = extent.child_by_field_name("function") if extent.type == "call_expression" else None
    if called is not None and text_of(called) == "dim3":
        given = extent.child_by_field_name("arguments")
        return f"dim3 {name}{text_of(given) if given is not None else '()'};"
    return f"dim3 {name}({text_of(extent)});"


def extents_in_place(text: str) -> str:
    """A name that one launch alone reads is what it was given, in the launch."""
    edits: list[Edit] = []
    for site in _sites(syntax_tree(text)):
        block = site.statement.parent
        if block is None or block.type != "compound_statement":
            continue
        for extent in site.extents[:3]:
            declared = _declared_once(extent, block, site) if extent.type == "identifier" else None
            if declared is not None:
                node, value = declared
                edits.append((node.start_byte, node.end_byte, ""))
                edits.append((extent.start_byte, extent.end_byte, value))
    return applied(text, edits)


def _declared_once(extent: Syntax, block: Syntax, site: Site) -> tuple[Syntax, str] | None:
    """The declaration of a name in the block of its one reader, with what it is given; none where
    something in between sets what that is made of."""
    name = text_of(extent)
    uses = [x for x in below(block) if x.type == "identifier" and text_of(x) == name]
    own = [one for one in block.named_children if one.type == "declaration"
           and len(one.children_by_field_name("declarator")) == 1
           and one.end_byte <= site.statement.start_byte]  # fmt: skip
    for one in own:
        made = one.child_by_field_name("declarator")
        kind = one.child_by_field_name("type")
        held = made.child_by_field_name("declarator") if made is not None else None
        value = made.child_by_field_name("value") if made is not None else None
        if held is None or value is None or kind is None or text_of(held) != name or len(uses) != 2:
            continue
        words = {text_of(x) for x in below(value) if x.type == "identifier"}
        between = text_of(block)[
            one.end_byte - block.start_byte : site.statement.start_byte - block.start_byte
        ]
        if any(re.search(rf"\b{word}\b[\w.\[\]]*\s*[-+*/|&]?=[^=]|\b{word}\b\+\+|\+\+{word}\b",
                         between) for word in words):  # fmt: skip
            return None
        if text_of(kind) == "dim3":
            return one, f"dim3{text_of(value)}" if value.type in (
                "argument_list", "initializer_list",
            ) else text_of(value)  # fmt: skip
        plain = value.type not in ("argument_list", "initializer_list")
        return (one, text_of(value)) if plain else None
    return None


def _hosts(root: Syntax) -> Iterator[Syntax]:
    """Functions of the host that stand in no struct."""
    for node in below(root):
        body = node.child_by_field_name("body") if node.type == "function_definition" else None
        if body is None or re.search(
            r"__(global|device)__|constexpr", text_of(node)[: body.start_byte - node.start_byte]
        ):
            continue
        above = _outermost(node).parent
        if above is not None and above.type in ("translation_unit", "declaration_list"):
            yield node


def _outermost(function: Syntax) -> Syntax:
    above = function.parent
    return above if above is not None and above.type == "template_declaration" else function


def by_address(text: str) -> str:
    """A launch through a variable that holds the address of the kernel."""
    root = syntax_tree(text)
    kernels = _kernels(root)
    edits = []
    for number, site in enumerate(_sites(root)):
        if _pointed(site, kernels):
            inside = ", ".join(text_of(one) for one in site.extents)
            declared = f"auto kernel{number}_ = &{text_of(site.kernel)};"
            launch = f"kernel{number}_<<<{inside}>>>{text_of(site.arguments)}"
            edits.append(site.instead(declared, launch))
    return applied(text, edits)


def by_configuration(text: str) -> str:
    """A launch by `cudaLaunchKernelEx`, its configuration filled field by field."""

    def filled(name: str, extents: list[str]) -> str:
        fields = ("gridDim", "blockDim", "dynamicSmemBytes", "stream")
        told = [f"{name}.{key} = {one};" for key, one in zip(fields, extents, strict=False)]
        return f"cudaLaunchConfig_t {name} = {{}}; {' '.join(told)}"

    return _configured(text, filled)


def by_configuration_in_braces(text: str) -> str:
    """A launch by `cudaLaunchKernelEx`, its configuration in braces."""

    def filled(name: str, extents: list[str]) -> str:
        return f"cudaLaunchConfig_t {name}{{{', '.join(extents)}}};"

    return _configured(text, filled)


def _configured(text: str, filled: Callable[[str, list[str]], str]) -> str:
    root = syntax_tree(text)
    kernels = _kernels(root)
    edits = []
    for number, site in enumerate(_sites(root)):
        if _pointed(site, kernels):
            extents = [re.sub(r"^(?=\{)", "dim3", text_of(one)) for one in site.extents]
            name = f"config{number}_"
            given = [f"&{name}", text_of(site.kernel), *map(text_of, _written(site.arguments))]
            launch = f"cudaLaunchKernelEx({', '.join(given)})"
            edits.append(site.instead(filled(name, extents), launch))
    return applied(text, edits)


def by_function(text: str) -> str:
    """A function of the host launches; it is given everything."""
    root = syntax_tree(text)
    kernels = _kernels(root)
    edits: list[Edit] = []
    made: set[tuple[str, int, bool]] = set()
    for site in _sites(root):
        kernel = kernels.get(site.name)
        if kernel is None or kernel.whole.end_byte > site.statement.start_byte:
            continue
        head, names = _head(kernel), _template_names(kernel.template)
        if head is None or names is None:
            continue
        count = len(site.extents)
        names = names if site.template else []
        if (site.name, count, bool(names)) not in made:
            made.add((site.name, count, bool(names)))
            edits.append((kernel.whole.end_byte, kernel.whole.end_byte,
                          _launching(site.name, count, kernel, head, names)))  # fmt: skip
        given = [*map(text_of, site.extents), *map(text_of, _written(site.arguments))]
        launcher = _launcher(site.name, count, names)
        called = text_of(site.kernel).replace(site.name, launcher, 1)
        edits.append(site.instead("", f"{called}({', '.join(given)})"))
    return applied(text, edits)


def _launching(
    name: str, count: int, kernel: Kernel, head: tuple[str, str], names: list[str]
) -> str:  # fmt: skip
    """The text of a function that launches a kernel with what it is given."""
    kinds = ("dim3 grid_", "dim3 block_", "size_t bytes_", "cudaStream_t stream_")[:count]
    inside = ", ".join(f"{word}_" for word in _WORDS[:count])
    template, parameters = head
    parameters = ", ".join([*kinds, *([parameters] if parameters else [])])
    arguments = f"<{', '.join(names)}>" if names else ""
    launch = f"{name}{arguments}<<<{inside}>>>({', '.join(kernel.parameters)});"
    launcher = _launcher(name, count, names)
    return f"\n{template}static void {launcher}({parameters}) {{ {launch} }}\n"


def _launcher(name: str, count: int, names: list[str]) -> str:
    return f"launch_{name}{count}{'t' if names else ''}_"


def _head(kernel: Kernel) -> tuple[str, str] | None:
    """The template line of a kernel and its parameters, as another function has them."""
    declarator = _declarator(kernel.function)
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    if listed is None:
        return None
    template = ""
    if kernel.whole is not kernel.function:
        above = kernel.whole.child_by_field_name("parameters")
        template = f"template {text_of(above)} " if above is not None else ""
        if "requires" in text_of(kernel.whole)[:400]:
            return None
    inside = text_of(listed)[1:-1].replace("__grid_constant__", "")
    return template, inside


def _template_names(parameters: tuple[Syntax, ...]) -> list[str] | None:
    """Names of template parameters; None where one has none or is a pack."""
    names = []
    for one in parameters:
        held = one.child_by_field_name("declarator") or one.child_by_field_name("name")
        held = held or next(
            (x for x in reversed(one.named_children) if x.type == "type_identifier"), None
        )
        if held is None or not re.fullmatch(r"\w+", text_of(held)) or "..." in text_of(one):
            return None
        names.append(text_of(held))
    return names


def in_lambda(text: str) -> str:
    """A launch in a lambda that is called at once."""
    edits = [
        site.instead("", f"[&] {{ {text_of(site.statement)} }}()")
        for site in _sites(syntax_tree(text))
    ]
    return applied(text, edits)


def in_handed_lambda(text: str) -> str:
    """A launch in a lambda that a function is given and calls."""
    root = syntax_tree(text)
    edits, starts = [], set()
    for function in _hosts(root):
        for site in _sites(function):
            edits.append(site.instead("", f"run_([&] {{ {text_of(site.statement)} }})"))
            starts.add(_outermost(function).start_byte)
    if edits:
        helper = "template <typename F>\nstatic void run_(F&& f) { f(); }\n"
        edits.append((min(starts), min(starts), helper))
    return applied(text, edits)


def template_named(text: str) -> str:
    """Numbers and truths among the template arguments of a launch get names."""
    edits = []
    for number, site in enumerate(_sites(syntax_tree(text))):
        given = [(at, one) for at, one in enumerate(site.template)
                 if one.type in ("number_literal", "true", "false")]  # fmt: skip
        if not given or len(site.template) < len(given):
            continue
        declared, whole, start = [], text_of(site.kernel), site.kernel.start_byte
        for at, one in reversed(given):
            name = f"kArgument{number}_{at}"
            kind = "int" if one.type == "number_literal" else "bool"
            declared.append(f"constexpr {kind} {name} = {text_of(one)};")
            whole = whole[: one.start_byte - start] + name + whole[one.end_byte - start :]
        inside = ", ".join(text_of(one) for one in site.extents)
        launch = f"{whole}<<<{inside}>>>{text_of(site.arguments)}"
        edits.append(site.instead(" ".join(reversed(declared)), launch))
    return applied(text, edits)


CHANGES: dict[str, Callable[[str], str]] = {
    "extents named": extents_named,
    "extents in place": extents_in_place,
    "by address": by_address,
    "by configuration": by_configuration,
    "by configuration in braces": by_configuration_in_braces,
    "launched by a function": by_function,
    "launched in a lambda": in_lambda,
    "launched in a handed lambda": in_handed_lambda,
    "template arguments named": template_named,
}
