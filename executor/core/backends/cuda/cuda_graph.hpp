// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "backends/backend.hpp"
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
		}
		for(const auto& [device, memory] : m_words) memory.arena->deallocate(memory.address);
	}

	/// Gives the device memory for words, all of them 0.
	void set_words(const device_id device, slab_arena& arena, void* const address) { m_words.emplace(device, word_memory{&arena, address}); }
	/// Words also hold the flags of other ranks.
	cuda::device_pointer word(const device_id device, const std::uint32_t number) const {
		return cuda::to_device_pointer(m_words.at(device).address) + number * bytes_per_word;
	}
	/// A flag in an exchange of the device, which raises it or waits for it.
	cuda_small_copies::exchange_flag flag_of(const device_id device, const cuda_node_flag& flag) const {
		if(const auto* const number = std::get_if<rank_flag_number>(&flag)) return {word(device, static_cast<std::uint32_t>(*number)), 0};
		const auto& between = std::get<cuda_graph_flag>(flag);
		return {word(between.to, between.word), word(device, device == between.from ? between.raised_count : between.awaited_count)};
	}

	/// Devices look at some words all the time, and write others: each word has a sector of its own.
	static constexpr std::size_t bytes_per_word = 32;
	static_assert(sizeof(rank_flag) <= bytes_per_word);

	std::vector<cuda_graph_part> parts; ///< at least one
	bool is_prepared = false;           ///< the issuing threads have been told to make the handles

  private:
	struct word_memory {
		slab_arena* arena = nullptr;
		void* address = nullptr;
	};
	const cuda::driver& m_driver;
	std::map<device_id, word_memory> m_words;
	const std::atomic<bool>& m_is_cancelled;
};

/// For the thread that issues operations of the part's device: makes the handle if there is none yet.
struct cuda_graph_step {
	const cuda_graph* graph;
	cuda_graph_part* part;
	bool launches;
	std::vector<rank_flag> flags{}; ///< of this launch
};

} // namespace celerity
