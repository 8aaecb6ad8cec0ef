"""Functions of CUDA's libraries for copies by the copy engine, barriers in shared memory, and draws
of random numbers."""

from __future__ import annotations

from kb.ops import OpKind as K

BULK_COPIES: dict[str, bool] = {
    f"cp_async_bulk{tensor}_{way}": way == "global_to_shared"
    for tensor in ("", *(f"_tensor_{rank}d" for rank in range(1, 6)))
    for way in ("global_to_shared", "shared_to_global")
}
"""Functions that hand a copy to the copy engine, and whether it brings something into shared
memory. Source: libcu++, cuda::device::experimental."""

ON_COPIES: dict[str, tuple[K, tuple[tuple[str, str], ...]]] = {
    "cp_async_bulk_commit_group": (K.ASYNC_COMMIT, (("opcode", "cp.async.bulk.commit_group"),)),
    **dict.fromkeys(("cp_async_bulk_wait_group", "cp_async_bulk_wait_group_read"),
                    (K.ASYNC_WAIT, (("opcode", "cp.async.bulk.wait_group"),))),
    "fence_proxy_async_shared_cta": (K.FENCE, (("scope", "proxy"),)),
    "fence_barrier_init_release_cluster": (K.FENCE, (("scope", "cluster"),)),
    "fence_mbarrier_init": (K.FENCE, (("scope", "cluster"),)),
    "fence_proxy_async": (K.FENCE, (("scope", "proxy"),)),
    "barrier_cluster_arrive": (K.BARRIER_ARRIVE, (("scope", "cluster"),)),
    "barrier_cluster_wait": (K.BARRIER, (("scope", "cluster"),)),
}  # fmt: skip
"""What waits for those copies, with attributes. Source: as before."""

ASKED = ("mbarrier_try_wait", "mbarrier_try_wait_parity", "mbarrier_test_wait",
         "mbarrier_test_wait_parity")  # fmt: skip
"""Functions that tell whether a barrier is through. Source: libcu++, cuda::ptx."""

BETWEEN = frozenset({"cp_async_bulk", "cp_async_bulk_tensor"})
"""Functions that hand over a copy between two spaces, which are their first arguments, into the
first of them. Source: libcu++, cuda::ptx."""

BARRIERS: dict[str, K] = {
    **dict.fromkeys(("arrive", "arrive_and_drop", "arrive_and_expect_tx", "expect_transaction",
                     "barrier_arrive_tx", "barrier_expect_tx", "mbarrier_arrive_expect_tx",
                     "mbarrier_arrive"), K.BARRIER_ARRIVE),
    **dict.fromkeys(("wait", "wait_parity", "try_wait_parity", "arrive_and_wait", "try_wait",
                     "mbarrier_wait_parity", *ASKED), K.BARRIER_WAIT),
    **dict.fromkeys(("init", "mbarrier_init", "mbarrier_invalid", "~barrier"), K.BARRIER_INIT),
}  # fmt: skip
"""What is done with a barrier that lies in shared memory: methods of cuda::barrier, and functions
on one. Source: libcu++, cuda::barrier and cuda::ptx."""

BARRIER_TYPES = frozenset({"barrier", "ClusterBarrier", "ClusterTransactionBarrier"})
"""Types of such barriers. Source: libcu++, cuda::barrier; CUTLASS, cutlass/arch/barrier.h."""

RANDOM: dict[str, K] = {
    **dict.fromkeys(("curand", "curand4"), K.PHILOX),
    **dict.fromkeys(("curand_uniform", "curand_uniform4", "curand_uniform_double",
                     "curand_uniform2_double", "curand_poisson"), K.RAND),
    **dict.fromkeys(("curand_normal", "curand_normal2", "curand_normal4"), K.RANDN),
}  # fmt: skip
"""Draws from a generator. Source: cuRAND, device API."""
