// SPDX-License-Identifier: MIT
#include "direct_context.hpp"

namespace celerity {

namespace {

constexpr std::uint64_t words_per_rank = flag_memory::num_slots;
/// A sector each, as devices look at some words all the time and write others.
constexpr std::uint64_t bytes_per_word = 32;
constexpr std::uint64_t inbox_bytes_per_rank = direct_context::num_inboxes * graph_inbox::size_bytes;

std::uint64_t word_bytes(const std::size_t num_ranks) { return 2 * num_ranks * words_per_rank * bytes_per_word; }

std::uint64_t word_at(const std::uint64_t words, const std::size_t row, const std::uint64_t slot) {
	return words == 0 ? 0 : words + (row * words_per_rank + slot) * bytes_per_word;
}

} // namespace

flag_memory::offer direct_context::make_offer(const std::vector<rank_id>& host_ranks) {
	own_flags = flag_memory::create(host_ranks.size());
	for(std::size_t position = 0; position < host_ranks.size(); ++position) {
		const rank_id rank = host_ranks[position];
		if(rank == own) own_position = position;
		if(rank.value >= neighbours.size()) neighbours.resize(rank.value + 1);
		neighbours[rank.value].position = position;
	}
	if(exchanges_in_graphs) share_words();
	return own_flags.make_offer();
}

void direct_context::share_words() {
	const auto size_bytes = word_bytes(own_flags.num_ranks()) + own_flags.num_ranks() * inbox_bytes_per_rank;
	auto* const words = memories.allocate(memory_of(device_id(0)), size_bytes, bytes_per_word);
	memories.fill(memory_of(device_id(0)), words, size_bytes, 0);
	own_words = reinterpret_cast<std::uintptr_t>(words);
	own_flags.set_words(lanes->locate(memory_of(device_id(0)), words));
}

void direct_context::open(const rank_id peer, const flag_memory::offer& offer) {
	auto& opened = neighbours.at(peer.value);
	opened.flags = flag_memory::open(offer);
	const auto words = opened.flags.words();
	if(words.has_value() && own_words != 0) opened.words = reinterpret_cast<std::uintptr_t>(lanes->open_peer_slab(*words)) + words->offset_bytes;
}

graph_flag direct_context::ready_flag(const bool is_sender, const neighbour& peer, const std::uint64_t slot, const std::uint64_t value,
    const shared_flag& host) const {
	return {is_sender ? word_at(peer.words, own_position, slot) : word_at(own_words, peer.position, slot), value, host.address, host.value};
}

graph_flag direct_context::answer_flag(const bool is_sender, const neighbour& peer, const std::uint64_t slot, const std::uint64_t value,
    const shared_flag& host) const {
	const std::size_t behind = own_flags.num_ranks();
	return {is_sender ? word_at(own_words, behind + peer.position, slot) : word_at(peer.words, behind + own_position, slot), value, host.address, host.value};
}

graph_inbox direct_context::inbox(const bool is_sender, const neighbour& peer, const box& sent) const {
	const auto words = is_sender ? peer.words : own_words;
	const auto sender = is_sender ? own_position : peer.position;
	return {words + word_bytes(own_flags.num_ranks()) + sender * inbox_bytes_per_rank, num_inboxes, sent};
}

void direct_context::agree(const std::vector<rank_id>& peers) {
	if(peers.empty()) {
		neighbours.clear();
		own_flags = {};
		return;
	}
	has_agreed = true;
	lanes->adopt_flags(own_flags.address(), own_flags.size_bytes());
	for(const rank_id rank : peers) {
		auto& peer = neighbours.at(rank.value);
		peer.is_peer = true;
		lanes->adopt_flags(peer.flags.address(), peer.flags.size_bytes());
	}
}

} // namespace celerity
