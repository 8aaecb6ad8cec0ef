"""Write the modules that generated.py measures: FMHA at three tile sizes and with four decisions
flipped, and LayerNorm from what FMHA taught.

    .venv/bin/python -m benchmarks.h200.prepare_generated FOLDER
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from api.generate import generate
from api.references import donor_of_store
from api.remember import remember
from benchmarks.h200.prepare_descriptors import document, source
from kb.dsl.model import Document
from kb.graph.terms import vocabulary
from kb.store import open_store
from kb.transfer import transfer

POINT = {"TILE_M": "128", "TILE_N": "64", "num_warps": "4"}
MODULES = {
    "fmha_128x128": {"TILE_M": "128", "TILE_N": "128", "num_warps": "8"},
    "fmha_128x64": POINT,
    "fmha_64x64": {"TILE_M": "64", "TILE_N": "64", "num_warps": "4"},
    "fmha_exp": POINT | {"math_approximation": "exp"},
    "fmha_lse": POINT | {"side_output": "log-sum-exp"},
    "fmha_mask_all": POINT | {"mask_placement": "mask every iteration"},
    "fmha_scale_first": POINT | {"scale_placement": "scale S before max"},
}


def layernorm() -> Document:
    """The design space of LayerNorm that the attention kernels of the pinned file hand on."""
    with tempfile.TemporaryDirectory() as folder:
        remember([source()], folder)
        with open_store(folder, read_only=True) as store:
            return transfer(donor_of_store(store, "fmha"), "layernorm", vocabulary()).document()


def main() -> None:
    """Write all modules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    space = document()
    for name, settings in MODULES.items():
        text = generate(space, "triton", settings)
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    (folder / "layernorm.py").write_text(generate(layernorm(), "triton", {}), encoding="utf-8")


if __name__ == "__main__":
    main()
