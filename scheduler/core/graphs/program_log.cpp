// SPDX-License-Identifier: MIT
#include "program_log.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>

#include "geometry/digest.hpp"
#include "local_chunks.hpp"

namespace celerity {

namespace {

/// Per peer: the first claim tells early, the last one covers all between.
constexpr std::ptrdiff_t max_claims_per_peer = 2;

region whole_mapping(const task& node, const buffer_access& access, const box& chunk) {
	// The log does not know the buffer, so `anywhere` cuts off negative coordinates only. A table has the results of a callable as they were returned:
	// range_mapper::map clamps them later.
	constexpr coordinate far = coordinate{1} << 62;
	const box anywhere(point{{0, 0, 0}}, point{{far, far, far}});
	return access.mapper.map(chunk, node.geometry.global, node.geometry.dims, anywhere, 3);
}

void add_mapper(digest& out, const task& node, const buffer_access& access, const std::size_t num_ranks) {
	if(access.mapper.is_additive()) return access.mapper.add_to(out);
	out.add(whole_mapping(node, access, node.geometry.global));
	const rank_shares shares = split_among_ranks(node, num_ranks);
	for(const box& chunk : shares.all()) out.add(whole_mapping(node, access, chunk));
}

std::uint64_t digest_without_values(const task& node, const std::size_t num_ranks) {
	digest out;
	out.add(static_cast<std::uint64_t>(node.kind));
	out.add(node.name);
	out.add(node.group);
	out.add(node.code_digest);
	const auto& geometry = node.geometry;
	out.add(static_cast<std::uint64_t>(geometry.dims));
	out.add(geometry.global);
	out.add(geometry.granularity);
	out.add(static_cast<std::uint64_t>(geometry.split) | std::uint64_t{geometry.can_split} << 8U | std::uint64_t{geometry.oversubscription} << 32U);
	out.add(geometry.border | static_cast<std::uint64_t>(node.distribution) << 32U | static_cast<std::uint64_t>(node.action) << 40U
	        | std::uint64_t{node.fence_on_all_ranks} << 48U | std::uint64_t{is_device_memory(node.fence_destination.memory)} << 49U
	        | std::uint64_t{node.priority} << 50U);
	out.add(static_cast<std::uint64_t>(geometry.block));
	out.add(geometry.weights.size());
	for(const double weight : geometry.weights) out.add(std::bit_cast<std::uint64_t>(weight));
	if(geometry.recompute > 0) {
		out.add(geometry.recompute);
		out.add(geometry.reach);
	}
	out.add(node.fence_box);
	out.add(node.side_effects.size());
	for(const host_object_id object : node.side_effects) out.add(object.value);
	out.add(node.accesses.size());
	for(const auto& access : node.accesses) {
		out.add(access.buffer.value << 2U | static_cast<std::uint64_t>(access.mode));
		add_mapper(out, node, access, num_ranks);
	}
	out.add(node.reductions.size());
	for(const auto& reduction : node.reductions) {
		out.add(reduction.buffer.value);
		out.add(static_cast<std::uint64_t>(reduction.op) | static_cast<std::uint64_t>(reduction.type) << 8U | std::uint64_t{reduction.include_current} << 16U);
		out.add(reduction.callable_name);
		out.add(reduction.callable_digest);
	}
	return out.value();
}

std::uint64_t digest_of(const buffer_info& info) {
	digest out;
	out.add(~std::uint64_t{0}); // no kind of task
	out.add(info.name);
	out.add(info.type_name);
	out.add(static_cast<std::uint64_t>(info.dims) | static_cast<std::uint64_t>(info.initial) << 8U);
	out.add(info.extents);
	out.add(info.element_size_bytes);
	out.add(info.contents_digest);
	out.add(info.held_by_ranks.size());
	for(const auto& held : info.held_by_ranks) out.add(held);
	return out.value();
}

std::string hexadecimal(const std::uint64_t value) {
	std::array<char, 17> text{};
	std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
	return text.data();
}

std::string to_string(const point& extents, const int dims) {
	std::string text;
	for(int d = 0; d < dims; ++d) text.append(d == 0 ? "(" : ", ").append(std::to_string(extents[static_cast<std::size_t>(d)]));
	return text.append(dims == 1 ? ",)" : ")");
}

std::string quoted(const std::string& name) { return name.empty() ? "" : '"' + name + '"'; }

const char* kind_of(const task& node) {
	switch(node.kind) {
	case task_kind::device_kernel: return "kernel";
	case task_kind::host_task: return "host task";
	case task_kind::fence: return "fence";
	case task_kind::horizon: return "horizon";
	case task_kind::epoch: break;
	}
	switch(node.action) {
	case epoch_action::barrier: return "barrier";
	case epoch_action::shutdown: return "end of the program";
	case epoch_action::init: return "start";
	case epoch_action::none: break;
	}
	return "wait";
}

std::string accesses_of(const task& node, const std::size_t num_ranks) {
	std::string text;
	for(const auto& access : node.accesses) {
		if(!text.empty()) text += ", ";
		text += std::string(name_of(access.mode)) + " B" + std::to_string(access.buffer.value) + " by " + access.mapper.describe();
		if(access.mapper.is_additive()) continue;
		digest results;
		add_mapper(results, node, access, num_ranks);
		text += " with results " + hexadecimal(results.value());
	}
	return text;
}

std::string reductions_of(const task& node) {
	std::string text;
	for(const auto& reduction : node.reductions) {
		if(!text.empty()) text += ", ";
		const bool is_callable = reduction.op == reduction_op::callable;
		text += is_callable ? reduction.callable_name + " (code and identity " + hexadecimal(reduction.callable_digest) + ")" : name_of(reduction.op);
		text += " into B" + std::to_string(reduction.buffer.value) + (reduction.include_current ? " and its current value" : "");
	}
	return text;
}

bool is_ordered(const task& node) { return !node.side_effects.empty() && node.side_effects.front() == outside_world; }

std::string objects_of(const task& node) {
	std::string text;
	for(const host_object_id object : node.side_effects) {
		if(object != outside_world) text.append(text.empty() ? "H" : ", H").append(std::to_string(object.value));
	}
	return text;
}

/// Of the hint for the split, as the user writes them.
std::string arguments_of(const task_geometry& geometry) {
	std::string text = "(";
	if(geometry.split == split_kind::cyclic) text += std::to_string(geometry.block);
	for(std::size_t i = 0; i < geometry.weights.size(); ++i) {
		std::array<char, 32> shown{};
		std::snprintf(shown.data(), shown.size(), "%s%g", i == 0 ? "(" : ", ", geometry.weights[i]);
		text += shown.data();
	}
	return text += geometry.weights.empty() ? ")" : "))";
}

std::string division_of(const task& node) {
	const auto& geometry = node.geometry;
	std::string text = node.kind == task_kind::host_task ? name_of(node.distribution) : "";
	const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
	if(node.kind == task_kind::host_task && !geometry.can_split) add(is_ordered(node) ? "in program order" : "unordered");
	if(geometry.split != split_kind::rows) add(name_of(geometry.split) + arguments_of(geometry));
	if(geometry.oversubscription > 1) add("oversubscribe(" + std::to_string(geometry.oversubscription) + ")");
	if(geometry.border > 0) add("borders of " + std::to_string(geometry.border));
	if(geometry.recompute > 0) add("recompute(" + std::to_string(geometry.recompute) + ")");
	if(geometry.is_replicated()) add("with borders of other shares, of " + to_string(geometry.reach, geometry.dims));
	if(geometry.granularity != point{{1, 1, 1}}) add("constrain=" + to_string(geometry.granularity, geometry.dims));
	return text;
}

program_log::description describe(const task& node, const std::size_t num_ranks) {
	program_log::description out{node.site, {{"kind", kind_of(node)}}};
	if(node.kind == task_kind::device_kernel || node.kind == task_kind::host_task) {
		out.aspects.emplace_back("name", quoted(node.name));
		if(node.geometry.can_split) out.aspects.emplace_back("index space", to_string(node.geometry.global, node.geometry.dims));
		out.aspects.emplace_back("division", division_of(node));
		out.aspects.emplace_back("accesses", accesses_of(node, num_ranks));
		out.aspects.emplace_back("reductions", reductions_of(node));
		out.aspects.emplace_back("host objects", objects_of(node));
		out.aspects.emplace_back("group", node.group);
		out.aspects.emplace_back("code", hexadecimal(node.code_digest));
		out.aspects.emplace_back("plain arguments", hexadecimal(node.values_digest));
	} else if(node.kind == task_kind::fence) {
		out.aspects.emplace_back("name", node.accesses.empty() ? "of " + objects_of(node) : "of B" + std::to_string(node.accesses.front().buffer.value));
		out.aspects.emplace_back("box", to_string(node.fence_box, node.geometry.dims));
		out.aspects.emplace_back("receivers", node.fence_on_all_ranks ? "all" : "master");
		out.aspects.emplace_back("destination", is_device_memory(node.fence_destination.memory) ? "device" : "host");
	}
	if(node.kind != task_kind::epoch && node.kind != task_kind::horizon) out.aspects.emplace_back("priority", std::to_string(node.priority));
	return out;
}

program_log::description describe(const buffer_info& info) {
	std::string label = std::string("B").append(std::to_string(info.id.value));
	if(!info.name.empty()) label.append(" ").append(quoted(info.name));
	return {info.site, {{"kind", "buffer"}, {"name", label}, {"shape", to_string(box::full(info.extents), info.dims)}, {"dtype", info.type_name},
	                       {"kind of initial contents", name_of(info.initial)}, {"initial contents", hexadecimal(info.contents_digest)}}};
}

} // namespace

program_log::program_log(const std::size_t num_ranks) : m_num_ranks(num_ranks), m_digests(num_kept), m_tasks(num_kept), m_subjects(num_described) {}

void program_log::add_buffer(const buffer_info& info) { add(digest_of(info), std::make_shared<const buffer_info>(info), task_id{}); }

program_log::task_entry program_log::entry_for(std::shared_ptr<const task> added) const {
	const std::uint64_t digest = digest_without_values(*added, m_num_ranks);
	return {digest, std::move(added)};
}

void program_log::add_task(const task_entry& entry, const task_id id) {
	digest own(entry.digest_without_values);
	own.add(entry.described->values_digest);
	add(own.value(), entry.described, id);
}

void program_log::add(const std::uint64_t own, subject&& what, const task_id id) {
	std::unique_lock lock(m_mutex);
	digest running(m_latest.digest);
	running.add(own);
	m_latest = {m_latest.entries + 1, running.value()};
	m_digests[m_latest.entries % num_kept] = m_latest.digest;
	m_subjects[m_latest.entries % num_described] = std::move(what);
	if(id != task_id{}) {
		m_last_task = id.value;
		m_tasks[id.value % num_kept] = {id.value, m_latest.entries};
	}
	if(m_claims.empty()) return;
	std::optional<claim> wrong;
	std::erase_if(m_claims, [&](const claim& claimed) {
		const verdict found = judge(claimed);
		if(found == verdict::different && !wrong.has_value()) wrong = claimed;
		return found != verdict::unknown;
	});
	if(wrong.has_value()) diverge(lock, *wrong);
}

program_position program_log::latest() const {
	const std::lock_guard lock(m_mutex);
	return m_latest;
}

std::uint64_t program_log::entry_of(const task_id id) const {
	const auto& slot = m_tasks[id.value % num_kept];
	return slot.task == id.value ? slot.entry : 0;
}

std::uint64_t program_log::digest_at(const task_id id) const {
	const std::lock_guard lock(m_mutex);
	const std::uint64_t entry = entry_of(id);
	return is_known(entry) ? m_digests[entry % num_kept] : 0;
}

std::vector<std::uint64_t> program_log::digests(const std::uint64_t first, const std::uint64_t stride, const std::size_t count) const {
	const std::lock_guard lock(m_mutex);
	std::vector<std::uint64_t> result;
	for(std::uint64_t entry = first; result.size() < count && is_known(entry); entry += stride) result.push_back(m_digests[entry % num_kept]);
	return result;
}

std::uint64_t program_log::oldest() const {
	const std::lock_guard lock(m_mutex);
	return m_latest.entries < num_kept ? 1 : m_latest.entries - num_kept + 1;
}

program_log::verdict program_log::compare(const rank_id peer, const program_position& claimed) {
	return claimed.entries == 0 ? verdict::same : note({peer, false, claimed.entries, claimed.digest});
}

program_log::verdict program_log::compare_task(const rank_id peer, const task_id id, const std::uint64_t claimed) {
	return claimed == 0 ? verdict::unknown : note({peer, true, id.value, claimed});
}

/// `unknown`: this rank has not come so far yet. A claim that is too old to be compared counts as `same`.
program_log::verdict program_log::judge(const claim& claimed) const {
	if(claimed.number > (claimed.is_task ? m_last_task : m_latest.entries)) return verdict::unknown;
	std::uint64_t entry = claimed.number;
	if(claimed.is_task) {
		entry = entry_of(task_id(claimed.number));
		if(entry == 0 && claimed.number + num_kept > m_last_task) return verdict::different; // the peer's task is this rank's horizon
	}
	return !is_known(entry) || m_digests[entry % num_kept] == claimed.digest ? verdict::same : verdict::different;
}

program_log::verdict program_log::note(const claim& claimed) {
	std::unique_lock lock(m_mutex);
	const verdict found = judge(claimed);
	if(found == verdict::different) {
		diverge(lock, claimed);
	} else if(found == verdict::unknown) {
		const auto is_similar = [&](const claim& other) { return other.peer == claimed.peer && other.is_task == claimed.is_task; };
		if(std::count_if(m_claims.begin(), m_claims.end(), is_similar) >= max_claims_per_peer) {
			const auto last = std::find_if(m_claims.rbegin(), m_claims.rend(), is_similar);
			if(last->number < claimed.number) *last = claimed;
		} else {
			m_claims.push_back(claimed);
		}
	}
	return found;
}

void program_log::diverge(std::unique_lock<std::mutex>& lock, const claim& claimed) {
	if(m_divergence.has_value()) return;
	const std::uint64_t entry = claimed.is_task ? entry_of(task_id(claimed.number)) : claimed.number;
	m_divergence = divergence{claimed.peer, entry != 0 ? entry : m_latest.entries};
	m_has_diverged.store(true);
	lock.unlock();
	if(m_on_divergence) m_on_divergence(claimed.peer);
}

std::optional<program_log::divergence> program_log::first_divergence() const {
	const std::lock_guard lock(m_mutex);
	return m_divergence;
}

std::optional<program_log::description> program_log::describe(const std::uint64_t entry) const {
	subject what;
	{
		const std::lock_guard lock(m_mutex);
		if(entry == 0 || entry > m_latest.entries || entry + num_described <= m_latest.entries) return std::nullopt;
		what = m_subjects[entry % num_described];
	}
	if(const auto* const info = std::get_if<std::shared_ptr<const buffer_info>>(&what)) return celerity::describe(**info);
	return celerity::describe(*std::get<std::shared_ptr<const task>>(what), m_num_ranks);
}

} // namespace celerity
