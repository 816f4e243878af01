// SPDX-License-Identifier: MIT
#include "command_graph.hpp"

#include <algorithm>
#include <array>

namespace celerity {

namespace {

/// Whether the command is this rank's share of its task, and no transfer for it.
bool runs_task(const command_operation& operation) {
	return std::holds_alternative<execution_command>(operation) || std::holds_alternative<fence_command>(operation);
}

} // namespace

command_graph_generator::command_graph_generator(const std::size_t num_ranks, const rank_id local_rank, record_callback record)
    : m_num_ranks(num_ranks), m_local_rank(local_rank), m_record(std::move(record)) {}

void command_graph_generator::create_buffer(const buffer_info& info) {
	const box domain = box::full(info.extents);
	local_state initial;
	initial.front.writer = m_window.epoch();
	initial.holders.add_first(m_num_ranks); // all ranks start with the same contents, so none ever has to be sent
	region_map<local_state> local(domain, initial);
	initial.holders = rank_set();
	for(std::size_t rank = 0; rank < info.held_by_ranks.size(); ++rank) {
		initial.is_fresh = rank == m_local_rank.value;
		local.update(info.held_by_ranks[rank], initial);
	}
	m_buffers.emplace(info.id, buffer_state{info, domain, std::move(local), std::nullopt, box(), true, {}});
}

void command_graph_generator::destroy_buffer(const buffer_id id) { m_buffers.erase(id); }

void command_graph_generator::lower(const std::shared_ptr<const task>& node, std::vector<command>& out) {
	if(node->kind == task_kind::epoch || node->kind == task_kind::horizon) return generate_epoch_or_horizon(node, out);
	update_shares(*node);
	collect_local_accesses(*node);
	resolve_pending_reductions(node, out);
	if(m_num_ranks > 1) {
		generate_pushes(node, out);
		generate_await_pushes(node, out);
	}
	generate_execution(node, out);
	finish_reductions(*node);
	if(m_num_ranks > 1) mark_stale(*node);
}

void command_graph_generator::validate() const {
	m_window.validate();
	ensure(m_pending_horizon <= m_window.current(), "the pending horizon of the commands has been made");
	for(const auto& [id, buffer] : m_buffers) {
		buffer.local.validate();
		box owned;
		buffer.local.for_each([&](const box& part, const local_state& state) {
			state.front.validate(m_window.current());
			ensure(state.is_fresh || !state.is_replicated, "a copy of data of another rank is fresh");
			if(state.is_fresh && !state.is_replicated) owned = bounding_box(owned, part);
		});
		ensure(buffer.owned_bounds_dirty || buffer.owned_bounds == owned, "the bounds of owned data are known or marked as unknown");
		if(buffer.pending.has_value()) ensure(!buffer.pending->contributors.empty(), "a pending reduction has partial results");
	}
}

void command_graph_generator::update_shares(const task& node) {
	if(node.kind != task_kind::fence && m_shares_valid && m_shares_of == node.geometry) return; // loops submit the same geometry again and again
	m_shares = split_among_ranks(node, m_num_ranks);
	m_is_replicated = node.geometry.is_replicated();
	if(m_is_replicated) m_grown_shares = with_reach(node.geometry, m_shares);
	m_shares_of = node.geometry;
	m_shares_valid = node.kind != task_kind::fence;
}

execution_command command_graph_generator::local_execution() const {
	const auto share = local_share();
	execution_command execution{share.front(), {}, adds_current_value(), m_shares.are_several()};
	if(share.size() == 1) return execution;
	for(const box& block : share) execution.chunk = bounding_box(execution.chunk, block);
	execution.blocks.assign(share.begin(), share.end());
	return execution;
}

region command_graph_generator::map_access(const task& node, const buffer_access& access, const buffer_state& buffer, const box& chunk) const {
	if(node.kind == task_kind::fence) return node.fence_box;
	return access.mapper.map(chunk, node.geometry.global, node.geometry.dims, buffer.domain, buffer.info.dims);
}

region command_graph_generator::map_access(const task& node, const buffer_access& access, const buffer_state& buffer, const std::span<const box> share) const {
	return map_chunks(share, [&](const box& chunk) { return map_access(node, access, buffer, chunk); });
}

void command_graph_generator::collect_local_accesses(const task& node) {
	m_local_accesses.clear();
	const auto share = computed_by(m_local_rank.value);
	if(share.empty()) return;
	for(const auto& access : node.accesses) {
		auto& buffer = m_buffers.at(access.buffer);
		m_local_accesses.push_back(chunk_access{&buffer, access.mode, map_access(node, access, buffer, share)});
	}
	for(const auto& reduction : node.reductions) {
		auto& buffer = m_buffers.at(reduction.buffer);
		const bool reads = reduction.include_current && adds_current_value();
		m_local_accesses.push_back(chunk_access{&buffer, reads ? access_mode::read_write : access_mode::write, region(buffer.domain)});
	}
}

bool command_graph_generator::is_first_access_to_its_buffer(const task& node, const std::size_t index) const {
	for(std::size_t i = 0; i < index; ++i) {
		if(node.accesses[i].buffer == node.accesses[index].buffer) return false;
	}
	return true;
}

void command_graph_generator::resolve_pending_reductions(const std::shared_ptr<const task>& node, std::vector<command>& out) {
	for(std::size_t i = 0; i < node->accesses.size(); ++i) {
		if(auto& buffer = m_buffers.at(node->accesses[i].buffer); buffer.pending.has_value()) resolve_pending_reduction(node, buffer, out);
	}
	for(const auto& reduction : node->reductions) {
		if(auto& buffer = m_buffers.at(reduction.buffer); buffer.pending.has_value()) resolve_pending_reduction(node, buffer, out);
	}
}

/// Whether the task overwrites some elements of the buffer, and not all of them.
bool command_graph_generator::leaves_part(const task& node, const buffer_state& buffer) const {
	region written;
	for(const auto& access : node.accesses) {
		if(access.buffer == buffer.info.id && is_producer(access.mode)) add_to(written, map_access(node, access, buffer, node.geometry.global));
	}
	const auto is_target = [&](const task_reduction& reduction) { return reduction.buffer == buffer.info.id; };
	return !written.empty() && !region_difference(region(buffer.domain), written).empty()
	       && std::none_of(node.reductions.begin(), node.reductions.end(), is_target);
}

void command_graph_generator::resolve_pending_reduction(const std::shared_ptr<const task>& node, buffer_state& buffer, std::vector<command>& out) {
	// Partial results go only to the ranks that read the result.
	std::vector<rank_id> participants;
	for(std::size_t i = 0; i < m_shares.size(); ++i) {
		bool reads = false;
		for(const auto& access : node->accesses) {
			reads |= access.buffer == buffer.info.id && is_consumer(access.mode) && !map_access(*node, access, buffer, computed_by(i)).empty();
		}
		for(const auto& reduction : node->reductions) reads |= reduction.buffer == buffer.info.id && reduction.include_current && i == m_shares.first();
		if(reads) participants.emplace_back(static_cast<std::uint32_t>(i));
	}
	if(participants.empty()) {
		if(!leaves_part(*node, buffer)) return; // the partial results are dropped, or nothing happens to the buffer
		participants.emplace_back(0);
	}

	const pending_reduction pending = std::move(*buffer.pending);
	buffer.pending.reset();
	const transfer_id transfer{node->id, buffer.info.id, pending.reduction.id};
	const region element(buffer.domain);
	const auto contains_self = [&](const std::vector<rank_id>& ranks) { return std::find(ranks.begin(), ranks.end(), m_local_rank) != ranks.end(); };
	const bool is_contributor = contains_self(pending.contributors);
	const bool is_participant = contains_self(participants);

	if(is_contributor) {
		push_command push{transfer, {}};
		for(const rank_id rank : participants) {
			if(rank != m_local_rank) push.targets.emplace_back(rank, element);
		}
		if(!push.targets.empty()) emit(node, std::move(push), std::array{chunk_access{&buffer, access_mode::read, element}}, false, out);
	}
	if(!is_participant) return lose(buffer, element);
	const chunk_access result{&buffer, is_contributor ? access_mode::read_write : access_mode::write, element};
	emit(node, reduction_command{transfer, pending.reduction, pending.contributors}, std::span(&result, 1), m_local_rank != participants.front(), out);
	buffer.local.modify(element, [&](local_state& state) {
		for(const rank_id rank : participants) state.holders.add(rank);
	});
}

void command_graph_generator::generate_pushes(const std::shared_ptr<const task>& node, std::vector<command>& out) {
	const auto generate = [&](buffer_state& buffer, const auto& collect) {
		push_command push{transfer_id{node->id, buffer.info.id, reduction_id{}}, {}};
		collect(push);
		if(push.targets.empty()) return;
		region pushed;
		for(const auto& [rank, where] : push.targets) add_to(pushed, where);
		emit(node, std::move(push), std::array{chunk_access{&buffer, access_mode::read, std::move(pushed)}}, false, out);
	};

	for(std::size_t i = 0; i < node->accesses.size(); ++i) {
		if(!is_first_access_to_its_buffer(*node, i)) continue;
		auto& buffer = m_buffers.at(node->accesses[i].buffer);
		const box& owned = owned_bounds(buffer);
		if(owned.empty()) continue;
		generate(buffer, [&](push_command& push) {
			for(std::size_t k = i; k < node->accesses.size(); ++k) {
				const auto& access = node->accesses[k];
				if(access.buffer != buffer.info.id || !is_consumer(access.mode)) continue;
				collect_pushes(*node, access, buffer, owned, push);
			}
		});
	}
	for(const auto& reduction : node->reductions) {
		if(!reduction.include_current || adds_current_value()) continue;
		auto& buffer = m_buffers.at(reduction.buffer);
		const rank_id target(static_cast<std::uint32_t>(m_shares.first()));
		generate(buffer, [&](push_command& push) { collect_push(buffer, std::array{target}, region(buffer.domain), push); });
	}
}

void command_graph_generator::collect_pushes(const task& node, const buffer_access& access, buffer_state& buffer, const box& owned, push_command& push) {
	// Often several ranks need the same region: one look at it is enough.
	region needed_by_all;
	small_vector<rank_id, 16> targets;
	for(std::size_t r = 0; r < m_shares.size(); ++r) {
		if(r == m_local_rank.value) continue;
		region needed = map_access(node, access, buffer, computed_by(r));
		if(!needed.bounding_box().overlaps(owned)) continue; // keeps the cost per remote rank in the tens of nanoseconds
		if(!targets.empty() && needed != needed_by_all) {
			collect_push(buffer, std::span(targets.data(), targets.size()), needed_by_all, push);
			targets.clear();
		}
		if(targets.empty()) needed_by_all = std::move(needed);
		targets.push_back(rank_id(static_cast<std::uint32_t>(r)));
	}
	if(!targets.empty()) collect_push(buffer, std::span(targets.data(), targets.size()), needed_by_all, push);
}

void command_graph_generator::collect_push(buffer_state& buffer, const std::span<const rank_id> targets, const region& needed, push_command& push) {
	m_missing.assign(targets.size(), box_vector());
	buffer.local.query(needed, [&](const box& part, const local_state& state) {
		if(!state.is_fresh || state.is_replicated) return;
		for(std::size_t t = 0; t < targets.size(); ++t) {
			if(!state.holders.contains(targets[t])) m_missing[t].push_back(part);
		}
	});
	for(std::size_t first = 0; first < targets.size();) {
		std::size_t last = first + 1;
		while(last < targets.size() && m_missing[last] == m_missing[first]) ++last;
		if(!m_missing[first].empty()) add_push(buffer, targets.subspan(first, last - first), region(std::move(m_missing[first])), push);
		first = last;
	}
}

void command_graph_generator::add_push(buffer_state& buffer, const std::span<const rank_id> targets, const region& sent, push_command& push) {
	buffer.local.modify(sent, [&](local_state& state) {
		for(const rank_id target : targets) state.holders.add(target);
	});
	for(const rank_id target : targets) {
		const auto known = std::find_if(push.targets.begin(), push.targets.end(), [&](const auto& entry) { return entry.first == target; });
		if(known == push.targets.end()) {
			push.targets.emplace_back(target, sent);
		} else {
			add_to(known->second, sent);
		}
	}
}

void command_graph_generator::generate_await_pushes(const std::shared_ptr<const task>& node, std::vector<command>& out) {
	for(std::size_t i = 0; i < m_local_accesses.size(); ++i) {
		auto& buffer = *m_local_accesses[i].buffer;
		box_vector stale;
		for(std::size_t k = 0; k < m_local_accesses.size(); ++k) {
			const auto& access = m_local_accesses[k];
			if(access.buffer != &buffer) continue;
			if(k < i) {
				stale.clear(); // handled with the first access to this buffer
				break;
			}
			if(!is_consumer(access.mode)) continue;
			buffer.local.query(access.where, [&](const box& part, const local_state& state) {
				if(!state.is_fresh) stale.push_back(part);
			});
		}
		if(stale.empty()) continue;
		await_push_command await{transfer_id{node->id, buffer.info.id, reduction_id{}}, region(std::move(stale)), local_execution()};
		const chunk_access received{&buffer, access_mode::write, await.awaited};
		emit(node, std::move(await), std::span(&received, 1), true, out);
	}
}

void command_graph_generator::generate_execution(const std::shared_ptr<const task>& node, std::vector<command>& out) {
	if(local_share().empty()) return;
	const bool is_fence = node->kind == task_kind::fence;
	emit(node, is_fence ? command_operation(fence_command{}) : local_execution(), m_local_accesses, false, out);
	if(m_is_replicated && m_num_ranks > 1) mark_replicated(*node);
}

void command_graph_generator::mark_replicated(const task& node) {
	for(std::size_t i = 0; i < node.accesses.size(); ++i) {
		const auto& access = node.accesses[i];
		if(!is_producer(access.mode)) continue;
		auto& buffer = *m_local_accesses[i].buffer;
		const region own = map_access(node, access, buffer, local_share());
		buffer.local.modify(region_difference(m_local_accesses[i].where, own), [](local_state& state) { state.is_replicated = true; });
		for(std::size_t r = 0; r < m_shares.size(); ++r) {
			if(r == m_local_rank.value || m_shares.of(r).empty()) continue;
			const region held = region_intersection(own, map_access(node, access, buffer, computed_by(r)));
			buffer.local.modify(held, [=](local_state& state) { state.holders.add(rank_id(static_cast<std::uint32_t>(r))); });
		}
	}
}

void command_graph_generator::finish_reductions(const task& node) {
	for(const auto& reduction : node.reductions) {
		auto& buffer = m_buffers.at(reduction.buffer);
		buffer.pending.reset();
		if(m_shares.are_several()) buffer.pending = pending_reduction{reduction, m_shares.ranks_with_share()};
	}
}

void command_graph_generator::mark_stale(const task& node) {
	const bool has_share = !local_share().empty();
	for(std::size_t i = 0; i < node.accesses.size(); ++i) {
		const auto& access = node.accesses[i];
		if(!is_producer(access.mode)) continue;
		auto& buffer = m_buffers.at(access.buffer);
		const region written = map_access(node, access, buffer, node.geometry.global);
		if(written.empty()) continue; // clamped to nothing
		buffer.pending.reset();       // written elsewhere
		lose(buffer, has_share ? region_difference(written, m_local_accesses[i].where) : written);
	}
	if(has_share) return;
	for(const auto& reduction : node.reductions) {
		auto& buffer = m_buffers.at(reduction.buffer);
		lose(buffer, buffer.domain);
	}
}

/// Notes that other ranks have overwritten `where`.
void command_graph_generator::lose(buffer_state& buffer, const region& where) {
	if(where.empty()) return;
	buffer.local.modify(where, [](local_state& state) {
		state.is_fresh = state.is_replicated = false;
		state.holders = rank_set();
	});
	buffer.owned_bounds_dirty = true;
}

void command_graph_generator::generate_epoch_or_horizon(const std::shared_ptr<const task>& node, std::vector<command>& out) {
	const bool is_epoch = node->kind == task_kind::epoch;
	const command_id self = emit(node, is_epoch ? command_operation(epoch_command{}) : horizon_command{}, {}, false, out);
	const command_id due = is_epoch ? self : m_pending_horizon;
	m_pending_horizon = is_epoch ? command_id{} : self;
	if(due != command_id{}) apply_epoch(due);
}

void command_graph_generator::apply_epoch(const command_id epoch) {
	m_window.apply_epoch(epoch);
	m_side_effects.apply_epoch(epoch);
	m_recent.apply_epoch(m_buffers, [&](buffer_state& buffer) { buffer.local.transform([&](local_state& state) { state.front.apply_epoch(epoch); }); });
}

const box& command_graph_generator::owned_bounds(buffer_state& buffer) const {
	if(buffer.owned_bounds_dirty) {
		box bounds;
		buffer.local.for_each([&](const box& part, const local_state& state) {
			if(state.is_fresh && !state.is_replicated) bounds = bounding_box(bounds, part);
		});
		buffer.owned_bounds = bounds;
		buffer.owned_bounds_dirty = false;
	}
	return buffer.owned_bounds;
}

command_id command_graph_generator::emit(const std::shared_ptr<const task>& node, command_operation&& operation, const std::span<const chunk_access> accesses,
    const bool is_replicated, std::vector<command>& out) {
	const command_id self = m_window.begin();
	if(node->kind == task_kind::epoch || node->kind == task_kind::horizon) m_window.depend_on_front();
	if(runs_task(operation)) m_side_effects.append(node->side_effects, m_window);
	for(const auto& access : accesses) {
		access.buffer->local.query(access.where, [&](const box&, const local_state& state) {
			if(is_consumer(access.mode)) state.front.depend_for_read(m_window);
			if(is_producer(access.mode)) state.front.depend_for_write(m_window);
		});
	}
	m_window.depend_on_epoch_if_alone(false);
	for(const auto& access : accesses) {
		m_recent.use(access.buffer->info.id, access.buffer->last_use);
		if(access.mode == access_mode::read) access.buffer->local.modify(access.where, [&](local_state& state) { return state.front.add_reader(self); });
	}
	for(const auto& access : accesses) {
		if(!is_producer(access.mode)) continue;
		access.buffer->local.update(access.where, local_state{{self, {}}, true, is_replicated, {}});
		access.buffer->owned_bounds_dirty = true;
	}
	out.push_back(command{self, node, std::move(operation)});
	if(m_record) m_record({out.back(), m_window, accesses});
	return self;
}

} // namespace celerity
