# SPDX-License-Identifier: MIT
"""Signatures, read out of the source of CUDA kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py.cuda.signatures import SPELLINGS, Signature, dtype_of, parse_signature, spelling_of
from celerity_py.errors import UsageError


def parse(source: str, name: str = "f") -> Signature:
    return parse_signature(source, name, "who")


def parameter_of(declaration: str, prelude: str = "") -> Any:
    return parse(f"{prelude}\n__global__ void f(celerity::chunk<1> chunk, {declaration}) {{}}").parameters[1]


def test_a_signature_is_read_in_the_order_of_its_parameters() -> None:
    signature = parse(
        "__global__ void f(celerity::chunk<2> chunk, accessor<float, 2> u_next, accessor<const float, 2> u, float c2)"
    )
    assert [parameter.kind for parameter in signature.parameters] == ["chunk", "accessor", "accessor", "scalar"]
    assert [parameter.name for parameter in signature.parameters] == ["chunk", "u_next", "u", "c2"]
    assert [parameter.is_const for parameter in signature.parameters] == [False, False, True, False]
    assert signature.dims == 2
    assert str(signature) == (
        "f(celerity::chunk<2> chunk, accessor<float, 2> u_next, accessor<const float, 2> u, float c2)"
    )


@pytest.mark.parametrize(
    "head",
    [
        "__global__ void f",
        'extern "C" __global__ void f',
        "static __global__ void __launch_bounds__(256, 2) f",
        "__global__ __launch_bounds__(N * (2 + 1)) void f",
        "__launch_bounds__(32) __global__\nvoid\nf ",
        "__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(8) f",
        "namespace a { __global__ void f",
        "template <typename T> __device__ T g(T);\n__global__ void f",
    ],
)
def test_attributes_around_the_name_do_not_matter(head: str) -> None:
    assert parse(f"{head}(celerity::chunk<1> c, int n) {{ f2(1); }}").parameters[1].dtype == np.int32


@pytest.mark.parametrize("tag", ["celerity::wrap", "wrap", "::celerity::wrap", "beyond"])
def test_an_accessor_says_that_its_buffer_is_periodic(tag: str) -> None:
    periodic = parameter_of(f"accessor<const float, 2, {tag}> u", prelude="using beyond = celerity::wrap;")
    assert (periodic.kind, periodic.dims, periodic.dtype, periodic.is_const) == ("accessor", 2, np.float32, True)
    assert periodic.wraps
    assert not parameter_of("accessor<const float, 2> u").wraps


def test_comments_and_strings_are_no_code() -> None:
    source = """
    // __global__ void f(int n) {}
    /* __global__ void f(celerity::chunk<3> c) {} */
    const char* text = "__global__ void f(int n) {} // ";
    const char* raw = R"x(__global__ void f(char c) {})x";
    constexpr int million = 1'000'000;
    __global__ void f(celerity::chunk<1> chunk, /* in */ accessor<const int /* four bytes */, 1> values, // out:
                      accessor<int, 1> out) {}
    """
    assert [parameter.name for parameter in parse(source).parameters] == ["chunk", "values", "out"]


def test_one_of_several_kernels_is_chosen_by_its_name() -> None:
    source = "__global__ void f1(celerity::chunk<1> c) {}\n__global__ void f(celerity::chunk<2> c, int n) {}"
    assert parse(source).dims == 2
    assert parse(source, "f1").dims == 1
    assert parse(f"namespace inner {{ {source} }}", "inner::f").dims == 2


@pytest.mark.parametrize(
    ("declaration", "kind", "dims", "dtype", "is_const"),
    [
        ("celerity::accessor<float, 2> x", "accessor", 2, "float32", False),
        ("const accessor<const unsigned long long, 3> x", "accessor", 3, "uint64", True),
        ("accessor<double const,0>x", "accessor", 0, "float64", True),
        ("const __grid_constant__ celerity :: accessor< float2 , 1 > x", "accessor", 1, "complex64", False),
        ("accessor<cuda::std::complex<double>, 1> x", "accessor", 1, "complex128", False),
        ("accessor<thrust::complex<float>, 1> x", "accessor", 1, "complex64", False),
        ("accessor<__half, 1> x", "accessor", 1, "float16", False),
        ("accessor<const celerity::element<float, 3, 3>, 2> x", "accessor", 2, ("float32", (3, 3)), True),
        ("accessor<element<unsigned char,4>,1> x", "accessor", 1, ("uint8", (4,)), False),
        ("float x", "scalar", 0, "float32", False),
        ("const unsigned x", "scalar", 0, "uint32", False),
        ("unsigned char const x = 3", "scalar", 0, "uint8", False),
        ("long int", "scalar", 0, "int64", False),
        ("std::size_t x", "scalar", 0, "uint64", False),
        ("::int64_t x", "scalar", 0, "int64", False),
        ("double2 x", "scalar", 0, "complex128", False),
        ("bool", "scalar", 0, "bool", False),
    ],
)
def test_declarations_are_understood(declaration: str, kind: str, dims: int, dtype: Any, is_const: bool) -> None:
    parameter = parameter_of(declaration)
    assert (parameter.kind, parameter.dims, parameter.dtype, parameter.is_const) == (
        kind,
        dims,
        np.dtype(dtype),
        is_const,
    )


@pytest.mark.parametrize(
    ("declaration", "op"),
    [
        ("celerity::reducer<double, celerity::max> r", "max"),
        ("reducer<int, celerity::bitwise_xor> r", "xor"),
        ("reducer<bool, celerity::logical_and> r", "and"),
        ("reducer<float2, celerity::sum, 3> r", "sum"),
    ],
)
def test_reducers_name_their_operation(declaration: str, op: str) -> None:
    parameter = parameter_of(declaration)
    assert (parameter.kind, parameter.op, parameter.name) == ("reducer", op, "r")


@pytest.mark.parametrize(
    ("declaration", "dtype"),
    [
        ("celerity::placed<float>", celerity.placed(np.float32)),
        ("placed<float, 1>", celerity.placed(np.float32)),
        ("placed<unsigned short, 2>", celerity.placed(np.uint16, 2)),
        ("placed<double, 3>", celerity.placed(np.float64, 3)),
    ],
)
def test_elements_with_places_are_those_of_placed(declaration: str, dtype: Any) -> None:
    parameter = parameter_of(f"reducer<{declaration}, celerity::argmax> out")
    assert (parameter.dtype, parameter.op, parameter.dims) == (dtype, "argmax", 0)
    spelling = spelling_of(dtype)
    assert spelling is not None
    assert dtype_of(spelling) == dtype


@pytest.mark.parametrize("text", ["placed<>", "placed<float2>", "placed<float, 4>", "placed<float, N>", "placed<Mine>"])
def test_elements_with_other_places_have_no_dtype(text: str) -> None:
    assert dtype_of(text) is None


def test_a_dtype_that_only_looks_like_a_placed_one_has_no_spelling() -> None:
    packed = np.dtype([("value", np.float32), ("place", np.int64)])
    assert spelling_of(packed) is None


def test_a_value_with_a_place_is_no_plain_value() -> None:
    with pytest.raises(UsageError, match="has a type that no argument converts to"):
        parameter_of("celerity::placed<float> where")


@pytest.mark.parametrize(("declaration", "dims"), [("Op", 0), ("Op, 0", 0), ("Op, 1", 1), ("Op, DIMS", 3)])
def test_reducers_have_as_many_dimensions_as_their_buffers(declaration: str, dims: int) -> None:
    reducer = f"reducer<unsigned, {declaration.replace('Op', 'sum')}>"
    parameter = parameter_of(f"{reducer} r", "#define DIMS 3")
    assert (parameter.dims, parameter.dtype) == (dims, np.uint32)


@pytest.mark.parametrize(
    "prelude",
    [
        "using real = double; constexpr int D = 2;",
        "typedef double real;\nconst int D = 2;",
        "#define real double\n#define D 2",
        "using number = double; using real = number; constexpr int D = 2;",
    ],
)
def test_aliases_of_types_and_dimensions_are_followed(prelude: str) -> None:
    parameter = parameter_of("accessor<const real, D> x, real factor", prelude)
    assert (parameter.dtype, parameter.dims, parameter.is_const) == (np.float64, 2, True)
    assert parameter.text == "accessor<const real, D> x"


def test_aliases_in_a_circle_end() -> None:
    with pytest.raises(UsageError, match="`a x` has a type that no argument converts to"):
        parameter_of("a x", "#define a b\n#define b a")


def test_a_type_of_the_user_stays_what_it_is() -> None:
    parameter = parameter_of("accessor<Particle, 1> x", "struct Particle { float x, y, z; };")
    assert (parameter.element, parameter.dtype) == ("Particle", None)


@pytest.mark.parametrize("text", ["element<float>", "element<Particle, 3>", "element<float, 0>", "element<float, N>"])
def test_elements_of_unknown_extents_are_left_to_the_compiler(text: str) -> None:
    assert parameter_of(f"accessor<{text}, 1> x").dtype is None


def test_an_element_is_no_plain_value() -> None:
    with pytest.raises(UsageError, match="`celerity::element<float, 3> x` has a type that no argument converts to"):
        parameter_of("celerity::element<float, 3> x")


def test_extents_of_elements_may_have_names() -> None:
    prelude = "constexpr int N = 3;\nusing Matrix = celerity::element<double, N, N>;"
    parameter = parameter_of("accessor<Matrix, 1> x", prelude)
    assert parameter.dtype == np.dtype((np.float64, (3, 3)))
    assert spelling_of(np.dtype((np.float64, (3, 3)))) == "celerity::element<double, 3, 3>"


@pytest.mark.parametrize(("dtype", "spelling"), SPELLINGS.items())
def test_what_messages_suggest_for_a_dtype_is_understood(dtype: str, spelling: str) -> None:
    assert dtype_of(spelling) == np.dtype(dtype)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", r"who: the source defines no kernel `__global__ void f\(...\)`. It has no __global__ function at all"),
        ("__global__ void g(celerity::chunk<1> c) {}", r"defines no kernel `__global__ void f\(...\)`. It has g"),
        ("__device__ void f(celerity::chunk<1> c) {}", "defines no kernel"),
        ("__global__ void f() {}", "its first parameter must be a celerity::chunk<D>, but there is none"),
        ("__global__ void f(void) {}", "its first parameter must be a celerity::chunk<D>, but there is none"),
        ("__global__ void f(int n, celerity::chunk<1> c) {}", "its first parameter must be .*, not int n"),
        ("__global__ void f(celerity::chunk<1> a, celerity::chunk<1> b) {}", "more than one celerity::chunk"),
        ("__global__ void f(celerity::chunk<4> c) {}", "from 0 to 3, not 4"),
        ("__global__ void f(celerity::chunk<N> c) {}", "from 0 to 3, not N"),
        ("__global__ void f(celerity::chunk<1> c, accessor<float> x) {}", r"is no celerity::accessor<T, D>"),
        ("__global__ void f(celerity::chunk<1> c, accessor<float, 1, around> x) {}", r"is no celerity::accessor<T, D>"),
        ("__global__ void f(celerity::chunk<1> c, float* x) {}", "`float\\* x` is a pointer, a reference or an array"),
        ("__global__ void f(celerity::chunk<1> c, const float& x) {}", "a pointer, a reference or an array"),
        ("__global__ void f(celerity::chunk<1> c, Options x) {}", "`Options x` has a type that no argument converts"),
        ("__global__ void f(celerity::chunk<1> c, reducer<int, plus> r) {}", "needs one of celerity::sum, .*not plus"),
        ("__global__ void f(celerity::chunk<1> c, reducer<int, sum, 4> r) {}", "dimensions from 0 to 3, not 4"),
        (
            "__global__ void f(celerity::chunk<1> c, reducer<int> r) {}",
            "is no celerity::reducer<T, Op, D> or celerity::reducer<T, Op>",
        ),
        ("template <int D> __global__ void f(celerity::chunk<D> c) {}", "f is a template"),
        (
            "__global__ void f(celerity::chunk<1> c) {}\n__global__ void f(celerity::chunk<2> c) {}",
            "defines f more than once, with different parameters",
        ),
    ],
)
def test_what_is_no_kernel_of_ours_is_refused(source: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(source)


def test_a_declaration_in_front_of_the_definition_does_no_harm() -> None:
    parse("__global__ void f(celerity::chunk<1> c);\n__global__ void f(celerity::chunk<1>   c) {}")
