// SPDX-License-Identifier: MIT
// validate() of the engine finds each kind of contradiction: a state is spoilt by hand, and the error names what does not fit.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "check.hpp"

// Spoiling a state means to reach it. All headers of the standard library that the engine includes come first, as they must not see this.
#define private public
#include "executor/core/engine/out_of_order_engine.hpp"
#undef private

using namespace celerity;

namespace {

/// Some instructions in different states. The lanes of the second class take one instruction at a time.
struct busy_engine {
	static constexpr std::array<lane_class, 2> classes{
	    lane_class{lane_kind::compute, device_id(0), 2, 0, 0, 0}, lane_class{lane_kind::host_to_device, device_id(0), 1, 0, 1, 0}};
	out_of_order_engine engine{classes, {remote_waits::answers}};

	busy_engine() {
		engine.announce(0);
		engine.announce(1);
		submit(1, issue_policy::plain);
		submit(2, issue_policy::plain, {}, 1);
		engine.allow_remote_waits(false);
		submit(3, issue_policy::pull);
		issue item;
		while(engine.next(item)) {}
		engine.release(instruction_id(3));
		while(engine.next(item)) {}
		submit(4, issue_policy::host, {1});
		submit(5, issue_policy::clock, {1});
		submit(6, issue_policy::plain, {1});
		submit(7, issue_policy::plain, {6});
		engine.validate();
	}
	void submit(const std::uint64_t id, const issue_policy policy, const std::initializer_list<std::uint64_t> after = {}, const std::uint32_t lane_class = 0) {
		std::vector<instruction_id> dependencies;
		for(const auto each : after) dependencies.emplace_back(each);
		engine.submit({.id = instruction_id(id),
		    .key = {task_id(id), instruction_key::phase_type::work},
		    .dependencies = dependencies,
		    .policy = policy,
		    .lane_class = lane_class});
	}

	engine_node& issued() { return at(1); }
	engine_node& in_place() { return at(2); }
	engine_node& gated() { return at(3); }
	engine_node& blocked() { return at(4); }
	engine_node& clock() { return at(5); }
	engine_node& ready() { return at(6); }

	engine_node& at(const std::uint64_t id) { return engine.m_nodes[engine.m_nodes.find(instruction_id(id))]; }
};

struct contradiction {
	const char* statement; ///< of engine_checks
	std::function<void(busy_engine&)> make;
};

const std::vector<contradiction> contradictions{
    {"its policy has no such state", [](busy_engine& b) { b.blocked().state = node_state::held; }},
    {"it goes on, though predecessors keep it", [](busy_engine& b) { b.issued().num_blocking = 1; }},
    {"nothing keeps it, and it does not go on", [](busy_engine& b) { b.blocked().num_blocking = 0; }},
    {"it should have completed", [](busy_engine& b) { b.clock().num_incomplete = 0; }},
    {"only ready instructions wait for their turn", [](busy_engine& b) { b.blocked().where = whereabouts::in_ready; }},
    {"it has a place, and does not need one", [](busy_engine& b) { b.blocked().has_place = true; }},
    {"it is ready, and waits nowhere or twice", [](busy_engine& b) { b.ready().where = whereabouts::nowhere; }},
    {"it waits for its key, and for no other rank", [](busy_engine& b) { b.gated().num_remote = 0; }},
    {"it waits for its key, and keeps a place on the lanes from others", [](busy_engine& b) { b.gated().has_place = true; }},
    {"a predecessor does not know it", [](busy_engine& b) { b.issued().successors.clear(); }},
    {"it counts other incomplete predecessors than there are", [](busy_engine& b) { ++b.ready().num_incomplete; }},
    {"it counts other blocking predecessors than there are", [](busy_engine& b) { ++b.blocked().num_blocking; }},
    {"it counts other signals than there are", [](busy_engine& b) { ++b.ready().num_remote; }},
    {"it is on a lane before it is issued", [](busy_engine& b) { b.ready().lane = 0; }},
    {"no remote wait heeds its key", [](busy_engine& b) { b.engine.m_gate.m_unissued_keys.clear(); }},
    {"it is issued, and on no lane of its class", [](busy_engine& b) { b.issued().lane = b.in_place().lane; }},
    {"its lane has come past it, or not, against its state",
        [](busy_engine& b) {
	        b.issued().state = node_state::passed;
	        b.issued().policy = issue_policy::signal;
        }},
    {"its lane has something else in its position", [](busy_engine& b) { ++b.issued().sequence; }},
    {"a call has left work undone", [](busy_engine& b) { b.engine.m_completed_clocks.push_back(0); }},
    {"it counts other live instructions than there are", [](busy_engine& b) { ++b.engine.m_nodes.m_num_live; }},
    {"it counts other live instructions for lanes than there are", [](busy_engine& b) { ++b.engine.m_nodes.m_num_live_on_lanes; }},
    {"it counts other instructions in flight than there are", [](busy_engine& b) { ++b.engine.m_num_in_flight; }},
    {"it counts other instructions of a queue than there are", [](busy_engine& b) { ++b.engine.m_nodes.m_num_live_of[0]; }},
    {"it counts other places on shared lanes as taken than are", [](busy_engine& b) { ++b.engine.m_turns.m_places[0]; }},
    {"it counts other outdated entries than there are", [](busy_engine& b) { ++b.engine.m_turns.m_num_outdated; }},
};

} // namespace

int main() {
	for(const auto& [statement, make] : contradictions) {
		busy_engine busy;
		make(busy);
		std::string found;
		try {
			busy.engine.validate();
		} catch(const std::logic_error& error) { found = error.what(); }
		if(!std::string_view(found).ends_with(statement)) std::fprintf(stderr, "%s:\n    found '%s'\n", statement, found.c_str());
		check(std::string_view(found).ends_with(statement), statement);
	}
	std::printf("%zu contradictions are found\n", contradictions.size());
	return 0;
}
