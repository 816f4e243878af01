// SPDX-License-Identifier: MIT
#include "period_graphs.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>

#include "dispatch/instruction_facts.hpp"
#include "scheduler/core/base/transitive_order.hpp"

namespace celerity {

namespace {

/// A graph saves calls of the driver. One operation is cheaper without it.
constexpr std::size_t fewest_operations = 2;
/// The time to make a graph, and the delay until its horizons are reported, grow with it.
constexpr std::size_t most_periods = 16;
constexpr std::size_t most_instructions = 4096;
/// A longer period is divided: devices carry out its first segments while the host is at work on those behind. Each segment costs a launch.
constexpr std::size_t most_undivided = 256;
constexpr std::size_t most_in_segment = 192; ///< on average; half of that at least
/// The first segment is so many times shorter, as the devices wait for it.
constexpr std::size_t first_divisor = 4;
/// Batches of a plain loop whose kernels are others than before, until no graph carries them out any more.
constexpr unsigned most_misfits = 4;
/// Of numbers of periods per template; segments of a period count as one.
constexpr std::size_t most_graphs = 32;
constexpr std::size_t most_in_graphs = most_graphs * most_instructions;
constexpr std::size_t most_in_period = most_in_graphs / 2;

/// Of a copy in a graph. The words of a kernel that copies have numbers of 32 bits.
constexpr std::size_t most_copied_bytes = std::size_t{1} << 31;

bool uses_user_memory(const copy_instruction& copy) { return copy.source.is_of_user() || copy.destination.is_of_user(); }

/// The device on whose lanes the instruction runs, if a graph of this device may carry it out.
std::optional<device_id> device_of_step(const instruction& item, const request_rules& rules) {
	if(const auto* const send = std::get_if<send_instruction>(&item.operation)) {
		return rules.direct.is_direct(*send) ? std::optional(device_of(send->source.memory)) : std::nullopt;
	}
	if(const auto* const receive = std::get_if<receive_instruction>(&item.operation)) {
		return rules.direct.has_peers() && is_device_memory(receive->destination.memory) ? std::optional(device_of(receive->destination.memory)) : std::nullopt;
	}
	const auto request = make_request(item, rules);
	if(request.policy != issue_policy::plain) return std::nullopt;
	const auto& lanes = rules.devices.lane_classes()[request.lane_class];
	const auto* const copy = std::get_if<copy_instruction>(&item.operation);
	if(lanes.kind == lane_kind::host_copy || (copy != nullptr && (uses_user_memory(*copy) || size_bytes_of(*copy) >= most_copied_bytes))) return std::nullopt;
	// Between devices, the one that waits for the data fetches it.
	return copy != nullptr && is_device_memory(copy->destination.memory) ? device_of(copy->destination.memory) : lanes.device;
}

/// Finds the edges between the steps of a run. A horizon is no step: its successors follow its predecessors.
class edge_finder {
  public:
	explicit edge_finder(const instruction_span run) : m_run(run), m_fronts(run.size()) {}

	std::vector<period_graph::step> find(const request_rules& rules) {
		for(std::uint32_t place = 0; place < m_run.size(); ++place) {
			auto front = front_before(place);
			if(std::holds_alternative<horizon_instruction>(m_run[place]->operation)) {
				m_fronts[place] = std::move(front);
				continue;
			}
			const auto self = static_cast<std::uint32_t>(m_steps.size());
			m_steps.push_back({place, device_of_step(*m_run[place], rules).value(), small_vector<std::uint32_t, 4>(front)});
			m_order.add(front);
			m_fronts[place] = {self};
		}
		return std::move(m_steps);
	}

  private:
	instruction_span m_run;
	std::vector<period_graph::step> m_steps;
	transitive_order m_order;                         ///< of the steps
	std::vector<std::vector<std::uint32_t>> m_fronts; ///< by place: the last steps that are complete when the instruction is

	std::vector<std::uint32_t> front_before(const std::uint32_t place) const {
		std::vector<std::uint32_t> candidates;
		const auto first = m_run.front()->id.value;
		for(const auto dependency : m_run[place]->dependencies) {
			if(dependency.value < first) continue;
			const auto& front = m_fronts[dependency.value - first];
			candidates.insert(candidates.end(), front.begin(), front.end());
		}
		return m_order.latest_of(std::move(candidates));
	}
};

bool is_operation(const instruction& item) { return !std::holds_alternative<horizon_instruction>(item.operation); }

/// Divides a period where all keys before are of smaller tasks than all keys behind. Ranks have different numbers of instructions, and wait for each other at
/// the end of a segment. They count tasks in powers of two instead: so they divide a period at the same tasks, or at some of these.
std::vector<std::size_t> divide(const instruction_span period) {
	if(period.size() <= most_undivided) return {period.size()};
	std::vector<std::uint64_t> smallest_from(period.size()); // of the tasks
	for(std::size_t i = period.size(); i-- > 0;) {
		const auto task = period[i]->key.task.value;
		smallest_from[i] = i + 1 < period.size() ? std::min<std::uint64_t>(task, smallest_from[i + 1]) : task;
	}
	const auto first_task = smallest_from.front();
	std::uint64_t latest = first_task;
	for(const auto* const item : period) latest = std::max<std::uint64_t>(latest, item->key.task.value);
	const std::uint64_t tasks_per_segment = std::bit_floor(std::max<std::uint64_t>(most_in_segment * (latest - first_task + 1) / period.size(), 1));
	const auto segment_of = [&](const std::uint64_t task) {
		const auto number = task - first_task;
		return number < tasks_per_segment / first_divisor ? 0 : 1 + number / tasks_per_segment;
	};

	std::vector<std::size_t> ends;
	std::size_t num_operations = 0; // of the segment
	latest = first_task;
	for(std::size_t i = 0; i < period.size(); ++i) {
		const bool may_divide = num_operations >= fewest_operations && latest < smallest_from[i];
		if(may_divide && segment_of(latest) < segment_of(smallest_from[i])) {
			ends.push_back(i);
			num_operations = 0;
		}
		num_operations += is_operation(*period[i]) ? 1 : 0;
		latest = std::max<std::uint64_t>(latest, period[i]->key.task.value);
	}
	if(num_operations < fewest_operations && !ends.empty()) ends.pop_back();
	ends.push_back(period.size());
	return ends;
}

bool can_be_graphs(const instruction_span period, const std::vector<std::size_t>& segment_ends, const request_rules& rules) {
	if(period.size() > most_in_period) return false;
	std::size_t begin = 0;
	for(const auto end : segment_ends) {
		if(end - std::exchange(begin, end) > most_instructions) return false;
	}
	std::size_t num_operations = 0;
	for(const auto* const item : period) {
		if(!is_operation(*item)) continue;
		if(!device_of_step(*item, rules).has_value()) return false;
		++num_operations;
	}
	return num_operations >= fewest_operations;
}

void count(executor_statistics& counts, const instruction& item) {
	++counts.instructions[kind_of(item.operation)];
	++counts.instructions_by_priority[queue_priority_of(item.priority)];
	std::visit([&](const auto& operation) { count_copies(counts, operation); }, item.operation);
}

template <typename Enum>
void add(counts_of<Enum>& sums, const counts_of<Enum>& counts) {
	std::transform(sums.begin(), sums.end(), counts.begin(), sums.begin(), std::plus{});
}

/// Of the next run, if `num_left` are left. Few different numbers: each takes a graph.
std::size_t periods_of_next_run(const std::size_t num_left, const std::size_t period_size) {
	return std::bit_floor(std::min({num_left, most_periods, std::max<std::size_t>(most_instructions / period_size, 1)}));
}

} // namespace

period_graph::period_graph(const instruction_span run, const request_rules& rules) : steps(edge_finder(run).find(rules)) {
	for(std::uint32_t place = 0; place < run.size(); ++place) {
		const auto is_before = [&](const instruction_id id) { return id < run.front()->id; };
		if(std::any_of(run[place]->dependencies.begin(), run[place]->dependencies.end(), is_before)) entrances.push_back(place);
		count(counts, *run[place]);
		has_transfers |= is_transfer(*run[place]);
	}
}

void period_graph::add_counts(executor_statistics& sums) const {
	add(sums.instructions, counts.instructions);
	std::transform(sums.instructions_by_priority.begin(), sums.instructions_by_priority.end(), counts.instructions_by_priority.begin(),
	    sums.instructions_by_priority.begin(), std::plus{});
	add(sums.copies, counts.copies);
	add(sums.copied_bytes, counts.copied_bytes);
	++sums.graph_runs;
	sums.graph_instructions += std::accumulate(counts.instructions.begin(), counts.instructions.end(), std::uint64_t{0});
}

void period_graphs::forget_dead_templates() {
	std::erase_if(m_templates, [&](const known_template& known) {
		if(!known.identity.expired()) return false;
		std::erase_if(m_graphs, [&](const cached_graphs& cached) { return cached.identity == known.address; });
		return true;
	});
}

std::vector<period_graphs::known_template>::const_iterator period_graphs::find_template(const instruction_batch& batch) const {
	return std::find_if(m_templates.begin(), m_templates.end(), [&](const known_template& entry) { return entry.address == batch.replayed.get(); });
}

bool period_graphs::is_eligible(const instruction_batch& batch, const request_rules& rules) {
	forget_dead_templates();
	if(batch.replayed == nullptr) return false;
	if(const auto known = find_template(batch); known != m_templates.end()) return known->is_eligible;
	const auto period = instruction_span(batch.instructions).first(batch.instructions.size() / batch.num_periods);
	auto segment_ends = divide(period);
	const bool is_eligible = can_be_graphs(period, segment_ends, rules);
	m_templates.push_back({batch.replayed, batch.replayed.get(), is_eligible, std::move(segment_ends)});
	if(!is_eligible) forbid(batch);
	return is_eligible;
}

bool period_graphs::has_known_kernels(const instruction_batch& batch, const launch_table& launches) {
	auto& known = *std::find_if(m_templates.begin(), m_templates.end(), [&](const known_template& entry) { return entry.address == batch.replayed.get(); });
	const auto period_size = batch.instructions.size() / batch.num_periods;
	const auto launch_at = [&](const std::size_t i) -> const native_launch* {
		const auto* const kernel = std::get_if<device_kernel_instruction>(&batch.instructions[i]->operation);
		return kernel != nullptr ? launches.find(kernel->submission) : nullptr;
	};
	if(known.kernels.empty()) {
		for(std::size_t i = 0; i < period_size; ++i) {
			if(const auto* const launch = launch_at(i); launch != nullptr) known.kernels.push_back({i, launch->kernel, launch->space});
		}
	}
	for(std::size_t first = 0; first < batch.instructions.size(); first += period_size) {
		for(const auto& [place, kernel, space] : known.kernels) {
			const auto* const launch = launch_at(first + place);
			if(launch != nullptr && launch->kernel == kernel && launch->space == space) continue;
			if(++known.num_misfits == most_misfits) forbid(batch);
			return false;
		}
	}
	return true;
}

void period_graphs::forbid(const instruction_batch& batch) {
	for(auto& known : m_templates) known.is_eligible = known.is_eligible && known.address != batch.replayed.get();
	if(batch.loop != nullptr) batch.loop->is_refused.store(true, std::memory_order_relaxed);
}

batch_part period_graphs::part_from(const instruction_batch& batch, const std::size_t first) const {
	batch_part part{batch, first};
	const auto& ends = find_template(batch)->segment_ends;
	if(ends.size() > 1) {
		const auto place = first % part.period_size();
		part.size = *std::upper_bound(ends.begin(), ends.end(), place) - place;
	} else {
		part.size = part.period_size() * periods_of_next_run((batch.instructions.size() - first) / part.period_size(), part.period_size());
	}
	return part;
}

std::shared_ptr<period_graph> period_graphs::graph_of(const batch_part& part, const request_rules& rules) {
	const void* const identity = part.batch.replayed.get();
	const auto place = part.first % part.period_size();
	const auto find = [&] {
		return std::find_if(m_graphs.begin(), m_graphs.end(),
		    [&](const cached_graphs& cached) { return cached.identity == identity && cached.num_periods == part.num_periods(); });
	};
	auto found = find();
	if(found != m_graphs.end()) {
		found->last_use = ++m_num_uses;
		if(const auto graph = found->by_first.find(place); graph != found->by_first.end()) return graph->second;
	} else {
		make_room(1, 0);
		m_graphs.push_back({identity, part.num_periods(), {}, 0, ++m_num_uses});
	}
	make_room(0, part.size);
	found = find();
	found->num_instructions += part.size;
	return found->by_first.emplace(place, std::make_shared<period_graph>(part.instructions(), rules)).first->second;
}

/// For so many more. The graphs that were used last stay.
void period_graphs::make_room(const std::size_t num_graphs, const std::size_t num_instructions) {
	const auto is_too_much = [&] {
		std::size_t sum = num_instructions;
		for(const auto& cached : m_graphs) sum += cached.num_instructions;
		return m_graphs.size() + num_graphs > most_graphs || sum > most_in_graphs;
	};
	while(is_too_much()) {
		m_graphs.erase(
		    std::min_element(m_graphs.begin(), m_graphs.end(), [](const cached_graphs& a, const cached_graphs& b) { return a.last_use < b.last_use; }));
	}
}

// The run may wait for other ranks from its smallest key on. All other instructions with keys of its tasks belong to it, too.
issue_request period_graphs::add_run(const batch_part& part, const request_rules& rules) {
	const auto items = part.instructions();
	if(items.back()->id.value - items.front()->id.value + 1 != items.size()) throw std::logic_error("a replayed period has ids with gaps");
	auto& graph =
	    *m_runs.emplace(items.front()->id, graph_run{{items.begin(), items.end()}, graph_of(part, rules), part.batch.loop != nullptr}).first->second.graph;

	m_dependencies.clear();
	for(const auto place : graph.entrances) {
		for(const auto id : items[place]->dependencies) {
			if(id < items.front()->id) m_dependencies.push_back(id);
		}
	}
	auto request = make_request(*items[graph.steps.front().place], rules);
	request.id = items.front()->id;
	request.num_ids = items.size();
	request.dependencies = m_dependencies;
	request.priority = 0;
	for(const auto& step : graph.steps) request.priority = std::max(request.priority, items[step.place]->priority);
	request.lane_class = rules.devices.kernel_class(graph.steps.front().device, false, queue_priority_of(request.priority));
	if(graph.has_transfers) {
		request.policy = issue_policy::pull;
		for(const auto& step : graph.steps) request.key = std::min(request.key, items[step.place]->key);
		m_dependencies.push_back(std::exchange(graph.latest_run, request.id)); // whose flags the graph still holds
		request.dependencies = m_dependencies;
	}
	return request;
}

} // namespace celerity
