"""Names of the libraries that host code calls, and what they stand for here."""

from __future__ import annotations

TURNING = frozenset({"permute", "transpose", "swapaxes", "swapdims", "movedim"})
"""Methods of tensors that put their axes in another order."""

SAME_SHAPE = frozenset(
    [
        "contiguous",
        "detach",
        "clone",
        "to",
        "float",
        "half",
        "bfloat16",
        "double",
        "int",
        "long",
        "cuda",
        "cpu",
        "requires_grad_",
        "type",
        "type_as",
        "view_as_real",
        "pin_memory",
        "zero_",
        "fill_",
        "copy_",
        "add_",
        "mul_",
        "div_",
        "sub_",
        "sigmoid",
        "exp",
        "abs",
        "neg",
        "sqrt",
        "rsqrt",
        "relu",
        "bool",
    ]
)
"""Tensor methods whose result has the extents of the tensor."""

DRAWN = frozenset({"torch.rand", "torch.randn", "torch.rand_like", "torch.randn_like"})
DRAWING = frozenset({"normal_", "uniform_", "random_"})
"""Functions that make an array of random numbers, and methods that fill one."""

MEMO_METHODS = frozenset(
    [
        "get",
        "items",
        "keys",
        "values",
        "append",
        "update",
        "pop",
        "popitem",
        "move_to_end",
        "setdefault",
    ]
)

TEXT_METHODS = frozenset(
    [
        "lower",
        "upper",
        "strip",
        "lstrip",
        "rstrip",
        "startswith",
        "endswith",
        "replace",
        "split",
        "rsplit",
        "find",
        "isdigit",
        "title",
        "capitalize",
        "removeprefix",
        "removesuffix",
        "zfill",
        "count",
    ]
)

NEXT_POWER = frozenset({"triton.next_power_of_2", "triton.language.math.next_power_of_2"})
CEIL_DIVIDE = frozenset({"triton.cdiv", "triton.language.cdiv", "cuda.tile.cdiv", "torch.ceil_div"})
SEARCH = frozenset({"cuda.tile.tune.exhaustive_search"})
LAUNCH = frozenset({"cuda.tile.launch", "cuda.tile._execution.launch"})
KERNEL = frozenset({"cuda.tile.kernel", "cuda.tile._execution.kernel"})
JIT = frozenset({"triton.jit", "triton.runtime.jit.jit", "triton.runtime.jit"})
AUTOTUNE = frozenset({"triton.autotune", "triton.runtime.autotuner.autotune"})
HEURISTICS = frozenset({"triton.heuristics", "triton.runtime.autotuner.heuristics"})
CONFIG = frozenset({"triton.Config", "triton.runtime.autotuner.Config", "triton.runtime.Config"})
BY_TARGET = frozenset({"cuda.tile.ByTarget"})
DEVICE_NAMES = frozenset({"torch.cuda.get_device_name"})
BUDGET = frozenset({"cuda.tile.compiler_timeout"})
CONSTEXPR = frozenset({"triton.language.constexpr", "triton.language.core.constexpr"})
NAMESPACE = frozenset({"types.SimpleNamespace", "argparse.Namespace"})
TABLE = frozenset({"collections.OrderedDict", "collections.defaultdict", "builtins.dict"})
WRAPPED = frozenset(
    {"torch.library.wrap_triton", "torch._library.triton.wrap_triton", "torch.library.triton_op"}
)
IMPLEMENTS = frozenset({"torch.library.impl", "torch.library.custom_op", "torch.library.triton_op"})
"""What makes a function the implementation of an operator that is called as `torch.ops.space.name`.
Source: PyTorch, torch.library."""

ON_DEVICE = frozenset({"cuda", "compositeexplicitautograd", "compositeimplicitautograd", "default"})
"""Keys under which an operator runs on the GPU. Source: PyTorch, torch.library.impl."""

TRANSPARENT = frozenset(
    {
        "functools.lru_cache",
        "functools.cache",
        "functools.wraps",
        "torch.compiler.disable",
        "torch.no_grad",
        "torch.jit.ignore",
        "contextlib.contextmanager",
        "typing.cast",
        "torch.compile",
        "torch._dynamo.disable",
        "torch.compiler.allow_in_graph",
        "torch.inference_mode",
    }
)
"""Decorators and casts that leave what they are given."""

LIKE = frozenset(
    {
        "torch.empty_like",
        "torch.zeros_like",
        "torch.ones_like",
        "torch.full_like",
        "torch.rand_like",
        "torch.randn_like",
    }
)
MADE = frozenset(
    {"torch.empty", "torch.zeros", "torch.ones", "torch.full", "torch.rand", "torch.randn"}
)

PROPERTY_NAMES = {
    "multi_processor_count": "target.sms",
    "multiprocessor_count": "target.sms",
    "shared_memory_per_block_optin": "target.shared_bytes_per_block",
    "max_shared_mem": "target.shared_bytes_per_block",
    "shared_memory_per_block": "target.static_shared_bytes_per_block",
    "warp_size": "target.warp_size",
    "major": "capability[0]",
    "minor": "capability[1]",
}
"""Attributes of device properties, by the name of the fact in the expression grammar."""
