// SPDX-License-Identifier: MIT
#include "deep_halos.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace celerity {

namespace {

bool asks(const task& node) { return node.kind == task_kind::device_kernel && node.geometry.recompute > 0; }

bool have_equal_shares(const task_geometry& a, const task_geometry& b) {
	return a.dims == b.dims && a.global == b.global && a.granularity == b.granularity && a.split == b.split && a.can_split == b.can_split && a.costs == b.costs
	       && a.block == b.block && a.weights == b.weights;
}

/// The dimensions across which shares may be cut: the same on all ranks, also if these have different numbers of devices.
std::array<bool, 3> cut_dimensions(const task_geometry& geometry) {
	std::array<bool, 3> is_cut{};
	for(std::size_t d = 0; d < static_cast<std::size_t>(geometry.dims); ++d) {
		switch(geometry.split) {
		case split_kind::rows:
		case split_kind::split_auto: is_cut[d] = geometry.costs[d] != never_cut; break;
		case split_kind::split_2d: is_cut[d] = d < 2; break;
		case split_kind::split_3d: is_cut[d] = true; break;
		case split_kind::split_1d:
		case split_kind::weights:
		case split_kind::cyclic: is_cut[d] = d == 0; break;
		}
	}
	return is_cut;
}

/// Of the devices of all ranks, if all have as many as this one. None is empty.
box_vector all_shares(const task& node, const partition& parts) {
	box_vector result;
	const rank_shares ranks = split_among_ranks(node, parts.num_ranks);
	for(std::size_t r = 0; r < ranks.size(); ++r) {
		for(const box& share : ranks.of(r)) {
			for(const box& own : shares_of_devices(node.geometry, share, {parts.num_ranks, rank_id(static_cast<std::uint32_t>(r)), parts.num_devices})) {
				if(!own.empty()) result.push_back(own);
			}
		}
	}
	return result;
}

point largest(const point& a, const point& b) {
	point result;
	for(std::size_t d = 0; d < 3; ++d) result[d] = std::max(a[d], b[d]);
	return result;
}

/// Goes back from the last task of the last step. `m_needed` says how far behind each share a copy of a buffer has to be up to date.
class depth_search {
  public:
	depth_search(const std::span<const task> tasks, const task& first, const std::array<bool, 3>& is_cut, const buffer_lookup& find_buffer)
	    : m_tasks(tasks), m_first(first), m_is_cut(is_cut), m_find_buffer(find_buffer) {
		for(const auto& node : tasks) {
			for(const auto& access : node.accesses) {
				if(asks(node) && is_producer(access.mode)) m_written.insert(access.buffer);
			}
		}
	}

	/// A read that no border serves; sets `task` and `access`.
	bool reads_elsewhere(deep_halos& found) const {
		for(std::size_t t = 0; t < m_tasks.size(); ++t) {
			for(std::size_t a = 0; asks(m_tasks[t]) && a < m_tasks[t].accesses.size(); ++a) {
				if(!reads_written(m_tasks[t].accesses[a]) || halo_of(m_tasks[t].accesses[a]).has_value()) continue;
				found.task = t;
				found.access = a;
				return true;
			}
		}
		return false;
	}

	std::size_t num_exchanges() const {
		std::size_t count = 0;
		for(const auto& node : m_tasks) {
			std::set<buffer_id> exchanged;
			for(const auto& access : node.accesses) {
				if(reads_written(access) && halo_of(access).value_or(point{}) != point{}) exchanged.insert(access.buffer);
			}
			count += exchanged.size();
		}
		return count;
	}

	/// Earlier steps after later ones.
	point go_back(const task& node) {
		const bool is_replicated = asks(node);
		const point reach = is_replicated ? reach_of(node) : point{};
		for(const auto& access : node.accesses) {
			if(!is_producer(access.mode)) continue;
			const auto& buffer = m_find_buffer(access.buffer);
			const box domain = box::full(buffer.extents);
			const bool is_whole = access.mapper.map(node.geometry.global, node.geometry.global, node.geometry.dims, domain, buffer.dims).covers(domain);
			if(is_replicated || is_whole) m_needed.erase(access.buffer);
		}
		if(node.kind != task_kind::device_kernel || !have_equal_shares(node.geometry, m_first.geometry)) return reach;
		for(const auto& access : node.accesses) {
			if(!reads_written(access)) continue;
			auto halo = halo_of(access);
			if(!halo.has_value()) continue;
			for(std::size_t d = 0; d < 3; ++d) (*halo)[d] += reach[d];
			m_needed[access.buffer] = largest(m_needed[access.buffer], *halo);
		}
		return reach;
	}

  private:
	std::span<const task> m_tasks;
	const task& m_first; ///< that asks
	std::array<bool, 3> m_is_cut;
	const buffer_lookup& m_find_buffer;
	std::set<buffer_id> m_written; ///< by tasks that ask
	std::map<buffer_id, point> m_needed;

	bool reads_written(const buffer_access& access) const { return is_consumer(access.mode) && m_written.contains(access.buffer); }
	std::optional<point> halo_of(const buffer_access& access) const {
		auto halo = access.mapper.halo(m_is_cut);
		for(std::size_t d = 0; halo.has_value() && d < 3; ++d) {
			if(!m_is_cut[d]) (*halo)[d] = 0;
		}
		return halo;
	}
	point reach_of(const task& node) const {
		point reach{};
		for(const auto& access : node.accesses) {
			if(!is_producer(access.mode)) continue;
			const auto needed = m_needed.find(access.buffer);
			if(needed != m_needed.end()) reach = largest(reach, needed->second);
		}
		for(std::size_t d = 0; d < 3; ++d)
			reach[d] = (reach[d] + node.geometry.granularity[d] - 1) / node.geometry.granularity[d] * node.geometry.granularity[d];
		return reach;
	}
};

void count_work(deep_halos& found, const std::span<const task> tasks, const task& first, const box_vector& shares) {
	double computed = 0, own = 0;
	for(std::size_t i = 0; i < found.reaches.size(); ++i) {
		const auto t = i % tasks.size();
		if(!asks(tasks[t])) continue;
		task_geometry geometry = first.geometry;
		geometry.reach = found.reaches[i];
		found.reach = largest(found.reach, geometry.reach);
		for(const box& share : shares) {
			const auto area = static_cast<double>(share.area());
			const auto grown = static_cast<double>(with_reach(geometry, share).area());
			own += area;
			computed += grown;
			if(grown <= found.growth * area) continue;
			found.growth = grown / area;
			found.share = share;
			found.task = t;
		}
	}
	found.work = own > 0 ? computed / own : 1;
}

} // namespace

deep_halos plan_deep_halos(const std::span<const task> tasks, const partition& parts, const buffer_lookup& find_buffer) {
	using kind = deep_halos::kind_type;
	deep_halos found;
	const auto refuse = [&](const kind why) {
		found.kind = why;
		return found;
	};
	const auto first = std::find_if(tasks.begin(), tasks.end(), asks);
	if(first == tasks.end()) return found;
	found.steps = first->geometry.recompute;
	for(std::size_t t = 0; t < tasks.size(); ++t) {
		if(!asks(tasks[t])) continue;
		found.task = static_cast<std::size_t>(first - tasks.begin());
		found.other = t;
		if(tasks[t].geometry.recompute != found.steps) return refuse(kind::other_steps);
		if(!have_equal_shares(tasks[t].geometry, first->geometry)) return refuse(kind::other_shares);
		const auto& accesses = tasks[t].accesses;
		const auto elsewhere = std::find_if(accesses.begin(), accesses.end(),
		    [](const buffer_access& access) { return is_producer(access.mode) && access.mapper.get_kind() != range_mapper::kind::one_to_one; });
		if(elsewhere == accesses.end()) continue;
		found.task = t;
		found.access = static_cast<std::size_t>(elsewhere - accesses.begin());
		return refuse(kind::writes_elsewhere);
	}
	const box_vector shares = all_shares(*first, parts);
	if(shares.size() < 2) return found;
	depth_search search(tasks, *first, cut_dimensions(first->geometry), find_buffer);
	if(search.reads_elsewhere(found)) return refuse(tasks[found.task].accesses[found.access].mapper.wraps() ? kind::wraps : kind::read_elsewhere);
	found.num_exchanges = search.num_exchanges();
	found.reaches.resize(found.steps * tasks.size());
	for(std::size_t i = found.reaches.size(); i-- > 0;) found.reaches[i] = search.go_back(tasks[i % tasks.size()]);
	count_work(found, tasks, *first, shares);
	if(found.reach == point{}) return refuse(kind::none);
	return refuse(found.growth > most_growth ? kind::too_much : kind::deep);
}

} // namespace celerity
