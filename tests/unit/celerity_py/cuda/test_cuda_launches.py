# SPDX-License-Identifier: MIT
"""CUDA kernels and the arguments of their launches: which ones fit, and the errors otherwise."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import _native, access
from celerity_py._native import Box
from celerity_py.cuda.launches import prepare_launch
from celerity_py.errors import ArgumentTypeError, DimensionMismatch, UsageError
from celerity_py.reductions.combinations import combination_of_name
from celerity_py.reductions.partial_results import ReductionPort
from celerity_py.runtime import lifecycle
from celerity_py.vocabulary.accesses import READ, READ_WRITE, WRITE
from tests.support.fake_gpus import FakeGpus, fake_record, kernel_of, port, prepare, stand_in_for_gpus, submission_of

CudaFunction = _native.CudaFunction  # tests replace it


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    return stand_in_for_gpus(monkeypatch)


# ---- the launch that the native executor gets


def test_a_kernel_that_fits_is_described_to_the_executor(gpus: FakeGpus) -> None:
    total = ReductionPort(fake_record((1,), np.int16), "prod")
    scalars = prepare(
        gpus,
        "accessor<float, 2> a, reducer<short, celerity::prod> r, accessor<const double, 0> b, int n, unsigned char c",
        port(READ_WRITE),
        total,
        port(READ, (), np.float64),
        7,
        np.uint8(255),
    )
    assert scalars == struct.pack("=iB", 7, 255)
    assert gpus.native == {
        "functions": [100, 102],
        "block": (8, 32),
        "grid": None,
        "shared_bytes": 0,
        "parameters": [
            ("chunk", 2, 0, b""),
            ("accessor", 2, 4, b""),
            ("reducer", 0, 0, b"\x01\x00"),
            ("accessor", 0, 8, b""),
            ("scalar", 0, 4, b""),
            ("scalar", 0, 1, b""),
        ],
        "checks_bounds": False,
        "items": (),
    }


@pytest.mark.parametrize(
    ("dims", "given", "block"),
    [
        (0, None, ()),
        (1, None, (256,)),
        (2, None, (8, 32)),
        (3, None, (4, 8, 8)),
        (0, (64,), (64,)),
        (1, 128, (128,)),
        (3, [1, 2, 3], (1, 2, 3)),
    ],
)
def test_blocks_have_the_dimensions_of_the_chunk(gpus: FakeGpus, dims: int, given: Any, block: tuple[int, ...]) -> None:
    prepare(gpus, "", dims=dims, block=given)
    assert gpus.native["block"] == block


def test_a_grid_is_passed_on(gpus: FakeGpus) -> None:
    prepare(gpus, "", dims=2, grid=(3, 4))
    assert gpus.native["grid"] == (3, 4)


@pytest.mark.parametrize(
    ("dims", "given", "constants"), [(1, 8, "1,1,8"), (2, (2, 4), "1,2,4"), (3, [1, 2, 3], "1,2,3"), (0, (5,), "1,1,5")]
)
def test_the_compiler_and_the_executor_get_the_items_of_a_thread(
    gpus: FakeGpus, dims: int, given: Any, constants: str
) -> None:
    prepare(gpus, "", dims=dims, items=given)
    assert gpus.native["items"] == (tuple(given) if dims != 1 else (8,))
    assert gpus.programs[0].options == (f"-DCELERITY_ITEMS={constants}",)
    prepare(gpus, "", dims=dims)
    assert gpus.native["items"] == ()
    assert gpus.programs[1].options == ()


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        ((0, 4), UsageError, r"items=\(0, 4\)\): from 1 to 1024, 1024, 1024 are possible"),
        ((1, 1025), UsageError, r"items=\(1, 1025\)\): from 1 to 1024, 1024, 1024 are possible"),
        (-1, UsageError, r"items=\(-1,\)\): from 1 to"),
        ((1, 1, 1, 1), DimensionMismatch, "has 4 dimensions, but CUDA has 3"),
        (1.5, ArgumentTypeError, r"one int per dimension as items=, not 1\.5"),
        ((2, "4"), ArgumentTypeError, r"one int per dimension as items=, not \(2, '4'\)"),
    ],
)
def test_impossible_items_are_refused(items: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        kernel_of("", items=items)


def test_bounds_are_checked_if_the_configuration_says_so(gpus: FakeGpus) -> None:
    gpus.runtime.configuration.bounds_check = True
    prepare(gpus, "accessor<float, 2> a", port(WRITE))
    assert gpus.native["checks_bounds"] is True
    assert gpus.programs[0].options == ("-DCELERITY_BOUNDS_CHECK=1",)


def test_structured_elements_are_left_to_the_compiler(gpus: FakeGpus) -> None:
    dtype = [("x", "f4"), ("tag", "i8")]
    prepare(gpus, "accessor<Particle, 1> a", port(WRITE, (8,), dtype), prelude="struct Particle { float x; };\n")
    assert gpus.native["parameters"][1] == ("accessor", 1, 12, b"")
    assert gpus.programs[0].checks[0].startswith("static_assert(sizeof(Particle) == 12,")


def test_arrays_as_elements_are_compared_with_the_parameter(gpus: FakeGpus) -> None:
    prepare(gpus, "accessor<const celerity::element<float, 3, 3>, 2> a", port(dtype=(np.float32, (3, 3))))
    assert gpus.native["parameters"][1] == ("accessor", 2, 36, b"")
    assert gpus.programs[0].checks == ()
    prepare(gpus, "accessor<const Matrix, 2> a", port(dtype=(np.float32, (3, 3))), prelude="struct Matrix {};\n")
    assert gpus.programs[1].checks[0].startswith("static_assert(sizeof(Matrix) == 36,")


def test_the_executor_learns_which_accessors_are_periodic(gpus: FakeGpus) -> None:
    parameters = "accessor<const float, 2, celerity::wrap> a, accessor<const float, 2> b"
    prepare(gpus, parameters, port().periodic, port())
    assert gpus.native["parameters"][1:] == [("periodic_accessor", 2, 4, b""), ("accessor", 2, 4, b"")]


# ---- when things happen


def test_a_plan_that_is_known_packs_other_values_and_is_not_made_again(gpus: FakeGpus) -> None:
    kernel = kernel_of("accessor<const float, 2> a, float c")
    plan = None
    for value in (1.0, 2.0, 3.0):
        launch = prepare_launch(gpus.runtime, submission_of(kernel, [port(), value]), plan)
        assert launch is not None
        plan, scalars = launch
        assert scalars == struct.pack("f", value)
    assert len(gpus.programs) == 1


def test_streams_are_drained_before_code_is_loaded_and_only_then(gpus: FakeGpus) -> None:
    prepare(gpus, "")
    assert gpus.drains == 1
    gpus.is_loaded = True
    prepare(gpus, "")
    assert gpus.drains == 1


# ---- what does not fit


@pytest.mark.parametrize(
    ("parameters", "args", "error", "message"),
    [
        (
            "accessor<float, 2> a",
            [],
            ArgumentTypeError,
            r"called with 0 argument\(s\), but .* takes 1 behind its chunk",
        ),
        ("", [1], ArgumentTypeError, r"called with 1 argument\(s\), but .* takes 0 behind its chunk"),
        (
            "accessor<const float, 2> a",
            [port(dtype=np.float64)],
            ArgumentTypeError,
            r'a read access to B3 "u", .* `accessor<const float, 2> a` .* float64, .* float \(float32\). Write double',
        ),
        (
            "int n, accessor<const Particle, 2> a",
            [1, port(dtype=np.int8)],
            ArgumentTypeError,
            "argument 2, .* elements are int8, those of the parameter Particle. Write signed char in the kernel",
        ),
        (
            "accessor<const celerity::element<float, 3>, 2> a",
            [port(dtype=(np.float32, (3, 3)))],
            ArgumentTypeError,
            r"float32 with element=\(3, 3\), .*float32 with element=\(3,\)\). Write celerity::element<float, 3, 3>",
        ),
        (
            "float a",
            [port(dtype=(np.float32, (3,)))],
            ArgumentTypeError,
            "Buffers are passed as accessor<const celerity::element<float, 3>, 2>",
        ),
        ("accessor<const int, 2> a", [port(dtype=">i4")], ArgumentTypeError, "are >i4, .* Use a type of 4 bytes"),
        ("accessor<const float, 1> a", [port()], DimensionMismatch, r"has 2 dimension\(s\), the accessor 1"),
        ("accessor<float, 2> a", [port()], ArgumentTypeError, "it must be const: accessor<const float, 2>"),
        ("accessor<const float, 2> a", [port(WRITE)], ArgumentTypeError, "must not be const: accessor<float, 2>"),
        ("float a", [port()], ArgumentTypeError, "Buffers are passed as accessor<const float, 2>"),
        (
            "accessor<const float, 2> a",
            [port().periodic],
            ArgumentTypeError,
            "goes on at the opposite side. A mapper with wrap=True needs accessor<const float, 2, celerity::wrap>",
        ),
        (
            "accessor<const float, 2, celerity::wrap> a",
            [port()],
            ArgumentTypeError,
            r"ends at the buffer. A mapper without wrap=True needs accessor<const float, 2>\.",
        ),
        ("reducer<float, celerity::sum> a", [port()], ArgumentTypeError, "Buffers are passed as"),
        ("accessor<const float, 2> a", [3], ArgumentTypeError, "3 of type int, .* needs an access such as buffer.read"),
        ("reducer<float, celerity::sum> a", [3], ArgumentTypeError, r"needs celerity.reduction\(\) there"),
        ("float a", ["x"], ArgumentTypeError, "'x' of type str, .* are numbers"),
        ("float a", [np.zeros(1)], ArgumentTypeError, "of type ndarray, .* are numbers"),
        ("bool a", [1], ArgumentTypeError, "1 of type int, .* Pass a bool"),
        (
            "accessor<float, 2> a",
            [ReductionPort(fake_record((1,)), "sum")],
            ArgumentTypeError,
            r"""the reduction 'sum' into B3 "u", .* passed as celerity::reducer<float, celerity::sum>\.""",
        ),
        (
            "accessor<float, 2> a",
            [ReductionPort(fake_record((4, 5), np.uint32), "and")],
            ArgumentTypeError,
            "passed as celerity::reducer<unsigned int, celerity::logical_and, 2>",
        ),
        (
            "reducer<float, celerity::sum> a",
            [ReductionPort(fake_record((8,)), "sum")],
            DimensionMismatch,
            r"the shape \(8,\), the reducer is for a single element. Write celerity::reducer<float, celerity::sum, 1>",
        ),
        (
            "reducer<float, celerity::sum, 1> a",
            [ReductionPort(fake_record((4, 2)), "sum")],
            DimensionMismatch,
            r"the shape \(4, 2\), the reducer 1. Write celerity::reducer<float, celerity::sum, 2>",
        ),
        (
            "reducer<float, celerity::sum, 1> a",
            [ReductionPort(fake_record(()), "sum")],
            DimensionMismatch,
            r"0 dimension\(s\) and the shape \(\), the reducer 1. Write celerity::reducer<float, celerity::sum>",
        ),
        (
            "reducer<double, celerity::sum> a",
            [ReductionPort(fake_record((1,)), "sum")],
            ArgumentTypeError,
            r"elements are float32, those of the parameter double \(float64\). Write float",
        ),
        (
            "reducer<float, celerity::max> a",
            [ReductionPort(fake_record((1,)), "min")],
            ArgumentTypeError,
            "the reduction 'min' .* The kernel combines by 'max'",
        ),
    ],
)
def test_a_mismatch_names_both_sides_and_the_line(
    gpus: FakeGpus, parameters: str, args: list[Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        prepare(gpus, parameters, *args)
    assert 'kernel "step" (submitted at ' in str(caught.value)
    assert "fake_gpus.py:" in str(caught.value)
    assert str(caught.value).endswith("Nothing was submitted.")
    assert not gpus.programs


def test_reducers_fit_buffers_of_their_dimensions_and_those_of_one_element(gpus: FakeGpus) -> None:
    parameters = "reducer<float, celerity::min, 2> a, reducer<int, celerity::sum, 1> b, reducer<int, celerity::sum> c"
    prepare(
        gpus,
        parameters,
        ReductionPort(fake_record((4, 5)), "min"),
        ReductionPort(fake_record((1,), np.int32), "sum"),
        ReductionPort(fake_record((1,), np.int32), "sum"),
    )
    assert gpus.native["parameters"][1:] == [
        ("reducer", 2, 0, np.float32(np.inf).tobytes()),
        ("reducer", 1, 0, bytes(4)),
        ("reducer", 0, 0, bytes(4)),
    ]


@pytest.mark.parametrize(
    ("shape", "parameter"),
    [((), "celerity::placed<float, 2>, celerity::argmin"), ((3,), "celerity::placed<float, 2>, celerity::argmin, 1")],
)
def test_elements_with_places_begin_nowhere(gpus: FakeGpus, shape: tuple[int, ...], parameter: str) -> None:
    dtype = celerity.placed(np.float32, 2)
    record = fake_record(shape, dtype)
    record.combinations = []
    record.runtime = SimpleNamespace(keep_record=lambda record: None)
    found = ReductionPort(record, "argmin", combination=combination_of_name("argmin", record))
    prepare(gpus, f"reducer<{parameter}> found", found)
    expected = np.zeros((), dtype)
    expected["value"], expected["place"] = np.inf, -1
    assert gpus.native["parameters"][1] == ("reducer", len(shape), 0, expected.tobytes())
    with pytest.raises(ArgumentTypeError, match=r"Write celerity::placed<float, 2>"):
        prepare(gpus, "reducer<celerity::placed<float>, celerity::argmin> found", found)


def test_reductions_into_other_shapes_are_of_another_kind() -> None:
    shapes = [(), (1,), (4,), (1, 1), (4, 5)]
    kinds = {ReductionPort(fake_record(shape), "sum").kind for shape in shapes}
    assert len(kinds) == len(shapes)
    assert ReductionPort(fake_record((4,)), "sum").kind == ReductionPort(fake_record((9,)), "sum").kind


def test_an_index_space_of_other_dimensions_is_refused(gpus: FakeGpus) -> None:
    kernel = kernel_of("", dims=1)
    with pytest.raises(
        DimensionMismatch, match=r"\[0:8, 0:8\] has 2 dimension\(s\), but the CUDA kernel takes a celerity::chunk<1> c"
    ):
        prepare_launch(gpus.runtime, submission_of(kernel, []), None)


@pytest.mark.parametrize("settings", [{"block": (32,)}, {"block": ()}, {"grid": (1, 1, 1)}, {"items": (4,)}])
def test_blocks_grids_and_items_of_other_dimensions_are_refused(gpus: FakeGpus, settings: Any) -> None:
    with pytest.raises(DimensionMismatch, match=r"dimension(\(s\)|s), but its chunk has 2"):
        prepare(gpus, "", **settings)


def test_what_the_compiler_says_is_passed_on(gpus: FakeGpus) -> None:
    with pytest.raises(UsageError, match="does not compile") as caught:
        prepare(gpus, "", prelude="syntax error\n")
    assert "made at " in str(caught.value)
    assert "fake_gpus.py:" in str(caught.value)
    assert str(caught.value).endswith("f.cu(2): error: expected a ';'")


def test_blocks_for_which_the_registers_do_not_suffice_are_refused(gpus: FakeGpus) -> None:
    gpus.most_threads = 128
    with pytest.raises(UsageError, match=r"blocks of 256 threads \(8, 32\), .* has room for 128"):
        prepare(gpus, "")


def test_much_shared_memory_is_asked_for(gpus: FakeGpus) -> None:
    prepare(gpus, "", shared_bytes=48 * 1024)
    assert not gpus.allowed
    prepare(gpus, "", shared_bytes=100_000)
    assert gpus.allowed == [100_000, 100_000]
    with pytest.raises(UsageError, match="shared_bytes=300000, but GPU 0 has 200000 bytes"):
        prepare(gpus, "", shared_bytes=300_000)


# ---- from the queue to the executor


@pytest.fixture
def queue_of_gpus(gpus: FakeGpus) -> Iterator[celerity.Queue]:
    """A queue that takes CUDA kernels, which the CPU backend then does not find."""
    with celerity.Queue() as queue:
        runtime: Any = lifecycle.current()
        devices = runtime.devices
        runtime.devices = dataclasses.replace(devices, backend="cuda")
        yield queue
        runtime.devices = devices


def test_a_kernel_without_implementation_for_gpus_is_refused(queue_of_gpus: celerity.Queue) -> None:
    with pytest.raises(UsageError, match="no implementation for the CUDA backend"):
        queue_of_gpus.parallel_for(8, celerity.kernel(cpu=print))
    queue_of_gpus.wait()


def test_a_refused_submission_leaves_neither_record_nor_launch(
    queue_of_gpus: celerity.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = CudaFunction(functions=[1], block=(8, 32), grid=None, shared_bytes=0, parameters=[("chunk", 2, 0, b"")])
    monkeypatch.setattr(_native, "CudaFunction", lambda **_: made)
    buffer = celerity.Buffer(8, np.float32)
    runtime: Any = lifecycle.current()
    expected = runtime.next_id
    for _ in range(2):
        with pytest.raises(DimensionMismatch, match="Nothing was submitted"):
            queue_of_gpus.parallel_for(
                Box((2, 0), (8, 4)), kernel_of("accessor<float, 1> a, int n"), buffer.write(access.one_to_one()), 7
            )
        assert runtime.next_id == expected
        assert expected not in runtime.submissions
    runtime.devices = dataclasses.replace(runtime.devices, backend="cpu")
    ran: list[celerity.Box] = []
    queue_of_gpus.parallel_for(8, lambda chunk: ran.append(chunk.box))  # would be launched, if a launch were left
    queue_of_gpus.wait()
    assert ran == [Box((0,), (8,))]
