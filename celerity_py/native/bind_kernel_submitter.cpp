// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/core/backends/cuda/cuda_function.hpp"
#include "kernel_submitter.hpp"
#include "task_building.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace celerity;
using namespace celerity::native;

void bind_kernel_submitter(nb::module_& m);

namespace {

void remember(kernel_submitter& self, const nb::handle kernel, const nb::tuple& args, const nb::handle hints, const user_box& space, const bool split_2d,
    const std::uint32_t oversubscribe, const std::uint32_t border, std::shared_ptr<cuda_function> native, nb::object pack, std::vector<std::size_t> scalars,
    const std::uint64_t code_digest) {
	submit_memo::entry found;
	found.geometry = make_kernel("", space, nb::tuple(), nb::tuple(), nb::none(), split_2d, oversubscribe, border).geometry;
	found.native = std::move(native);
	found.pack = std::move(pack);
	found.scalars = std::move(scalars);
	found.code_digest = code_digest;
	self.remember(kernel.ptr(), args.ptr(), hints.ptr(), std::move(found));
}

} // namespace

void bind_kernel_submitter(nb::module_& m) {
	m.def("access_maker", &make_access_maker, "access_class"_a, nb::sig("def access_maker(access_class: type[typing.Any]) -> typing.Any"),
	    "A function new_access(buffer, mapper, port) that makes an access, an instance of this class.");
	nb::class_<submit_memo>(m, "SubmitMemo", "What submits of one kernel have found out; see KernelSubmitter.")
	    .def(nb::init<>())
	    .def(
	        "__reduce__", [](const nb::handle self) { return nb::make_tuple(self.type(), nb::tuple()); },
	        nb::sig("def __reduce__(self) -> tuple[type, tuple[()]]"), "A copy of a kernel begins anew.");
	nb::class_<kernel_submitter>(m, "KernelSubmitter",
	    "Submits kernels whose arguments have been checked before: the part of Queue.parallel_for that runs every time. With the GIL, on the thread that "
	    "submits.")
	    .def(nb::init<submission_table&, nb::handle, nb::object, nb::dict, const nb::dict&, bool>(), "table"_a, "runtime"_a, "inside"_a, "boxes"_a, "classes"_a,
	        "is_cuda"_a, nb::keep_alive<1, 2>(),
	        "inside: ids of threads that must not submit. boxes: shape -> Box of those seen before. classes: Access, CudaKernel, Hint, Kernel, Port and "
	        "Submission, by name.")
	    .def(
	        "repeat",
	        [](kernel_submitter& self, const nb::handle kernel, const nb::handle shape, const nb::tuple& args, const nb::handle name, const nb::handle hints,
	            const nb::handle frame) { return self.repeat(kernel.ptr(), shape.ptr(), args.ptr(), name.ptr(), hints.ptr(), frame.ptr()); },
	        "kernel"_a.none(), "shape"_a.none(), "args"_a, "name"_a.none(), "hints"_a.none(), "frame"_a,
	        "The id of the submission; 0 if nothing has happened because something is new, wrong, or has to wait.")
	    .def("remember", &remember, "kernel"_a, "args"_a, "hints"_a.none(), "box"_a, "split_2d"_a, "oversubscribe"_a, "border"_a, "function"_a.none(),
	        "pack"_a.none(), "scalars"_a, "code_digest"_a = 0, R"(Submit this kernel with arguments of these kinds, and these hints, by `repeat` from now on.

function: a CudaFunction that the executor launches. pack: makes the bytes of its scalars, which are at the positions `scalars` of `args`.)")
	    .def("refuse", &kernel_submitter::refuse, "Repeat nothing any more.")
	    .def_prop_ro("num_submitted", &kernel_submitter::num_submitted)
	    .def_prop_ro("busy_ns", &kernel_submitter::busy_ns, "Time in submits.");
}
