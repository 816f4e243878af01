// SPDX-License-Identifier: MIT
#include "cuda_graph_parts.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <stdexcept>
#include <utility>

#include "scheduler/core/base/transitive_order.hpp"

namespace celerity {

namespace {

constexpr std::size_t most_flags = cuda_small_copies::max_parts;

template <typename T>
std::vector<T> take_first(std::vector<T>& all, const std::size_t count) {
	const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size()));
	std::vector<T> first(all.begin(), end);
	all.erase(all.begin(), end);
	return first;
}

bool is_nothing(const decltype(graph_operation::what)& what) {
	const auto* const copies = std::get_if<std::vector<copy_operation>>(&what);
	return copies != nullptr && copies->empty();
}

class part_builder {
  public:
	part_builder(const device_id device, const std::size_t num_rank_flags) {
		m_part.device = device;
		m_part.num_flags = static_cast<std::uint32_t>(num_rank_flags);
	}

	cuda_graph_word add_word() { return {m_part.device, m_part.num_words++}; }
	std::uint32_t add_flag(const cuda_graph_word& word) {
		m_part.words.push_back(word);
		return m_part.num_flags++;
	}
	/// Without the edges that others imply: the driver carries out a node with several predecessors later than one in a chain.
	std::uint32_t add_node(cuda_graph_node&& node) {
		node.after = m_order.latest_of(std::move(node.after));
		m_order.add(node.after);
		m_part.nodes.push_back(std::move(node));
		return static_cast<std::uint32_t>(m_part.nodes.size() - 1);
	}
	/// The next exchange raises the flags behind these nodes.
	void raise_behind(const std::span<const std::uint32_t> nodes, const std::vector<std::uint32_t>& flags) {
		if(flags.empty()) return;
		m_raised.insert(m_raised.end(), flags.begin(), flags.end());
		m_producers.insert(m_producers.end(), nodes.begin(), nodes.end());
	}
	/// Returns the node with the last wait and the copies.
	std::uint32_t add_exchange(std::vector<std::uint32_t> awaited, std::optional<decltype(graph_operation::what)> copies,
	    const std::vector<std::uint32_t>& after) {
		while(m_raised.size() > most_flags) add_link({{}, take_first(m_raised, most_flags), {}, m_producers});
		cuda_graph_node node{{}, std::exchange(m_raised, {}), take_first(awaited, most_flags), std::exchange(m_producers, {})};
		while(!awaited.empty()) {
			add_link(std::move(node));
			node = {{}, {}, take_first(awaited, most_flags), {}};
		}
		node.what = std::move(copies);
		node.after.insert(node.after.end(), after.begin(), after.end());
		return add_link(std::move(node));
	}
	cuda_graph_part finish() {
		if(!m_raised.empty()) add_exchange({}, std::nullopt, {});
		return std::move(m_part);
	}

  private:
	cuda_graph_part m_part;
	transitive_order m_order; ///< of the nodes
	std::vector<std::uint32_t> m_raised; ///< by the next exchange
	std::vector<std::uint32_t> m_producers; ///< before it
	std::optional<std::uint32_t> m_last_exchange;

	/// Exchanges follow each other.
	std::uint32_t add_link(cuda_graph_node&& node) {
		if(m_last_exchange.has_value()) node.after.push_back(*m_last_exchange);
		m_last_exchange = add_node(std::move(node));
		return *m_last_exchange;
	}
};

} // namespace

std::vector<cuda_graph_part> part_by_device(const std::span<const graph_operation> operations, const std::size_t num_rank_flags,
    const std::function<bool(const decltype(graph_operation::what)&)>& fits) {
	std::map<device_id, part_builder> parts;
	for(const auto& operation : operations) parts.try_emplace(operation.device, operation.device, num_rank_flags);
	if(num_rank_flags > 0 && parts.size() > 1) throw std::logic_error("a graph of several devices has flags of other ranks");

	// One flag from an operation to each other device; the first operation there that depends on it waits for the flag.
	std::vector<std::vector<std::uint32_t>> raised(operations.size());
	std::vector<std::vector<std::uint32_t>> awaited(operations.size());
	std::map<std::pair<std::uint32_t, device_id>, std::uint32_t> first_reader; // to operations
	for(std::uint32_t i = 0; i < operations.size(); ++i) {
		const device_id to = operations[i].device;
		raised[i].assign(operations[i].raised.begin(), operations[i].raised.end());
		awaited[i].assign(operations[i].awaited.begin(), operations[i].awaited.end());
		for(const auto earlier : operations[i].after) {
			const device_id from = operations[earlier].device;
			if(from == to || !first_reader.try_emplace({earlier, to}, i).second) continue;
			const auto word = parts.at(to).add_word();
			raised[earlier].push_back(parts.at(from).add_flag(word));
			awaited[i].push_back(parts.at(to).add_flag(word));
		}
	}

	std::vector<std::vector<std::uint32_t>> nodes; // by operation: the nodes behind which it is complete; several if it has no node of its own
	std::vector<std::uint32_t> waits; // by operation: the node that waits for its flags
	for(std::uint32_t i = 0; i < operations.size(); ++i) {
		const auto& operation = operations[i];
		auto& part = parts.at(operation.device);
		std::vector<std::uint32_t> after;
		for(const auto earlier : operation.after) {
			if(operations[earlier].device == operation.device) {
				after.insert(after.end(), nodes[earlier].begin(), nodes[earlier].end());
			} else if(const auto reader = first_reader.at({earlier, operation.device}); reader != i) {
				after.push_back(waits[reader]);
			}
		}
		std::uint32_t wait = 0;
		if(awaited[i].empty() && is_nothing(operation.what)) {
			nodes.push_back(std::move(after));
		} else if(awaited[i].empty()) {
			nodes.push_back({part.add_node({operation.what, {}, {}, std::move(after), operation.is_urgent})});
		} else if(fits(operation.what)) {
			wait = part.add_exchange(awaited[i], operation.what, after);
			nodes.push_back({wait});
		} else {
			wait = part.add_exchange(awaited[i], std::nullopt, {});
			after.push_back(wait);
			nodes.push_back({part.add_node({operation.what, {}, {}, std::move(after), operation.is_urgent})});
		}
		waits.push_back(wait);
		part.raise_behind(nodes.back(), raised[i]);
	}

	std::vector<cuda_graph_part> result;
	for(auto& [device, part] : parts) result.push_back(part.finish());
	return result;
}

} // namespace celerity
