"""The descriptors of a host function as the text that its template lays out."""

from __future__ import annotations

from generators.host_text import HostNames
from kb.families.contract import DescriptorContract, HostContract

DESCRIPTOR_IMPORT = "from triton.tools.tensor_descriptor import TensorDescriptor"
MIN_BYTES = 16
"""Bytes of the last axis of a block, and what the base and the strides are multiples of.

Source: NVIDIA, CUDA C++ Programming Guide, Tensor Memory Access.
"""


def described(host: HostContract, names: HostNames) -> dict[str, object]:
    """What the template needs: tensors to align, smallest blocks, descriptors, scratch memory."""
    inputs = {tensor.name for tensor in host.tensors}
    tensors = list(dict.fromkeys(d.tensor for d in host.descriptors))
    return {
        "aligned": [name for name in tensors if name in inputs],
        "aligned_outputs": [name for name in tensors if name not in inputs],
        "block_checks": [_last_bytes(d, names) for d in host.descriptors if not _surely(d)],
        "descriptors": [(d.name, _made(d, names)) for d in host.descriptors if d.name],
        "scratch": any(not d.name for d in host.descriptors),
    }


def _surely(descriptor: DescriptorContract) -> bool:
    last = descriptor.block[-1]
    return last.isdigit() and int(last) >= MIN_BYTES


def _last_bytes(descriptor: DescriptorContract, names: HostNames) -> tuple[str, str]:
    """The condition under which a block is too narrow, and the words for it."""
    size = f"{names.text(descriptor.block[-1])} * {descriptor.tensor}.element_size()"
    words = f"the last axis of a tile of {descriptor.tensor} has {{{size}}} bytes, not {MIN_BYTES}"
    return f"{size} < {MIN_BYTES}", f'f"{words}"'


def _made(descriptor: DescriptorContract, names: HostNames) -> str:
    block = ", ".join(names.text(extent) for extent in descriptor.block)
    tensor = descriptor.tensor
    padding = "" if descriptor.padding == "zero" else f', padding="{descriptor.padding}"'
    return f"TensorDescriptor({tensor}, {tensor}.shape, {tensor}.stride(), [{block}]{padding})"
