"""How much of the CUDA kernels in the pinned packages is read."""
