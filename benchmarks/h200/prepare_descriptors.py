"""Write the FMHA modules that descriptors.py measures: every road of tiles at several points.

    python -m benchmarks.h200.prepare_descriptors FOLDER

Reads attention.py of the pinned tilegym; FOLDER gets fmha_<road>_<rows>x<columns>_w<warps>….py.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from api.corpora import fetch
from api.extract import extract_file
from api.generate import generate
from kb.dsl.from_knowledge import knowledge_document
from kb.dsl.model import Document
from kb.knowledge import SourceKnowledge

FILE = "tilegym/ops/cutile/attention.py"
KERNEL = "_fmha_kernel"
ROADS = {
    "pointers": {"access_mode": "pointer"},
    "host": {"descriptor_site": "host"},
    "device": {"descriptor_site": "device"},
}
POINTS: tuple[dict[str, int], ...] = (
    {"TILE_M": 128, "TILE_N": 64, "num_warps": 4},
    {"TILE_M": 128, "TILE_N": 64, "num_warps": 8},
    {"TILE_M": 128, "TILE_N": 64, "num_warps": 8, "num_stages": 2},
    {"TILE_M": 128, "TILE_N": 128, "num_warps": 8},
    {"TILE_M": 128, "TILE_N": 128, "num_warps": 8, "num_stages": 2},
    {"TILE_M": 64, "TILE_N": 64, "num_warps": 4},
    {"TILE_M": 64, "TILE_N": 128, "num_warps": 4},
)
"""Without `num_stages` the host takes as many as shared memory holds, three at most."""


def source() -> SourceKnowledge:
    """The attention kernels, read from the pinned wheel."""
    corpus = fetch("tilegym==1.5.1")
    return extract_file(corpus.folder / FILE, package="tilegym==1.5.1", licence=corpus.licence)


def document() -> Document:
    """The design space of the forward kernel."""
    return knowledge_document(next(k for k in source().kernels if k.kernel.name == KERNEL))


def name_of(road: str, point: dict[str, int]) -> str:
    """`fmha_host_128x64_w8_s2`."""
    stages = f"_s{point['num_stages']}" if "num_stages" in point else ""
    return f"fmha_{road}_{point['TILE_M']}x{point['TILE_N']}_w{point['num_warps']}{stages}"


def main() -> None:
    """Write all modules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    space = document()
    for road, how in ROADS.items():
        for point in POINTS:
            settings = how | {name: str(value) for name, value in point.items()}
            path = folder / f"{name_of(road, point)}.py"
            path.write_text(generate(space, "triton", settings), encoding="utf-8")
            print(path, flush=True)


if __name__ == "__main__":
    main()
