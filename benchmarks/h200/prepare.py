"""Make the job folder for a GPU machine: originals lifted out of TileGym, and the same kernels
written from their DSL text.

    .venv/bin/python -m benchmarks.h200.prepare OUT_FOLDER

OUT_FOLDER/original/NAME.py and OUT_FOLDER/regenerated/NAME.py hold one kernel each;
OUT_FOLDER/generated holds the
Triton modules. benchmarks/h200/measure.py runs on the GPU machine with nothing but torch, triton
and cuda-tile.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from api.corpora import fetch
from api.lift import lift
from api.source_files import FolderModules, module_text
from extractors.read import read
from generators.emit import emit_program
from kb.ir_text import parse, to_text

KERNELS = {
    "tilegym/ops/cutile/attention.py": (
        "_fmha_kernel", "_fmha_fwd_kernel_with_lse", "_fmha_bwd_preprocess_kernel",
        "_fmha_bwd_dkdv_kernel", "_fmha_bwd_dq_kernel",
    ),
    "tilegym/ops/cutile/rms_norm.py": ("_rms_norm_kernel_multi_wave_cached",),
    "tilegym/ops/cutile/softmax.py": ("_softmax_kernel",),
    "tilegym/ops/cutile/matmul.py": ("_matmul_kernel",),
}  # fmt: skip


def main(out: Path) -> None:
    """Write the job folder."""
    corpus = fetch("tilegym==1.5.1")
    index: dict[str, dict[str, str]] = {}
    for relative, names in KERNELS.items():
        text = module_text(corpus.folder, corpus.folder / relative)
        assert text is not None, relative
        module = read(text, FolderModules(corpus.folder))
        for kernel in module.kernels:
            if kernel.name not in names:
                continue
            # The text form is the only road: the emitter sees what was read back from it.
            regenerated = emit_program(parse(to_text(kernel)), "cutile")
            texts = {"original": lift(module, kernel).text, "regenerated": regenerated}
            for side, written in texts.items():
                target = out / side / f"{kernel.name}.py"
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(written, encoding="utf-8")
            index[kernel.name] = {
                side: hashlib.sha256(written.encode()).hexdigest()
                for side, written in texts.items()
            }
    (out / "index.json").write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
