// SPDX-License-Identifier: MIT
#include "task_stream.hpp"

#include <algorithm>

#include "geometry/digest.hpp"

namespace celerity {

namespace {

bool are_repeated(const buffer_access& a, const buffer_access& b) { return a.buffer == b.buffer && a.mode == b.mode && a.mapper == b.mapper; }

bool are_repeated(const task_reduction& a, const task_reduction& b) {
	return a.buffer == b.buffer && a.op == b.op && a.type == b.type && a.include_current == b.include_current && a.callable == b.callable
	       && a.callable_name == b.callable_name && a.callable_digest == b.callable_digest;
}

template <typename T>
bool are_all_repeated(const std::vector<T>& a, const std::vector<T>& b) {
	return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const T& one, const T& other) { return are_repeated(one, other); });
}

} // namespace

bool are_repeated(const task& a, const task& b) {
	return a.kind == b.kind && a.action == b.action && a.distribution == b.distribution && a.priority == b.priority && a.code_digest == b.code_digest
	       && a.geometry == b.geometry && are_all_repeated(a.accesses, b.accesses) && are_all_repeated(a.reductions, b.reductions)
	       && a.side_effects == b.side_effects && a.fence_on_all_ranks == b.fence_on_all_ranks && a.fence_box == b.fence_box
	       && a.fence_destination.memory == b.fence_destination.memory && a.fence_destination.is_null() == b.fence_destination.is_null() && a.name == b.name
	       && a.group == b.group;
}

std::uint64_t stream_digest(const task& node) {
	digest out;
	out.add(static_cast<std::uint64_t>(node.kind) | static_cast<std::uint64_t>(node.action) << 8U | node.accesses.size() << 16U
	        | node.reductions.size() << 40U);
	out.add(node.name);
	out.add(node.code_digest);
	out.add(node.geometry.global);
	for(const auto& access : node.accesses) {
		out.add(access.buffer.value << 2U | static_cast<std::uint64_t>(access.mode));
		access.mapper.add_to(out);
	}
	for(const auto& reduction : node.reductions) out.add(reduction.buffer.value << 3U | static_cast<std::uint64_t>(reduction.op));
	if(node.kind == task_kind::fence) out.add(node.fence_box);
	return out.value();
}

void task_stream::add(const std::uint64_t digest) {
	if(m_latest.empty()) m_latest.resize(num_kept);
	++m_size;
	if(m_last.size() > num_kept) m_last.clear(); // most are too old
	auto& last = m_last[digest];
	at(m_size) = {digest, last};
	last = m_size;
	if(goes_on(m_longest)) {
		++m_longest.num_tasks;
	} else {
		find_longest();
	}
	follow_nearest();
}

// The place from where the longest way back is equal. A task that comes once per repetition settles it; one that comes often has several places.
void task_stream::find_longest() {
	m_longest = {};
	auto candidate = at(m_size).previous;
	for(unsigned i = 0; i < max_candidates && candidate != 0 && m_size - candidate <= max_period; ++i) {
		std::size_t length = 0;
		while(length < max_period && length < candidate && at(candidate - length).digest == at(m_size - length).digest) ++length;
		if(length > m_longest.num_tasks) m_longest = {m_size - candidate, length};
		candidate = at(candidate).previous;
	}
}

void task_stream::follow_nearest() {
	const auto nearest = at(m_size).previous;
	const auto distance = nearest != 0 && m_size - nearest <= max_period ? m_size - nearest : 0;
	const bool is_known = goes_on(m_nearest);
	if(distance != 0 && (!is_known || distance < m_nearest.period)) {
		m_nearest = {distance, 1};
	} else if(is_known) {
		++m_nearest.num_tasks;
	} else {
		m_nearest = {};
	}
}

} // namespace celerity
