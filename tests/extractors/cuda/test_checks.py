"""Checks of the host before a launch, static assertions, and vectors chosen by element size."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.host.facts import HostFacts

KERNEL = "template <int N>\n__global__ void k(float* x, int n, int rows) { BODY x[N] = n; }\n"
HELPERS = (
    "void map(int size, int to) { if (size % to != 0) { exit(1); } }\n"
    "void inner(const int size) { constexpr int SIXTEEN = 16; TORCH_CHECK(size % SIXTEEN == 0); }\n"
    "void outer(int size, int* out) { inner(size); TORCH_CHECK(*out > 2) << 1; }\n"
    "void maybe(int size) { if (size > 4) { TORCH_CHECK(size == 8); } }\n"
)
LAUNCH = "k<4><<<rows, 128>>>(x, d, rows);"


def facts(host: str, body: str = "") -> HostFacts:
    """What the file says of its only kernel."""
    (found,) = host_facts(read_cuda(KERNEL.replace("BODY", body) + host, "k.cu")).values()
    return found


def stated(found: HostFacts) -> list[str]:
    """Constraints that the code checks in words."""
    checked = (c for c in found.constraints if c.checked_by_host)
    return sorted(c.expression for c in checked if "for elements" not in (c.because or ""))


@pytest.mark.parametrize(("check", "expected"), [
    pytest.param('TORCH_CHECK(d % 8 == 0 && rows > 0, "no");', ["n % 8 == 0", "rows > 0"],
                 id="call"),
    pytest.param("TORCH_CHECK_EQ(d, 64);", ["n == 64"], id="call that compares"),
    pytest.param("TORCH_CHECK(d <= std::min(rows, 64));", ["n <= min(rows, 64)"],
                 id="least of two"),
    pytest.param("TORCH_CHECK(rows % std::max<int>(2 * (d + 1), 4) == 0);",
                 ["rows % max(2 * (n + 1), 4) == 0"], id="arithmetic inside of a call"),
    pytest.param("TORCH_CHECK(rows >= at::ceil_div(d, std::min(rows, 8)));",
                 ["rows >= cdiv(n, min(rows, 8))"], id="rounded up"),
    pytest.param("TORCH_CHECK(d <= least(rows, 64));", [], id="a function that nobody knows"),
    pytest.param("if (d > 1024 || !rows) throw 1;", ["n <= 1024", "rows"], id="throws"),
    pytest.param("if (d != 8) return cudaErrorInvalidValue;", ["n == 8"], id="returns an error"),
    pytest.param("if (d != 8) { exit(1); }", ["n == 8"], id="exits"),
    pytest.param("do { if (!(d <= 32)) { throw 1; } } while (0);", ["n <= 32"], id="in a macro"),
    pytest.param("if (d == 1) {} else if (d == 2) {} else { throw 1; }", ["n == 1 or n == 2"],
                 id="one of several"),
    pytest.param("switch (d) { case 1: break; case 2: break; default: throw 1; }",
                 ["n == 1 or n == 2"], id="cases"),
    pytest.param('FLASHINFER_CHECK(d == 64, "no");', ["n == 64"], id="call of another library"),
    pytest.param("TORCH_CHECK(d % wide == 0);", ["n % wide == 0"], id="with a number of the host"),
    pytest.param("TORCH_CHECK(d % Traits::WIDE == 0);", ["n % Traits.WIDE == 0"], id="of a type"),
    pytest.param("TORCH_CHECK((d & (d - 1)) == 0);", ["is_power_of_two(n)"], id="power of two"),
    pytest.param("TORCH_CHECK(d % sizeof(float4) == 0);", ["n % bytes_of(float4) == 0"],
                 id="bytes of a type"),
    pytest.param("TORCH_CHECK(d <= INT32_MAX);", ["n <= 2147483647"], id="largest number"),
    pytest.param("TORCH_CHECK(d < std::numeric_limits<int32_t>::max());", ["n < 2147483647"],
                 id="largest number of a type"),
    pytest.param("TORCH_CHECK(d <= (1 << 20));", ["n <= 1048576"], id="shifted number"),
    pytest.param("static_assert(LIMIT <= 4); TORCH_CHECK(d < 9);", ["n < 9"],
                 id="asserted of something else"),
    pytest.param("constexpr int N4 = 4; static_assert(d % N4 == 0);", ["n % N4 == 0"],
                 id="asserted by the host"),
    pytest.param("map(d, 16);", ["n % 16 == 0"], id="in a function that is called"),
    pytest.param("maybe(d);", ["n <= 4 or n == 8"], id="on one side in a function that is called"),
    pytest.param("outer(d, &d);", ["n % 16 == 0", "n > 2"], id="in functions one calls the other"),
    pytest.param('TORCH_CHECK_EQ(d % 4, 0) << "no";', ["n % 4 == 0"], id="with a streamed message"),
    pytest.param("TORCH_CHECK(n == 8);", [], id="of another thing called like a parameter"),
    pytest.param("if (d != 8) return;", [], id="leaves without an error"),
    pytest.param("if (d != 8) { rows = 1; }", [], id="goes on"),
    pytest.param("if (rows > 4) { TORCH_CHECK(d == 8); }", ["rows <= 4 or n == 8"],
                 id="only on one side"),
    pytest.param("if (rows > 4) { TORCH_CHECK(d == 8); throw 1; }", ["rows <= 4"],
                 id="on a side that ends"),
    pytest.param("TORCH_CHECK(other == 8);", [], id="of something else"),
    pytest.param("TORCH_CHECK(x.dim(0) == d);", [], id="of a call"),
])  # fmt: skip
def test_checks_before_a_launch(check: str, expected: list[str]) -> None:
    host = f"void host(float* x, int d, int rows, int other) {{ {check} {LAUNCH} }}\n"
    assert stated(facts(HELPERS + host)) == expected


@pytest.mark.parametrize(("check", "expected"), [
    pytest.param("TORCH_CHECK(a.stride(-1) == 1);", ["x.stride[-1] == 1"], id="stride"),
    pytest.param("TORCH_CHECK(a.is_contiguous());", ["x.stride[-1] == 1"], id="contiguous"),
    pytest.param("TORCH_CHECK(a.size(0) == rows);", ["x.shape[0] == rows"], id="extent"),
    pytest.param("TORCH_CHECK(a.numel() < 99);", ["x.numel < 99"], id="elements"),
    pytest.param("TORCH_CHECK(a.stride(a.ndim() - 1) == 1);", ["x.stride[-1] == 1"],
                 id="last stride, counted from the first"),
    pytest.param("TORCH_CHECK(b.is_contiguous());", [], id="of another tensor"),
    pytest.param("TORCH_CHECK(a.defined());", [], id="of another method"),
])  # fmt: skip
@pytest.mark.parametrize("handed", [
    pytest.param("a.data_ptr<float>()", id="pointer"),
    pytest.param("static_cast<float*>(a.data_ptr())", id="cast"),
    pytest.param("at", id="by a name"),
])  # fmt: skip
def test_checks_of_the_tensor_whose_elements_are_handed_over(
    check: str, expected: list[str], handed: str
) -> None:
    host = f"""void host(Tensor a, Tensor b, int d, int rows) {{
      {check}
      float* at = a.data_ptr<float>();
      k<4><<<rows, 128>>>({handed}, d, rows);
    }}"""
    assert stated(facts(host)) == expected


@pytest.mark.parametrize(("check", "expected"), [
    ("a.scalar_type() == b.scalar_type()", ["x.dtype == y.dtype"]),
    ("a.dtype() == torch::kHalf || a.dtype() == at::ScalarType::BFloat16",
     ["x.dtype == torch.float16 or x.dtype == torch.bfloat16"]),
    ("a.dim() == 2", ["x.ndim == 2"]),
    ("a.sizes() == b.sizes()", ["x.shape == y.shape"]),
    ("c.dtype() == torch::kHalf", []),
    ("n == kLimit", ["n == kLimit"]),
])  # fmt: skip
def test_types_and_ranks_of_tensors(check: str, expected: list[str]) -> None:
    kernel = "__global__ void k(const float* x, float* y, int n) { y[0] = x[n]; }\n"
    host = f"void run(torch::Tensor a, torch::Tensor b, int n) {{ TORCH_CHECK({check});"
    launch = "k<<<1, 32>>>(a.data_ptr<float>(), b.data_ptr<float>(), n); }"
    (found,) = host_facts(read_cuda(kernel + host + launch, "k.cu")).values()
    assert stated(found) == expected


def test_a_tensor_that_may_be_missing_and_one_called_by_a_word_of_the_grammar() -> None:
    kernel = (
        "__global__ void k(const float* in, const float* w, int n) { float a = in[n] + w[n]; }\n"
    )
    host = """void run(Tensor a, std::optional<Tensor> b, int n) {
      TORCH_CHECK(a.numel() == n);
      if (b.has_value()) { TORCH_CHECK(b->is_contiguous()); }
      k<<<1, 32>>>(a.data_ptr<float>(), b.has_value() ? b->data_ptr<float>() : nullptr, n);
    }"""
    (found,) = host_facts(read_cuda(kernel + host, "k.cu")).values()
    assert stated(found) == ["in.numel == n", "w == none or w.stride[-1] == 1"]


def test_a_method_that_checks_for_another() -> None:
    host = """struct Runner {
      int plan(int rows) const { TORCH_CHECK(rows * wide_ < 512); return rows; }
      void run(float* x, int d) const { int made = plan(d); k<4><<<1, 32>>>(x, d, made); }
      int wide_;
    };"""
    assert stated(facts(host)) == ["n * wide_ < 512"]


def test_a_number_that_the_host_chooses_by_a_value_of_its_own() -> None:
    choice = "if (wide == 4) {{ k<4>{0} }} else if (wide == 8) {{ k<8>{0} }}"
    host = """void host(float* x, int wide, int d, int rows) {
      TORCH_CHECK(wide == 4 || wide == 8);
      %s
    }"""
    followed = host % choice.format("<<<rows, 128>>>(x, d, rows);")
    assert stated(facts(followed)) == ["N == 4 or N == 8"]
    swapped = followed.replace("k<8>", "k<4>")
    assert stated(facts(swapped)) == ["wide == 4 or wide == 8"]


@pytest.mark.parametrize(("handed", "expected"), [
    ("a.data_ptr<float>(), b.const_data_ptr<float>()", ["x.dtype == y.dtype == torch.float32"]),
    ("a.data_ptr<scalar_t>(), (scalar_t*)b.data_ptr<scalar_t>()", ["x.dtype == y.dtype"]),
    ("a.data_ptr<scalar_t>(), b.data_ptr<int64_t>()", ["y.dtype == torch.int64"]),
    ("at, b.has_value() ? b->data_ptr<int>() : nullptr", ["x.dtype == y.dtype == torch.int32"]),
    ("(float*)a.data_ptr(), static_cast<float*>(b.data_ptr())", []),
    ("held.data<float>(), nullptr", ["x.dtype == torch.float32"]),
])  # fmt: skip
def test_types_that_pointers_are_asked_for(handed: str, expected: list[str]) -> None:
    kernel = "__global__ void k(const void* x, void* y, int n) { }\n"
    host = f"""void run(torch::Tensor a, torch::Tensor b, int n) {{
      int* at = a.data_ptr<int>();
      k<<<1, 32>>>({handed}, n);
    }}"""
    (found,) = host_facts(read_cuda(kernel + host, "k.cu")).values()
    told = (c.expression for c in found.constraints if "for elements" in (c.because or ""))
    assert sorted(told) == expected


def test_values_of_a_branch_and_of_a_check_on_its_other_side() -> None:
    host = """void host(float* x, int d, int rows) {
      if (d == 4) { k<4><<<rows, 128>>>(x, d, rows); }
      else { TORCH_CHECK(d == 8); k<4><<<rows, 128>>>(x, d, rows); }
    }"""
    assert "n == 4 or n == 8" in stated(facts(host))


def test_a_kernel_that_is_written_for_one_type() -> None:
    kernel = "template <>\n__global__ void k<half>(float* x, int n) { x[0] = n; }\n"
    host = "void run(float* x, int d) { TORCH_CHECK(d > 4); k<half><<<1, 32>>>(x, d); }"
    (found,) = host_facts(read_cuda(kernel + host, "k.cu")).values()
    assert stated(found) == ["n > 4"]


def test_a_size_that_the_grid_is_made_of() -> None:
    host = """void host(float* x, int size, int d) {
      TORCH_CHECK(size % 8 == 0); TORCH_CHECK(d > 0);
      int blocks = size / 8;
      k<4><<<blocks, 128>>>(x, 7, 9);
    }"""
    assert stated(facts(host)) == ["size % 8 == 0"]


def test_what_a_kernel_asserts() -> None:
    assert stated(facts("", "assert(blockDim.x == 32);")) == ["block_x == 32"]
    assert stated(facts("", "assert(gridDim.y == n);")) == ["grid[1] == n"]


CHOSEN_KERNEL = """void host(float* x, int d, int rows) {
  void* args[] = {(void*)&x, (void*)&d, &rows};
  auto f = d > 4 ? k<4> : k<8>;
  cudaLaunchKernel((void*)f, dim3(rows), dim3(128), args, 0, 0);
}
"""


def test_kernels_of_a_choice_and_arguments_by_address() -> None:
    launches = facts(CHOSEN_KERNEL).launches
    assert [{b.parameter: b.expression for b in one.bindings} for one in launches] == [
        {"N": wide, "x": "x", "n": "d", "rows": "rows"} for wide in ("4", "8")
    ]


def test_a_check_after_the_launch_says_nothing_of_it() -> None:
    assert (
        stated(facts(f"void host(float* x, int d, int rows) {{ {LAUNCH} assert(d > 0); }}")) == []
    )


def test_static_assertions_of_a_kernel() -> None:
    found = facts("", 'static_assert(N % 16 == 0, "sixteen");')
    assert stated(found) == ["N % 16 == 0"]


def test_every_launch_must_check() -> None:
    host = f"void a(float* x, int d, int rows) {{ assert(d > 1); assert(rows > 1); {LAUNCH} }}\n"
    other = f"void b(float* x, int d, int rows) {{ assert(d > 1); {LAUNCH} }}\n"
    assert stated(facts(host + other)) == ["n > 1"]


CHOSEN = """template <typename T> void host(float* x, int d, int rows) {
  const int wide = MADE;
  switch (wide) {
    case 4: { constexpr int W = 4; k<W><<<rows, 128>>>(x, d, rows); break; }
    case 8: { constexpr int W = 8; k<W><<<rows, 128>>>(x, d, rows); break; }
  }
}
"""


@pytest.mark.parametrize(("made", "expected"), [
    pytest.param("std::gcd(16 / sizeof(T), d)", "std::gcd(16 // sizeof(T), d) elements", id="gcd"),
    pytest.param("d / 32", None, id="not of the size of an element"),
])  # fmt: skip
def test_vectors_by_the_size_of_an_element(made: str, expected: str | None) -> None:
    chosen = [d for d in facts(CHOSEN.replace("MADE", made)).decisions if d.axis == "vector_width"]
    assert [(d.value, d.subject, d.lines) for d in chosen] == (
        [(expected, "N", ((4, 4),))] if expected else []
    )


@pytest.mark.parametrize(("head", "body", "expected"), [
    pytest.param("__launch_bounds__(16*16)", "", "block_x * block_y * block_z <= 16*16",
                 id="launch bounds"),
    pytest.param("", "using Sum = cub::BlockReduce<float, N>;", "block_x == N", id="alias"),
    pytest.param(
        "",
        "using Sum = cub::BlockReduce<float, N>; __shared__ Sum::TempStorage s; "
        "float t = Sum(s).Reduce(1.f, cub::Sum{}, blockDim.x);",
        "block_x <= N",
        id="a valid count",
    ),
    pytest.param("", "typedef cub::BlockLoad<bool, 256, 8> Load;", "block_x == 256", id="typedef"),
    pytest.param("", "using Sum = cub::WarpReduce<float, 16>;", None, id="not of a block"),
])  # fmt: skip
def test_threads_that_a_kernel_is_made_for(head: str, body: str, expected: str | None) -> None:
    text = KERNEL.replace("void k", f"void {head} k").replace("BODY", body)
    (found,) = host_facts(read_cuda(text, "k.cu")).values()
    assert [c.expression for c in found.constraints] == ([expected] if expected else [])


DISPATCHED = """
void run(at::Tensor x, int n, int rows) {
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "k", [&]() {
    k<4><<<rows, 128>>>(x.data_ptr<float>(), n, rows);
  });
}
"""
WIDTHS = """
void run(float* x, int d, int rows, int wide) {
  if (wide == 4) { k<4><<<rows, 128>>>(x, wide, rows); }
  else if (wide == 8) { k<8><<<rows, 128>>>(x, wide, rows); }
  OTHER
}
"""


def test_types_of_a_dispatch() -> None:
    assert stated(facts(DISPATCHED)) == ["x.dtype == torch.float32 or x.dtype == torch.float64"]


def test_no_types_of_a_call_that_is_no_dispatch() -> None:
    assert stated(facts(DISPATCHED.replace("AT_DISPATCH_FLOATING_TYPES", "RUN"))) == []


def test_values_that_every_launch_has_a_branch_for() -> None:
    assert stated(facts(WIDTHS.replace("OTHER", ""))) == ["n == 4 or n == 8"]


def test_no_values_where_a_launch_has_no_branch() -> None:
    assert stated(facts(WIDTHS.replace("OTHER", "k<4><<<rows, 128>>>(x, wide, rows);"))) == []


MATCHED = """
void run(tvm::ffi::TensorView x, int n) {
  auto rows = SymbolicSize{"rows"};
  TensorMatcher({rows, 128})MORE.verify(x);
  k<4><<<rows.unwrap(), 128>>>(static_cast<float*>(x.data_ptr()), n, rows.unwrap());
}
"""


@pytest.mark.parametrize(("more", "expected"), [
    pytest.param(".with_dtype<fp32_t>().with_device<kDLCUDA>()",
                 "x.shape[0] == rows and x.shape[1] == 128 and x.dtype == torch.float32 "
                 "and x.stride[-1] == 1", id="extents, type and no gaps"),
    pytest.param(".with_strides({stride, 1})",
                 "x.shape[0] == rows and x.shape[1] == 128 and x.stride[-1] == 1", id="row stride"),
    pytest.param(".with_strides({1, stride})", "x.shape[0] == rows and x.shape[1] == 128",
                 id="elements apart"),
    pytest.param(".with_dtype<fp16_t, bf16_t>(type)",
                 "x.shape[0] == rows and x.shape[1] == 128 and (x.dtype == torch.float16 or "
                 "x.dtype == torch.bfloat16) and x.stride[-1] == 1", id="one of two types"),
])  # fmt: skip
def test_what_a_tensor_must_be_like(more: str, expected: str) -> None:
    found = stated(facts(MATCHED.replace("MORE", more)))
    assert [one.replace("_2", "") for one in found] == [expected]


def test_another_struct_that_verifies() -> None:
    assert stated(facts(MATCHED.replace("MORE", "").replace("TensorMatcher", "Other"))) == []
