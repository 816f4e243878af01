// SPDX-License-Identifier: MIT
// Walks through the state of the graphs: each graph lists its state once, and a walk reads it as numbers or moves the ids in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.hpp"
#include "geometry/grid.hpp"
#include "vocabulary/plan_position.hpp"

namespace celerity {

/// Reads the state as numbers. Two states with the same numbers differ by nothing that planning looks at, apart from the position:
/// * an id that the applied epoch has not replaced is read relative to the next id;
/// * of an older id, planning sees only whether the settled node replaces it, and which other older ids it equals.
class state_reader {
  public:
	state_reader(std::vector<std::uint64_t>& out, const plan_position& now) : m_out(out), m_now(now) {}

	/// The next ids are those of a graph with this window.
	void enter(const std::uint64_t next, const std::uint64_t epoch, const std::uint64_t settled) {
		m_next = next;
		m_epoch = epoch;
		m_settled = settled;
		m_older.clear();
	}
	template <typename V>
	void number(const V value) {
		m_out.push_back(static_cast<std::uint64_t>(value));
	}
	void position(const point& p) {
		for(std::size_t d = 0; d < 3; ++d) number(p[d]);
	}
	void boxes(const std::span<const box> all) {
		number(all.size());
		for(const box& b : all) {
			position(b.min());
			position(b.max());
		}
	}
	template <typename Id>
	void id(const Id& value) {
		if(value == Id{}) return number(0);
		if(value.value >= m_epoch) return number((m_next - value.value) << 2U | 1U);
		const auto place = m_older.try_emplace(value.value, m_older.size()).first->second;
		number(place << 2U | (value.value <= m_settled ? 3U : 2U));
	}
	/// An id of the window itself.
	void base(const std::uint64_t value) { number(m_next - value); }
	/// Of no effect on planning by itself.
	void hidden_base(std::uint64_t) {}
	/// The last number that has been given away. Part of the position.
	void last(std::uint64_t, std::uint64_t plan_position::*) {}
	void task(const task_id id) { number(id == task_id{} ? 0 : m_now.tasks + 1 - id.value); }
	void reduction(const reduction_id id) { number(id == reduction_id{} ? 0 : m_now.reductions + 1 - id.value); }

  private:
	std::vector<std::uint64_t>& m_out;
	plan_position m_now;
	std::uint64_t m_next = 0;
	std::uint64_t m_epoch = 0;
	std::uint64_t m_settled = 0;
	std::unordered_map<std::uint64_t, std::uint64_t> m_older; ///< to the place of its first appearance among the older ones
};

/// Moves the ids of a graph to where they would be after the periods that have been repeated from a template. Older ids stay: the epoch replaces them then, too.
class state_mover {
  public:
	state_mover(const plan_position& by, const std::uint64_t ids) : m_by(by), m_ids(ids) {}

	void enter(std::uint64_t, const std::uint64_t epoch, std::uint64_t) { m_from = epoch; }
	template <typename V>
	void number(const V&) {}
	void position(const point&) {}
	void boxes(std::span<const box>) {}
	template <typename Id>
	void id(Id& value) {
		if(value.value >= m_from) value.value += m_ids;
	}
	void base(std::uint64_t& value) { value += m_ids; }
	void hidden_base(std::uint64_t& value) { value += m_ids; }
	void last(std::uint64_t& value, std::uint64_t plan_position::* const kind) { value += m_by.*kind; }
	void task(task_id& id) { id.value += id == task_id{} ? 0 : m_by.tasks; }
	void reduction(reduction_id& id) { id.value += id == reduction_id{} ? 0 : m_by.reductions; }

  private:
	plan_position m_by;
	std::uint64_t m_ids;
	std::uint64_t m_from = 0;
};

} // namespace celerity
