// SPDX-License-Identifier: MIT
#include "plane_sweep.hpp"

#include <array>

namespace celerity {

namespace {

constexpr auto begins_first = [](const rectangle& a, const rectangle& b) { return a.slow_min < b.slow_min; };

void flatten(std::vector<rectangle>& to, const std::vector<box>& from, const std::size_t slow, const std::size_t fast) {
	to.clear();
	for(const box& b : from) to.push_back(rectangle{b.min(slow), b.max(slow), b.min(fast), b.max(fast)});
	sort_few(to.data(), to.data() + to.size(), begins_first);
}

} // namespace

void plane_sweep::run() {
	out.clear();
	m_active.clear();
	m_holes.clear();
	m_open.clear();
	const rectangle* next_plus = plus.data();
	const rectangle* next_minus = minus.data();
	const rectangle* const end_plus = next_plus + plus.size();
	const rectangle* const end_minus = next_minus + minus.size();
	coordinate now = next_plus->slow_min;
	for(;;) {
		for(; next_plus != end_plus && next_plus->slow_min <= now; ++next_plus) m_active.enter(*next_plus);
		for(; next_minus != end_minus && next_minus->slow_min <= now; ++next_minus) {
			if(next_minus->slow_max > now) m_holes.enter(*next_minus);
		}
		coordinate next = std::min(m_active.first_end, m_holes.first_end);
		if(next_plus != end_plus) next = std::min(next, next_plus->slow_min);
		if(next_minus != end_minus) next = std::min(next, next_minus->slow_min);
		emit_row(now, next);
		m_active.leave(next);
		if(m_active.items.empty()) {
			if(next_plus == end_plus) return;
			if(next_plus->slow_min > next) {
				m_open.clear();
				next = next_plus->slow_min;
			}
		}
		m_holes.leave(next);
		now = next;
	}
}

void plane_sweep::emit_row(const coordinate now, const coordinate next) {
	m_next_open.clear();
	m_open_position = 0;
	std::size_t hole = 0;
	const rectangle* const end_of_active = m_active.items.data() + m_active.items.size();
	for(const rectangle* r = m_active.items.data(); r != end_of_active;) {
		const coordinate begin = r->fast_min;
		coordinate end = r->fast_max;
		for(++r; r != end_of_active && r->fast_min <= end; ++r) end = std::max(end, r->fast_max);
		if(m_holes.items.empty()) {
			emit(begin, end, now, next);
		} else {
			emit_without_holes(begin, end, now, next, hole);
		}
	}
	m_open.swap(m_next_open);
}

void plane_sweep::emit_without_holes(coordinate begin, const coordinate end, const coordinate now, const coordinate next, std::size_t& hole) {
	const std::vector<rectangle>& holes = m_holes.items;
	while(hole < holes.size() && holes[hole].fast_max <= begin) ++hole;
	for(; hole < holes.size() && holes[hole].fast_min < end; ++hole) {
		if(begin < holes[hole].fast_min) emit(begin, holes[hole].fast_min, now, next);
		begin = holes[hole].fast_max;
		if(begin >= end) return; // this hole may reach into the next interval
	}
	emit(begin, end, now, next);
}

void plane_sweep::emit(const coordinate begin, const coordinate end, const coordinate now, const coordinate next) {
	while(m_open_position < m_open.size() && m_open[m_open_position].fast_min < begin) ++m_open_position;
	if(m_open_position < m_open.size() && m_open[m_open_position].fast_min == begin && m_open[m_open_position].fast_max == end) {
		const open_output& same = m_open[m_open_position++];
		out[same.index].slow_max = next;
		m_next_open.push_back(same);
	} else {
		m_next_open.push_back({begin, end, static_cast<std::uint32_t>(out.size())});
		out.push_back({now, next, begin, end});
	}
}

// The dimensions are template parameters because a box that is written element by element and read at once stalls the processor.
template <std::size_t Slow, std::size_t Fast>
void space_sweep::run_in_plane(box_vector& out) {
	flatten(m_plane.plus, plus, Slow, Fast);
	flatten(m_plane.minus, minus, Slow, Fast);
	m_plane.run();
	point min = plus.front().min();
	point max = plus.front().max();
	out.reserve(out.size() + m_plane.out.size());
	for(const rectangle& r : m_plane.out) {
		min[Slow] = r.slow_min;
		max[Slow] = r.slow_max;
		min[Fast] = r.fast_min;
		max[Fast] = r.fast_max;
		out.push_back(box(min, max));
	}
}

void space_sweep::run(box_vector& out) {
	const box& first = plus.front();
	std::array<bool, 3> varies{};
	const auto compare = [&](const box& b) {
		for(std::size_t d = 0; d < 3; ++d) varies[d] |= (b.min(d) != first.min(d)) | (b.max(d) != first.max(d));
	};
	for(const box& b : plus) compare(b);
	for(const box& b : minus) compare(b);
	if(!varies[2]) return run_in_plane<0, 1>(out);
	if(!varies[1]) return run_in_plane<0, 2>(out);
	if(!varies[0]) return run_in_plane<1, 2>(out);
	run_in_space(out);
}

void space_sweep::run_in_space(box_vector& out) {
	const auto begins_below = [](const box& a, const box& b) { return a.min(0) < b.min(0); };
	sort_few(plus.data(), plus.data() + plus.size(), begins_below);
	sort_few(minus.data(), minus.data() + minus.size(), begins_below);
	m_active.clear();
	m_holes.clear();
	m_open.clear();
	std::size_t next_plus = 0;
	std::size_t next_minus = 0;
	coordinate now = plus.front().min(0);
	for(;;) {
		for(; next_plus < plus.size() && plus[next_plus].min(0) <= now; ++next_plus) m_active.push_back(plus[next_plus]);
		for(; next_minus < minus.size() && minus[next_minus].min(0) <= now; ++next_minus) m_holes.push_back(minus[next_minus]);
		std::erase_if(m_holes, [=](const box& b) { return b.max(0) <= now; });
		coordinate next = std::numeric_limits<coordinate>::max();
		for(const box& b : m_active) next = std::min(next, b.max(0));
		for(const box& b : m_holes) next = std::min(next, b.max(0));
		if(next_plus < plus.size()) next = std::min(next, plus[next_plus].min(0));
		if(next_minus < minus.size()) next = std::min(next, minus[next_minus].min(0));
		emit_slab(out, now, next);
		std::erase_if(m_active, [=](const box& b) { return b.max(0) <= next; });
		now = next;
		if(!m_active.empty()) continue;
		if(next_plus == plus.size()) return;
		if(plus[next_plus].min(0) == now) continue;
		m_open.clear();
		now = plus[next_plus].min(0);
	}
}

void space_sweep::emit_slab(box_vector& out, const coordinate now, const coordinate next) {
	flatten(m_plane.plus, m_active, 1, 2);
	flatten(m_plane.minus, m_holes, 1, 2);
	m_plane.run();
	m_next_open.clear();
	std::size_t open = 0;
	for(const rectangle& r : m_plane.out) {
		const auto is_before = [&](const box& b) { return b.min(1) < r.slow_min || (b.min(1) == r.slow_min && b.min(2) < r.fast_min); };
		while(open < m_open.size() && is_before(out[m_open[open]])) ++open;
		if(open < m_open.size()) {
			box& candidate = out[m_open[open]];
			if(candidate.min(1) == r.slow_min && candidate.max(1) == r.slow_max && candidate.min(2) == r.fast_min && candidate.max(2) == r.fast_max) {
				candidate = with_interval(candidate, 0, candidate.min(0), next);
				m_next_open.push_back(m_open[open++]);
				continue;
			}
		}
		m_next_open.push_back(static_cast<std::uint32_t>(out.size()));
		out.push_back(box(point{{now, r.slow_min, r.fast_min}}, point{{next, r.slow_max, r.fast_max}}));
	}
	m_open.swap(m_next_open);
}

} // namespace celerity
