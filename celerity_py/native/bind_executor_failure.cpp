// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "bind_executor.hpp"
#include "executor/core/events/executor_events.hpp"
#include "instruction_conversion.hpp"

namespace nb = nanobind;

namespace celerity::native {

void bind_executor_failure(nb::module_& m) {
	using kind = executor_failure::kind_type;
	nb::enum_<kind>(m, "FailureKind", "The part of the executor that has failed.")
	    .value("FAULT", kind::fault, "The executor itself, or its input.")
	    .value("MEMORY", kind::memory, "An allocation, for good.")
	    .value("DEVICE", kind::device, "A device. Its latest operation need not be the cause.")
	    .value("BOUNDS", kind::bounds, "A kernel left the declared region of one of its accesses.")
	    .value("PEER", kind::peer, "This rank could not reach the memory of another one.");
	nb::class_<executor_failure>(m, "ExecutorFailure", "The failure of an Executor. Fields are 0 or empty where they do not apply.")
	    .def_ro("kind", &executor_failure::kind)
	    .def_ro("text", &executor_failure::text, "In the words of who has failed, such as a driver.")
	    .def_ro("instruction", &executor_failure::instruction, "The instruction that the executor carried out.")
	    .def_prop_ro(
	        "submission", [](const executor_failure& self) { return self.submission.value; }, "That of the instruction.")
	    .def_prop_ro(
	        "in_flight",
	        [](const executor_failure& self) {
		        std::vector<std::uint64_t> submissions;
		        for(const auto submission : self.in_flight) submissions.push_back(submission.value);
		        return submissions;
	        },
	        "DEVICE: submissions of the kernels of which any may be the cause.")
	    .def_ro("access", &executor_failure::access, "BOUNDS: which access of the task it was.")
	    .def_prop_ro(
	        "index", [](const executor_failure& self) { return std::make_tuple(self.index[0], self.index[1], self.index[2]); },
	        "BOUNDS: the element outside of it.")
	    .def_prop_ro(
	        "declared", [](const executor_failure& self) { return flatten(std::span<const box>(self.declared)); }, "BOUNDS: the boxes of its region.")
	    .def_prop_ro(
	        "peer", [](const executor_failure& self) { return self.peer.value; }, "PEER: the rank whose memory cannot be reached.")
	    .def_prop_ro(
	        "buffer", [](const executor_failure& self) { return self.shortage.buffer.value; }, "MEMORY: for which there is no room; 0: staging.")
	    .def_prop_ro(
	        "device",
	        [](const executor_failure& self) {
		        const memory_id memory = self.shortage.memory;
		        return is_device_memory(memory) ? std::optional<std::uint32_t>(device_of(memory).value) : std::nullopt;
	        },
	        "MEMORY: whose memory is short; None: that of the host.")
	    .def_prop_ro(
	        "size_bytes", [](const executor_failure& self) { return self.shortage.size_bytes; }, "MEMORY: the size of the allocation.")
	    .def_prop_ro(
	        "held_bytes", [](const executor_failure& self) { return self.shortage.held_bytes; }, "MEMORY: the bytes that this rank holds there.")
	    .def_prop_ro(
	        "largest_holders",
	        [](const executor_failure& self) {
		        std::vector<std::pair<std::uint64_t, std::size_t>> holders;
		        for(const auto& [buffer, bytes] : self.shortage.largest) holders.emplace_back(buffer.value, bytes);
		        return holders;
	        },
	        "MEMORY: (buffer, bytes there) of those that hold most.");
}

} // namespace celerity::native
