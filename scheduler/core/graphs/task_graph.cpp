// SPDX-License-Identifier: MIT
#include "task_graph.hpp"

#include <algorithm>

namespace celerity {

task_graph::task_graph(const horizon_policy& policy, record_callback record, notice_callback notify)
    : m_policy(policy), m_record(std::move(record)), m_notify(std::move(notify)) {}

void task_graph::create_buffer(const buffer_info& info) {
	const box domain = box::full(info.extents);
	const access_front<task_id> initial{m_window.epoch(), {}};
	const region uninitialized = info.initial == buffer_info::initial_contents::none ? region(domain) : region();
	m_buffers.emplace(info.id, buffer_state{info, domain, region_map<access_front<task_id>>(domain, initial), uninitialized, false, {}});
}

void task_graph::destroy_buffer(const buffer_id id) { m_buffers.erase(id); }

void task_graph::add(std::shared_ptr<task> submitted, std::vector<std::shared_ptr<const task>>& out) {
	add_node(*submitted);
	if(m_record) {
		task_record record{submitted, {}, {}, {}};
		add_access_dependencies(*submitted, &record);
		finish_node();
		for(std::size_t i = 0; i < m_window.edges().size(); ++i) record.dependencies.emplace_back(m_window.edges()[i], m_window.kinds()[i]);
		m_record(std::move(record));
	} else {
		add_access_dependencies(*submitted, nullptr);
		finish_node();
	}
	if(submitted->submission != submission_id{}) m_last_submission = submitted->submission;
	if(submitted->kind == task_kind::epoch) {
		m_longest_path_at_horizon = m_longest_path;
		m_pending_horizon = task_id{};
		apply_epoch(submitted->id);
	}
	// Results of fences add nothing to what a kernel may wait for, but without a horizon now and then nobody would forget them.
	const bool is_work = submitted->kind == task_kind::device_kernel || submitted->kind == task_kind::host_task;
	const bool is_long = is_work && m_longest_path - m_longest_path_at_horizon >= m_policy.step;
	const bool is_wide = (is_work || submitted->kind == task_kind::fence) && m_window.front_size() >= m_policy.max_parallelism;
	out.push_back(std::move(submitted));
	if(is_long || is_wide) out.push_back(make_horizon());
}

void task_graph::add_node(task& node) {
	node.id = m_window.begin();
	for(auto& reduction : node.reductions) reduction.id = reduction_id(++m_last_reduction);
	if(node.kind == task_kind::epoch || node.kind == task_kind::horizon) m_window.depend_on_front();
	if(node.is_ordered) m_side_effects.append_to(m_window);
}

void task_graph::add_access_dependencies(const task& node, task_record* const record) {
	// All edges come from the state before this task; only then does the task itself enter the state.
	const auto& geometry = node.geometry;
	std::vector<region> regions;
	regions.reserve(node.accesses.size());
	for(const auto& access : node.accesses) {
		auto& buffer = m_buffers.at(access.buffer);
		m_recent.use(access.buffer, buffer.last_use);
		regions.push_back(node.kind == task_kind::fence ? region(node.fence_box)
		                                                : access.mapper.map(geometry.global, geometry.global, geometry.dims, buffer.domain, buffer.info.dims));
		const region& where = regions.back();
		if(is_consumer(access.mode)) {
			check_initialized(node, buffer, where);
			buffer.accesses.query(where, [&](const box&, const access_front<task_id>& front) { front.depend_for_read(m_window); });
			if(record != nullptr) record->reads.emplace_back(access.buffer, where);
		}
		if(is_producer(access.mode)) {
			buffer.accesses.query(where, [&](const box&, const access_front<task_id>& front) { front.depend_for_write(m_window); });
			if(record != nullptr) record->writes.emplace_back(access.buffer, where);
		}
	}
	for(const auto& reduction : node.reductions) {
		auto& buffer = m_buffers.at(reduction.buffer);
		m_recent.use(reduction.buffer, buffer.last_use);
		if(reduction.include_current) check_initialized(node, buffer, buffer.domain);
		buffer.accesses.query(buffer.domain, [&](const box&, const access_front<task_id>& front) {
			if(reduction.include_current) front.depend_for_read(m_window);
			front.depend_for_write(m_window);
		});
		if(record != nullptr) {
			if(reduction.include_current) record->reads.emplace_back(reduction.buffer, buffer.domain);
			record->writes.emplace_back(reduction.buffer, buffer.domain);
		}
	}

	for(std::size_t i = 0; i < node.accesses.size(); ++i) {
		const auto& access = node.accesses[i];
		if(access.mode != access_mode::read) continue;
		m_buffers.at(access.buffer).accesses.modify(regions[i], [&](access_front<task_id>& front) { front.add_reader(node.id); });
	}
	for(std::size_t i = 0; i < node.accesses.size(); ++i) {
		const auto& access = node.accesses[i];
		if(!is_producer(access.mode)) continue;
		auto& buffer = m_buffers.at(access.buffer);
		buffer.accesses.update(regions[i], access_front<task_id>{node.id, {}});
		if(!buffer.uninitialized.empty()) buffer.uninitialized = region_difference(buffer.uninitialized, regions[i]);
	}
	for(const auto& reduction : node.reductions) {
		auto& buffer = m_buffers.at(reduction.buffer);
		buffer.accesses.update(buffer.domain, access_front<task_id>{node.id, {}});
		buffer.uninitialized = region();
	}
}

void task_graph::finish_node() {
	m_window.depend_on_epoch_if_alone(true);
	std::size_t length = 0;
	for(const task_id on : m_window.edges()) {
		if(on.value >= m_path_base) length = std::max(length, m_path_lengths[on.value - m_path_base] + 1);
	}
	m_path_lengths.push_back(length);
	m_longest_path = std::max(m_longest_path, length);
}

void task_graph::apply_epoch(const task_id epoch) {
	m_window.apply_epoch(epoch);
	m_recent.apply_epoch(m_buffers, [&](buffer_state& buffer) { buffer.accesses.transform([&](access_front<task_id>& front) { front.apply_epoch(epoch); }); });
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
	add_node(*horizon);
	finish_node();
	if(m_record) {
		task_record record{horizon, {}, {}, {}};
		for(std::size_t i = 0; i < m_window.edges().size(); ++i) record.dependencies.emplace_back(m_window.edges()[i], m_window.kinds()[i]);
		m_record(std::move(record));
	}
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
	    .where = unwritten,
	    .dims = buffer.info.dims});
}

} // namespace celerity
