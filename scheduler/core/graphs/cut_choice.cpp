// SPDX-License-Identifier: MIT
#include "cut_choice.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace celerity {

namespace {

/// The two halves of the index space on both sides of a cut.
using halves = std::pair<box, box>;

/// Looks at cuts through the middle of the index space.
class cut_probe {
  public:
	cut_probe(const task& node, const buffer_lookup& find_buffer) : m_node(node) {
		for(const auto& access : node.accesses) m_buffers.push_back(&find_buffer(access.buffer));
	}

	/// False if a mapper is a callable, or does not fit its buffer.
	bool can_look() const {
		for(std::size_t a = 0; a < m_buffers.size(); ++a) {
			const auto& mapper = m_node.accesses[a].mapper;
			if(!mapper.is_additive() || mapper.check_dimensions(m_node.geometry.dims, m_buffers[a]->dims)) return false;
		}
		return true;
	}

	/// Whether one half would access elements that the other one writes.
	bool is_forbidden(const halves& by) const {
		for(std::size_t a = 0; a < m_buffers.size(); ++a) {
			if(!is_producer(m_node.accesses[a].mode)) continue;
			for(std::size_t other = 0; other < m_buffers.size(); ++other) {
				if(m_node.accesses[other].buffer != m_node.accesses[a].buffer) continue;
				if(map(a, by.first).overlaps(map(other, by.second)) || map(a, by.second).overlaps(map(other, by.first))) return true;
			}
		}
		return false;
	}

	/// The bytes that both halves read.
	double shared_bytes(const halves& by) const {
		double sum = 0;
		for(std::size_t a = 0; a < m_buffers.size(); ++a) {
			if(!is_consumer(m_node.accesses[a].mode) || is_the_same_everywhere(a)) continue;
			const region shared = region_intersection(map(a, by.first), map(a, by.second));
			sum += static_cast<double>(shared.area()) * static_cast<double>(m_buffers[a]->element_size_bytes);
		}
		return sum;
	}

  private:
	const task& m_node;
	std::vector<const buffer_info*> m_buffers;

	region map(const std::size_t access, const box& chunk) const {
		const auto& buffer = *m_buffers[access];
		return m_node.accesses[access].mapper.map(chunk, m_node.geometry.global, m_node.geometry.dims, box::full(buffer.extents), buffer.dims);
	}
	/// Each chunk reads the same, however the index space is cut.
	bool is_the_same_everywhere(const std::size_t access) const {
		const auto kind = m_node.accesses[access].mapper.get_kind();
		return kind == range_mapper::kind::all || kind == range_mapper::kind::fixed;
	}
};

} // namespace

void choose_cuts(task& node, const partition& parts, const buffer_lookup& find_buffer) {
	auto& geometry = node.geometry;
	const bool is_auto = geometry.split == split_kind::split_auto;
	if(geometry.dims < 2 || !(is_auto || geometry.split == split_kind::rows)) return;
	const auto num_chunks = static_cast<coordinate>(parts.num_ranks * parts.num_devices * geometry.oversubscription);
	if(!is_auto && max_rows(geometry.global, geometry.granularity) >= num_chunks) return;
	const cut_probe probe(node, find_buffer);
	if(!probe.can_look()) return;
	for(std::size_t d = 0; d < static_cast<std::size_t>(geometry.dims); ++d) {
		const box& whole = geometry.global;
		const coordinate middle = whole.min(d) + whole.extent(d) / 2;
		const halves by{with_interval(whole, d, whole.min(d), middle), with_interval(whole, d, middle, whole.max(d))};
		if(probe.is_forbidden(by)) {
			if(d > 0 || is_auto) geometry.costs[d] = never_cut;
		} else {
			geometry.costs[d] = is_auto ? probe.shared_bytes(by) * static_cast<double>(whole.extent(d)) : 1;
		}
	}
}

} // namespace celerity
