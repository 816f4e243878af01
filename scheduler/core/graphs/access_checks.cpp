// SPDX-License-Identifier: MIT
#include "access_checks.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <span>

#include "base/small_vector.hpp"
#include "geometry/region_map.hpp"

namespace celerity {

namespace {

/// The chunks of a task at both levels of division. Chunks of one level run at the same time.
struct divided_task {
	rank_shares by_rank;
	std::span<const box> own; ///< this rank's share
	box_vector parts_of_own;  ///< by device, oversubscribed part or border

	divided_task(const task& node, const partition& parts) : by_rank(split_among_ranks(node, parts.num_ranks)), own(by_rank.of(parts.local_rank.value)) {
		if(own.empty()) return;
		std::vector<local_chunk> local;
		split_among_devices(node, own, parts, local);
		for(const auto& part : local) parts_of_own.push_back(part.chunk);
	}
	divided_task(const divided_task&) = delete;
	divided_task& operator=(const divided_task&) = delete;
};

struct mapped_access {
	std::size_t index;
	const buffer_access* access;
	const buffer_info* buffer;

	region map(const task& node, const box& chunk) const {
		return access->mapper.map(chunk, node.geometry.global, node.geometry.dims, box::full(buffer->extents), buffer->dims);
	}
	region map(const task& node, const std::span<const box> chunks) const {
		return map_chunks(chunks, [&](const box& chunk) { return map(node, chunk); });
	}
};

access_violation violation_of(const access_violation::kind_type kind, const mapped_access& a) {
	access_violation result;
	result.kind = kind;
	result.buffer = a.buffer->id;
	result.access = a.index;
	return result;
}

/// Throws unless the mapping of `whole` contains those of its `chunks`, and, if they are written, equals their union.
void check_union(const task& node, const mapped_access& a, const std::span<const box> whole, const std::span<const box> chunks) {
	region of_whole = a.map(node, whole);
	region of_chunks = a.map(node, chunks);
	region beyond = region_difference(of_chunks, of_whole);
	region missing = is_producer(a.access->mode) ? region_difference(of_whole, of_chunks) : region();
	if(beyond.empty() && missing.empty()) return;
	using kind = access_violation::kind_type;
	access_violation violation = violation_of(beyond.empty() ? kind::unwritten : kind::beyond_whole, a);
	violation.chunk = {region(box_vector(whole)).bounding_box(), node.geometry.dims};
	violation.where = {beyond.empty() ? std::move(missing) : std::move(beyond), a.buffer->dims};
	violation.of_chunk = {std::move(of_whole), a.buffer->dims};
	violation.of_parts = {std::move(of_chunks), a.buffer->dims};
	violation.num_parts = chunks.size();
	throw access_pattern_error(std::move(violation));
}

/// The mapping of each chunk has to agree with the mappings of its parts. From the mapping of the whole range, other ranks learn which data they do not hold any
/// more. From the mapping of a rank's chunk, they learn which data the rank lacks and writes. A read of a chunk may be wider than the reads of its parts: the
/// rank then receives data that no part reads.
void check_unions(const task& node, const mapped_access& a, const divided_task& divided) {
	if(divided.by_rank.all().size() > 1) check_union(node, a, std::span(&node.geometry.global, 1), divided.by_rank.all());
	if(divided.parts_of_own.size() > 1) check_union(node, a, divided.own, divided.parts_of_own);
}

/// No chunk may write elements that another chunk of the same task accesses.
void check_overlap(const task& node, const std::vector<mapped_access>& group, const std::span<const box> chunks) {
	if(chunks.size() <= 1) return;
	const auto& buffer = *group.front().buffer;
	constexpr std::size_t nobody = ~std::size_t{0};
	struct writer {
		std::size_t chunk;
		std::size_t access;
		bool operator==(const writer&) const = default;
	};
	region_map<writer> writers(box::full(buffer.extents), writer{nobody, 0});
	const auto fail = [&](const mapped_access& a, const std::size_t chunk, const writer& other, const box& where) {
		access_violation violation = violation_of(access_violation::kind_type::overlap, a);
		violation.access = other.access;
		violation.other_access = a.index;
		violation.chunk = {chunks[other.chunk], node.geometry.dims};
		violation.other_chunk = {chunks[chunk], node.geometry.dims};
		violation.where = {where, a.buffer->dims};
		throw access_pattern_error(std::move(violation));
	};
	for(const auto& a : group) {
		if(!is_producer(a.access->mode)) continue;
		for(std::size_t c = 0; c < chunks.size(); ++c) {
			const region where = a.map(node, chunks[c]);
			writers.query(where, [&](const box& part, const writer& w) {
				if(w.chunk != nobody && w.chunk != c) fail(a, c, w, part);
			});
			writers.update(where, writer{c, a.index});
		}
	}
	for(const auto& a : group) {
		if(is_producer(a.access->mode)) continue;
		for(std::size_t c = 0; c < chunks.size(); ++c) {
			writers.query(a.map(node, chunks[c]), [&](const box& part, const writer& w) {
				if(w.chunk != nobody && w.chunk != c) fail(a, c, w, part);
			});
		}
	}
}

/// A chunk overwrites the buffer of a reduction with its partial result, so no access and no other reduction of the task may use that buffer.
void check_reductions(const task& node) {
	const auto fail = [&](const buffer_id id, const std::optional<std::size_t> access) {
		access_violation violation;
		violation.kind = access_violation::kind_type::reduced;
		violation.buffer = id;
		violation.access = access;
		throw access_pattern_error(std::move(violation));
	};
	for(std::size_t r = 0; r < node.reductions.size(); ++r) {
		const buffer_id id = node.reductions[r].buffer;
		for(std::size_t a = 0; a < node.accesses.size(); ++a) {
			if(node.accesses[a].buffer == id) fail(id, a);
		}
		for(std::size_t earlier = 0; earlier < r; ++earlier) {
			if(node.reductions[earlier].buffer == id) fail(id, std::nullopt);
		}
	}
}

} // namespace

std::vector<box> all_chunks(const task& node, const partition& parts) {
	std::vector<box> result{node.geometry.global};
	std::set<box> known(result.begin(), result.end());
	const auto add = [&](const box& chunk) {
		if(known.insert(chunk).second) result.push_back(chunk);
	};
	const rank_shares ranks = split_among_ranks(node, parts.num_ranks);
	for(const box& chunk : ranks.all()) add(chunk);
	const std::span<const box> own = ranks.of(parts.local_rank.value);
	if(own.empty()) return result;
	std::vector<local_chunk> local;
	split_among_devices(node, own, parts, local);
	for(const auto& part : local) add(part.chunk);
	if(node.geometry.oversubscription > 1 || node.geometry.border > 0) { // ignored by tasks with reductions
		task whole_shares;
		whole_shares.kind = node.kind;
		whole_shares.geometry = node.geometry;
		whole_shares.geometry.oversubscription = 1;
		whole_shares.geometry.border = 0;
		split_among_devices(whole_shares, own, parts, local);
		for(const auto& part : local) add(part.chunk);
	}
	return result;
}

std::vector<accessed_chunk> local_accesses(const task& node, const partition& parts, const buffer_lookup& find_buffer) {
	task of_shares = node;
	of_shares.geometry.reach = point{};
	check_accesses(of_shares, parts, find_buffer);
	std::vector<accessed_chunk> result;
	const divided_task divided(node, parts);
	for(const box& chunk : divided.parts_of_own) {
		result.push_back({chunk, {}});
		for(std::size_t i = 0; i < node.accesses.size(); ++i) {
			const mapped_access access{i, &node.accesses[i], &find_buffer(node.accesses[i].buffer)};
			result.back().regions.push_back({access.map(node, chunk), access.buffer->dims});
		}
	}
	return result;
}

void check_accesses(const task& node, const partition& parts, const buffer_lookup& find_buffer) {
	if(!node.reductions.empty()) check_reductions(node);
	small_vector<mapped_access, 8> accesses;
	bool may_go_wrong = false;
	for(std::size_t i = 0; i < node.accesses.size(); ++i) {
		const auto& access = node.accesses[i];
		const auto& buffer = find_buffer(access.buffer);
		mapper_misfit misfit = access.mapper.check_dimensions(node.geometry.dims, buffer.dims);
		if(!misfit) misfit = access.mapper.check_bounds(node.geometry.global, node.geometry.dims, buffer.extents, buffer.dims);
		if(misfit) {
			access_violation violation = violation_of(access_violation::kind_type::misfit, {i, &access, &buffer});
			violation.misfit = misfit;
			throw access_pattern_error(std::move(violation));
		}
		const bool is_again = std::any_of(accesses.begin(), accesses.end(), [&](const auto& earlier) { return earlier.access->buffer == access.buffer; });
		may_go_wrong |= is_again || !access.mapper.is_additive() || (is_producer(access.mode) && !access.mapper.is_injective(node.geometry.dims, buffer.dims));
		accesses.push_back({i, &access, &buffer});
	}
	if(!may_go_wrong) return;

	std::optional<divided_task> divided; // computed at the first use
	const auto divide = [&]() -> const divided_task& {
		if(!divided.has_value()) divided.emplace(node, parts);
		return *divided;
	};
	for(const auto& a : accesses) {
		if(!a.access->mapper.is_additive()) check_unions(node, a, divide());
	}
	for(std::size_t i = 0; i < accesses.size(); ++i) {
		const bool is_first = std::none_of(accesses.begin(), accesses.begin() + static_cast<std::ptrdiff_t>(i),
		    [&](const auto& earlier) { return earlier.access->buffer == accesses[i].access->buffer; });
		if(!is_first) continue;
		std::vector<mapped_access> group;
		bool writes = false;
		bool is_harmless = true; // every access maps disjoint chunks to disjoint parts, and all in the same way
		for(std::size_t k = i; k < accesses.size(); ++k) {
			if(accesses[k].access->buffer != accesses[i].access->buffer) continue;
			group.push_back(accesses[k]);
			writes |= is_producer(accesses[k].access->mode);
			const auto& mapper = accesses[k].access->mapper;
			const auto is_one_to_one = [](const range_mapper& m) { return m.get_kind() == range_mapper::kind::one_to_one; };
			const bool is_same = group.size() == 1 || (is_one_to_one(mapper) && is_one_to_one(group.front().access->mapper));
			is_harmless &= is_same && mapper.is_injective(node.geometry.dims, accesses[k].buffer->dims);
		}
		if(!writes || is_harmless) continue;
		check_overlap(node, group, divide().by_rank.all());
		check_overlap(node, group, divide().parts_of_own);
	}
}

} // namespace celerity
