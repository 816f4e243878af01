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

constexpr std::size_t most_flags = max_small_copies;
/// Of a device in a graph. Further copies are fetched.
constexpr std::size_t most_inbox_bytes = std::size_t{8} << 20;
constexpr std::size_t inbox_alignment_bytes = 128;

template <typename T>
std::vector<T> take_first(std::vector<T>& all, const std::size_t count) {
	const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size()));
	std::vector<T> first(all.begin(), end);
	all.erase(all.begin(), end);
	return first;
}

bool does_fetch(const graph_operation& operation) {
	const auto is_elsewhere = [&](const memory_id origin) { return is_device_memory(origin) && device_of(origin) != operation.device; };
	return std::any_of(operation.origins.begin(), operation.origins.end(), is_elsewhere);
}

bool is_nothing(const decltype(graph_operation::what)& what) {
	const auto* const copies = std::get_if<std::vector<copy_operation>>(&what);
	return copies != nullptr && copies->empty();
}

/// Whether the boxes of two copies meet, at these places of theirs.
bool do_overlap(const copy_operation& a, const array_place& place_of_a, const copy_operation& b, const array_place& place_of_b) {
	if(place_of_a.address != place_of_b.address) return false;
	return std::any_of(a.boxes.begin(), a.boxes.end(),
	    [&](const box& one) { return std::any_of(b.boxes.begin(), b.boxes.end(), [&](const box& other) { return one.overlaps(other); }); });
}

/// The copy whose data is there once the earlier operation of another device is complete, if an inbox can have it. The flag between the two is then the only
/// one that this copy awaits. So everything else that writes its source, or reads its destination from another device, comes before that operation, or before
/// one of the copy's own device.
const copy_operation* copy_behind(const std::span<const graph_operation> operations, const transitive_order& order, const std::uint32_t number,
    const std::uint32_t earlier) {
	const auto& operation = operations[number];
	const device_id from = operations[earlier].device;
	const auto is_there = [&](const auto other) { return operations[other].device == from; };
	if(std::count_if(operation.after.begin(), operation.after.end(), is_there) != 1) return nullptr;
	const auto is_from_there = [&](const memory_id memory) { return memory == memory_of(from); };
	const auto origin = std::find_if(operation.origins.begin(), operation.origins.end(), is_from_there);
	if(origin == operation.origins.end()) return nullptr;
	const auto& copy = copies_of(operation.what)[static_cast<std::size_t>(origin - operation.origins.begin())];
	const bool is_box_of_array = copy.boxes.size() == 1 && copy.source.array != nullptr && copy.destination.array != nullptr;
	if(!is_box_of_array || !graph_inbox::is_for(copy.boxes.front(), copy.element_size_bytes)) return nullptr;

	const auto may_disturb = [&](const std::uint32_t other) {
		const auto copies = copies_of(operations[other].what);
		if(is_there(other)) {
			const auto writes = [&](const copy_operation& made) { return do_overlap(made, made.destination, copy, copy.source); };
			if(copies.empty() || std::any_of(copies.begin(), copies.end(), writes)) return true; // a kernel may write anything
		}
		return std::any_of(copies.begin(), copies.end(), [&](const copy_operation& made) { return do_overlap(made, made.source, copy, copy.destination); });
	};
	for(std::uint32_t other = 0; other < number; ++other) {
		const bool is_elsewhere = operations[other].device != operation.device;
		if(!is_elsewhere || !order.is_before(other, number) || order.is_before(other, earlier) || !may_disturb(other)) continue;
		const auto is_here_behind = [&](const auto own) { return operations[own].device == operation.device && order.is_before(other, own); };
		if(is_there(other) || std::none_of(operation.after.begin(), operation.after.end(), is_here_behind)) return nullptr;
	}
	return &copy;
}

class part_builder {
  public:
	part_builder(const device_id device, const std::size_t num_rank_flags) {
		m_part.device = device;
		m_part.num_flags = static_cast<std::uint32_t>(num_rank_flags);
	}

	cuda_graph_word add_word() { return {m_part.device, m_part.num_words++}; }
	std::uint32_t add_flag(const cuda_graph_word& word, const bool has_put) {
		m_part.words.push_back(word);
		m_part.has_put.push_back(has_put);
		return m_part.num_flags++;
	}
	std::optional<graph_inbox> add_inbox(const box& array, const std::size_t element_size_bytes) {
		const auto size_bytes = graph_inbox::bytes_for(array, element_size_bytes);
		if(m_part.inbox_bytes + size_bytes > most_inbox_bytes) return std::nullopt;
		const auto place = m_part.inbox_bytes;
		m_part.inbox_bytes += (size_bytes + inbox_alignment_bytes - 1) / inbox_alignment_bytes * inbox_alignment_bytes;
		return graph_inbox{place, 1, array};
	}
	/// Without the edges that others imply: the driver carries out a node with several predecessors later than one in a chain.
	std::uint32_t add_node(cuda_graph_node&& node) {
		node.after = m_order.latest_of(std::move(node.after));
		m_order.add(node.after);
		m_part.nodes.push_back(std::move(node));
		return static_cast<std::uint32_t>(m_part.nodes.size() - 1);
	}
	/// The next exchange raises the flags behind these nodes, and puts into inboxes what goes with them.
	void raise_behind(const std::span<const std::uint32_t> nodes, const std::vector<std::uint32_t>& flags, const std::vector<graph_put>& puts) {
		if(flags.empty()) return;
		m_puts.insert(m_puts.end(), puts.begin(), puts.end());
		m_raised.insert(m_raised.end(), flags.begin(), flags.end());
		m_producers.insert(m_producers.end(), nodes.begin(), nodes.end());
	}
	/// Returns the node with the last wait and the copies.
	std::uint32_t add_exchange(std::vector<std::uint32_t> awaited, std::vector<std::uint32_t> awaited_by_end,
	    std::optional<decltype(graph_operation::what)> copies, const std::vector<std::uint32_t>& after, const std::vector<graph_arrival>& arrivals = {}) {
		while(m_raised.size() > most_flags) add_link({{}, take_first(m_raised, most_flags), {}, {}, m_producers});
		auto by_end = take_first(awaited_by_end, most_flags);
		awaited.insert(awaited.end(), awaited_by_end.begin(), awaited_by_end.end());
		cuda_graph_node node{{}, std::exchange(m_raised, {}), take_first(awaited, most_flags), {}, std::exchange(m_producers, {})};
		while(!awaited.empty()) {
			add_link(std::move(node));
			node = {{}, {}, take_first(awaited, most_flags), {}, {}};
		}
		node.awaited_by_end = std::move(by_end);
		node.what = std::move(copies);
		node.arrivals = arrivals;
		node.after.insert(node.after.end(), after.begin(), after.end());
		return add_link(std::move(node));
	}
	cuda_graph_part finish() {
		if(!m_raised.empty()) add_exchange({}, {}, std::nullopt, {});
		return std::move(m_part);
	}

  private:
	cuda_graph_part m_part;
	transitive_order m_order; ///< of the nodes
	std::vector<std::uint32_t> m_raised; ///< by the next exchange
	std::vector<graph_put> m_puts; ///< with some of these
	std::vector<std::uint32_t> m_producers; ///< before it
	std::optional<std::uint32_t> m_last_exchange;

	/// Exchanges follow each other.
	std::uint32_t add_link(cuda_graph_node&& node) {
		std::erase_if(m_puts, [&](const graph_put& put) {
			const bool is_now = std::find(node.raised.begin(), node.raised.end(), put.flag) != node.raised.end();
			if(is_now) node.puts.push_back(put);
			return is_now;
		});
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
	std::vector<std::vector<graph_put>> puts(operations.size());
	std::vector<std::vector<graph_arrival>> arrivals(operations.size());
	std::map<std::pair<std::uint32_t, device_id>, std::uint32_t> first_reader; // to operations
	transitive_order order; // of the operations
	for(std::uint32_t i = 0; i < operations.size(); ++i) {
		const device_id to = operations[i].device;
		order.add({operations[i].after.begin(), operations[i].after.end()});
		raised[i].assign(operations[i].raised.begin(), operations[i].raised.end());
		awaited[i].assign(operations[i].awaited.begin(), operations[i].awaited.end());
		puts[i] = operations[i].puts;
		arrivals[i] = operations[i].arrivals;
		std::vector<std::uint32_t> first_read; // by this operation
		for(const auto earlier : operations[i].after) {
			if(operations[earlier].device != to && first_reader.try_emplace({earlier, to}, i).second) first_read.push_back(earlier);
		}
		const auto copies = copies_of(operations[i].what);
		std::map<std::uint32_t, const copy_operation*> behind; // by earlier operation
		for(const auto earlier : first_read) {
			if(const auto* const copy = copy_behind(operations, order, i, earlier); copy != nullptr) behind.emplace(earlier, copy);
		}
		// A copy without a flag of its own may need any of the flags.
		if(behind.size() != copies.size() || !fits(operations[i].what)) behind.clear();
		for(const auto earlier : first_read) {
			const device_id from = operations[earlier].device;
			const auto word = parts.at(to).add_word();
			const auto found = behind.find(earlier);
			const auto* const copy = found != behind.end() ? found->second : nullptr;
			const auto inbox = copy != nullptr ? parts.at(to).add_inbox(copy->boxes.front(), copy->element_size_bytes) : std::nullopt;
			const auto raise = parts.at(from).add_flag(word, inbox.has_value());
			const auto wait = parts.at(to).add_flag(word, inbox.has_value());
			raised[earlier].push_back(raise);
			awaited[i].push_back(wait);
			if(copy == nullptr) continue;
			if(inbox.has_value()) puts[earlier].push_back({*copy, *inbox, raise});
			arrivals[i].resize(copies.size());
			arrivals[i][static_cast<std::size_t>(copy - copies.data())] = {inbox, wait};
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
		std::vector<std::uint32_t> by_end(operation.awaited_by_end.begin(), operation.awaited_by_end.end());
		const bool awaits_nothing = awaited[i].empty() && by_end.empty();
		if(awaits_nothing && is_nothing(operation.what)) {
			nodes.push_back(std::move(after));
		} else if(awaits_nothing) {
			nodes.push_back(
			    {part.add_node({operation.what, {}, {}, {}, std::move(after), operation.is_urgent, does_fetch(operation), {}, {}, operation.changeable})});
		} else if(fits(operation.what)) {
			const auto has_arrival = [&](const std::uint32_t flag) {
				return std::any_of(arrivals[i].begin(), arrivals[i].end(), [=](const graph_arrival& arrival) { return arrival.flag == flag; });
			};
			std::erase_if(awaited[i], has_arrival);
			wait = part.add_exchange(awaited[i], std::move(by_end), operation.what, after, arrivals[i]);
			nodes.push_back({wait});
		} else {
			wait = part.add_exchange(awaited[i], std::move(by_end), std::nullopt, {});
			after.push_back(wait);
			nodes.push_back(
			    {part.add_node({operation.what, {}, {}, {}, std::move(after), operation.is_urgent, does_fetch(operation), {}, {}, operation.changeable})});
		}
		waits.push_back(wait);
		part.raise_behind(nodes.back(), raised[i], puts[i]);
	}

	std::vector<cuda_graph_part> result;
	for(auto& [device, part] : parts) result.push_back(part.finish());
	return result;
}

} // namespace celerity
