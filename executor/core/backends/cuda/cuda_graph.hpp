// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "devices/graph_devices.hpp"
#include "cuda_driver.hpp"
#include "cuda_graph_parts.hpp"
#include "memory/slab_arena.hpp"

namespace celerity {

/// A CUDA graph per device. They are launched together.
class cuda_graph final : public operation_graph {
  public:
	/// `is_cancelled` outlives the graph. Once it is set, the graph is left to the end of the process: operations may still run.
	cuda_graph(const cuda::driver& driver, std::vector<cuda_graph_part>&& by_device, const std::atomic<bool>& is_cancelled)
	    : parts(std::move(by_device)), m_driver(driver), m_is_cancelled(is_cancelled) {}
	~cuda_graph() override {
		if(m_is_cancelled.load(std::memory_order_relaxed)) return;
		for(const auto& part : parts) {
			if(part.handle != nullptr) m_driver.executable_graph_destroy(part.handle);
			if(part.source != nullptr) m_driver.graph_destroy(part.source);
		}
		for(const auto& [device, memory] : m_memory) memory.arena->deallocate(memory.address);
		for(const auto& table : m_next_tables) {
			for(const auto event : {table.is_written, table.is_taken}) {
				if(event != nullptr) m_driver.event_destroy(event);
			}
		}
	}

	/// Where the flags of a later launch wait until an earlier one is complete.
	struct next_table {
		cuda::device_pointer address = 0;
		cuda::event is_written = nullptr;
		cuda::event is_taken = nullptr;
	};
	/// For the launch after those that have called it before; with the current context. Only for flags with other ranks.
	const next_table& take_next_table(const cuda_graph_part& part) {
		const auto number = m_num_taken++ % m_next_tables.size();
		auto& table = m_next_tables[number];
		if(table.address == 0) {
			for(auto* const event : {&table.is_written, &table.is_taken}) {
				m_driver.check(m_driver.event_create(event, cuda::event_disable_timing), "cuEventCreate");
			}
			table.address = flag(part.device, static_cast<std::uint32_t>((number + 1) * part.num_flags));
		}
		return table;
	}

	static std::size_t memory_bytes(const cuda_graph_part& part) {
		const std::size_t num_tables = part.words.empty() ? 1 + num_next_tables : 1;
		return (num_tables * part.num_flags + part.num_words) * bytes_per_word + part.inbox_bytes;
	}
	/// Gives the device memory for flags, words and inboxes, all of it 0.
	void set_memory(const device_id device, slab_arena& arena, void* const address) { m_memory.emplace(device, part_memory{&arena, address}); }
	/// The `graph_flag` of the present launch.
	cuda::device_pointer flag(const device_id device, const std::uint32_t number) const {
		return cuda::to_device_pointer(m_memory.at(device).address) + number * bytes_per_word;
	}
	/// The flags of a part with other devices, before the first launch.
	std::vector<graph_flag> flags_with_devices(const cuda_graph_part& part) const {
		std::vector<graph_flag> flags;
		for(std::size_t i = 0; i < part.words.size(); ++i) flags.push_back({address_of(part.words[i]), 0, nullptr, 0, part.has_put[i] ? 1U : 0U});
		return flags;
	}
	/// Into which the part puts data with this flag, or which it has itself.
	graph_inbox inbox_of_put(const cuda_graph_part& part, const graph_put& put) const {
		return part.words.empty() ? put.inbox : inbox_on(part_on(part.words.at(put.flag).device), put.inbox);
	}
	std::optional<graph_inbox> inbox_of_arrival(const cuda_graph_part& part, const graph_arrival& arrival) const {
		return part.words.empty() || !arrival.inbox.has_value() ? arrival.inbox : std::optional(inbox_on(part, *arrival.inbox));
	}

	/// Devices look at some words all the time, and write others: each word has a sector of its own.
	static constexpr std::size_t bytes_per_word = 32;
	static_assert(sizeof(graph_flag) == bytes_per_word);

	std::vector<cuda_graph_part> parts; ///< at least one

  private:
	static constexpr std::size_t num_next_tables = 2; ///< one is written while the other is taken
	struct part_memory {
		slab_arena* arena = nullptr;
		void* address = nullptr; ///< flags, behind them words or tables for later launches, and behind these inboxes
	};
	const cuda::driver& m_driver;
	std::map<device_id, part_memory> m_memory;
	std::array<next_table, num_next_tables> m_next_tables;
	std::uint64_t m_num_taken = 0;
	const std::atomic<bool>& m_is_cancelled;

	const cuda_graph_part& part_on(const device_id device) const {
		return *std::find_if(parts.begin(), parts.end(), [&](const cuda_graph_part& part) { return part.device == device; });
	}
	cuda::device_pointer address_of(const cuda_graph_word& word) const { return flag(word.device, part_on(word.device).num_flags + word.number); }
	graph_inbox inbox_on(const cuda_graph_part& part, graph_inbox inbox) const {
		inbox.address += flag(part.device, part.num_flags + part.num_words);
		return inbox;
	}
};

/// For the thread that issues operations of the part's device.
struct cuda_graph_work {
	cuda_graph* graph;
	cuda_graph_part* part;
	bool prepares; ///< makes the handle if there is none yet, and sets the flags
	bool launches;
	std::vector<graph_flag> flags{}; ///< with other ranks, of this launch
	std::vector<changed_kernel> kernels{}; ///< of the part, from this launch on
};

} // namespace celerity
