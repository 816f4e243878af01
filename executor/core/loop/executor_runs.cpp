// SPDX-License-Identifier: MIT
// Runs: periods of replays, or segments of long ones, that devices carry out as graphs. With direct peers, a batch is staged until the peers have announced
// the data of its receives.
#include <algorithm>
#include <bit>
#include <chrono>
#include <optional>
#include <stdexcept>

#include "executor_loop.hpp"
#include "instruction_facts.hpp"
#include "scheduler/core/base/overloaded.hpp"

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

/// A step of a run whose transfers have begun.
struct executor_loop::begun_step {
	std::uint32_t first_flag = 0; ///< of a send: ready and answer; of a receive: by part ready and, behind it, the answer if there is one
	std::vector<direct_receiver::graph_fetch> fetches{};
	std::optional<graph_put> put{}; ///< of a send
};

// ---- from batches to runs ---------------------------------------------------------------------------------------------------------

void executor_loop::submit_as_runs(const instruction_batch& batch) {
	for(std::size_t first = 0; first < batch.instructions.size();) {
		const auto part = m_graphs.part_from(batch, first);
		m_engine.submit(m_graphs.add_run(part, m_rules));
		first += part.size;
	}
}

void executor_loop::release(const released_instruction& released) {
	const bool is_early = !m_staged.empty() && released.id >= m_staged.front().first_id();
	if(is_early) {
		m_released_early.emplace(released.id, released.is_ready);
	} else {
		m_engine.release(released.id, released.is_ready);
	}
}

// A peer may need any of these transfers for its present run, so that nothing but the work of this thread delays them.
bool executor_loop::begin_staged() {
	if(m_staged.empty() || m_staged.back().has_begun()) return false;
	const auto stamp = static_cast<std::uint64_t>(now_ns());
	for(auto& staged : m_staged) {
		if(staged.has_begun()) continue;
		const auto items = instruction_span(staged.batch.instructions).subspan(staged.num_begun);
		const bool is_divided = staged.runs_as_graphs && m_graphs.is_divided(staged.batch);
		const auto begun = items.first(is_divided ? std::min(items.size(), most_begun_at_once) : items.size());
		for(const auto* const item : begun) begin_transfer(*item, stamp);
		staged.num_begun += begun.size();
		if(!staged.has_begun()) break;
	}
	complete_done(); // peers may have announced the data before
	return true;
}

bool executor_loop::submit_staged() {
	if(m_staged.empty()) return false;
	release_held();
	bool has_submitted = false;
	while(!m_staged.empty()) {
		auto& staged = m_staged.front();
		const auto part = part_to_run(staged);
		if(staged.runs_as_graphs ? part.size == 0 : !staged.has_begun()) break;
		has_submitted = true;
		m_staged_since = m_staged_until = {};
		if(staged.runs_as_graphs) {
			for(const auto* const item : part.instructions()) m_released_early.erase(item->id);
			const auto request = m_graphs.add_run(part, m_rules);
			m_engine.submit(request);
			if(request.policy == issue_policy::pull) m_engine.release(request.id);
			staged.num_submitted += part.size;
			if(staged.left().empty()) m_staged.pop_front();
			continue;
		}
		for(const auto* const item : staged.left()) {
			m_engine.submit(make_request(*item, m_rules));
			if(const auto released = m_released_early.extract(item->id); !released.empty()) m_engine.release(item->id, released.mapped());
		}
		m_staged.pop_front();
	}
	return has_submitted;
}

batch_part executor_loop::part_to_run(staged_batch& staged) {
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
			if(std::holds_alternative<receive_instruction>(next->operation) && m_receiver.comes_as_message(next->id)) {
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
	auto& graph = *m_graphs.graph_of(part, m_rules);
	if(graph.operations == nullptr || !fetches_as_before(part, graph)) {
		if(m_engine.num_live_on_lanes() > 0) return none;
		graph.operations = nullptr;
	}
	return part;
}

bool executor_loop::fetches_as_before(const batch_part& part, const period_graph& graph) const {
	std::size_t num_equal = 0;
	bool are_equal = true;
	const auto items = part.instructions();
	for(const auto& step : graph.steps) {
		if(!std::holds_alternative<receive_instruction>(items[step.place]->operation)) continue;
		m_receiver.for_each_part(items[step.place]->id, [&](const array_place& source, const box& where, const box& inbox) {
			are_equal = are_equal && num_equal < graph.fetched.size()
			            && graph.fetched[num_equal++] == period_graph::fetched_part{source.address, *source.array, where, inbox};
		});
	}
	return are_equal && num_equal == graph.fetched.size();
}

// ---- operations of a run ----------------------------------------------------------------------------------------------------------

std::vector<executor_loop::begun_step> executor_loop::begin_run(const graph_run& run) {
	m_flags.clear();
	std::vector<begun_step> begun;
	if(!run.graph->has_transfers) return begun;
	for(const auto& step : run.graph->steps) {
		auto& current = begun.emplace_back(begun_step{static_cast<std::uint32_t>(m_flags.size())});
		const auto& item = *run.instructions[step.place];
		if(std::holds_alternative<send_instruction>(item.operation)) {
			auto [ready, answer, put] = m_sender.begin_in_graph(item.id);
			m_flags.insert(m_flags.end(), {ready, answer});
			if(put.has_value()) put->flag = current.first_flag;
			current.put = std::move(put);
		} else if(std::holds_alternative<receive_instruction>(item.operation)) {
			current.fetches = m_receiver.begin_in_graph(item.id);
			for(const auto& fetch : current.fetches) {
				m_flags.push_back(fetch.ready);
				if(fetch.answer.has_value()) m_flags.push_back(*fetch.answer);
			}
		}
	}
	return begun;
}

namespace {

/// Orders the steps of a run by key, and adds the waits for the answers to its sends.
class run_builder {
  public:
	explicit run_builder(const graph_run& run) : m_run(run), m_numbers(run.graph->steps.size()), m_answers(run.graph->steps.size()) {}

	std::vector<std::uint32_t> order() const {
		std::vector<std::uint32_t> order(m_run.graph->steps.size());
		for(std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
		// A wait for another rank comes behind all flags of smaller keys, in any order that the device may choose.
		if(m_run.graph->has_transfers) std::stable_sort(order.begin(), order.end(), [&](const auto a, const auto b) { return key_of(a) < key_of(b); });
		return order;
	}

	void add(const std::uint32_t step, graph_operation&& operation) {
		const auto& form = m_run.graph->steps[step];
		operation.device = form.device;
		await_answers(form.after);
		for(const auto before : form.after) operation.after.push_back(m_numbers[before].value());
		const auto number = static_cast<std::uint32_t>(m_operations.size());
		if(!m_answers[step].has_value()) m_numbers[step] = number;
		if(!operation.awaited.empty()) m_latest_fetch = fetch{number, key_of(step)};
		std::sort(operation.after.begin(), operation.after.end());
		operation.after.resize(static_cast<std::size_t>(std::unique(operation.after.begin(), operation.after.end()) - operation.after.begin()));
		m_operations.push_back(std::move(operation));
	}
	/// The step is a send. Instructions behind it follow the answer.
	void set_answer(const std::uint32_t step, const std::uint32_t flag) { m_answers[step] = flag; }

	std::vector<graph_operation> finish() {
		std::vector<std::uint32_t> all(m_answers.size());
		for(std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
		m_latest_fetch.reset();
		await_answers(all);
		return std::move(m_operations);
	}

  private:
	struct fetch {
		std::uint32_t number;
		instruction_key key;
	};
	const graph_run& m_run;
	std::vector<graph_operation> m_operations;
	std::vector<std::optional<std::uint32_t>> m_numbers; ///< by step: the operation behind which it is complete; of a send: the one that waits for the answer
	std::vector<std::optional<std::uint32_t>> m_answers; ///< by step: of a send, the flag
	std::optional<fetch> m_latest_fetch;

	/// Some of the steps may be sends. The next operation waits for the answers to these, unless an earlier fetch can.
	void await_answers(const std::span<const std::uint32_t> steps) {
		const auto next = static_cast<std::uint32_t>(m_operations.size());
		for(const auto send : steps) {
			if(!m_answers[send].has_value() || m_numbers[send].has_value()) continue;
			// The peer answers at the latest before it waits for the data of this rank that goes with this fetch.
			const bool is_in_fetch = m_latest_fetch.has_value() && key_of(send).task < m_latest_fetch->key.task;
			if(!is_in_fetch && m_operations.size() == next) {
				m_operations.emplace_back();
				m_operations.back().device = m_run.graph->steps[send].device;
				m_operations.back().what.emplace<std::vector<copy_operation>>();
			}
			m_numbers[send] = is_in_fetch ? m_latest_fetch->number : next;
			auto& waiting = m_operations[*m_numbers[send]];
			(is_in_fetch ? waiting.awaited_by_end : waiting.awaited).push_back(*m_answers[send]);
		}
	}
	const instruction_key& key_of(const std::uint32_t step) const { return m_run.instructions[m_run.graph->steps[step].place]->key; }
};

} // namespace

std::vector<graph_operation> executor_loop::operations_of(const graph_run& run, const std::span<const begun_step> begun) const {
	run_builder builder(run);
	for(const auto step : builder.order()) {
		graph_operation operation;
		const auto& item = *run.instructions[run.graph->steps[step].place];
		std::visit(overloaded{
		               [&](const copy_instruction& copy) {
			               operation.what = operation_of(copy);
			               operation.origins = {copy.source.memory};
		               },
		               [&](const gather_copy_instruction& gather) {
			               operation.what = operation_of(gather);
			               for(const auto& source : gather.sources) operation.origins.push_back(source.allocation.memory);
		               },
		               [&](const device_kernel_instruction& kernel) {
			               auto launch = operation_of(kernel, *m_launches.find(kernel.submission));
			               launch.queue = queue_priority_of(item.priority);
			               operation.what = std::move(launch);
			               operation.is_urgent = kernel.is_border;
		               },
		               [&](const reduce_instruction& reduce) {
			               operation.what = operation_of(reduce);
			               operation.is_urgent = true; // as on the lanes of gathers
		               },
		               [&](const send_instruction&) {
			               operation.what = std::vector<copy_operation>{};
			               operation.raised.push_back(begun[step].first_flag);
			               if(begun[step].put.has_value()) operation.puts.push_back(*begun[step].put);
			               builder.set_answer(step, begun[step].first_flag + 1);
		               },
		               [&](const receive_instruction&) {
			               auto& copies = operation.what.emplace<std::vector<copy_operation>>();
			               auto flag = begun[step].first_flag;
			               for(const auto& fetch : begun[step].fetches) {
				               copies.push_back(fetch.copy);
				               operation.arrivals.push_back({fetch.inbox, flag});
				               operation.awaited.push_back(flag++);
				               if(fetch.answer.has_value()) operation.raised.push_back(flag++);
			               }
		               },
		               [](const auto&) { throw std::logic_error("a graph has copies, gathers, kernels, folds and transfers only"); },
		           },
		    item.operation);
		builder.add(step, std::move(operation));
	}
	return builder.finish();
}

void executor_loop::issue_run(const issue& item) {
	const auto& run = m_graphs.find(item.id);
	auto& graph = *run.graph;
	const auto begun = begin_run(run);
	if(graph.operations == nullptr) {
		graph.operations = m_backend->make_graph(operations_of(run, begun), m_flags.size());
		graph.fetched.clear();
		for(const auto& step : begun) {
			for(const auto& fetch : step.fetches) {
				graph.fetched.push_back(
				    {fetch.copy.source.address, *fetch.copy.source.array, fetch.copy.boxes.front(), fetch.inbox.has_value() ? fetch.inbox->array : box()});
			}
		}
	}
	m_backend->enqueue_graph({item.lane, item.sequence}, waits_of(item), *graph.operations, m_flags);
}

} // namespace celerity
