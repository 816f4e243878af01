// SPDX-License-Identifier: MIT
// Which nodes of a graph come before which, without the edges that other edges imply.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace celerity {

/// The order of the nodes of a graph. Nodes are numbered as they are added, each behind its predecessors. Needs a bit for each pair of nodes.
class transitive_order {
  public:
	/// Those of the nodes that come before no other one of them, each once; the youngest first.
	std::vector<std::uint32_t> latest_of(std::vector<std::uint32_t> nodes) const {
		std::sort(nodes.begin(), nodes.end(), std::greater{});
		std::vector<std::uint32_t> latest;
		node_set before;
		for(const auto node : nodes) {
			if(before.contains(node)) continue; // an older node cannot come behind it
			latest.push_back(node);
			before.merge(m_nodes[node]);
		}
		return latest;
	}

	/// Adds the next node behind these.
	void add(const std::span<const std::uint32_t> predecessors) {
		node_set before;
		for(const auto node : predecessors) before.merge(m_nodes[node]);
		before.insert(static_cast<std::uint32_t>(m_nodes.size()));
		m_nodes.push_back(std::move(before));
	}

	/// Whether one comes before the other, or is the same.
	bool is_before(const std::uint32_t one, const std::uint32_t other) const { return m_nodes[other].contains(one); }

  private:
	class node_set {
	  public:
		bool contains(const std::uint32_t node) const { return node / 64 < m_words.size() && (m_words[node / 64] >> node % 64 & 1) != 0; }
		void insert(const std::uint32_t node) {
			m_words.resize(std::max<std::size_t>(m_words.size(), node / 64 + 1));
			m_words[node / 64] |= std::uint64_t{1} << node % 64;
		}
		void merge(const node_set& other) {
			m_words.resize(std::max(m_words.size(), other.m_words.size()));
			for(std::size_t i = 0; i < other.m_words.size(); ++i) m_words[i] |= other.m_words[i];
		}

	  private:
		std::vector<std::uint64_t> m_words;
	};

	std::vector<node_set> m_nodes; ///< by number: the node itself, and all nodes before it
};

} // namespace celerity
