"""Scores that a hyperbolic tangent holds below a bound, in both directions of an attention."""

from extractors.patterns.cases import ATTENTION_POINTER, vary
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER

_LIBRARY = (
    "import triton.language as tl\n",
    "import triton.language as tl\nfrom triton.language.extra import libdevice\n",
)
CAPPED = vary(
    ATTENTION_POINTER,
    _LIBRARY,
    ("out, rate,", "out, rate, cap,"),
    (
        "        keep = cols[None, :] < size\n",
        "        s = cap * libdevice.tanh(s / cap)\n        keep = cols[None, :] < size\n",
    ),
)
CAPPED_BACKWARD = vary(
    BACKWARD_KEYS_POINTER,
    _LIBRARY,
    ("    gk = gk * rate\n", ""),
    (
        "            p = tl.exp2(s * rate2",
        "            p = tl.exp2(rate2 * libdevice.tanh(s / rate2)",
    ),
)
"""Probabilities are rebuilt of bounded scores; nothing scales them."""
