"""What libraries answer about the device when a target profile is given: all targets are NVIDIA's.

Source: the public interfaces of torch.cuda, torch.version and triton.runtime.driver.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

from extractors.host.events import TargetProfile
from extractors.host.expr import sym
from extractors.host.tables import PROPERTY_NAMES
from extractors.host.values import ABSENT, External, Value
from extractors.syntax.nodes import each

PROPERTIES = "device properties"
PROPERTIES_OF = "get_device_properties"
"""What a device module of PyTorch has, whichever it is, that tells what the device is."""
TARGET = "device target"
OTHER_VENDORS = ("xpu", "hpu", "npu", "mps", "musa", "mlu")

_AVAILABLE = frozenset(f"torch.{one}.is_available" for one in ("cuda", *OTHER_VENDORS))

OF_DEVICE = ("capability", "target.", "condition@", "exception@")
"""How symbols begin that say something of the machine, or of how it was asked, and nothing of the
problem."""

QUESTIONS = frozenset({"get_device_capability", PROPERTIES_OF, "get_current_target"})
"""Functions of PyTorch and Triton that tell what the target is."""


def attributes(profile: TargetProfile | None) -> Mapping[str, Value]:
    """Values of attribute paths; facts of the device are symbols without a profile. Every target is
    one of NVIDIA's, for which PyTorch is built with neither of the others."""
    facts: dict[str, Value] = {
        **{f"{PROPERTIES}.{key}": sym(name) for key, name in PROPERTY_NAMES.items()},
        "torch.version.hip": None,
        "torch.version.xpu": None,
    }
    if profile is None:
        return facts
    major, minor = profile.capability
    return facts | {
        f"{PROPERTIES}.multi_processor_count": profile.sms,
        f"{PROPERTIES}.multiprocessor_count": profile.sms,
        f"{PROPERTIES}.shared_memory_per_block_optin": profile.shared_bytes,
        f"{PROPERTIES}.max_shared_mem": profile.shared_bytes,
        f"{PROPERTIES}.major": major,
        f"{PROPERTIES}.minor": minor,
        f"{PROPERTIES}.warp_size": 32,
        f"{PROPERTIES}.warpSize": 32,
        f"{TARGET}.backend": "cuda",
        f"{TARGET}.arch": major * 10 + minor,
        f"{TARGET}.warp_size": 32,
    }


def asks(path: str) -> bool:
    """True for a call that asks which device there is or what it can do."""
    module, _, name = path.rpartition(".")
    return bool(module) and (name in QUESTIONS or path in _AVAILABLE)


@lru_cache(maxsize=4096)
def asks_inside(node: ast.AST) -> bool:
    """True for a function that asks what the device is in a place that may not be reached, as in
    a loop over devices whose number is not known."""
    return any(one.attr in QUESTIONS for one in each(node, ast.Attribute))


def answer(path: str, profile: TargetProfile | None) -> Value:
    """What a call without known arguments gives; ABSENT when it asks nothing about the device."""
    if path.endswith(f".{PROPERTIES_OF}"):
        return External(PROPERTIES)
    if path == "torch.cuda.get_device_capability":
        return profile.capability if profile else sym("capability")
    if profile is None:
        return ABSENT
    if path.endswith("driver.active.get_current_target"):
        return External(TARGET)
    if path == "torch.cuda.is_available":
        return True
    if path == "torch.cuda.device_count":
        return 1
    if path in {f"torch.{vendor}.is_available" for vendor in OTHER_VENDORS}:
        return False
    return ABSENT
