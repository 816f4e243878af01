// SPDX-License-Identifier: MIT
// Lanes: in-order queues of a device (a CUDA stream) or of the host (a thread), with the positions that each lane has waited for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/base/names.hpp"
#include "scheduler/core/vocabulary/task.hpp"

namespace celerity {

enum class lane_kind : std::uint8_t { compute, host_to_device, device_to_host, peer, host_copy, pull, signal, urgent, raised };
template <>
inline constexpr std::array<const char*, 9> names_of<lane_kind>{
    "compute", "host_to_device", "device_to_host", "peer", "host_copy", "pull", "signal", "urgent", "raised"};

using lane_index = std::uint32_t;
inline constexpr lane_index no_lane = UINT32_MAX;

/// A bounded pool of interchangeable lanes.
struct lane_class {
	lane_kind kind = lane_kind::compute;
	device_id device;
	std::uint32_t size = 1;
	/// Lanes of one domain can wait for each other without the host.
	std::uint32_t domain = 0;
	/// Instructions in flight on the class where there are queues of several priorities; 0: any number. The lanes carry out in the order of issue
	/// what is in flight, so that an instruction of a higher queue waits for no more than these.
	std::uint32_t most_shared = 0;
	queue_priority queue = 0; ///< of `raised`: the queues for whose kernels they are
};

/// "Everything up to and including `sequence` on `lane`"; sequence numbers count from 1 on each lane.
struct lane_position {
	lane_index lane = 0;
	std::uint64_t sequence = 0;
	friend bool operator==(const lane_position&, const lane_position&) = default;
};

/// Book-keeping only; knows nothing of instructions but the slot numbers it is given.
///
/// A lane is open from its first instruction on. Clocks are as long as there are open lanes, in the order in which they were opened: lanes that a
/// program has no use for cost nothing.
class lane_pool {
  public:
	explicit lane_pool(std::span<const lane_class> classes);

	std::size_t num_lanes() const { return m_lanes.size(); }
	std::size_t num_classes() const { return m_classes.size(); }
	const lane_class& class_info(const std::uint32_t cls) const { return m_classes[cls]; }
	std::uint32_t class_of(const lane_index lane) const { return m_lanes[lane].cls; }
	device_id device_of(const lane_index lane) const { return m_classes[m_lanes[lane].cls].device; }
	std::uint32_t domain_of(const lane_index lane) const { return m_lanes[lane].domain; }

	std::uint64_t issued(const lane_index lane) const { return m_lanes[lane].issued; }
	std::uint64_t completed(const lane_index lane) const { return m_lanes[lane].completed; }
	std::uint64_t in_flight(const lane_index lane) const { return m_lanes[lane].issued - m_lanes[lane].completed; }

	/// Whether the lane takes the instruction now. One that is enqueued at once must not overtake one that a launcher thread has yet to enqueue.
	bool accepts(const lane_index lane, const bool deferred) const { return deferred || m_lanes[lane].pending_deferred == 0; }
	void add_deferred(const lane_index lane) { ++m_lanes[lane].pending_deferred; }
	void remove_deferred(const lane_index lane) { --m_lanes[lane].pending_deferred; }

	/// The lane of the class with the fewest instructions in flight among those that accept, the first of several; `no_lane` if none does.
	lane_index find_least_loaded(std::uint32_t cls, bool deferred) const;

	/// In the order in which they were opened.
	std::span<const lane_index> open_lanes() const { return m_open; }
	std::size_t num_open() const { return m_num_open; }
	/// Before the first instruction of the lane, and before clock(lane) is asked for. Clocks get longer by it.
	void open(const lane_index lane) {
		if(m_places[lane] != not_open) return;
		m_places[lane] = static_cast<std::uint32_t>(m_num_open++);
		m_open.push_back(lane);
	}
	/// Of an open lane, in clocks.
	std::uint32_t place_in_clocks(const lane_index lane) const { return m_places[lane]; }

	/// Appends to the open lane; returns the sequence number.
	std::uint64_t push(lane_index lane, std::uint32_t slot);
	/// The oldest incomplete slot of the lane.
	std::uint32_t front(const lane_index lane) const {
		const auto& l = m_lanes[lane];
		return l.slots[(l.completed + 1) & (l.slots.size() - 1)];
	}
	/// Of a position that is issued and not complete.
	std::uint32_t at(const lane_position& position) const {
		const auto& l = m_lanes[position.lane];
		return l.slots[position.sequence & (l.slots.size() - 1)];
	}
	void pop_front(const lane_index lane) { ++m_lanes[lane].completed; }

	/// Highest sequence number of every open lane (itself included) that work appended to `lane` now would run after.
	std::span<std::uint64_t> clock(const lane_index lane) { return {m_clocks.data() + lane * m_stride, m_num_open}; }

  private:
	static constexpr std::uint32_t not_open = UINT32_MAX;

	struct lane {
		std::uint32_t cls = 0;
		std::uint32_t domain = 0;
		std::uint32_t pending_deferred = 0;
		std::uint64_t issued = 0;
		std::uint64_t completed = 0;
		std::vector<std::uint32_t> slots; // ring by sequence number; size is a power of two
	};

	std::vector<lane_class> m_classes;
	std::vector<lane_index> m_first_lane;
	std::vector<lane> m_lanes;
	std::vector<std::uint64_t> m_clocks; // by lane, an entry per lane; zero for lanes that are not open
	std::size_t m_stride = 0;
	std::vector<std::uint32_t> m_places; // by lane: in clocks
	std::vector<lane_index> m_open;
	std::size_t m_num_open = 0;
};

/// a := elementwise maximum of a and b.
inline void merge_clock(const std::span<std::uint64_t> a, const std::span<const std::uint64_t> b) {
	for(std::size_t i = 0; i < a.size(); ++i) {
		if(a[i] < b[i]) a[i] = b[i];
	}
}

} // namespace celerity
