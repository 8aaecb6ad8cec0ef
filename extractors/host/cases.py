# ruff: noqa: E501
"""Host decisions and what only looks like them: one case or near miss per line."""

from __future__ import annotations

from extractors.host import (
    cases_compact,
    cases_named,
    cases_partial,
    cases_parts,
    cases_passes,
    cases_served,
    cases_sides,
    cases_targets,
)
from extractors.host.samples import (
    ACCUMULATE_POINTER,
    ACCUMULATE_TILE,
    BOUNDED,
    BOUNDED_BY_CASES,
    BY_DEVICE,
    COMPUTED,
    COUNTED,
    HEAD,
    LOOPS_POINTER,
    LOOPS_TILE,
    PADDED,
    ROWS_POINTER,
    ROWS_TILE,
    SAVED,
    SEARCH_POINTER,
    SEARCH_TILE,
    SPLITS,
    STRIDED,
    TUNER_POINTER,
    TWO_POINTER,
    TWO_TILE,
    HostCase,
    HostMiss,
    pointer,
    tile,
    vary,
)  # fmt: skip

# fmt: off
CASES = (
    *cases_partial.CASES,
    *cases_passes.CASES,
    *cases_sides.CASES,
    *cases_compact.CASES, *cases_targets.CASES, *cases_served.CASES, *cases_parts.CASES, *cases_named.CASES,
    HostCase(
        "host-contiguity-alignment-normalisation",
        tile(
            "def host(x, w):\n    x = x.contiguous()\n    out = torch.empty_like(x)\n",
            "x, w, out, 1024, True, 1024",
        ),
        ".contiguous() on host",
    ),
    HostCase(
        "host-contiguity-alignment-normalisation",
        pointer(
            "def host(x, w):\n    x = x.contiguous()\n    out = torch.empty_like(x)\n",
            "x, w, out, 1024, True, 1024",
        ),
        ".contiguous() on host",
    ),
    HostCase(
        "problem-extents-as-compile-time-constants",
        tile(HEAD, "x, w, out, x.shape[1], True, 1024"),
        "constexpr",
    ),
    HostCase(
        "problem-extents-as-compile-time-constants",
        pointer(HEAD, "x, w, out, x.shape[1], True, 1024"),
        "constexpr",
    ),
    HostCase(
        "power-of-two-tile-padding-of-an-extent",
        tile(
            "def host(x, w):\n    out = torch.empty_like(x)\n    tile = 1 << (x.shape[1] - 1).bit_length()\n",
            "x, w, out, 1024, True, tile",
        )
        .replace("def host", "def up(n):\n    return 1 << (n - 1).bit_length()\n\ndef host")
        .replace("1 << (x.shape[1] - 1).bit_length()", "up(x.shape[1])"),
        "next_pow2 + OOB handling",
    ),
    HostCase(
        "power-of-two-tile-padding-of-an-extent",
        pointer(HEAD, "x, w, out, 1024, True, triton.next_power_of_2(x.shape[1])"),
        "next_pow2 + OOB handling",
    ),
    HostCase("occupancy-hint", SEARCH_TILE, "tuned"),
    HostCase(
        "cta-cluster-2-cta-mma",
        vary(
            SEARCH_TILE,
            ('{"occupancy": c.occ}', '{"num_ctas": c.occ}'),
            ("replace_hints(occupancy", "replace_hints(num_ctas"),
        ),
        "tuned",
    ),
    HostCase(
        "cta-cluster-2-cta-mma",
        vary(SEARCH_POINTER, ("num_warps=w)", "num_warps=4, num_ctas=w // 4)")),
        "tuned",
    ),
    HostCase(
        "worker-warp-count-hint",
        vary(
            SEARCH_TILE,
            ('{"occupancy": c.occ}', '{"num_worker_warps": 4 * c.occ}'),
            ("replace_hints(occupancy=c", "replace_hints(num_worker_warps=4 * c"),
        ),
        "tuned",
    ),
    HostCase("worker-warp-count-hint", SEARCH_POINTER, "tuned"),
    HostCase("worker-warp-count-hint", ROWS_POINTER, "fixed 4"),
    HostCase(
        "worker-warp-count-hint",
        vary(ROWS_POINTER, ("num_warps=4)", "num_warps=4 if x.shape[1] > 512 else 2)")),
        "host rule (2, 4)",
    ),
    HostCase(
        "architecture-dispatched-tuning-space",
        vary(
            SEARCH_TILE,
            (
                "    for t in (512, 1024):",
                "    tiles = (512,) if torch.cuda.get_device_capability() == (12, 0) else (512, 1024)\n    for t in tiles:",
            ),
        ),
        "if capability",
    ),
    HostCase(
        "architecture-dispatched-tuning-space",
        vary(
            SEARCH_POINTER,
            (
                "@triton.autotune(",
                "TILES = (512,) if torch.cuda.get_device_capability()[0] < 9 else (512, 1024)\n\n@triton.autotune(",
            ),
            ("for t in (512, 1024)", "for t in TILES"),
        ),
        "if capability",
    ),
    HostCase("exhaustive-search-with-memoised-winner", SEARCH_TILE, "exhaustive_search"),
    HostCase("exhaustive-search-with-memoised-winner", SEARCH_POINTER, "autotune"),
    HostCase("exhaustive-search-with-memoised-winner", TUNER_POINTER, "autotune"),
    HostCase("config-pruning-predicate", TUNER_POINTER, "predicate"),
    HostCase(
        "config-pruning-predicate",
        vary(
            SEARCH_TILE,
            ("for t in (512, 1024):", "for t in (32, 64, 128, 256, 512, 1024, 2048, 4096):"),
            ("configs = list(space())", "configs = [c for c in space() if c.T <= 2 * x.shape[1]]"),
        ),
        "predicate",
    ),
    HostCase(
        "config-pruning-predicate",
        vary(
            SEARCH_POINTER,
            ('key=["N"]', 'key=["N"], prune_configs_by={"early_config_prune": keep}'),
            (
                "@triton.autotune(",
                "def keep(configs, args, **more):\n    return [c for c in configs if c.kwargs['T'] <= args['N']]\n\n@triton.autotune(",
            ),
        ),
        "predicate",
    ),
    HostCase(
        "autotune-off-fallback-config",
        vary(
            SEARCH_TILE,
            (
                "    key = (x.shape, x.dtype)\n",
                "    if QUICK:\n        c = configs[0]\n        ct.launch(stream, (x.shape[0],), kern, (x, w, out, 1024, True, c.T))\n        return out\n    key = (x.shape, x.dtype)\n",
            ),
            ("best = {}\n", "best = {}\nimport os\nQUICK = os.environ.get('QUICK') == '1'\n"),
        ),
        "first config",
    ),
    HostCase(
        "autotune-off-fallback-config",
        pointer(
            "SPACE = [triton.Config({'T': 512}), triton.Config({'T': 1024})]\n\ndef host(x, w):\n    out = torch.empty_like(x)\n    c = SPACE[0].kwargs\n",
            "x, w, out, 1024, True, c['T']",
        ),
        "first config",
    ),
    HostCase(
        "closed-form-tile-heuristic",
        tile(COMPUTED, "x, w, out, 1024, True, tile"),
        "heuristic(shape)",
    ),
    HostCase(
        "closed-form-tile-heuristic",
        pointer(COMPUTED, "x, w, out, 1024, True, tile"),
        "heuristic(shape)",
    ),
    HostCase(
        "launch-values-by-a-closed-form-rule",
        tile(COMPUTED, "x, w, out, 1024, True, tile"),
        "closed-form rule",
    ),
    HostCase(
        "launch-values-by-a-closed-form-rule",
        pointer(COMPUTED, "x, w, out, 1024, True, tile"),
        "closed-form rule",
    ),
    HostCase(
        "sm-count-driven-split-count",
        tile(SPLITS, "x, w, out, splits, True, 1024"),
        "NUM_SMS//(B*H) then pow2 length",
    ),
    HostCase(
        "sm-count-driven-split-count",
        pointer(SPLITS, "x, w, out, splits, True, 1024"),
        "NUM_SMS//(B*H) then pow2 length",
    ),
    HostCase(
        "compile-time-budget-as-an-implicit-prune",
        vary(
            SEARCH_TILE,
            (
                "        found = exhaustive_search(",
                "        with ct.compiler_timeout(5):\n          found = exhaustive_search(",
            ),
        ),
        "compiler_timeout(5)",
    ),
    HostCase(
        "side-effect-isolation-of-tuning-trials",
        vary(
            ACCUMULATE_TILE, ("lambda c: (x, w, out, 1024", "lambda c: (x, w, out.clone(), 1024")
        ),
        "clone inputs",
    ),
    HostCase(
        "side-effect-isolation-of-tuning-trials",
        vary(ACCUMULATE_POINTER, ('key=["N"]', 'key=["N"], reset_to_zero=["out"]')),
        "zero accumulators",
    ),
    HostCase(
        "side-effect-isolation-of-tuning-trials",
        vary(ACCUMULATE_POINTER, ('key=["N"]', 'key=["N"], restore_value=["out"]')),
        "clone inputs",
    ),
    HostCase(
        "optional-operand-as-dummy-tensor-flag",
        tile(
            "def host(x, w=None):\n    out = torch.empty_like(x)\n    has = w is not None\n    given = w if has else torch.empty(0, device=x.device)\n",
            "x, given, out, 1024, has, 1024",
        ),
        "dummy tensor + constexpr flag",
    ),
    HostCase(
        "optional-operand-as-dummy-tensor-flag",
        pointer(
            "def host(x, w=None):\n    out = torch.empty_like(x)\n",
            "x, w, out, 1024, w is not None, 1024",
        ),
        "None argument",
    ),
    HostCase(
        "query-tile-padding-sentinel-on-the-host",
        tile(PADDED, "x, stat, out, 1024, True, 1024"),
        "host-filled sentinel statistic",
    ),
    HostCase(
        "query-tile-padding-sentinel-on-the-host",
        pointer(PADDED, "x, stat, out, 1024, True, 1024"),
        "host-filled sentinel statistic",
    ),
    HostCase("algorithm-variant-as-a-tuning-axis", LOOPS_TILE, "exhaustive over variants"),
    HostCase("algorithm-variant-as-a-tuning-axis", LOOPS_POINTER, "exhaustive over variants"),
    HostCase("kernel-chosen-by-the-host", TWO_TILE, "heuristic dispatch by shape/arch"),
    HostCase("kernel-chosen-by-the-host", TWO_POINTER, "heuristic dispatch by shape/arch"),
    HostCase("kernel-chosen-by-the-target", vary(TWO_TILE, ("x.shape[1] > 4096", "torch.cuda.get_device_capability()[0] >= 10")), "if capability"),
    HostCase("kernel-chosen-by-the-target", vary(TWO_POINTER, ("x.shape[1] > 4096", "torch.cuda.get_device_capability()[0] >= 10")), "if capability"),
    HostCase("architecture-dispatched-tuning-space", tile(BY_DEVICE, "x, w, out, 1024, True, size"), "if capability"),
    HostCase("architecture-dispatched-tuning-space", pointer(BY_DEVICE, "x, w, out, 1024, True, size"), "if capability"),
    HostCase("architecture-dispatched-tuning-space", pointer(vary(BY_DEVICE, ("torch.cuda.get_device_capability()[0]", "10 if torch.cuda.is_available() else 9"), ("size = 1024 if device_grade() >= 10 else 512", "size = min(1024 if device_grade() >= 10 else 512, triton.next_power_of_2(x.shape[1]))")), "x, w, out, 1024, True, size"), "if capability"),
    HostCase("closed-form-tile-heuristic", tile(SAVED, "x, w, out, 1024, True, ctx.span"), "heuristic(shape)"),
    HostCase("closed-form-tile-heuristic", pointer(HEAD, "x, w, out, 1024, True, triton.next_power_of_2(x.shape[1])"), "heuristic(shape)"),
    HostCase("closed-form-tile-heuristic", tile(COUNTED, "x, w, out, 1024, True, size"), "heuristic(shape)"),
    HostCase("closed-form-tile-heuristic", pointer(COUNTED, "x, w, out, 1024, True, size"), "heuristic(shape)"),
    HostCase("power-of-two-tile-padding-of-an-extent", tile(BOUNDED, "x, w, out, 1024, True, size")),
    HostCase("power-of-two-tile-padding-of-an-extent", pointer(BOUNDED, "x, w, out, 1024, True, size")),
    HostCase("power-of-two-tile-padding-of-an-extent", pointer(BOUNDED_BY_CASES, "x, w, out, 1024, True, size")),
    HostCase("power-of-two-tile-padding-of-an-extent", tile(vary(SAVED, ("def host(", "def one(ctx, y):\n    first(ctx, y)\n\ndef two(ctx, z):\n    first(ctx, z)\n\ndef host(")), "x, w, out, 1024, True, ctx.span")),
    HostCase("power-of-two-tile-padding-of-an-extent", tile(vary(BOUNDED, ("min(4096, ", "max(128, ")), "x, w, out, 1024, True, size")),
    HostCase("power-of-two-tile-padding-of-an-extent", tile(SAVED, "x, w, out, 1024, True, ctx.span")),
    HostCase("power-of-two-tile-padding-of-an-extent", pointer(SAVED, "x, w, out, 1024, True, ctx.span")),
    HostCase("host-contiguity-alignment-normalisation", tile(STRIDED, "x, w, out, 1024, True, 1024"), "strides demanded"),
    HostCase("host-contiguity-alignment-normalisation", pointer(STRIDED, "x, w, out, 1024, True, 1024"), "strides demanded"),
    HostCase("host-contiguity-alignment-normalisation", pointer(vary(STRIDED, ("x.stride(0) == w.stride(0)", "x.is_contiguous()")), "triton.tools.tensor_descriptor.TensorDescriptor.from_tensor(x.view(-1, 8), [1, 8]), w, out, 1024, True, 1024"), "contiguous tensors demanded"),
    HostCase("one-tensor-for-input-and-output", tile(HEAD + "    again = out\n", "x, again, out, 1024, True, 1024")),
    HostCase("one-tensor-for-input-and-output", pointer(HEAD + "    again = out\n", "x, again, out, 1024, True, 1024")),
    HostCase("searched-tile-extent", SEARCH_TILE, "tuned"),
    HostCase("searched-tile-extent", SEARCH_POINTER, "tuned"),
    HostCase("pipeline-stages-of-the-launch", vary(SEARCH_POINTER, ("num_warps=w)", "num_stages=w)")), "tuned"),
    HostCase("divisibility-specialisation", tile(HEAD, "x, w, out, 1024, x.shape[1] % 1024 == 0, 1024"), "constexpr EVEN flag removes mask"),
    HostCase("divisibility-specialisation", pointer(HEAD, "x, w, out, 1024, x.shape[1] % 1024 == 0, 1024"), "constexpr EVEN flag removes mask"),
)
"""What must be seen."""

_PLAIN = (ROWS_TILE, ROWS_POINTER)
_UNSEARCHED = (
    "exhaustive-search-with-memoised-winner", "architecture-dispatched-tuning-space",
    "config-pruning-predicate", "algorithm-variant-as-a-tuning-axis",
    "side-effect-isolation-of-tuning-trials", "autotune-off-fallback-config",
)  # fmt: skip
_NO_RULE = {
    "power-of-two-tile-padding-of-an-extent": "the tile is a constant, whatever the extent",
    "closed-form-tile-heuristic": "the tile is a constant",
    "launch-values-by-a-closed-form-rule": "nothing is computed",
    "sm-count-driven-split-count": "no argument asks the device",
    "problem-extents-as-compile-time-constants": "a number stands where an extent could",
    "optional-operand-as-dummy-tensor-flag": "the operand is always given, the flag is a constant",
    "query-tile-padding-sentinel-on-the-host": "no buffer is filled beforehand",
    "host-contiguity-alignment-normalisation": "the tensor is passed as it is",
    "cta-cluster-2-cta-mma": "no cluster is asked for",
}

MISSES = (
    *cases_partial.MISSES,
    *cases_passes.MISSES,
    *cases_sides.MISSES,
    *cases_compact.MISSES, *cases_targets.MISSES, *cases_served.MISSES, *cases_parts.MISSES, *cases_named.MISSES,
    *(
        HostMiss(name, text, "constants are launched, nothing is searched")
        for name in _UNSEARCHED
        for text in _PLAIN
    ),
    *(
        HostMiss(
            name, text, why, "heuristic(shape)" if name == "closed-form-tile-heuristic" else None
        )
        for name, why in _NO_RULE.items()
        for text in _PLAIN
    ),
    HostMiss("config-pruning-predicate", SEARCH_TILE, "all configurations are tried"),
    HostMiss("config-pruning-predicate", SEARCH_POINTER, "all configurations are tried"),
    HostMiss("architecture-dispatched-tuning-space", SEARCH_TILE, "one space for every device"),
    HostMiss("architecture-dispatched-tuning-space", SEARCH_POINTER, "one space for every device"),
    HostMiss(
        "algorithm-variant-as-a-tuning-axis", SEARCH_TILE, "sizes are searched, the loops stay"
    ),
    HostMiss(
        "algorithm-variant-as-a-tuning-axis", SEARCH_POINTER, "sizes are searched, the loops stay"
    ),
    HostMiss("side-effect-isolation-of-tuning-trials", ACCUMULATE_TILE, "trials share the output"),
    HostMiss(
        "side-effect-isolation-of-tuning-trials", ACCUMULATE_POINTER, "trials share the output"
    ),
    HostMiss(
        "compile-time-budget-as-an-implicit-prune",
        SEARCH_TILE,
        "compilation takes as long as it takes",
    ),
    HostMiss("occupancy-hint", ROWS_TILE, "no hint is given"),
    HostMiss("worker-warp-count-hint", ROWS_TILE, "no hint is given"),
    HostMiss(
        "worker-warp-count-hint", vary(ROWS_POINTER, (", num_warps=4)", ")")), "no option is given"
    ),
    HostMiss(
        "sm-count-driven-split-count",
        tile(
            vary(SPLITS, ("multi_processor_count // x.shape[0]", "multi_processor_count * 2")),
            "x, w, out, splits, True, 1024",
        ),
        "blocks per multiprocessor, no share of the work",
    ),
    HostMiss(
        "sm-count-driven-split-count",
        pointer(
            vary(SPLITS, ("max(1, torch", "-(-x.shape[0] // torch"), (" // x.shape[0])", ")")),
            "x, w, out, splits, True, 1024",
        ),
        "rows per multiprocessor: the work is divided, not the device",
    ),
    HostMiss("kernel-chosen-by-the-host", vary(TWO_TILE, ("x.shape[1] > 4096", "torch.cuda.get_device_capability()[0] >= 10")), "the target chooses"),
    HostMiss("kernel-chosen-by-the-host", ROWS_POINTER, "there is one kernel"),
    HostMiss("kernel-chosen-by-the-target", TWO_TILE, "the shape chooses"),
    HostMiss("kernel-chosen-by-the-target", TWO_POINTER, "the shape chooses"),
    HostMiss("one-tensor-for-input-and-output", ROWS_TILE, "every parameter gets a tensor of its own"),
    HostMiss("one-tensor-for-input-and-output", ROWS_POINTER, "every parameter gets a tensor of its own"),
    HostMiss("searched-tile-extent", ROWS_TILE, "nothing is searched"),
    HostMiss("searched-tile-extent", ROWS_POINTER, "nothing is searched"),
    HostMiss("pipeline-stages-of-the-launch", SEARCH_POINTER, "warps are searched, no stages"),
    HostMiss("architecture-dispatched-tuning-space", tile(vary(BY_DEVICE, (">= 10", "* x.shape[0] >= 10")), "x, w, out, 1024, True, size"), "the amount of work is compared, not what the device is"),
    HostMiss("power-of-two-tile-padding-of-an-extent", tile(vary(SAVED, ("triton.next_power_of_2(x.shape[1])", "x.shape[1]")), "x, w, out, 1024, True, ctx.span"), "what was put aside is the extent itself"),
    HostMiss("host-contiguity-alignment-normalisation", tile(vary(STRIDED, ("assert x.stride(0) == w.stride(0)", "assert x.shape[0] == w.shape[0]")), "x, w, out, 1024, True, 1024"), "extents are compared, not strides"),
    HostMiss("host-contiguity-alignment-normalisation", tile(HEAD, "x, w, out, 1024, True, 1024))\n    out = out.view(-1, 8)\n    print((out"), "the view is made after the launch"),
    HostMiss("divisibility-specialisation", ROWS_TILE, "the flag is a constant"),
    HostMiss("divisibility-specialisation", ROWS_POINTER, "the flag is a constant"),
)
"""What must not be seen."""
