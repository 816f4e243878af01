// SPDX-License-Identifier: MIT
#include "run_operations.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include "dispatch/operations.hpp"
#include "scheduler/core/base/overloaded.hpp"

namespace celerity {

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

std::vector<graph_operation> operations_of(const graph_run& run, const std::span<const begun_step> begun, const allocation_table& allocations,
    const launch_table& launches) {
	run_builder builder(run);
	for(const auto step : builder.order()) {
		graph_operation operation;
		const auto& item = *run.instructions[run.graph->steps[step].place];
		std::visit(overloaded{
		               [&](const copy_instruction& copy) {
			               operation.what = operation_of(allocations, copy);
			               operation.origins = {copy.source.memory};
		               },
		               [&](const gather_copy_instruction& gather) {
			               operation.what = operation_of(allocations, gather);
			               for(const auto& source : gather.sources) operation.origins.push_back(source.allocation.memory);
		               },
		               [&](const device_kernel_instruction& kernel) {
			               auto launch = operation_of(allocations, kernel, *launches.find(kernel.submission));
			               launch.queue = queue_priority_of(item.priority);
			               operation.what = std::move(launch);
			               operation.is_urgent = kernel.is_border;
			               if(run.is_of_loop) operation.changeable = step;
		               },
		               [&](const reduce_instruction& reduce) {
			               operation.what = operation_of(allocations, reduce);
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
		               [](const auto&) { throw std::logic_error("a graph has copies, gathers, kernels, reductions and transfers only"); },
		           },
		    item.operation);
		builder.add(step, std::move(operation));
	}
	return builder.finish();
}

} // namespace celerity
