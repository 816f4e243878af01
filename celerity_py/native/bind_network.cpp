// SPDX-License-Identifier: MIT
// The port of the executor to other ranks, for the Python that makes and ends it. Nothing blocks, and no call takes the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <span>

#include "bind_fields.hpp"
#include "bindings.hpp"
#include "executor/core/network/message_port.hpp"
#include "executor/core/network/mpi_port.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

nb::tuple poll(message_port& self) {
	arrived_control arrived;
	{
		const nb::gil_scoped_release released;
		self.poll();
		arrived = self.take_control();
	}
	nb::list notices;
	for(const auto& [kind, source, content] : arrived.notices) {
		notices.append(nb::make_tuple(kind, source.value, nb::bytes(reinterpret_cast<const char*>(content.data()), content.size())));
	}
	return nb::make_tuple(notices, nb::cast(arrived.settled));
}

} // namespace

void bind_network(nb::module_& m) {
	using released = nb::call_guard<nb::gil_scoped_release>;

	nb::class_<mpi_settings> settings(m, "MpiSettings", "What mpi4py knows of its library: addresses of handles, sizes and constants.");
	bind_keywords(settings);
	bind_fields(settings);

	nb::class_<message_port> port(m, "MessagePort", R"(Pilots and payloads for the native executor, notices and the end of a run for Python.

One thread at a time: the executor's, while it runs. A failure of the network is a RuntimeError in its words.)");
	port.attr("PILOT_LIMIT_BYTES") = pilot_limit_bytes;
	port.attr("NOTICE_LIMIT_BYTES") = notice_limit_bytes;
	port.attr("SMALL_LIMIT_BYTES") = small_limit_bytes;
	port.def(
	        "send_notice",
	        [](message_port& self, const std::uint32_t to, const std::uint8_t kind, const nb::bytes& content) {
		        self.send_notice(rank_id(to), kind, std::as_bytes(std::span(content.c_str(), content.size())));
	        },
	        "destination_rank"_a, "kind"_a, "content"_a, "Notices between two ranks arrive in order, but overtake pilots. Raises ValueError if it is too long.")
	    .def("settle", &message_port::settle, "number"_a,
	        "Enters a barrier that completes when all pilots and notices sent before, by any rank, have arrived; poll() then returns the number.")
	    .def("unasked_payloads", &message_port::unasked_payloads,
	        "After settle(), where they differ: (rank, number of its payloads to here minus receives from it).")
	    .def("poll", &poll, nb::sig("def poll(self) -> tuple[list[tuple[int, int, bytes]], list[int]]"),
	        "Lets the transport progress. Returns notices, as (kind, source rank, content), and the numbers of settle() that are complete, each once.")
	    .def("close", &message_port::close, released(),
	        "Ends all operations, and waits for a second at most. Whether no message can still be on its way here. Nothing may be called afterwards.");

	m.def(
	    "make_mpi_port", [](const mpi_settings& given) { return std::shared_ptr<message_port>(make_mpi_port(given)); }, "settings"_a,
	    "Posts receives for the messages of all other ranks. Raises RuntimeError if the library lacks a function.");
}

} // namespace celerity::native
