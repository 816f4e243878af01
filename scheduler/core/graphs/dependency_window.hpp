// SPDX-License-Identifier: MIT
// Dependencies and execution front of one graph, for the nodes that later nodes can still depend on.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/ensure.hpp"
#include "base/ids.hpp"
#include "base/names.hpp"
#include "base/small_vector.hpp"

namespace celerity {

/// Why a node comes after another one. If an edge has several reasons, the last one of this list counts.
enum class dependency_kind : std::uint8_t {
	anti,        ///< it overwrites data that the other one reads
	output,      ///< it overwrites data that the other one has written
	order,       ///< one of them is a horizon or epoch
	side_effect, ///< both use the same host object
	dataflow,    ///< it reads data that the other one has written
};
template <>
inline constexpr std::array<const char*, 5> names_of<dependency_kind>{"anti", "output", "order", "side effect", "true"};
/// Whether nothing passes from one node to the other; they only use the same memory one after the other.
constexpr bool is_reuse(const dependency_kind kind) { return kind <= dependency_kind::output; }

/// Hands out the ids of one graph in order, and collects the edges of the node under construction. The applied epoch replaces all nodes older than itself, so
/// that no edge leads to a node that may be gone. A graph may name a *settled* node, which replaces itself and all nodes older than itself; the epoch then
/// replaces the nodes between the two.
template <typename Id>
class dependency_window {
  public:
	/// The first id handed out is 1; 0 is "nothing" and never becomes an edge.
	dependency_window() { m_slots.reserve(256); }

	Id current() const { return Id(m_base + m_slots.size() - 1); }
	Id epoch() const { return m_epoch; }
	/// The node that replaces `id`: the settled one, the epoch, or none.
	Id resolve(const Id id) const { return id <= m_settled ? m_settled : id < m_epoch ? m_epoch : id; }

	/// Starts the next node.
	Id begin() {
		m_slots.push_back(slot{});
		++m_front_size;
		m_edges.clear();
		m_kinds.clear();
		m_has_more_than_reuse = false;
		return current();
	}

	/// Adds an edge from the node under construction; a second edge to the same node only changes its kind.
	void depend(Id on, const dependency_kind kind = dependency_kind::dataflow) {
		if(on == Id{}) return;
		on = resolve(on);
		if(!is_reuse(kind)) m_has_more_than_reuse = true;
		slot& s = on.value < m_base ? m_settled_slot : m_slots[on.value - m_base];
		if(s.last_dependent == current().value) {
			if(!is_reuse(kind)) upgrade(on, kind);
			return;
		}
		s.last_dependent = current().value;
		if(!s.has_successor) {
			s.has_successor = true;
			--m_front_size;
		}
		m_edges.push_back(on);
		m_kinds.push_back(kind);
	}

	/// A node that depends on no other node depends on the epoch.
	void depend_on_epoch_if_alone(const bool reuse_counts) {
		if(reuse_counts ? m_edges.empty() : !m_has_more_than_reuse) depend(m_epoch, dependency_kind::order);
	}

	/// Edges to every node that nothing depends on yet, as horizons and epochs have.
	void depend_on_front() {
		const std::uint64_t self = current().value;
		for(std::uint64_t value = std::max(m_front_begin, m_base); value < self; ++value) {
			if(!m_slots[value - m_base].has_successor) depend(Id(value), dependency_kind::order);
		}
		m_front_begin = self; // everything older now has a successor
	}
	/// Number of nodes that nothing depends on yet.
	std::size_t front_size() const { return m_front_size; }

	template <typename Walk>
	void walk_state(Walk& walk) {
		forget_before(std::min(m_epoch.value, m_front_begin));
		walk.enter(current().value + 1, m_epoch.value, m_settled.value);
		walk.id(m_settled); // it replaces the epoch, too, if it is the epoch
		walk.number(m_slots.size());
		for(const slot& s : m_slots) walk.number(s.has_successor);
		walk.number(m_front_size);
		walk.base(m_base);
		walk.base(m_front_begin);
		walk.base(m_epoch.value);
	}

	/// Throws std::logic_error if the state contradicts itself. For tests.
	void validate() const {
		std::size_t front_size = 0;
		for(std::uint64_t value = m_base; value <= current().value; ++value) {
			if(m_slots[value - m_base].has_successor) continue;
			++front_size;
			ensure(value >= m_front_begin, "each node before the front has a successor");
		}
		ensure(front_size == m_front_size, "the front counts the nodes without successor");
		ensure(m_settled <= m_epoch && m_epoch <= current(), "epochs are nodes of the graph");
		ensure(m_base <= m_front_begin && m_base <= std::max<std::uint64_t>(m_epoch.value, 1), "the window reaches back to the epoch and to the front");
	}

	std::span<const Id> edges() const { return m_edges; }
	std::span<const dependency_kind> kinds() const { return m_kinds; }

	/// From now on `epoch` replaces all nodes older than itself, except that `settled` replaces itself and all nodes older than itself. Every node younger than
	/// `settled` must depend on it, directly or through others.
	void apply_epoch(const Id epoch, const Id settled = Id{}) {
		m_epoch = epoch;
		m_settled = settled;
		const std::uint64_t keep_from = std::min(epoch.value, m_front_begin); // the epoch itself keeps its slot
		if(keep_from - m_base > m_slots.size() / 2) forget_before(keep_from); // amortised: each slot moves O(1) times
	}

  private:
	struct slot {
		std::uint64_t last_dependent = 0; ///< the node whose construction last added an edge to this one
		bool has_successor = false;
	};

	std::uint64_t m_base = 1; ///< id of m_slots[0]
	std::uint64_t m_front_begin = 1; ///< everything older has a successor
	std::size_t m_front_size = 0;
	std::vector<slot> m_slots;
	Id m_epoch{};
	Id m_settled{};
	slot m_settled_slot{0, true}; ///< of the settled node once it has left m_slots; an epoch depends on it by then
	small_vector<Id, 16> m_edges;
	small_vector<dependency_kind, 16> m_kinds;
	bool m_has_more_than_reuse = false;

	void forget_before(const std::uint64_t keep_from) {
		m_slots.erase(m_slots.begin(), m_slots.begin() + static_cast<std::ptrdiff_t>(keep_from - m_base));
		m_base = keep_from;
	}
	void upgrade(const Id on, const dependency_kind kind) {
		for(std::size_t i = 0; i < m_edges.size(); ++i) {
			if(m_edges[i] != on) continue;
			m_kinds[i] = std::max(m_kinds[i], kind);
			return;
		}
	}
};

/// For each host object a chain of nodes, each of which waits for the one before it: the order of side effects outside of all buffers.
template <typename Id>
class side_effect_chains {
  public:
	/// Puts the node under construction at the ends of the chains of these objects.
	void append(const std::span<const host_object_id> objects, dependency_window<Id>& window) {
		for(const host_object_id object : objects) {
			Id& last = m_last.try_emplace(object, window.epoch()).first->second;
			window.depend(last, dependency_kind::side_effect);
			last = window.current();
		}
	}
	/// Forgets nodes that the epoch replaces. This bounds the history of objects, however many a program makes.
	void apply_epoch(const Id epoch) {
		std::erase_if(m_last, [&](const auto& chain) { return chain.second < epoch; });
	}
	template <typename Walk>
	void walk_state(Walk& walk) {
		walk.number(m_last.size());
		for(auto& [object, last] : m_last) {
			walk.number(object.value);
			walk.id(last);
		}
	}

  private:
	std::map<host_object_id, Id> m_last; ///< the epoch stands for an object that is not there
};

/// The last writer of a piece of data, and the readers since then. The next writer waits for the readers, or, if there are none, for the last writer.
template <typename Id>
struct access_front {
	Id writer{};
	small_vector<Id, 3> readers;

	friend bool operator==(const access_front&, const access_front&) = default;

	/// Returns whether `reader` was already the newest reader.
	bool add_reader(const Id reader) {
		if(!readers.empty() && readers.back() == reader) return true;
		readers.push_back(reader);
		return false;
	}
	/// Replaces nodes as dependency_window::apply_epoch() does. Dropped readers leave the epoch as a reader in two cases. If younger readers stay: they may have
	/// been created before the epoch was applied, so that nothing orders them after it. And if the settled node becomes the writer. Readers that are not younger
	/// than `settled` leave nothing, because every later node comes after `settled`.
	void apply_epoch(const Id epoch, const Id settled = Id{}) {
		std::size_t kept = 0;
		bool dropped = false;
		for(std::size_t i = 0; i < readers.size(); ++i) {
			if(readers[i] < epoch) {
				dropped |= readers[i] > settled;
			} else {
				readers[kept++] = readers[i];
			}
		}
		readers.resize(kept);
		const bool is_settled = settled != Id{} && settled < epoch && writer <= settled;
		if(is_settled) {
			writer = settled;
		} else if(writer < epoch) {
			writer = epoch;
		}
		if(dropped && (kept > 0 || is_settled)) readers.push_back(epoch);
	}

	/// Throws std::logic_error if it names a node younger than `newest`. For tests.
	void validate(const Id newest) const {
		ensure(writer <= newest, "the writer of data has been made");
		for(const Id reader : readers) ensure(reader <= newest, "the readers of data have been made");
	}

	template <typename Walk>
	void walk_state(Walk& walk) {
		walk.id(writer);
		walk.number(readers.size());
		for(Id& reader : readers) walk.id(reader);
	}

	void depend_for_read(dependency_window<Id>& window) const { window.depend(writer, dependency_kind::dataflow); }
	void depend_for_write(dependency_window<Id>& window) const {
		if(readers.empty()) {
			window.depend(writer, dependency_kind::output);
		} else {
			for(const Id reader : readers) window.depend(reader, dependency_kind::anti);
		}
	}
};

} // namespace celerity
