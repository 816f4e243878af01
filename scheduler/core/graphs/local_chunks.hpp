// SPDX-License-Identifier: MIT
// The chunks of a task: of each rank, and of the devices of one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "geometry/grid.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// The ranks, and the devices of one of them.
struct partition {
	std::size_t num_ranks = 1;
	rank_id local_rank;
	std::size_t num_devices = 1;
};

/// The share of each rank in a task: mostly one chunk, several in a cyclic split, and none for a rank with weight 0. Ranks from `size` on have none
/// either; the last one before has some.
class rank_shares {
  public:
	rank_shares() = default;
	/// Chunk i is the share of rank i.
	explicit rank_shares(box_vector one_per_rank) : m_chunks(std::move(one_per_rank)) {}

	void add_share(std::span<const box> chunks);

	std::size_t size() const { return m_ends.empty() ? m_chunks.size() : m_ends.size(); }
	std::span<const box> of(const std::size_t rank) const {
		if(rank >= size()) return {};
		if(m_ends.empty()) return {&m_chunks[rank], 1};
		const std::size_t begin = rank == 0 ? 0 : m_ends[rank - 1];
		return all().subspan(begin, m_ends[rank] - begin);
	}
	std::span<const box> all() const { return m_chunks; }
	/// The lowest rank with a share.
	std::size_t first() const {
		std::size_t rank = 0;
		while(of(rank).empty()) ++rank;
		return rank;
	}
	bool are_several() const { return first() + 1 < size(); }
	std::vector<rank_id> ranks_with_share() const {
		std::vector<rank_id> ranks;
		for(std::size_t rank = 0; rank < size(); ++rank) {
			if(!of(rank).empty()) ranks.emplace_back(static_cast<std::uint32_t>(rank));
		}
		return ranks;
	}

  private:
	box_vector m_chunks;
	std::vector<std::size_t> m_ends; ///< by rank, if not each has one chunk: the end of its chunks
};

/// The union of the regions map(chunk).
template <typename Map>
region map_chunks(const std::span<const box> chunks, const Map& map) {
	if(chunks.size() == 1) return map(chunks.front());
	box_vector boxes;
	for(const box& chunk : chunks) boxes.append(map(chunk).boxes());
	return region(std::move(boxes));
}

/// The same on every rank.
rank_shares split_among_ranks(const task& node, std::size_t num_ranks);

/// A share, which may be empty, with the borders of other shares that a replicated execution computes as well.
box with_reach(const task_geometry& geometry, const box& share);
rank_shares with_reach(const task_geometry& geometry, const rank_shares& shares);

/// A part of a rank's share, and the memory in which it runs.
struct local_chunk {
	box chunk;
	memory_id memory;
	bool is_border = false; ///< other devices wait for its results
};

/// The i-th box is the share of device i in a rank's share, which is one box. It may be empty.
box_vector shares_of_devices(const task_geometry& geometry, const box& share, const partition& parts);

/// Divides a rank's share of a task among its devices. The blocks of a cyclic split go to the devices in turns, by their numbers. In all other splits the share
/// is one box, and so is the share of each device. With the reach of a replicated execution, it is then divided into oversubscribed parts, or into borders and
/// the interior that they enclose, borders first. So each item runs once per memory. Host tasks stay whole. So do the shares of tasks with reductions: a device has one place for partial results, so its chunks would take turns.
void split_among_devices(const task& node, std::span<const box> share, const partition& parts, std::vector<local_chunk>& out);

} // namespace celerity
