# SPDX-License-Identifier: MIT
"""The header of CUDA kernels, compiled for the host: layouts as the native executor fills them in, and arithmetic."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py.cuda import compilation
from celerity_py.reductions.operations import BY_DEVICE_TYPE, OPERATIONS, identity_of

ROOT = Path(__file__).parents[4]
COMPILER = shutil.which(os.environ.get("CXX", "c++"))
INCLUDES = [f"-I{ROOT / folder}" for folder in ("celerity_py/cuda", "tests/unit/celerity_py/cuda")]
MAX_BOXES = 8

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "bounds_check"])
def checks_bounds(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def lines(checks_bounds: bool, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The output of the program: values by name."""
    program = tmp_path_factory.mktemp("device_header") / "check"
    assert COMPILER is not None
    command = [COMPILER, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"]
    command += [f"-DCELERITY_BOUNDS_CHECK={int(checks_bounds)}", *INCLUDES]
    command += [str(ROOT / "tests/unit/celerity_py/cuda/device_header_check.cpp"), "-o", str(program)]
    subprocess.run(command, check=True, timeout=120)
    output = subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=60).stdout
    words = [line.split() for line in output.splitlines()]
    return {line[0] if len(line) == 4 and "_" in line[0] else " ".join(line[:-1]): line for line in words}


def value(lines: dict[str, list[str]], name: str) -> int:
    return int(lines[name][-1])


@pytest.mark.parametrize("dims", range(4))
def test_chunks_lie_as_the_executor_packs_them(lines: dict[str, list[str]], dims: int) -> None:
    size = 8 * max(dims, 1)
    assert value(lines, f"sizeof chunk{dims}") == 4 * size
    offsets = [value(lines, f"chunk{dims}.{field}") for field in ("min", "max", "global_min", "global_max")]
    assert offsets == [0, size, 2 * size, 3 * size]


@pytest.mark.parametrize("dims", range(4))
def test_accessors_lie_as_the_executor_packs_them(lines: dict[str, list[str]], dims: int, checks_bounds: bool) -> None:
    fields = {"data": 8, "stride": 8 * max(dims - 1, 1), "extent": 8 * max(dims, 1)}
    check_fields(lines, f"accessor{dims}", fields, dims, checks_bounds)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_periodic_accessors_lie_as_the_executor_packs_them(
    lines: dict[str, list[str]], dims: int, checks_bounds: bool
) -> None:
    part = 8 + 8 * max(dims - 1, 1)
    fields = {"parts": 2**dims * part, "split": 8 * dims, "extent": 8 * dims}
    check_fields(lines, f"periodic{dims}", fields, dims, checks_bounds)
    assert value(lines, f"periodic{dims}.parts[1].stride") == part + 8


def check_fields(
    lines: dict[str, list[str]], name: str, fields: dict[str, int], dims: int, checks_bounds: bool
) -> None:
    """Compare the places of the fields of an accessor with their sizes in bytes."""
    if checks_bounds:
        corners = 8 * max(dims, 1) * MAX_BOXES
        fields |= {"bounds.num_boxes": 8, "bounds.low": corners, "bounds.high": corners}
        fields |= {"bounds.report": 8, "bounds.access": 8}
    offset = 0
    for field, size in fields.items():
        assert value(lines, f"{name}.{field}") == offset
        offset += size
    assert value(lines, f"sizeof {name}") == offset


def test_a_value_stands_for_elements_outside_of_the_buffer(lines: dict[str, list[str]], checks_bounds: bool) -> None:
    assert value(lines, "wrong elements or values") == 0
    assert value(lines, "claimed around the buffer") == 0
    assert value(lines, "at_or of a single element") == 3
    if checks_bounds:
        assert value(lines, "claimed column") == 1


def test_a_periodic_accessor_goes_on_at_the_opposite_side(lines: dict[str, list[str]], checks_bounds: bool) -> None:
    assert value(lines, "wrong in periodic buffers") == 0
    assert value(lines, "claimed in the periodic halo") == 0
    if checks_bounds:
        assert value(lines, "claimed row") == 37


def test_elements_that_are_arrays_lie_as_those_of_numpy(lines: dict[str, list[str]]) -> None:
    assert value(lines, "sizeof matrix") == np.dtype((np.float32, (2, 3))).itemsize
    expected = np.zeros((4, 2, 3), np.float32)
    expected[2, 0, 1], expected[2, 1, 2] = 5, 7
    assert [value(lines, f"component {n}") for n in range(24)] == expected.ravel().tolist()
    assert value(lines, "component read") == 7
    assert value(lines, "sum of a vector") == 5


def test_the_executor_packs_as_many_boxes_as_the_header_takes() -> None:
    header = compilation.headers()[b"celerity_device.cuh"].decode()
    packed = (ROOT / "executor/core/backends/cuda/cuda_function.hpp").read_text()
    (in_header,) = re.findall(r"constexpr int max_boxes = (\d+);", header)
    (in_executor,) = re.findall(r"constexpr std::size_t max_checked_boxes = (\d+);", packed)
    assert int(in_header) == int(in_executor) == MAX_BOXES


def test_reducers_and_violations_lie_as_the_executor_expects_them(
    lines: dict[str, list[str]], checks_bounds: bool
) -> None:
    assert value(lines, "sizeof reducer0") == 8
    assert value(lines, "reducer0.partial") == 0
    for dims in (1, 3):
        fields = {"partial": 8, "extent": 8 * dims} | ({"report": 8, "access": 8} if checks_bounds else {})
        offset = 0
        for field, size in fields.items():
            assert value(lines, f"reducer{dims}.{field}") == offset
            offset += size
        assert value(lines, f"sizeof reducer{dims}") == offset
    assert value(lines, "sizeof violation") <= 256
    assert [value(lines, f"violation.{field}") for field in ("claimed", "access", "index")] == [0, 4, 8]


def test_each_item_is_that_of_one_thread_in_global_coordinates(lines: dict[str, list[str]]) -> None:
    assert value(lines, "wrong items") == 0
    # 0-D: 4 - 1; 1-D: 8 - 7; 2-D: 6 x 8 - 5 x 7; 3-D: 4 x 4 x 8 - 3 x 3 x 7
    assert value(lines, "overhanging threads") == 3 + 1 + 13 + 65


def test_neighbours_are_loaded_and_stored_wherever_they_lie(lines: dict[str, list[str]], checks_bounds: bool) -> None:
    assert value(lines, "wrong neighbours") == 0
    if not checks_bounds:
        return
    assert value(lines, "claimed by a load inside") == 0
    assert value(lines, "claimed by a load past the end") == 14
    assert value(lines, "claimed by a store past the end") == 14
    assert value(lines, "stored inside") == 2


@pytest.mark.parametrize(
    ("type_of_element", "count", "fits"),
    [("float", 4, True), ("char", 16, True), ("float", 3, False), ("float", 0, False), ("double", 4, False)],
)
def test_so_many_neighbours_fit_into_one_access(type_of_element: str, count: int, fits: bool, tmp_path: Path) -> None:
    source = tmp_path / "neighbours.cpp"
    text = (ROOT / "tests/unit/celerity_py/cuda/device_header_check.cpp").read_text()
    use = f"auto neighbours_at(accessor<const {type_of_element}, 1> a) {{ return a.load<{count}>(0)[0]; }}\n"
    source.write_text(text + use)
    command = [str(COMPILER), "-std=c++17", "-fsyntax-only", *INCLUDES, str(source)]
    outcome = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (outcome.returncode == 0) == fits, outcome.stderr
    assert ("load<N> and store<N> access 1, 2, 4, 8 or 16 neighbours" in outcome.stderr) != fits


@pytest.mark.parametrize(
    ("reducer", "use", "fits"),
    [
        ("int, celerity::sum", "out.combine(0.6)", False),
        ("bool, celerity::logical_or", "out.combine(0.6f)", False),
        ("long long, celerity::max", "out.combine_block(1e9)", False),
        ("unsigned, celerity::sum, 1", "out(3).combine(0.6f)", False),
        ("unsigned, celerity::sum, 1", "{ unsigned shared[4]; out.in_block(shared)(3).combine(0.6); }", False),
        ("int, celerity::sum", "out.combine((int)0.6)", True),
        ("int, celerity::sum", "out.combine(7u)", True),
        ("unsigned, celerity::sum, 1", "out(3).combine(1)", True),
        ("float, celerity::sum, 1", "out(3).combine(0.6)", True),
        ("float, celerity::sum", "out.combine_block(1)", True),
        ("float2, celerity::sum", "out.combine({1, 0.5f})", True),
    ],
)
def test_a_fraction_does_not_go_into_integers(reducer: str, use: str, fits: bool, tmp_path: Path) -> None:
    source = tmp_path / "fraction.cpp"
    text = (ROOT / "tests/unit/celerity_py/cuda/device_header_check.cpp").read_text()
    source.write_text(f"{text}\nvoid combine_some(const reducer<{reducer}> out) {{ {use}; }}\n")
    command = [str(COMPILER), "-std=c++17", "-fsyntax-only", *INCLUDES, str(source)]
    outcome = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (outcome.returncode == 0) == fits, outcome.stderr
    assert ("the elements of this reduction are integers: convert" in outcome.stderr) != fits


def test_each_item_belongs_to_one_of_the_threads_that_have_several(tmp_path: Path) -> None:
    source, program = tmp_path / "items.cpp", tmp_path / "items"
    text = (ROOT / "tests/unit/celerity_py/cuda/device_header_check.cpp").read_text().partition("int main()")[0]
    source.write_text(
        text
        + """
    int main() {
        const chunk<2> where{{3, 100}, {9, 112}, {0, 0}, {50, 200}};
        std::vector<int> memory;
        auto a = make_accessor<int, 2>(memory, {3, 100}, {9, 112}, nullptr);
        const auto visit = [&] {
            const auto [top, left] = where.item().index;
            for(int i = 0; i < where.items(0); ++i)
                for(int j = 0; j < where.items(1); ++j) a(top + i, left + j) += 1;
        };
        const chunk<2> threads{{0, 0}, {6 / where.items(0), 12 / where.items(1)}, {}, {}};
        launch(threads, {2, 2, 1}, visit);
        for(const int count : memory) std::printf("%d ", count);
        std::printf("steps %lld %lld\\n", where.step(0), where.step(1));
    }
    """
    )
    command = [str(COMPILER), "-std=c++17", "-DCELERITY_ITEMS=1,3,2", *INCLUDES, str(source)]
    subprocess.run([*command, "-o", str(program)], check=True, timeout=120)
    output = subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=60).stdout
    # 1 x 3 blocks of 2 x 2 threads
    assert output.split() == [*["1"] * 6 * 12, "steps", "6", "12"]


def test_offsets_are_computed_in_64_bits(lines: dict[str, list[str]]) -> None:
    assert value(lines, "far element") == 1


def test_the_first_element_outside_is_reported_and_no_memory_is_touched(
    lines: dict[str, list[str]], checks_bounds: bool
) -> None:
    if not checks_bounds:
        assert "claimed outside" not in lines
        return
    assert value(lines, "claimed inside") == 0
    assert value(lines, "claimed outside") == 1
    assert value(lines, "access") == 4
    assert [value(lines, "index 0"), value(lines, "index 1")] == [4, 6]
    assert value(lines, "touched") == 4


DTYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DTYPES += ["bool", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("name", BY_DEVICE_TYPE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reducers_combine_as_numpy_does(lines: dict[str, list[str]], name: str, dtype: str) -> None:
    kind = np.dtype(dtype).kind
    op = BY_DEVICE_TYPE[name]
    if (kind == "c" and op in {"min", "max", "xor"}) or (kind == "f" and op == "xor"):
        assert f"{dtype}_{name}" not in lines
        return
    _, identity, result, damaged = lines[f"{dtype}_{name}"]
    values = np.array([3 + 1j, 1, 5 - 2j, 2]) if kind == "c" else np.array([3, 1, 5, 2])
    expected = np.asarray(identity_of(op, np.dtype(dtype)), dtype)
    assert bytes.fromhex(identity) == expected.tobytes()
    for item in values.astype(dtype):
        expected = OPERATIONS[op].combine(expected, item).astype(dtype)
    assert bytes.fromhex(result) == expected.tobytes()
    assert damaged == "0"


@pytest.mark.parametrize("name", ["array", "array in a block", "array that does not fit"])
def test_values_are_combined_with_their_elements(lines: dict[str, list[str]], name: str) -> None:
    expected = np.zeros(6, int)
    np.add.at(expected, np.arange(12) * 5 % 6, np.arange(12))
    expected[0] += 3
    assert [value(lines, f"{name} {i}") for i in range(6)] == expected.tolist()
    if name == "array in a block":
        assert value(lines, f"{name} before the flush") == 0


def test_elements_of_an_array_lie_in_row_major_order(lines: dict[str, list[str]]) -> None:
    assert value(lines, "size of an array") == 3 * 5 * 7
    assert value(lines, "last element") == 9
    assert value(lines, "element of the second plane") == 3
    assert value(lines, "total of the array") == 12


def test_a_value_for_an_element_outside_is_reported_and_dropped(
    lines: dict[str, list[str]], checks_bounds: bool
) -> None:
    if not checks_bounds:
        assert "claimed by a value inside" not in lines
        return
    assert value(lines, "claimed by a value inside") == 0
    assert value(lines, "claimed by a value past the end") == 4
    assert value(lines, "reduction of the violation") == 2
    assert value(lines, "claimed by a value before the start") == -1
    assert value(lines, "sum of all values") == 1


def test_each_block_has_a_partial_result_to_itself(lines: dict[str, list[str]], checks_bounds: bool) -> None:
    assert [value(lines, f"twice of block {block}") for block in range(6)] == [1, 3, 5, 21, 23, 25]
    assert value(lines, "sizeof celerity::ordered_reducer<double COMMA celerity::sum>") == (32 if checks_bounds else 16)


def test_extrema_of_equal_numbers_do_not_depend_on_the_order(lines: dict[str, list[str]]) -> None:
    negative_zero = 1 << 31
    for swapped in ("", ", swapped"):
        assert value(lines, f"minimum of two zeros{swapped}") == negative_zero
        assert value(lines, f"maximum of two zeros{swapped}") == 0
    assert value(lines, "nan") == 0x7FC00000


def test_elements_with_places_lie_as_those_of_numpy(lines: dict[str, list[str]]) -> None:
    assert value(lines, "sizeof celerity::placed<float>") == celerity.placed(np.float32).itemsize
    assert value(lines, "sizeof celerity::placed<signed char COMMA 3>") == celerity.placed(np.int8, 3).itemsize


@pytest.mark.parametrize(("op", "extremum", "place"), [("argmin", 1, 1), ("argmax", 3, 0)])
def test_extrema_keep_the_lowest_place_of_their_value(
    lines: dict[str, list[str]], op: str, extremum: int, place: int
) -> None:
    assert value(lines, f"{op} of no values") == -2
    assert value(lines, f"{op} begins at the end") == 1
    for what in ("of one", "of numbers"):
        assert (value(lines, f"{op} {what} value"), value(lines, f"{op} {what} place")) == (extremum, place)
    assert (value(lines, f"{op} of nan value"), value(lines, f"{op} of nan place")) == (-99, 102)


def test_minima_and_maxima_pass_nan_on(lines: dict[str, list[str]]) -> None:
    assert value(lines, "nan minimum") == 1
    assert value(lines, "nan maximum") == 1
