// SPDX-License-Identifier: MIT
#include "graph_runs.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>
#include <variant>

#include "dispatch/instruction_facts.hpp"
#include "dispatch/operations.hpp"

namespace celerity {

namespace {

/// A few keep the device busy. A driver whose queue is full blocks the thread, for which other ranks may wait.
constexpr std::size_t most_runs_in_flight = 4;
/// A run waits so long for the announcements of further periods. It must not wait for ever: the peer may need the first period to announce the others.
constexpr std::chrono::microseconds longest_wait_for_periods{50};
/// While earlier runs keep the device busy: one graph of all periods takes less time than several of some.
constexpr std::chrono::microseconds longest_wait_behind_runs{1000};
/// Of a period in segments. Between two such parts the executor issues the runs whose data is announced.
constexpr std::size_t most_begun_at_once = 32;

} // namespace

bool graph_runs::are_possible() const {
	const auto& state = m_state;
	return state.graphs != nullptr && !state.options.sync && state.trace == nullptr && (!state.transfers.direct().has_peers() || state.graphs->exchange());
}

// ---- from batches to runs ---------------------------------------------------------------------------------------------------------

bool graph_runs::take(const instruction_batch& batch) {
	const bool runs_as_graphs =
	    are_possible() && m_graphs.is_eligible(batch, m_state.rules) && (batch.loop == nullptr || m_graphs.has_known_kernels(batch, m_state.launches));
	const bool must_wait = m_state.transfers.direct().has_peers() && (runs_as_graphs || m_graphs.has_unmade_run());
	if(!m_staged.empty() || must_wait) {
		m_staged.push_back({batch, runs_as_graphs});
		return true;
	}
	if(!runs_as_graphs) return false;
	for(std::size_t first = 0; first < batch.instructions.size();) {
		const auto part = m_graphs.part_from(batch, first);
		m_state.engine.submit(m_graphs.add_run(part, m_state.rules));
		first += part.size;
	}
	return true;
}

void graph_runs::release_held() {
	auto& released = m_state.transfers.direct().released;
	for(const auto& each : released) release(each);
	released.clear();
	// A peer cannot answer a send before it has its pilot, and a wait for the peer may block the thread that sends the pilot.
	m_state.engine.allow_remote_waits(!m_state.transfers.has_unsent_pilots());
}

void graph_runs::release(const released_instruction& released) {
	const bool is_early = !m_staged.empty() && released.id >= m_staged.front().first_id();
	if(is_early) {
		m_released_early.emplace(released.id, released.is_ready);
	} else {
		m_state.engine.release(released.id, released.is_ready);
	}
}

// A peer may need any of these transfers for its present run, so that nothing but the work of this thread delays them.
bool graph_runs::begin_staged() {
	if(m_staged.empty() || m_staged.back().has_begun()) return false;
	const auto stamp = static_cast<std::uint64_t>(now_ns());
	for(auto& staged : m_staged) {
		if(staged.has_begun()) continue;
		const auto items = instruction_span(staged.batch.instructions).subspan(staged.num_begun);
		const bool is_divided = staged.runs_as_graphs && m_graphs.is_divided(staged.batch);
		const auto begun = items.first(is_divided ? std::min(items.size(), most_begun_at_once) : items.size());
		for(const auto* const item : begun) m_state.transfers.begin(*item, stamp);
		staged.num_begun += begun.size();
		if(!staged.has_begun()) break;
	}
	return true;
}

bool graph_runs::submit_staged() {
	if(m_staged.empty()) return false;
	release_held();
	bool has_submitted = false;
	while(!m_staged.empty()) {
		auto& staged = m_staged.front();
		const auto part = part_to_run(staged);
		// The driver may wait for all operations on the device while it makes a graph: see part_to_run().
		if(staged.runs_as_graphs ? part.size == 0 : !staged.has_begun() || m_graphs.has_unmade_run()) break;
		has_submitted = true;
		m_staged_since = m_staged_until = {};
		if(staged.runs_as_graphs) {
			for(const auto* const item : part.instructions()) m_released_early.erase(item->id);
			const auto request = m_graphs.add_run(part, m_state.rules);
			m_state.engine.submit(request);
			if(request.policy == issue_policy::pull) m_state.engine.release(request.id);
			staged.num_submitted += part.size;
			if(staged.left().empty()) m_staged.pop_front();
			continue;
		}
		for(const auto* const item : staged.left()) {
			m_state.engine.submit(make_request(*item, m_state.rules));
			if(const auto released = m_released_early.extract(item->id); !released.empty()) m_state.engine.release(item->id, released.mapped());
		}
		m_staged.pop_front();
	}
	return has_submitted;
}

const instruction* graph_runs::next_staged() const {
	if(m_staged.empty()) return nullptr;
	const auto& items = m_staged.front().batch.instructions;
	return items[std::min(m_staged.front().num_announced, items.size() - 1)];
}

batch_part graph_runs::part_to_run(staged_batch& staged) {
	const batch_part none{staged.batch, staged.num_submitted};
	if(!staged.runs_as_graphs || m_graphs.num_runs() >= most_runs_in_flight) return none;
	const auto& items = staged.batch.instructions;
	const auto is_announced = [&](const instruction& item) { return !is_transfer(item) || m_released_early.contains(item.id); };
	while(staged.num_announced < staged.num_begun && is_announced(*items[staged.num_announced])) ++staged.num_announced;
	auto part = m_graphs.part_from(staged.batch, staged.num_submitted);
	if(const auto num_announced = staged.num_announced - staged.num_submitted; num_announced < part.size) {
		const auto num_periods = num_announced / part.period_size();
		if(num_periods == 0) {
			if(staged.num_announced == staged.num_begun) return none;
			const auto* const next = items[staged.num_announced];
			if(std::holds_alternative<receive_instruction>(next->operation) && m_state.transfers.receiver().comes_as_message(next->id)) {
				m_graphs.forbid(staged.batch);
				staged.runs_as_graphs = false;
			}
			return none;
		}
		const auto now = event_count::clock::now();
		if(m_staged_since == event_count::clock::time_point{}) m_staged_since = now;
		m_staged_until = m_staged_since + (m_graphs.num_runs() > 0 ? longest_wait_behind_runs : longest_wait_for_periods);
		if(now < m_staged_until) return none;
		part.size = std::bit_floor(num_periods) * part.period_size();
	}
	// The driver may wait for the whole device while it makes a graph. No operation on the device may then wait for another rank, which may need this thread.
	if(m_graphs.has_unmade_run()) return none; // which may be issued when this one is on the device
	auto& graph = *m_graphs.graph_of(part, m_state.rules);
	if(graph.operations == nullptr || !fetches_as_before(part, graph)) {
		if(m_state.engine.num_live_on_lanes() > 0) return none;
		graph.operations = nullptr;
	}
	return part;
}

bool graph_runs::fetches_as_before(const batch_part& part, const period_graph& graph) const {
	std::size_t num_equal = 0;
	bool are_equal = true;
	const auto items = part.instructions();
	for(const auto& step : graph.steps) {
		if(!std::holds_alternative<receive_instruction>(items[step.place]->operation)) continue;
		m_state.transfers.receiver().for_each_part(items[step.place]->id, [&](const array_place& source, const box& where, const box& inbox) {
			are_equal = are_equal && num_equal < graph.fetched.size()
			            && graph.fetched[num_equal++] == period_graph::fetched_part{source.address, *source.array, where, inbox};
		});
	}
	return are_equal && num_equal == graph.fetched.size();
}

// ---- reports -------------------------------------------------------------------------------------------------------------------

std::optional<transfer_status> graph_runs::find_status(const out_of_order_engine::live_instruction& live) const {
	std::optional<transfer_status> found;
	for(const auto* const item : instructions_of(live)) {
		auto status = m_state.transfers.find_status(item->id);
		if(status.has_value() && (!found.has_value() || (status->is_waiting && !found->is_waiting))) found = std::move(status);
	}
	return found;
}

std::vector<submission_id> graph_runs::kernels_in_flight() const {
	std::vector<submission_id> submissions;
	m_state.engine.for_each_live([&](const out_of_order_engine::live_instruction& live) {
		if(!live.is_issued) return;
		for(const auto* const item : instructions_of(live)) {
			const auto* const kernel = std::get_if<device_kernel_instruction>(&item->operation);
			if(kernel == nullptr) continue;
			if(std::find(submissions.begin(), submissions.end(), kernel->submission) == submissions.end()) submissions.push_back(kernel->submission);
		}
	});
	return submissions;
}

// ---- operations of a run ----------------------------------------------------------------------------------------------------------

std::vector<begun_step> graph_runs::begin_run(const graph_run& run) {
	m_flags.clear();
	std::vector<begun_step> begun;
	if(!run.graph->has_transfers) return begun;
	for(const auto& step : run.graph->steps) {
		auto& current = begun.emplace_back(begun_step{static_cast<std::uint32_t>(m_flags.size())});
		const auto& item = *run.instructions[step.place];
		if(std::holds_alternative<send_instruction>(item.operation)) {
			auto [ready, answer, put] = m_state.transfers.sender().begin_in_graph(item.id);
			m_flags.insert(m_flags.end(), {ready, answer});
			if(put.has_value()) put->flag = current.first_flag;
			current.put = std::move(put);
		} else if(std::holds_alternative<receive_instruction>(item.operation)) {
			current.fetches = m_state.transfers.receiver().begin_in_graph(item.id);
			for(const auto& fetch : current.fetches) {
				m_flags.push_back(fetch.ready);
				if(fetch.answer.has_value()) m_flags.push_back(*fetch.answer);
			}
		}
	}
	return begun;
}

// Kernels of a loop may have other scalars each time. The graph is told of those that differ from the run before.
void graph_runs::note_scalars(const graph_run& run, graph_values& values) {
	auto& graph = *run.graph;
	graph.scalars.resize(graph.steps.size());
	for(std::uint32_t i = 0; i < graph.steps.size(); ++i) {
		const auto* const kernel = std::get_if<device_kernel_instruction>(&run.instructions[graph.steps[i].place]->operation);
		if(kernel == nullptr) continue;
		const auto& launch = *m_state.launches.find(kernel->submission);
		if(launch.scalars == graph.scalars[i]) continue;
		graph.scalars[i] = launch.scalars;
		if(graph.operations != nullptr) values.kernels.push_back({i, operation_of(m_state.allocations, *kernel, launch)});
	}
	m_state.statistics.changed_kernels += values.kernels.size();
}

void graph_runs::issue(const celerity::issue& item, const lane_waits& waits) {
	const auto& run = m_graphs.find(item.id);
	auto& graph = *run.graph;
	const auto begun = begin_run(run);
	graph_values values;
	if(run.is_of_loop) note_scalars(run, values);
	if(graph.operations == nullptr) {
		graph.operations = m_state.graphs->make(operations_of(run, begun, m_state.allocations, m_state.launches), m_flags.size());
		graph.fetched.clear();
		for(const auto& step : begun) {
			for(const auto& fetch : step.fetches) {
				graph.fetched.push_back(
				    {fetch.copy.source.address, *fetch.copy.source.array, fetch.copy.boxes.front(), fetch.inbox.has_value() ? fetch.inbox->array : box()});
			}
		}
	}
	values.flags = m_flags;
	m_state.graphs->enqueue({item.lane, item.sequence}, waits, *graph.operations, std::move(values));
}

} // namespace celerity
