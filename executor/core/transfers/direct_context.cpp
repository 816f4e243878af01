// SPDX-License-Identifier: MIT
#include "direct_context.hpp"

namespace celerity {

flag_segment::offer direct_context::make_offer(const rank_id own, const std::vector<rank_id>& host_ranks) {
	own_flags = flag_segment::create(host_ranks.size());
	for(std::size_t position = 0; position < host_ranks.size(); ++position) {
		const rank_id rank = host_ranks[position];
		if(rank == own) own_position = position;
		if(rank.value >= neighbours.size()) neighbours.resize(rank.value + 1);
		neighbours[rank.value].position = position;
	}
	return own_flags.make_offer();
}

void direct_context::agree(const std::vector<rank_id>& peers) {
	if(peers.empty()) {
		neighbours.clear();
		own_flags = {};
		return;
	}
	has_agreed = true;
	device_backend.adopt_flags(own_flags.address(), own_flags.size_bytes());
	for(const rank_id rank : peers) {
		auto& peer = neighbours.at(rank.value);
		peer.is_peer = true;
		device_backend.adopt_flags(peer.flags.address(), peer.flags.size_bytes());
	}
}

} // namespace celerity
