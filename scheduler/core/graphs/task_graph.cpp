// SPDX-License-Identifier: MIT
#include "task_graph.hpp"

#include <algorithm>

namespace celerity {

task_graph::task_graph(const horizon_policy& policy, record_callback record, notice_callback notify)
    : m_policy(policy), m_record(std::move(record)), m_notify(std::move(notify)) {}

void task_graph::create_buffer(const buffer_info& info) {
	const box domain = box::full(info.extents);
	using initial_contents = buffer_info::initial_contents;
	region uninitialized = info.initial == initial_contents::none || info.initial == initial_contents::local_arrays ? region(domain) : region();
	for(const auto& held : info.held_by_ranks) uninitialized = region_difference(uninitialized, held);
	m_buffers.emplace(info.id, buffer_state{info, domain, region_map<front>(domain, front{m_window.epoch(), {}}), uninitialized, false, {}});
}

void task_graph::destroy_buffer(const buffer_id id) { m_buffers.erase(id); }

void task_graph::add(std::shared_ptr<task> submitted, std::vector<std::shared_ptr<const task>>& out) {
	add_node(submitted);
	if(submitted->submission != submission_id{}) m_last_submission = submitted->submission;
	if(submitted->kind == task_kind::epoch) {
		m_longest_path_at_horizon = m_longest_path;
		m_pending_horizon = task_id{};
		apply_epoch(submitted->id);
	}
	// Fences do not count for the length of paths. A wide front of fences makes a horizon all the same, as the graphs would never forget them otherwise.
	const bool is_work = submitted->kind == task_kind::device_kernel || submitted->kind == task_kind::host_task;
	const bool is_long = is_work && m_longest_path - m_longest_path_at_horizon >= m_policy.step;
	const bool is_wide = (is_work || submitted->kind == task_kind::fence) && m_window.front_size() >= m_policy.max_parallelism;
	out.push_back(std::move(submitted));
	if(is_long || is_wide) out.push_back(make_horizon());
}

void task_graph::validate() const {
	m_window.validate();
	ensure(m_pending_horizon <= m_window.current(), "the pending horizon of the tasks has been made");
	ensure(m_longest_path_at_horizon <= m_longest_path, "the critical path does not shrink");
	for(const auto& [id, buffer] : m_buffers) {
		buffer.accesses.validate();
		buffer.accesses.for_each([&](const box&, const front& f) { f.validate(m_window.current()); });
		ensure(buffer.uninitialized.empty() || buffer.domain.covers(buffer.uninitialized.bounding_box()), "unwritten elements belong to their buffer");
	}
}

void task_graph::note_position(plan_position& now) const {
	now.tasks = m_window.current().value;
	now.reductions = m_last_reduction;
	now.submissions = m_last_submission.value;
}

void task_graph::add_node(const std::shared_ptr<task>& node) {
	node->id = m_window.begin();
	for(auto& reduction : node->reductions) reduction.id = reduction_id(++m_last_reduction);
	if(node->kind == task_kind::epoch || node->kind == task_kind::horizon) m_window.depend_on_front();
	m_side_effects.append(node->side_effects, m_window);
	const auto accesses = map_accesses(*node);
	for(const auto& access : accesses) {
		m_recent.use(access.buffer->info.id, access.buffer->last_use);
		if(is_consumer(access.mode)) check_initialized(*node, *access.buffer, access.where);
		access.buffer->accesses.query(access.where, [&](const box&, const front& f) {
			if(is_consumer(access.mode)) f.depend_for_read(m_window);
			if(is_producer(access.mode)) f.depend_for_write(m_window);
		});
	}
	m_window.depend_on_epoch_if_alone(false);
	// All edges come from the state before this task; only then does the task itself enter the state, first as a reader.
	for(const auto& access : accesses) {
		if(access.mode == access_mode::read) access.buffer->accesses.modify(access.where, [&](front& f) { return f.add_reader(node->id); });
	}
	for(const auto& access : accesses) {
		if(!is_producer(access.mode)) continue;
		access.buffer->accesses.update(access.where, front{node->id, {}});
		auto& uninitialized = access.buffer->uninitialized;
		if(!uninitialized.empty()) uninitialized = region_difference(uninitialized, access.where);
	}
	track_path_length();
	if(m_record) m_record({node, m_window, accesses});
}

std::vector<tracked_access<task_graph::buffer_state>> task_graph::map_accesses(const task& node) {
	const auto& geometry = node.geometry;
	std::vector<tracked_access<buffer_state>> accesses;
	accesses.reserve(node.accesses.size() + node.reductions.size());
	for(const auto& access : node.accesses) {
		auto& buffer = m_buffers.at(access.buffer);
		const bool is_fence = node.kind == task_kind::fence;
		accesses.push_back({&buffer, access.mode,
		    is_fence ? node.fence_box : access.mapper.map(geometry.global, geometry.global, geometry.dims, buffer.domain, buffer.info.dims)});
	}
	for(const auto& reduction : node.reductions) {
		auto& buffer = m_buffers.at(reduction.buffer);
		accesses.push_back({&buffer, reduction.include_current ? access_mode::read_write : access_mode::write, buffer.domain});
	}
	return accesses;
}

void task_graph::track_path_length() {
	std::size_t length = 0;
	for(const task_id on : m_window.edges()) {
		if(on.value >= m_path_base) length = std::max(length, m_path_lengths[on.value - m_path_base] + 1);
	}
	m_path_lengths.push_back(length);
	m_longest_path = std::max(m_longest_path, length);
}

void task_graph::apply_epoch(const task_id epoch) {
	m_window.apply_epoch(epoch);
	m_side_effects.apply_epoch(epoch);
	m_recent.apply_epoch(m_buffers, [&](buffer_state& buffer) { buffer.accesses.transform([&](front& f) { f.apply_epoch(epoch); }); });
	const auto keep_from = std::min<std::uint64_t>(epoch.value, m_path_base + m_path_lengths.size() - 1);
	if(keep_from - m_path_base > m_path_lengths.size() / 2) {
		m_path_lengths.erase(m_path_lengths.begin(), m_path_lengths.begin() + static_cast<std::ptrdiff_t>(keep_from - m_path_base));
		m_path_base = keep_from;
	}
}

std::shared_ptr<const task> task_graph::make_horizon() {
	auto horizon = std::make_shared<task>();
	horizon->kind = task_kind::horizon;
	horizon->submission = m_last_submission;
	m_longest_path_at_horizon = m_longest_path;
	add_node(horizon);
	if(m_pending_horizon != task_id{}) apply_epoch(m_pending_horizon);
	m_pending_horizon = horizon->id;
	return horizon;
}

void task_graph::check_initialized(const task& node, buffer_state& buffer, const region& read) {
	if(buffer.uninitialized.empty() || buffer.warned_uninitialized || !m_notify) return;
	const region unwritten = region_intersection(buffer.uninitialized, read);
	if(unwritten.empty()) return;
	buffer.warned_uninitialized = true;
	m_notify({.kind = planning_notice::kind_type::unwritten_read,
	    .submission = node.submission,
	    .task = node.kind == task_kind::fence ? task_id{} : node.id,
	    .task_name = node.name,
	    .buffer = buffer.info.id,
	    .buffer_name = buffer.info.name,
	    .where = {unwritten, buffer.info.dims}});
}

} // namespace celerity
