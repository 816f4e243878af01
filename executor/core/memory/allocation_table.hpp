// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "events/labels.hpp"
#include "nd_copy.hpp"
#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/geometry/grid.hpp"

namespace celerity {

/// The memory behind each allocation id. The executor thread adds and removes allocations of the runtime; any thread registers arrays of the user.
class allocation_table {
  public:
	struct entry {
		void* address = nullptr;
		std::size_t size_bytes = 0;
		std::size_t alignment_bytes = 1;
		buffer_id buffer{};
		box allocated_box{}; ///< in buffer coordinates; empty for staging and for partial results: there, data lies packed
	};

	void add(const allocation_id id, const entry& e) {
		if(!m_entries.emplace(id, e).second) throw std::logic_error("allocation " + label(id) + " exists already");
	}

	entry remove(const allocation_id id) {
		const auto node = m_entries.extract(id);
		if(node.empty()) throw std::logic_error("allocation " + label(id) + " does not exist");
		return node.mapped();
	}

	/// The box stays valid until the allocation is freed. The null allocation has no address.
	array_place place(const allocation_id id) const {
		if(id.is_null()) return {};
		if(id.is_of_user()) return user_place(id.user_number());
		const auto found = m_entries.find(id);
		if(found == m_entries.end()) throw std::logic_error("allocation " + label(id) + " does not exist");
		return place_of(found->second);
	}
	void* address(const allocation_id id) const { return place(id).address; }

	bool contains(const allocation_id id) const { return m_entries.contains(id); }
	const std::unordered_map<allocation_id, entry>& entries() const { return m_entries; }

	std::uint64_t register_user_memory(void* const address, const box& allocated_box) {
		const std::lock_guard lock(m_user_mutex);
		m_user_entries.emplace(++m_last_user_raw, entry{.address = address, .allocated_box = allocated_box});
		return m_last_user_raw;
	}

	/// The user wants the array back while buffers still need its contents: they continue in a copy of the same size.
	void replace_user_memory(const std::uint64_t raw, void* const address) {
		const std::lock_guard lock(m_user_mutex);
		if(const auto found = m_user_entries.find(raw); found != m_user_entries.end()) found->second.address = address;
	}

	bool has_user_memory(const std::uint64_t raw) const {
		const std::lock_guard lock(m_user_mutex);
		return m_user_entries.contains(raw);
	}
	/// False if no array has this number.
	bool unregister_user_memory(const std::uint64_t raw) {
		const std::lock_guard lock(m_user_mutex);
		return m_user_entries.erase(raw) > 0;
	}

  private:
	std::unordered_map<allocation_id, entry> m_entries;
	mutable std::mutex m_user_mutex;
	std::unordered_map<std::uint64_t, entry> m_user_entries;
	std::uint64_t m_last_user_raw = 0;

	static array_place place_of(const entry& e) { return {static_cast<std::byte*>(e.address), e.allocated_box.empty() ? nullptr : &e.allocated_box}; }
	array_place user_place(const std::uint64_t raw) const {
		const std::lock_guard lock(m_user_mutex);
		const auto found = m_user_entries.find(raw);
		if(found == m_user_entries.end()) throw std::logic_error("array " + label(allocation_id{user_memory, raw}) + " of the user is not registered");
		return place_of(found->second);
	}
};

} // namespace celerity
