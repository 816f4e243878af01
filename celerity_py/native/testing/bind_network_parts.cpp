// SPDX-License-Identifier: MIT
// The side of a port that only the native executor uses, and the parts that decide on layouts and pauses.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "executor/core/network/message_port.hpp"
#include "executor/core/network/look_times.hpp"
#include "executor/core/network/strided_layout.hpp"
#include "seconds.hpp"
#include "testing_bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

/// A `Payload` of Python.
payload to_payload(const nb::tuple& given) {
	const auto number = [&](const std::size_t i) { return nb::cast<std::uint64_t>(given[i]); };
	const auto extents = [&](const std::size_t i) {
		const auto parts = nb::cast<std::vector<std::size_t>>(given[i]);
		const auto missing = std::tuple_size_v<extents3> - parts.size();
		extents3 result{};
		for(std::size_t d = 0; d < result.size(); ++d) result[d] = d < missing ? (i == 5 ? 0 : 1) : parts[d - missing];
		return result;
	};
	return {request_id(number(0)), rank_id(static_cast<std::uint32_t>(number(1))), message_id(number(2)), reinterpret_cast<void*>(number(3)), extents(4),
	    extents(5), extents(6), number(7)};
}

nb::tuple take(message_port& self) {
	const auto arrived = self.take_messages();
	nb::list pilots;
	for(const auto& [source, pilot] : arrived.pilots) {
		pilots.append(nb::make_tuple(source.value, nb::bytes(reinterpret_cast<const char*>(pilot.data()), pilot.size())));
	}
	nb::list completed;
	for(const auto request : arrived.completed) completed.append(request.value);
	return nb::make_tuple(pilots, completed);
}

std::tuple<std::size_t, std::size_t, std::vector<std::pair<std::size_t, std::size_t>>> find_layout(const nb::tuple& given) {
	const auto [first_byte, layout] = layout_of(to_payload(given));
	std::vector<std::pair<std::size_t, std::size_t>> loops;
	for(std::size_t i = 0; i < layout.num_loops; ++i) loops.emplace_back(layout.loops[i].count, layout.loops[i].stride_bytes);
	return {first_byte, layout.run_bytes, loops};
}

double pause(const double since_progress_s, const double since_arrival_s, const double since_move_s, const bool is_awaiting, const bool has_requests,
    const bool spins, const double cores_per_rank, const bool has_other_ways) {
	const look_facts facts{to_nanoseconds(since_progress_s), to_nanoseconds(since_arrival_s), to_nanoseconds(since_move_s), is_awaiting, has_requests};
	return std::chrono::duration<double>(time_to_next_look({spins, cores_per_rank, has_other_ways}, facts)).count();
}

} // namespace

void bind_network_parts(nb::module_& m) {
	m.def(
	    "send_pilot",
	    [](message_port& port, const std::uint32_t to, const nb::bytes& pilot) {
		    port.send_pilot(rank_id(to), std::as_bytes(std::span(pilot.c_str(), pilot.size())));
	    },
	    "port"_a, "destination_rank"_a, "pilot"_a, "See message_port.");
	m.def(
	    "send_small",
	    [](message_port& port, const nb::bytes& pilot, const nb::tuple& given) {
		    return port.send_small(std::as_bytes(std::span(pilot.c_str(), pilot.size())), to_payload(given));
	    },
	    "port"_a, "pilot"_a, "payload"_a,
	    nb::sig("def send_small(port: celerity_py._native.MessagePort, pilot: bytes, payload: celerity_py._native.Payload) -> bool"), "See message_port.");
	m.def(
	    "send_payload", [](message_port& port, const nb::tuple& given) { port.send(to_payload(given)); }, "port"_a, "payload"_a,
	    nb::sig("def send_payload(port: celerity_py._native.MessagePort, payload: celerity_py._native.Payload) -> None"), "See message_port.");
	m.def(
	    "receive_payload", [](message_port& port, const nb::tuple& given) { port.receive(to_payload(given)); }, "port"_a, "payload"_a,
	    nb::sig("def receive_payload(port: celerity_py._native.MessagePort, payload: celerity_py._native.Payload) -> None"), "See message_port.");
	m.def(
	    "enter_barrier", [](message_port& port, const std::uint64_t request) { port.barrier(request_id(request)); }, "port"_a, "request"_a,
	    "See message_port.");
	m.def("take_messages", &take, "port"_a, nb::sig("def take_messages(port: celerity_py._native.MessagePort) -> tuple[list[tuple[int, bytes]], list[int]]"),
	    "Pilots, as (source rank, pilot), and complete requests.");
	m.def("num_outstanding", [](const message_port& port) { return port.outstanding(); }, "port"_a, "Operations under way, and pilots that wait.");
	m.def("layout_of", &find_layout, "payload"_a, nb::sig("def layout_of(payload: celerity_py._native.Payload) -> tuple[int, int, list[tuple[int, int]]]"),
	    "(first byte, bytes of a run, [(count, stride in bytes), ...] from the innermost loop on)");
	m.def("time_to_next_look_s", &pause, "since_progress_s"_a, "since_arrival_s"_a, "since_move_s"_a = 1000.0, nb::kw_only(), "is_awaiting"_a = true,
	    "has_requests"_a = false, "spins"_a = false, "cores_per_rank"_a = 4.0, "has_other_ways"_a = false,
	    "How long the executor thread waits before it looks at the network.");
}

} // namespace celerity::native
