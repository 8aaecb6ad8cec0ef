"""The reader: what a source becomes, and what it does with what it does not know."""

from __future__ import annotations

import pytest

from extractors.modules import ModuleText, TextModules
from extractors.opaque import opaque_ops
from extractors.read import read
from kb.errors import InputError, SyntaxProblem
from kb.ir import Kernel, Op, ParameterKind, alpha_digest, kernel_ops, walk
from kb.ops import OpKind

HEAD = "import cuda.tile as ct\nimport math\nimport triton\nimport triton.language as tl\n"


def kernel(
    body: str, *, signature: str = "A, n", mark: str = "@ct.kernel", head: str = ""
) -> Kernel:
    """The kernel whose body is given, one statement per line."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    text = f"{HEAD}{head}\n{mark}\ndef k({signature}):\n{lines}\n"
    (found,) = read(ModuleText("", "k.py", text)).kernels
    return found


def only(program: Kernel, kind: OpKind) -> Op:
    (op,) = (op for op in kernel_ops(program) if op.kind == kind)
    return op


def hints(values: tuple[object, ...]) -> list[str]:
    return [value.hint for value in values]


@pytest.mark.parametrize(
    ("body", "carried"),
    [
        pytest.param(
            "s = 0\nfor i in range(n):\n    s = s + i\nct.store(A, (0,), s)", ["s"], id="sum"
        ),
        pytest.param("for i in range(n):\n    t = i\n    ct.store(A, (t,), t)", [], id="temporary"),
        pytest.param(
            "t = 0\nfor i in range(n):\n    t = i\n    ct.store(A, (0,), t)",
            [],
            id="overwritten first",
        ),
        pytest.param(
            "t = 0\nfor i in range(n):\n    t = i\nct.store(A, (0,), t)",
            ["t"],
            id="read after the loop",
        ),
        pytest.param(
            "a = 0\nb = 1\nfor i in range(n):\n    a, b = b, a\nct.store(A, (a,), b)",
            ["a", "b"],
            id="swap",
        ),
    ],
)
def test_a_loop_carries_what_the_next_iteration_or_the_rest_reads(
    body: str, carried: list[str]
) -> None:
    loop = only(kernel(body), OpKind.FOR)
    assert hints(loop.results) == carried
    assert hints(loop.regions[0].arguments[1:]) == carried


@pytest.mark.parametrize(
    ("body", "results"),
    [
        pytest.param(
            "x = 0\nif n > 1:\n    x = 1\nct.store(A, (0,), x)", ["x"], id="changed in one branch"
        ),
        pytest.param(
            "if n > 1:\n    x = 1\nelse:\n    x = 2\nct.store(A, (0,), x)", ["x"], id="made in both"
        ),
        pytest.param("if n > 1:\n    x = 1\n    ct.store(A, (0,), x)", [], id="used inside only"),
        pytest.param(
            "x = 0\nfor i in range(n):\n    if i > 1:\n        x = i\nct.store(A, (0,), x)",
            ["x"],
            id="read after the loop around it",
        ),
    ],
)
def test_a_branch_hands_over_what_is_read_later(body: str, results: list[str]) -> None:
    assert hints(only(kernel(body), OpKind.IF).results) == results


def test_an_early_return_stays_structured() -> None:
    program = kernel("if n > 1:\n    return\nct.store(A, (0,), n)")
    branch = only(program, OpKind.IF)
    assert branch.regions[0].terminator is not None
    assert branch.regions[0].terminator.kind == OpKind.RETURN


def test_while_has_a_test_and_a_body() -> None:
    program = kernel("i = 0\nwhile i < n:\n    i += 2\nct.store(A, (0,), i)")
    loop = only(program, OpKind.WHILE)
    assert [region.ops[-1].kind for region in loop.regions] == [OpKind.YIELD, OpKind.YIELD]
    assert hints(loop.results) == ["i"]


@pytest.mark.parametrize(
    ("head", "expression", "value"),
    [
        pytest.param(
            "C = 1.0 / math.log(2)", "C", 1.4426950408889634, id="arithmetic of the module"
        ),
        pytest.param("C = tl.constexpr(4)\nD = C", "D", 4, id="alias of a wrapped constant"),
        pytest.param("", "-math.inf", None, id="negated library constant stays an operation"),
        pytest.param("try:\n    C = probe()\nexcept OSError:\n    C = 3", "C", 3, id="guarded"),
        pytest.param(
            "class Way(IntEnum):\n    FAST = 7\nC = int(Way.FAST)", "C", 7, id="enumeration"
        ),
        pytest.param(
            "import torch\ndef on():\n    return ready() and torch.version.hip is not None\n"
            "C = 1 if on() else 2",
            "C",
            2,
            id="a test of the machine",
        ),
        pytest.param("import torch\nC = bool(torch.version.hip)", "C", False, id="truth of None"),
        pytest.param(
            "import torch", "torch.finfo(torch.float8_e4m3fn).tiny", 2.0**-6, id="limit of a format"
        ),
    ],
)
def test_constants_of_the_module_are_values(
    head: str, expression: str, value: float | None
) -> None:
    program = kernel(f"x = {expression}\nct.store(A, (0,), x)", head=head)
    found = [op.attribute("value") for op in kernel_ops(program) if op.kind == OpKind.CONST]
    assert not opaque_ops(program)
    assert value is None or value in found


@pytest.mark.parametrize(
    ("body", "what"),
    [
        pytest.param(
            "x = ct.invented(A)\nct.store(A, (0,), x)", "cuda.tile.invented", id="unknown call"
        ),
        pytest.param(
            "x = [i for i in range(3)]\nct.store(A, (0,), x[0])", "ListComp", id="comprehension"
        ),
        pytest.param("A[0] = n", "statement Assign", id="item assignment"),
        pytest.param("x = missing\nct.store(A, (0,), x)", "missing", id="unknown name"),
    ],
)
def test_what_is_not_understood_is_opaque_with_its_line(body: str, what: str) -> None:
    (op,) = opaque_ops(kernel(body))
    assert op.attribute("what") == what
    assert op.span.line > len(HEAD.splitlines())


def test_what_an_unknown_call_is_handed_is_read() -> None:
    program = kernel("x = ct.invented(ct.load(A, (0,), (n,)) + 1, axis=n)\nct.store(A, (0,), x)")
    (unknown,) = opaque_ops(program)
    made = {r.name: op.kind for op in kernel_ops(program) for r in op.results}
    assert [made.get(v, v) for v in unknown.inputs] == [OpKind.ADD, "n"]
    assert OpKind.LOAD_TILE in made.values()


def test_the_block_of_a_context_is_read_where_it_stands() -> None:
    program = kernel("with n(1) as (t, u):\n    x = t + n\nct.store(A, (u,), x)")
    (context,) = opaque_ops(program)
    added = next(op for op in kernel_ops(program) if op.kind == OpKind.ADD)
    store = next(op for op in kernel_ops(program) if op.kind == OpKind.STORE_TILE)
    assert context.attribute("what") == "statement With"
    assert context.results[0].name == added.inputs[0]
    assert added.results[0].name in store.inputs


def test_helpers_of_other_modules_are_part_of_the_program() -> None:
    modules = TextModules(
        {
            "pkg.ops": ModuleText(
                "pkg.ops", "pkg/ops.py", HEAD + "@triton.jit\ndef twice(x):\n    return x + x\n"
            )
        }
    )
    text = HEAD + (
        "from .ops import twice as again\n"
        "@triton.jit\ndef k(p, N: tl.constexpr):\n    tl.store(p, again(tl.load(p)))\n"
    )
    (program,) = read(ModuleText("pkg.main", "pkg/main.py", text), modules).kernels
    assert [helper.name for helper in program.helpers] == ["twice"]
    assert program.entry.parameters[1].kind is ParameterKind.CONSTEXPR


STAR = {
    "pkg": "from .deep import *\nfrom .ops import *\ndef _inner(x):\n    return x\n",
    "pkg.ops": "__all__ = ['twice'] + ['_own']\nfrom .deep import *\n"
    "@triton.jit\ndef twice(x):\n    return x + x\ndef hidden(x):\n    return x\n"
    "def _own(x):\n    return x - x\n",
    "pkg.deep": "from pkg import *\n@triton.jit\ndef twice(x):\n    return x * x\n"
    "@triton.jit\ndef thrice(x):\n    return x * 3\ndef _private(x):\n    return x\n",
}


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    [
        pytest.param("from .ops import *", "twice", OpKind.ADD, id="of a module"),
        pytest.param("from .ops import *", "_own", OpKind.SUB, id="listed in __all__"),
        pytest.param("from .ops import *", "hidden", OpKind.OPAQUE, id="not listed"),
        pytest.param("from .ops import *", "thrice", OpKind.OPAQUE, id="passed on, not listed"),
        pytest.param("from .deep import *", "thrice", OpKind.MUL, id="no list"),
        pytest.param("from .deep import *", "_private", OpKind.OPAQUE, id="underscore"),
        pytest.param("from pkg import *", "thrice", OpKind.MUL, id="of a package, two steps"),
        pytest.param("from pkg import twice", "twice", OpKind.ADD, id="the last one counts"),
        pytest.param(
            "from .ops import *\n@triton.jit\ndef twice(x):\n    return x / x", "twice", OpKind.DIV,
            id="a later definition counts",
        ),
        pytest.param(
            "def twice(x):\n    return x / x\nfrom .ops import *", "twice", OpKind.ADD,
            id="a later import of all counts",
        ),
        pytest.param("from triton.language import *", "exp", OpKind.EXP, id="of the language"),
        pytest.param("from torch import *", "exp", OpKind.OPAQUE, id="of another library"),
    ],
)  # fmt: skip
def test_names_that_are_imported_all_at_once(head: str, name: str, kind: OpKind) -> None:
    texts = {
        dotted: ModuleText(dotted, dotted.replace(".", "/") + ".py", HEAD + text, dotted == "pkg")
        for dotted, text in STAR.items()
    }
    text = f"{HEAD}{head}\n@triton.jit\ndef k(p):\n    tl.store(p, {name}(tl.load(p)))\n"
    read_module = read(ModuleText("pkg.main", "pkg/main.py", text), TextModules(texts))
    program = next(kernel for kernel in read_module.kernels if kernel.name == "k")
    assert kind in {op.kind for op in kernel_ops(program)}
    assert bool(opaque_ops(program)) == (kind is OpKind.OPAQUE)


def test_a_stand_in_for_what_is_not_installed_is_no_helper() -> None:
    head = (
        "from somewhere import has_triton\nif has_triton():\n"
        "    @triton.jit\n    def twice(x):\n        return x + x\n"
        "else:\n    def twice(*args):\n        raise RuntimeError('not here')\n"
    )
    program = kernel("tl.store(p, twice(tl.load(p)))", signature="p", mark="@triton.jit", head=head)
    assert [helper.name for helper in program.helpers] == ["twice"]
    assert not opaque_ops(program)


def handing_on(imports: str, **others: str) -> list[str]:
    """Names of the kernels of a file that takes the library from a package of its own."""
    text = f"{imports}\n@triton.jit\ndef k(p):\n    tl.store(p, tl.load(p))\n"
    texts = {
        f"serving.{name}": ModuleText(f"serving.{name}", f"serving/{name}.py", body)
        for name, body in others.items()
    }
    try:
        found = read(ModuleText("serving.k", "serving/k.py", text), TextModules(texts))
    except InputError:
        return []
    return [k.name for k in found.kernels if not opaque_ops(k)]


def test_a_package_that_hands_the_library_on() -> None:
    both = "from serving.lib import tl, triton"
    stand_in = "class Nothing: ...\ntriton = Nothing()\ntl = Nothing()\n"
    assert handing_on(both) == ["k"]
    assert handing_on(both, lib="import triton\nimport triton.language as tl\n") == ["k"]
    assert handing_on(both, lib=stand_in) == [], "what is there is read, not guessed"
    assert handing_on("import triton\nfrom serving.lib import tl") == []


def test_what_is_taken_for_a_library_is_told() -> None:
    head = "from serving.lib import tl, triton\n@triton.jit\ndef k(p):\n    tl.store(p, 1)\n"
    lone = ModuleText("serving.k", "serving/k.py", head)
    lib = ModuleText("serving.lib", "serving/lib.py", "import triton\nimport triton.language as tl")
    told = [note.message.split(":")[0] for note in read(lone).diagnostics]
    assert told == [
        "`serving.lib.tl` is taken for `triton.language`",
        "`serving.lib.triton` is taken for `triton`",
    ]
    assert not read(lone, TextModules({"serving.lib": lib})).diagnostics


FINDER = """import importlib
def find(name):
    for place in ("triton.absent", "triton.language.math"):
        return {returned}
root = find("rsqrt")
"""


@pytest.mark.parametrize(
    ("returned", "kinds"),
    [
        pytest.param("getattr(importlib.import_module(place), name)", {OpKind.RSQRT}, id="member"),
        pytest.param("wrapped(place, name)", {OpKind.OPAQUE}, id="something made of the name"),
        pytest.param("getattr(name, place)", {OpKind.OPAQUE}, id="the other way round"),
    ],
)
def test_a_function_found_by_its_name_in_a_library(returned: str, kinds: set[OpKind]) -> None:
    head = FINDER.format(returned=returned)
    program = kernel("tl.store(p, root(tl.load(p)))", signature="p", mark="@triton.jit", head=head)
    assert kinds == {op.kind for op in kernel_ops(program)} & {OpKind.RSQRT, OpKind.OPAQUE}


def test_names_do_not_matter() -> None:
    one = kernel("s = 0.0\nfor i in range(n):\n    s = s + i\nct.store(A, (0,), s)")
    two = kernel("total = 0.0\nfor j in range(n):\n    total += j\nct.store(A, (0,), total)")
    assert alpha_digest(one) == alpha_digest(two)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("def f(:\n", "k.py:1", id="syntax error"),
        pytest.param("x = " + "(" * 500 + ")" * 500, "k.py:1", id="deep nesting"),
    ],
)
def test_bad_python_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        read(ModuleText("", "k.py", text))
    assert message in caught.value.text


def test_a_file_without_kernels_says_so() -> None:
    found = read(ModuleText("", "k.py", "x = 1\n"))
    assert not found.kernels
    assert "no kernel" in found.diagnostics[0].message


def test_every_operation_has_its_span() -> None:
    program = kernel("x = ct.load(A, (0,), (16,))\nct.store(A, (0,), x)")
    assert all(op.span.line > 0 for op in walk(program.entry.body))


def test_a_raise_is_a_static_assertion_that_fails() -> None:
    program = kernel("if n > 1:\n    x = 1\nelse:\n    raise ValueError(n)\nct.store(A, (0,), x)")
    assert "opaque" not in {op.kind for op in kernel_ops(program)}
    assert only(program, OpKind.STATIC_ASSERT).operand("condition") is not None
    assert hints(only(program, OpKind.IF).results) == ["x"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        pytest.param("i = X.argmax(0)", OpKind.ARGMAX, id="method"),
        pytest.param("i = tl.standard._log2(n)", OpKind.BUILTIN, id="private function"),
        pytest.param("i = isinstance(X, tl.tensor_descriptor)", OpKind.ENUM, id="type"),
    ],
)
def test_triton_words(body: str, kind: OpKind) -> None:
    program = kernel(f"{body}\ntl.store(X, i)", signature="X, n", mark="@triton.jit")
    assert opaque_ops(program) == ()
    assert only(program, kind).kind == kind


@pytest.mark.parametrize(
    ("mark", "copies"),
    [
        pytest.param("@triton.jit", 1, id="triton makes a tensor of it"),
        pytest.param("@ct.kernel", 0, id="cutile gives it another name"),
    ],
)
def test_another_name_for_a_constant(mark: str, copies: int) -> None:
    annotation = "tl.constexpr" if "triton" in mark else "ct.Constant[int]"
    program = kernel("y = B\nz = n\nw = y + z", signature=f"n, B: {annotation}", mark=mark)
    assert [op.kind for op in kernel_ops(program)].count(OpKind.COPY) == copies


@pytest.mark.parametrize(
    ("call", "left"),
    [
        ("tl.load()", 0), ("tl.sum()", 0), ("tl.dot()", 0), ("tl.store()", 0),
        ("tl.where(n != 0, n)", 2), ("tl.fma(n, n)", 2),
    ],
)  # fmt: skip
def test_a_call_that_lost_arguments_is_opaque(call: str, left: int) -> None:
    program = kernel(f"y = {call}\ntl.store(X, y)", signature="X, n", mark="@triton.jit")
    (lost,) = opaque_ops(program)
    assert f"with {left} arguments" in str(lost.attributes)


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        pytest.param("v = tl.load(X)\nt = v.T", {OpKind.TRANSPOSE}, id="a tile is turned"),
        pytest.param("t = n.T", {OpKind.ATTRIBUTE}, id="a parameter may have a field"),
    ],
)
def test_a_turned_tile(body: str, kinds: set[OpKind]) -> None:
    program = kernel(f"{body}\ntl.store(X, t)", signature="X, n", mark="@triton.jit")
    either = {OpKind.TRANSPOSE, OpKind.ATTRIBUTE}
    assert {op.kind for op in kernel_ops(program)} & either == kinds


def test_the_order_of_what_a_branch_gives_is_no_part_of_the_program() -> None:
    text = (
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k(p, n):\n"
        "    if n > 2:\n        low = n * 2\n        high = low + 1\n"
        "    else:\n        low = n\n        high = n - 1\n"
        "    tl.store(p, low)\n    tl.store(p + 1, high)\n"
    )
    renamed = text.replace("low", "a")
    other = text.replace("n - 1", "n + 1")
    digests = [
        alpha_digest(read(ModuleText("", "k.py", one)).kernels[0]) for one in (text, renamed, other)
    ]
    assert digests[0] == digests[1] != digests[2]
