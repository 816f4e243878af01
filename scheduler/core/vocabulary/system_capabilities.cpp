// SPDX-License-Identifier: MIT
#include <algorithm>

#include "instruction.hpp"

namespace celerity {

bool system_capabilities::has_direct_peer() const { return std::find(direct_ranks.begin(), direct_ranks.end(), true) != direct_ranks.end(); }

system_capabilities system_capabilities::make(const std::size_t num_ranks, const rank_id local_rank, const std::size_t num_devices,
    const bool device_peers, const bool user_device_peers, std::vector<bool> direct_ranks) {
	system_capabilities result;
	result.num_ranks = num_ranks;
	result.local_rank = local_rank;
	result.num_devices = num_devices;
	const std::size_t num_memories = result.num_memories();
	result.copy_peers.resize(num_memories);
	for(std::size_t from = 0; from < num_memories; ++from) {
		for(std::size_t to = 0; to < num_memories; ++to) {
			const bool from_device = from >= first_device_memory_value;
			const bool to_device = to >= first_device_memory_value;
			const bool involves_user = from == user_memory.value || to == user_memory.value;
			bool can_copy = true; // between user and host memory, and host memory and devices
			if(from_device && to_device) {
				can_copy = from == to || device_peers;
			} else if((from_device || to_device) && involves_user) {
				can_copy = user_device_peers;
			}
			if(can_copy) result.copy_peers[from] |= std::uint64_t{1} << to;
		}
	}
	direct_ranks.resize(num_ranks, false);
	direct_ranks[local_rank.value] = false; // nothing is ever sent to oneself
	result.direct_ranks = std::move(direct_ranks);
	return result;
}

} // namespace celerity
