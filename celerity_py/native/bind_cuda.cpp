// SPDX-License-Identifier: MIT
// The facts about the GPUs of the host that Python needs, and compiled kernels.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "bindings.hpp"
#include "executor/core/backends/cuda/cuda_backend.hpp"
#include "executor/core/backends/cuda/cuda_driver.hpp"
#include "executor/core/backends/cuda/cuda_function.hpp"
#include "look_up.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

/// (kind, dimensions, bytes, identity)
using flat_parameter = std::tuple<std::string, std::uint32_t, std::size_t, nb::bytes>;

cuda_function::parameter to_parameter(const flat_parameter& flat) {
	const auto& [kind, dims, size_bytes, identity] = flat;
	if(dims > 3) throw nb::value_error("chunks and accessors have at most 3 dimensions");
	const auto* const bytes = reinterpret_cast<const std::byte*>(identity.data());
	return {look_up<cuda_function::parameter::kind_type>(kind, "the kind of a parameter"), dims, size_bytes, {bytes, bytes + identity.size()}};
}

std::shared_ptr<cuda_function> make_function(const std::vector<std::uintptr_t>& functions, const std::vector<std::uint32_t>& block,
    const std::optional<std::vector<std::uint32_t>>& grid, const std::uint32_t shared_bytes, const std::vector<flat_parameter>& parameters,
    const bool checks_bounds, const std::vector<std::uint32_t>& items) {
	std::vector<cuda::function> handles;
	for(const auto handle : functions) handles.push_back(reinterpret_cast<cuda::function>(handle));
	std::vector<cuda_function::parameter> converted;
	for(const auto& description : parameters) converted.push_back(to_parameter(description));
	return std::make_shared<cuda_function>(std::move(handles), block, grid.value_or(std::vector<std::uint32_t>{}), shared_bytes, std::move(converted),
	    checks_bounds, items);
}

std::uintptr_t enter_context(const int ordinal) {
	static std::unordered_map<int, cuda::context> contexts; // with the GIL; they stay for as long as the process
	const auto& driver = cuda::get_driver();
	cuda::context previous = nullptr;
	driver.check(driver.context_get_current(&previous), "cuCtxGetCurrent");
	auto& context = contexts[ordinal];
	if(context == nullptr) {
		cuda::device device = 0;
		driver.check(driver.device_get(&device, ordinal), "cuDeviceGet");
		driver.check(driver.primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain");
	}
	driver.check(driver.context_set_current(context), "cuCtxSetCurrent");
	return reinterpret_cast<std::uintptr_t>(previous);
}

void leave_context(const std::uintptr_t previous) {
	cuda::get_driver().context_set_current(reinterpret_cast<cuda::context>(previous)); // a context that is broken has told it before
}

} // namespace

void bind_cuda(nb::module_& m) {
	nb::class_<cuda_function, native_kernel>(m, "CudaFunction", "A compiled CUDA kernel, ready to be launched on each device of this rank. Immutable.")
	    .def(nb::new_(&make_function), "functions"_a, "block"_a, "grid"_a.none(), "shared_bytes"_a, "parameters"_a, "checks_bounds"_a = false,
	        "items"_a = std::vector<std::uint32_t>{},
	        R"(functions: a CUfunction per local device. block, grid, items of each thread: extents, x last; a grid of None is derived from the chunk.

parameters, in the order of the kernel's: (kind, dimensions of a chunk or accessor, bytes of a scalar or element, identity of a reducer) each. The kinds
are "chunk", "accessor", "reducer" and "scalar".)");
	nb::class_<cuda_reductions>(m, "CudaReductions",
	    "The kernels that combine partial results on the devices of this rank, by operation and dtype. Any thread.")
	    .def(nb::init<>())
	    .def(
	        "add",
	        [](cuda_reductions& self, const std::string& op, const std::string& dtype, const std::vector<std::uintptr_t>& functions) {
		        std::vector<cuda::function> handles;
		        for(const auto handle : functions) handles.push_back(reinterpret_cast<cuda::function>(handle));
		        self.add(look_up<reduction_op>(op, "a reduction's op"), look_up<scalar_type>(dtype, "a reduction's dtype"), std::move(handles));
	        },
	        "op"_a, "dtype"_a, "functions"_a, "functions: a CUfunction per local device.");
	m.def(
	    "cuda_device_ids",
	    [] {
		    const auto& driver = cuda::get_driver();
		    int count = 0;
		    driver.check(driver.device_get_count(&count), "cuDeviceGetCount");
		    std::vector<std::string> ids;
		    for(int ordinal = 0; ordinal < count; ++ordinal) ids.push_back(cuda::unique_id(ordinal));
		    return ids;
	    },
	    "An identifier of each GPU that this process may use, the same in all processes. Raises RuntimeError if there is no CUDA driver.");
	m.def(
	    "cuda_device_name",
	    [](const int ordinal) {
		    const auto& driver = cuda::get_driver();
		    cuda::device device = 0;
		    driver.check(driver.device_get(&device, ordinal), "cuDeviceGet");
		    char name[256]{};
		    driver.check(driver.device_get_name(name, sizeof name - 1, device), "cuDeviceGetName");
		    return std::string(name);
	    },
	    "ordinal"_a, "The name of a GPU, from the driver.");
	m.def(
	    "cuda_memory_bandwidth",
	    [](const int ordinal) {
		    const auto& driver = cuda::get_driver();
		    cuda::device device = 0;
		    driver.check(driver.device_get(&device, ordinal), "cuDeviceGet");
		    int clock_khz = 0;
		    int width_bits = 0;
		    driver.check(driver.device_get_attribute(&clock_khz, cuda::attribute_memory_clock_rate_khz, device), "cuDeviceGetAttribute");
		    driver.check(driver.device_get_attribute(&width_bits, cuda::attribute_memory_bus_width_bits, device), "cuDeviceGetAttribute");
		    return 2 * 1e3 * clock_khz * width_bits / 8; // two transfers per clock
	    },
	    "ordinal"_a, "Bytes per second of the memory of a GPU at most, by its clock and width; 0 if the driver does not tell them.");
	m.def("cuda_enter", &enter_context, "ordinal"_a, "Makes the primary context of a GPU current in this thread; returns the one before, 0 if there was none.");
	m.def("cuda_leave", &leave_context, "previous"_a, "Makes a context current again; 0: none. Touches no other device.");
	m.def(
	    "cuda_division",
	    [](const int ordinal) {
		    const auto& driver = cuda::get_driver();
		    cuda::device device = 0;
		    driver.check(driver.device_get(&device, ordinal), "cuDeviceGet");
		    const auto found = find_division(driver, device);
		    return std::tuple(found.total, found.least, found.granule);
	    },
	    "ordinal"_a,
	    "The multiprocessors of a GPU, the fewest of them that queues may have, and the step from there. Raises RuntimeError if the driver cannot divide them.");
	m.def(
	    "cuda_probe",
	    [](const std::vector<int>& ordinals) {
		    const auto topology = cuda_devices::probe(ordinals);
		    return std::tuple(topology.all_peers, topology.smallest_memory_bytes, topology.link_grades);
	    },
	    "ordinals"_a,
	    "Whether each of these GPUs reaches the memory of all others; the memory of the smallest one, used or free; and by source and destination, row by row, how "
	    "bad the link between two of them is: 0 for the best.");
}

} // namespace celerity::native
