// SPDX-License-Identifier: MIT
// validate() of the planner finds each kind of contradiction: a state is spoilt by hand, and the error names what should hold.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <chrono>
#include <cmath>
#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "check.hpp"

// Spoiling a state means to reach it. All headers of the standard library that the planner includes come first, as they must not see this.
#define private public
#include "scheduler/core/pipeline/scheduling_pipeline.hpp"
#undef private

using namespace celerity;

namespace {

struct no_sink final : instruction_sink {
	void submit(instruction_batch&&) override {}
};

/// Rank 0 of two, with two devices, after a stencil of four steps.
struct planned_stencil {
	no_sink sink;
	scheduling_pipeline pipeline;
	std::uint64_t last_submission = 0;

	planned_stencil() : pipeline(make_settings(), sink, {}) {
		for(std::uint64_t id = 1; id <= 2; ++id) {
			buffer_info info;
			info.id = buffer_id(id);
			info.dims = 1;
			info.extents = point{{64, 1, 1}};
			info.element_size_bytes = info.element_alignment_bytes = 4;
			pipeline.create_buffer(info);
		}
		submit({{buffer_id(1), access_mode::write, range_mapper::one_to_one()}});
		const auto near = range_mapper::built_in(range_mapper::kind::neighborhood, 1, point{{1, 0, 0}}, range_mapper::along_axes);
		for(std::uint64_t step = 0; step < 4; ++step) {
			submit({{buffer_id(1 + step % 2), access_mode::read, near}, {buffer_id(2 - step % 2), access_mode::write, range_mapper::one_to_one()}});
		}
		pipeline.flush();
		pipeline.validate();
	}
	static pipeline_settings make_settings() {
		pipeline_settings settings;
		settings.capabilities.num_ranks = 2;
		settings.capabilities.num_devices = 2;
		return settings;
	}
	void submit(std::vector<buffer_access>&& accesses) {
		auto node = std::make_shared<task>();
		node->submission = submission_id(++last_submission);
		node->geometry.dims = 1;
		node->geometry.global = box::full(point{{64, 1, 1}});
		node->accesses = std::move(accesses);
		pipeline.submit(std::move(node));
	}

	task_graph& tasks() { return pipeline.m_graphs.tasks; }
	auto& tasks_of_buffer() { return tasks().m_buffers.at(buffer_id(1)); }
	command_graph_generator& commands() { return pipeline.m_graphs.commands; }
	auto& commands_of_buffer() { return commands().m_buffers.at(buffer_id(1)); }
	instruction_graph_generator& instructions() { return pipeline.m_graphs.instructions; }
	rank_memory& memory() { return instructions().m_memory; }
	buffer_state& buffer() { return memory().at(buffer_id(1)); }
	memory_state& on_device() { return buffer().memories[memory_of(device_id(0)).value]; }
	replay_memory& replays() { return pipeline.m_replayer.m_memory; }
	loop_replayer& loops() { return pipeline.m_loops; }
	/// Of one task.
	void add_loop() {
		auto known = std::make_shared<loop_template>();
		known->legs.resize(1);
		loops().m_templates.push_back({std::move(known)});
	}
	void stage(const std::uint64_t raw, const instruction_id ready, const small_vector<instruction_id, 6>& uses) {
		memory().m_staging[host_memory.value].push_back({allocation_id{host_memory, raw}, 4, 4, ready, uses});
	}
	std::shared_ptr<replay_template> add_template() {
		auto known = std::make_shared<replay_template>();
		replays().m_templates.push_back({known});
		return known;
	}
};

template <typename Id>
Id later(const dependency_window<Id>& window) {
	return Id(window.current().value + 1);
}

/// Spoils the first entry of a region map that fits.
void spoil(auto& map, const auto& change, const auto& fits) {
	for(auto& leaf : map.leaves()) {
		for(auto& value : leaf.values) {
			if(fits(value)) return change(value);
		}
	}
	check(false, "the map has an entry to spoil");
}
void spoil(auto& map, const auto& change) {
	spoil(map, change, [](const auto&) { return true; });
}

struct contradiction {
	const char* statement; ///< of ensure()
	std::function<void(planned_stencil&)> make;
};

const std::vector<contradiction> contradictions{
    // The window of a graph; those of commands and instructions are of the same class.
    {"each node before the front has a successor",
        [](planned_stencil& p) {
	        auto& window = p.tasks().m_window;
	        window.m_slots.front().has_successor = false;
	        window.m_front_begin = window.m_base + 1;
        }},
    {"the front counts the nodes without successor", [](planned_stencil& p) { ++p.commands().m_window.m_front_size; }},
    {"epochs are nodes of the graph", [](planned_stencil& p) { p.tasks().m_window.m_epoch = later(p.tasks().m_window); }},
    {"the window reaches back to the epoch and to the front",
        [](planned_stencil& p) {
	        auto& window = p.tasks().m_window;
	        window.m_base = window.current().value + 1;
	        window.m_slots.clear();
	        window.m_front_size = 0;
        }},
    {"the writer of data has been made",
        [](planned_stencil& p) { spoil(p.tasks_of_buffer().accesses, [&](auto& front) { front.writer = later(p.tasks().m_window); }); }},
    {"the readers of data have been made",
        [](planned_stencil& p) { spoil(p.commands_of_buffer().local, [&](auto& state) { state.front.readers.push_back(later(p.commands().m_window)); }); }},
    {"each box of a region map lies in its domain", [](planned_stencil& p) { p.tasks_of_buffer().accesses.m_domain = box::full(point{{8, 1, 1}}); }},
    {"the boxes of a region map divide its domain", [](planned_stencil& p) { p.tasks_of_buffer().accesses.m_domain = box::full(point{{65, 1, 1}}); }},
    {"a region map counts its boxes", [](planned_stencil& p) { ++p.buffer().contents.m_size; }},

    // Tasks.
    {"the pending horizon of the tasks has been made", [](planned_stencil& p) { p.tasks().m_pending_horizon = later(p.tasks().m_window); }},
    {"the critical path does not shrink", [](planned_stencil& p) { p.tasks().m_longest_path_at_horizon = p.tasks().m_longest_path + 1; }},
    {"unwritten elements belong to their buffer", [](planned_stencil& p) { p.tasks_of_buffer().uninitialized = region(box::full(point{{65, 1, 1}})); }},

    // Commands.
    {"the pending horizon of the commands has been made", [](planned_stencil& p) { p.commands().m_pending_horizon = later(p.commands().m_window); }},
    {"a copy of data of another rank is fresh",
        [](planned_stencil& p) {
	        spoil(p.commands_of_buffer().local, [](auto& state) { state.is_replicated = true; }, [](const auto& state) { return !state.is_fresh; });
        }},
    {"the bounds of owned data are known or marked as unknown",
        [](planned_stencil& p) {
	        p.commands_of_buffer().owned_bounds_dirty = false;
	        p.commands_of_buffer().owned_bounds = box::full(point{{3, 1, 1}});
        }},
    {"a pending reduction has partial results", [](planned_stencil& p) { p.commands_of_buffer().pending.emplace(); }},

    // Instructions and memory.
    {"the pending horizons of the instructions are in order",
        [](planned_stencil& p) { p.instructions().m_pending_horizons.push_back({later(p.instructions().m_history.window), {}}); }},
    {"the last epoch has been made", [](planned_stencil& p) { p.instructions().m_history.settled = later(p.instructions().m_history.window); }},
    {"the memory for expected growth is that of the buffers", [](planned_stencil& p) { ++p.on_device().foreseen_bytes; }},
    {"growing memory has grown since the last horizon",
        [](planned_stencil& p) {
	        p.on_device().has_grown = false;
	        p.instructions().m_anticipation.m_growing.emplace_back(buffer_id(1), memory_of(device_id(0)));
        }},
    {"the number of staging memory has been given away", [](planned_stencil& p) { p.stage(1000, {}, {}); }},
    {"the instruction for which staging memory waits has been made", [](planned_stencil& p) { p.stage(0, later(p.instructions().m_history.window), {}); }},
    {"staging memory is used once it is ready",
        [](planned_stencil& p) {
	        small_vector<instruction_id, 6> uses;
	        uses.push_back(instruction_id(1));
	        p.stage(0, instruction_id(2), uses);
        }},
    {"the memory in which a value was produced holds it as long as any memory does",
        [](planned_stencil& p) {
	        spoil(
	            p.buffer().contents,
	            [](auto& state) {
		            state.up_to_date &= ~(std::uint64_t{1} << state.origin_memory.value);
		            state.up_to_date |= 1;
	            },
	            [](const auto& state) { return state.up_to_date != 0; });
        }},
    {"the producer of a value has been made",
        [](planned_stencil& p) {
	        spoil(
	            p.buffer().contents, [&](auto& state) { state.origin = later(p.instructions().m_history.window); },
	            [](const auto& state) { return state.up_to_date != 0; });
        }},
    {"a memory that holds a value has an allocation for it", [](planned_stencil& p) { p.on_device().allocations.clear(); }},
    {"awaited data is nowhere yet",
        [](planned_stencil& p) {
	        await_push_command await;
	        await.awaited = region(p.buffer().domain);
	        p.buffer().receives.push_back(await);
        }},
    {"the index of allocations has all of them",
        [](planned_stencil& p) {
	        places_of(p.on_device());
	        auto more = p.on_device().allocations.front();
	        p.on_device().allocations.push_back(more);
        }},
    {"an allocation has elements of its buffer", [](planned_stencil& p) { p.on_device().allocations.front().allocated = box::full(point{{65, 1, 1}}); }},
    {"the number of an allocation has been given away", [](planned_stencil& p) { p.on_device().allocations.front().id.raw = 1000; }},
    {"the allocations of a buffer in one memory are disjoint",
        [](planned_stencil& p) {
	        auto more = p.on_device().allocations.front();
	        p.on_device().allocations.push_back(more);
        }},

    // Templates of replays.
    {"no plan is being noted between two events", [](planned_stencil& p) { p.replays().begin_draft(); }},
    {"only a current template has been expanded", [](planned_stencil& p) { p.replays().next_leg = 1; }},
    {"the current template is the one used last",
        [](planned_stencil& p) {
	        p.replays().m_current = p.add_template();
	        p.add_template();
        }},
    {"the next leg belongs to the current template", [](planned_stencil& p) { p.replays().m_current = p.add_template(); }},
    {"templates and states are bounded", [](planned_stencil& p) { p.replays().m_states.resize(100'000); }},
    {"the legs of a template follow each other",
        [](planned_stencil& p) {
	        template_leg leg;
	        leg.begin.tasks = 1;
	        p.add_template()->legs.push_back(leg);
        }},
    {"the legs of a template are a period", [](planned_stencil& p) { p.add_template()->length.tasks = 1; }},

    // Templates of plain loops.
    {"a search for a loop keeps plans from its first state on", [](planned_stencil& p) { p.loops().m_search.m_states.resize(1); }},
    {"a search for a loop is bounded", [](planned_stencil& p) { p.loops().m_search.m_num_gathered = p.loops().m_search.m_period + 1; }},
    {"the legs of a loop have all instructions",
        [](planned_stencil& p) {
	        loop_leg leg;
	        leg.end.instructions = 1;
	        p.loops().m_search.m_legs.push_back(leg);
        }},
    {"the current loop is the one used last",
        [](planned_stencil& p) {
	        p.add_loop();
	        p.loops().m_current = p.loops().m_templates.back().known;
	        p.add_loop();
        }},
    {"the next task of a loop belongs to it", [](planned_stencil& p) { p.loops().m_next = 1; }},
    {"the templates of loops are bounded", [](planned_stencil& p) { p.loops().m_templates.resize(100); }},

    // The lookahead queue.
    {"all instructions are handed over", [](planned_stencil& p) { p.pipeline.m_batch.instructions.push_back(nullptr); }},
    {"commands are held for a reason", [](planned_stencil& p) { p.pipeline.m_held.emplace_back(scheduling_pipeline::flush_event{}); }},
    {"the held events that flush are counted", [](planned_stencil& p) { ++p.pipeline.m_num_flushing; }},
    {"a horizon is handed over once it has been planned",
        [](planned_stencil& p) { p.pipeline.m_progress.released_horizons = p.pipeline.m_progress.counts.horizons + 1; }},
};

} // namespace

int main() {
	for(const auto& [statement, make] : contradictions) {
		planned_stencil planned;
		make(planned);
		std::string found;
		try {
			planned.pipeline.validate();
		} catch(const std::logic_error& error) { found = error.what(); }
		if(!std::string_view(found).ends_with(statement)) std::fprintf(stderr, "%s:\n    found '%s'\n", statement, found.c_str());
		check(std::string_view(found).ends_with(statement), statement);
	}
	std::printf("%zu contradictions are found\n", contradictions.size());
	return 0;
}
