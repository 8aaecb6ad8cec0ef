# ruff: noqa: E501
"""What one device answered is kept for all of them."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.evidence import Finding, Severity

_PLAIN = """
#include <cuda_runtime.h>
__global__ void twice(const float* x, float* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    out[i] = 2.0f * x[i];
  }
}

int count(int device) {
  int sms = 0;
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  return sms;
}

void run(const float* x, float* out, int n, int device, cudaStream_t stream) {
  static int sms = count(device);
  twice<<<2 * sms, 256, 0, stream>>>(x, out, n);
}
"""
_ONCE = vary(
    _PLAIN,
    ("  static int sms = count(device);\n",
     "  static int sms = -1;\n  if (sms < 0) {\n    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);\n  }\n"),
)  # fmt: skip


class KeptForAllDevices(Rule):
    """A variable that lives on after the function holds what the device said that was there at the
    first call. With another device the launch is made for the first one."""

    name = "kept-for-all-devices"
    dialects = ("cuda",)
    matches = (
        Case(_PLAIN, "`sms`"),
        Case(_ONCE, "`sms`"),
        Case(
            vary(_PLAIN, ("static int sms = count(device);", "static const int wide = [&] { return 2 * count(device); }();"), ("2 * sms, 256", "wide, 256")),
            "`wide`",
        ),
    )  # fmt: skip
    near_misses = (
        NearMiss(vary(_PLAIN, ("static int sms", "int sms")), why="asked at every call"),
        NearMiss(
            vary(_PLAIN, ("static int sms = count(device);", "static int all[16] = {0};\n  if (all[device] == 0) { all[device] = count(device); }\n  int sms = all[device];")),
            why="one answer for each device",
        ),
        NearMiss(
            vary(_PLAIN, ("static int sms = count", "int sms = count"))
            + """
void other(float* out, int device) { static int sms = count(device); out[0] = sms; }
void both(const float* x, float* out, int n, int device, cudaStream_t stream) {
  other(out, device);
  run(x, out, n, device, stream);
}
""",
            why="it is kept beside the launch, not for it",
        ),
        NearMiss(
            vary(
                _PLAIN,
                ("  twice<<<2 * sms, 256, 0, stream>>>(x, out, n);",
                 "  if (n > 4096) {\n    use(sms);\n  } else {\n    twice<<<n, 256, 0, stream>>>(x, out, n);\n  }"),
            ),
            why="it is for the other side of a branch",
        ),
        NearMiss(
            vary(_PLAIN, ("= count(device);", "= 132;")), why="a number that no device was asked for"
        ),
    )  # fmt: skip

    seen = (
        Seen("sglang", "sglang/kernels/jit/csrc/elementwise/qknorm.cuh", "fused_qknorm_cta", 328),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        names = dict.fromkeys(one.name for one in subject.host.habits.kept)
        if names:
            told = ", ".join(f"`{name}`" for name in names)
            yield self.finding(
                subject,
                f"{told} is static and keeps what the first device answered, for all devices: a "
                "launch on another one is made for that of the first call",
                "keep one answer for each device, or ask at every call",
                [one.lines for one in subject.host.habits.kept],
                Severity.NOTE,
            )
